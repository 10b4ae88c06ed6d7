"""A server of the older protocol over stdio, which asks while a call runs; message by message."""

import json
import sys

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TOOLS = ("ask", "ask_two", "take_back", "page", "hold", "die", "flood", "told")
asked = {}
told = []
to_tell = []


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(request, text):
    send(id=request, result={"content": [{"type": "text", "text": text}]})


def elicit(request, key, **params):
    params = params or {"message": f"{key}?", "requestedSchema": SCHEMA}
    asked[f"{request}-{key}"] = request
    send(id=f"{request}-{key}", method="elicitation/create", params=params)


def call(request, tool, arguments):
    if tool == "ask":
        more = arguments.get("schema")
        schema = {"message": "Who?", "requestedSchema": {**SCHEMA, **more}} if more else {}
        elicit(request, "Who", **schema)
    elif tool == "ask_two":
        elicit(request, "Who")
        elicit(request, "Whom")
    elif tool == "page":
        elicit(
            request,
            "page",
            mode="url",
            message="Pay",
            url=arguments.get("url", "https://pay.example/x"),
            elicitationId="1",
        )
    elif tool == "take_back":
        elicit(request, "Who")
        send(method="notifications/cancelled", params={"requestId": f"{request}-Who"})
        asked.clear()
        answer(request, "never mind")
    elif tool == "die":
        elicit(request, "Who")
        sys.stdin.readline()
        sys.exit(3)
    elif tool == "told":
        to_tell.append(request)
        tell()
    elif tool == "flood":
        for number in range(20_000):
            send(
                method="notifications/message",
                params={"level": "error", "data": f"line {number}"},
            )
        answer(request, "flooded")


def tell():
    """Says what was answered last, once something was."""
    while told and to_tell:
        answer(to_tell.pop(), told[-1])


def hear(message):
    method, request = message.get("method"), message.get("id")
    if method == "initialize":
        capabilities = {"tools": {}, "logging": {}}
        server = {"name": "older", "version": "1"}
        version = message["params"]["protocolVersion"]
        send(
            id=request,
            result={
                "protocolVersion": version,
                "capabilities": capabilities,
                "serverInfo": server,
            },
        )
    elif method == "tools/list":
        tools = [
            {
                "name": name,
                "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": name in {"ask", "hold", "told"}},
            }
            for name in TOOLS
        ]
        send(id=request, result={"tools": tools})
    elif method == "tools/call":
        call(request, message["params"]["name"], message["params"].get("arguments") or {})
    elif method in {"ping", "logging/setLevel"}:
        send(id=request, result={})
    elif method is None and request in asked:
        caller = asked.pop(request)
        told.append(json.dumps(message.get("result")))
        tell()
        heard.setdefault(caller, []).append(json.dumps(message.get("result"), sort_keys=True))
        if caller not in asked.values():
            answer(caller, " ".join(heard.pop(caller)))
    elif request is not None and method is not None:
        send(id=request, error={"code": -32601, "message": "Method not found"})


heard = {}
for line in sys.stdin:
    hear(json.loads(line))
