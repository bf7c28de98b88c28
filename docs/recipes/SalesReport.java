// Java 17: prints sales by campaign as CSV, shows a refusal, and writes all paid purchases to purchases.csv.
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Path;

public class SalesReport {
    static final HttpClient client = HttpClient.newHttpClient();

    static <T> HttpResponse<T> get(String path, BodyHandler<T> body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:3000/v1/purchases/" + path))
            .header("Authorization", "Bearer " + System.getenv("KEY"))
            .build();
        return client.send(request, body);
    }

    public static void main(String[] args) throws Exception {
        HttpResponse<String> report = get(
            "report?status=paid&group_by=utm_campaign&measures=revenue_in_cents&format=csv", BodyHandlers.ofString());
        if (report.statusCode() != 200) throw new IOException(report.body());
        System.out.print(report.body());

        HttpResponse<String> refused = get("report?group_by=campaign", BodyHandlers.ofString());
        System.out.println(refused.statusCode() + " " + refused.body());

        HttpResponse<Path> file = get(
            "export?status=paid&format=csv", BodyHandlers.ofFile(Path.of("purchases.csv")));
        if (file.statusCode() != 200) throw new IOException("purchases.csv has the error " + file.statusCode());
    }
}
