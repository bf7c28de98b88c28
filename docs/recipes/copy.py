# Brings copy.json up to date with the purchases of an organization: `KEY=crm_live_… python3 copy.py`.
import json, os, urllib.error, urllib.request

def get(path, headers={}):
    url = "http://127.0.0.1:3000/v1/purchases/" + path
    headers = {"Authorization": "Bearer " + os.environ["KEY"], **headers}
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers))

if os.path.exists("copy.json"):
    page = json.load(open("copy.json"))
else:
    start = get("changes")
    lines = get("export?format=ndjson", {"X-Min-Data-As-Of": start.headers["X-Data-As-Of"]})
    page = {"next_cursor": json.load(start)["next_cursor"], "data": list(map(json.loads, lines))}
rows = {row["id"]: row for row in page["data"]}
while page.get("has_more", True):
    try:
        page = json.load(get("changes?limit=1000&cursor=" + page["next_cursor"]))
    except urllib.error.HTTPError as error:
        if error.code == 409 and "Retry-After" not in error.headers:
            os.remove("copy.json")
        raise
    rows.update((row["id"], row) for row in page["data"])
data = [row for row in rows.values() if not row.pop("deleted", False)]
with open("copy.part", "w") as file:
    json.dump({"next_cursor": page["next_cursor"], "data": data}, file)
os.rename("copy.part", "copy.json")
