# Brings copy.json up to date with the purchases of an organization: `KEY=crm_live_… python3 copy.py`.
import json, os, urllib.error, urllib.request

def get(path, headers={}):
    url = "http://127.0.0.1:3000/v1/purchases/" + path
    headers = {"Authorization": "Bearer " + os.environ["KEY"], **headers}
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers))

if os.path.exists("copy.json"):
    copy = json.load(open("copy.json"))
else:
    start = get("changes")
    rows = map(json.loads, get("export?format=ndjson", {"X-Min-Data-As-Of": start.headers["X-Data-As-Of"]}))
    copy = {"cursor": json.load(start)["next_cursor"], "purchases": {row["id"]: row for row in rows}}
page = {"has_more": True}
while page["has_more"]:
    try:
        page = json.load(get("changes?limit=1000&cursor=" + copy["cursor"]))
    except urllib.error.HTTPError as error:
        if error.code == 409 and "Retry-After" not in error.headers:
            os.remove("copy.json")
        raise
    copy["purchases"].update((each["id"], each) for each in page["data"])
    copy["cursor"] = page["next_cursor"]
copy["purchases"] = {key: each for key, each in copy["purchases"].items() if not each.pop("deleted", False)}
with open("copy.part", "w") as file:
    json.dump(copy, file)
os.rename("copy.part", "copy.json")
