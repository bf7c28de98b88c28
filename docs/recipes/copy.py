# Brings copy.json up to date with the purchases of an organization: `KEY=crm_live_… python3 copy.py`.
import json, os, urllib.error, urllib.request

def get(path, headers={}):
    url = "http://127.0.0.1:3000/v1/purchases/" + path
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + os.environ["KEY"], **headers})
    return urllib.request.urlopen(request)

copy = json.load(open("copy.json")) if os.path.exists("copy.json") else {}
has_more = True
try:
    while has_more:
        try:
            response = get("changes?limit=1000" + ("&cursor=" + copy["cursor"] if copy else ""))
        except urllib.error.HTTPError as error:
            if json.load(error)["error"].get("param") != "cursor":
                raise
            copy = {}
            continue
        page = json.load(response)
        if not copy:
            shown = {"X-Min-Data-As-Of": response.headers["X-Data-As-Of"]}
            rows = map(json.loads, get("export?format=ndjson", shown))
            copy["purchases"] = {row["id"]: row for row in rows}
        for purchase in page["data"]:
            copy["purchases"].pop(purchase["id"], None)
            if not purchase.pop("deleted"):
                copy["purchases"][purchase["id"]] = purchase
        copy["cursor"], has_more = page["next_cursor"], page["has_more"]
finally:
    with open("copy.part", "w") as file:
        json.dump(copy, file)
    os.rename("copy.part", "copy.json")
