"""A server of tools that can be called only as tasks; message by message. `tasking.py FILE`.

A task goes on a step each time it is asked after. What was begun is kept in the file, so that it
is known after a restart.
"""

import json
import os
import sys
import time
from pathlib import Path

KEPT = Path(sys.argv[1])
TASK = "io.modelcontextprotocol/related-task"
AT = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": None}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
READING = {"ask", "endless_reading", "expire_reading", "die_reading"}
TOOLS = (
    "work",
    "fail",
    "fail_with_result",
    "cancelled",
    "endless",
    "endless_reading",
    "expire",
    "expire_reading",
    "garbage",
    "ask",
    "refuses_early",
    "refuses_late",
    "refuses_for_long",
    "die",
    "die_and_forget",
    "die_reading",
    "direct",
    "reports",
    "terse",
    "leaks",
    "slow_to_begin",
)
waiting = []
asked = {}
begin_later = []
calls = []
held = []


def kept():
    if KEPT.exists():
        return json.loads(KEPT.read_text())
    return {"tasks": {}, "cancelled": [], "notified": []}


def keep(state):
    KEPT.write_text(json.dumps(state))


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}


def begin(request, params):
    tool, state = params["name"], kept()
    if tool == "direct":
        return send(id=request, result=text("at once"))
    task = {
        "id": f"{tool}-{len(state['tasks'])}",
        "tool": tool,
        "steps": 0,
        "pid": os.getpid(),
        "begun": time.time(),
        "token": params["_meta"]["progressToken"],
        "status": "working",
    }
    state["tasks"][task["id"]] = task
    keep(state)
    return send(id=request, result={"task": shown(task)})


def shown(task, said=None):
    if task["tool"] == "terse":
        return {"taskId": task["id"], "status": task["status"]}
    said = {} if said is None else {"statusMessage": said}
    poll = 250 if task["tool"] == "refuses_for_long" else 50
    return {"taskId": task["id"], "status": task["status"], "pollInterval": poll, **AT, **said}


def step(task):
    """What a task is at now; `None` if it is not known any more."""
    tool, task["steps"] = task["tool"], task["steps"] + 1
    restarted = task["pid"] != os.getpid()
    if tool.startswith("die") and not restarted:
        keep_task(task)
        os._exit(3)
    if tool.startswith("expire") or (tool == "die_and_forget" and restarted):
        return None
    if tool == "garbage":
        return {**shown(task), "status": "dancing"}
    if tool == "refuses_for_long":
        is_over = time.time() > task["begun"] + 1
        task["status"] = "completed" if is_over else "input_required"
    elif tool in {"ask", "refuses_early", "refuses_late"} and task["status"] == "working":
        task["status"] = "input_required"
    elif tool in {"cancelled", "leaks"}:
        task["status"] = "cancelled"
        return shown(task, "Out of paper." if tool == "cancelled" else os.environ["PRINTER_KEY"])
    elif tool.startswith("fail") and task["steps"] == 2:
        task["status"] = "failed"
        return shown(task, "Out of ink.")
    elif task["steps"] == 3 and tool not in {"ask", "endless", "endless_reading", "slow_to_begin"}:
        task["status"] = "completed"
    elif tool == "reports":
        notice = {"progressToken": task["token"], "progress": task["steps"], "total": 4}
        send(method="notifications/progress", params=notice)
    return shown(task, f"step {task['steps']}")


def keep_task(task):
    state = kept()
    state["tasks"][task["id"]] = task
    keep(state)


def get(request, task):
    state = None if task is None else step(task)
    if task is not None:
        keep_task(task)
    if state is None:
        return send(id=request, error={"code": -32602, "message": "Task not found"})
    send(id=request, result=state)
    if task["tool"] == "refuses_late" and task["status"] == "completed":
        send(id=held.pop(), error={"code": -32602, "message": "Not yet"})
    return None


def result(request, task):
    if task["tool"] == "ask":
        elicitation = {"message": "Who?", "requestedSchema": SCHEMA}
        about = {"_meta": {TASK: {"taskId": task["id"]}}}
        asked[f"ask-{task['id']}"] = request, task
        return send(
            id=f"ask-{task['id']}", method="elicitation/create", params={**elicitation, **about}
        )
    if task["tool"] == "fail":
        return send(id=request, error={"code": -32603, "message": "No result"})
    if task["tool"] == "fail_with_result":
        return send(id=request, result=text("The printer is on fire."))
    if task["tool"] == "refuses_late" and task["status"] != "completed":
        return held.append(request)
    if task["status"] != "completed":
        return send(id=request, error={"code": -32602, "message": "Not yet"})
    return send(id=request, result=text(f"done after {task['steps']} steps"))


def cancel(request, task):
    state = kept()
    state["cancelled"].append(task["tool"])
    state["tasks"][task["id"]]["status"] = "cancelled"
    keep(state)
    send(id=request, result=shown({**task, "status": "cancelled"}))
    tell()


def tell():
    """Answers who waits for a cancellation."""
    state = kept()
    while waiting and (state["cancelled"] or state["notified"]):
        send(id=waiting.pop(), result=text(json.dumps(state["cancelled"] + state["notified"])))


def call(request, params):
    if params["name"] == "seen":
        begun = [task["tool"] for task in kept()["tasks"].values()]
        return send(id=request, result=text(json.dumps(begun)))
    if params["name"] == "cancellations":
        waiting.append(request)
        return tell()
    if "task" not in params:
        return send(id=request, error={"code": -32601, "message": "Only as a task"})
    if params["name"] == "slow_to_begin":
        progress = {"progressToken": params["_meta"]["progressToken"], "progress": 0}
        send(method="notifications/progress", params=progress)
        return begin_later.append((request, params))
    return begin(request, params)


def described(name):
    reads = name in READING
    return {
        "name": name,
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": reads},
        "execution": {"taskSupport": "required"},
    }


def hear(message):
    method, request, params = message.get("method"), message.get("id"), message.get("params")
    if method == "initialize":
        tasks = {"cancel": {}, "requests": {"tools": {"call": {}}}}
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "tasks": tasks},
            "serverInfo": {"name": "tasking", "version": "1"},
        }
        send(id=request, result=hello)
    elif method == "tools/list":
        plain = [
            {"name": name, "inputSchema": {"type": "object"}} for name in ("seen", "cancellations")
        ]
        send(id=request, result={"tools": [*map(described, TOOLS), *plain]})
    elif method == "tools/call":
        calls.append(request)
        if params["name"] == "cancellations":
            while begin_later:
                begin(*begin_later.pop())
        call(request, params)
    elif method in {"tasks/get", "tasks/result", "tasks/cancel"}:
        task = kept()["tasks"].get(params["taskId"])
        {"tasks/get": get, "tasks/result": result, "tasks/cancel": cancel}[method](request, task)
    elif method == "notifications/cancelled" and params["requestId"] in calls:
        state = kept()
        state["notified"].append("by notification")
        keep(state)
    elif method == "ping":
        send(id=request, result={})
    elif method is None and request in asked:
        caller, task = asked.pop(request)
        task["status"] = "completed"
        keep_task(task)
        send(id=caller, result=text(json.dumps(message.get("result"), sort_keys=True)))
    elif request is not None and method is not None:
        send(id=request, error={"code": -32601, "message": "Method not found"})


for line in sys.stdin:
    hear(json.loads(line))
