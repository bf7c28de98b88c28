import os, urllib.request
import pandas

def get(path):
    headers = {"Authorization": f"Bearer {os.environ['KEY']}"}
    return urllib.request.urlopen(
        urllib.request.Request("http://127.0.0.1:3000/v1/purchases/" + path, headers=headers)
    )

zone = "America/Sao_Paulo"
report = pandas.read_csv(
    get(f"report?status=paid&group_by=month,utm_source&limit=1000&timezone={zone}&format=csv"),
    parse_dates=["month"],
)
report["month"] = report["month"].dt.tz_convert(zone)

# All purchases, for questions that a report does not answer.
import polars, pyarrow

table = pyarrow.ipc.open_stream(get("export?format=arrow")).read_all()
frame = polars.from_arrow(table)   # pandas: table.to_pandas()
