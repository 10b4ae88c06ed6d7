"""A server that lists what a file says, be it right or wrong; `scripted.py FILE [modern]`.

It speaks message by message: the protocol of 2025-11-25, or that of 2026-07-28. A call answers
with the tool's name, but `curious` asks what cannot be asked, however often it is declined.
"""

import json
import sys
from pathlib import Path

MODERN = sys.argv[2:] == ["modern"]
CAPABILITIES = {"tools": {}, "prompts": {}}
AROUND = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if MODERN else {}


def send(number, **fields):
    print(json.dumps({"jsonrpc": "2.0", "id": number, **fields}), flush=True)


def called(tool):
    if tool == "curious":
        page = {"mode": "url", "message": "Go", "url": "ftp://page", "elicitationId": "1"}
        wanted = {"page": {"method": "elicitation/create", "params": page}}
        return {"resultType": "input_required", "inputRequests": wanted, "requestState": "more"}
    answer = {"content": [{"type": "text", "text": tool}]}
    return {**answer, "resultType": "complete"} if MODERN else answer


def answer(method, params):
    if method == "tools/call":
        return called(params["name"])
    if method == "tools/list":
        return {"tools": json.loads(Path(sys.argv[1]).read_text()), **AROUND}
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": "scripted", "version": "1"},
    }
    known = {
        "server/discover" if MODERN else "initialize": {
            "supportedVersions": ["2026-07-28"],
            **hello,
            **AROUND,
        },
        "prompts/list": {"prompts": [], **AROUND},
        "ping": {},
    }
    return known.get(method)


for line in sys.stdin:
    message = json.loads(line)
    result = answer(message.get("method"), message.get("params"))
    if result is not None:
        send(message["id"], result=result)
    elif "id" in message:
        send(message["id"], error={"code": -32601, "message": "Method not found"})
