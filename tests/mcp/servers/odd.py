"""A server over stdio that is odd in one way: `odd.py LOG JSON`.

The JSON has `discover` (`exit` or `silent`), `tools` and `pages` with their cursors, and `results`
by the names of tools. The methods of all requests are appended to the file LOG.
"""

import json
import sys
from pathlib import Path

LOG, ODD = Path(sys.argv[1]), json.loads(sys.argv[2])
PAGES = ODD.get("pages") or [{"tools": [{"name": name} for name in ODD["results"]]}]
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "odd", "version": "1"},
}


def page(params):
    cursors = [each.get("nextCursor") for each in PAGES]
    cursor = params.get("cursor")
    found = PAGES[cursors.index(cursor) + 1 if cursor in cursors[:-1] else -1 if cursor else 0]
    tools = [{"inputSchema": {"type": "object"}, **tool} for tool in found["tools"]]
    return {**found, "tools": tools}


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    with LOG.open("a") as log:
        log.write(f"{method}\n")
    if "id" not in message:
        continue
    answer = {"error": {"code": -32601, "message": "Method not found"}}
    if method == "server/discover" and ODD.get("discover") == "exit":
        sys.exit(1)
    if method == "server/discover" and ODD.get("discover") == "silent":
        continue
    if method == "initialize":
        answer = {"result": HELLO}
    elif method == "tools/list":
        answer = {"result": page(params)}
    elif method == "tools/call":
        answer = {"result": ODD["results"][params["name"]]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
