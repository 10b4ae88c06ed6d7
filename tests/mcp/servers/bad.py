"""A server that misbehaves as it is told, without a library that would keep it from that.

`bad.py MODE` speaks over stdio; `bad.py KIND PORT MODE` listens for HTTP on loopback, prints its
port, and answers with `json`, with `gzip`ped JSON, or with `events`.

It has three tools: `bad` misbehaves in its calls, `good` answers, and `pid` says which process that
was. Some modes misbehave before any call; `well` never does, and has the tool `fine`.
"""

import gzip
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KIND, MODE = (sys.argv[1], sys.argv[3]) if len(sys.argv) > 3 else (None, sys.argv[1])
HUGE = 100 * 1024 * 1024
PIECE = b"x" * 1024 * 1024
DEEP = b"[" * 20_000 + b"]" * 20_000
SCHEMA = {"type": "object"}


def result(**fields):
    return {"content": [{"type": "text", "text": "fine"}], **fields}


def message(number, **fields):
    return json.dumps({"jsonrpc": "2.0", "id": number, **fields}).encode()


def with_id(number, inside):
    return b'{"jsonrpc": "2.0", "id": %d, "result": %b}' % (number, inside)


def hang(wire=None, number=None, token=None):
    threading.Event().wait()


def slow(wire, number, token):
    time.sleep(3)  # longer than the two seconds in which such a server has to answer
    wire.send(message(number, result=result()))


def slow_changing(wire, number, token):
    wire.send(b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}')
    slow(wire, number, token)


def die(wire=None, number=None, token=None):
    if "DEATHS" in os.environ:
        with Path(os.environ["DEATHS"]).open("ab") as deaths:
            deaths.write(b".")
    os._exit(3)


def garbage(wire, number, token):
    for line in (b"Hello!", b'{"jsonrpc": 1}', b"\xff\xfe", b"[]", b"null", b"{" * 5000):
        wire.send(line)
    wire.send(message(number, result=result()))


def half(wire, number, token):
    wire.send(with_id(number, b'{"content": [{"type": "te'))


def half_then_die(wire, number, token):
    wire.write(with_id(number, b'{"content": [{"type": "te')[:-1])
    die()


def wrong_id(wire, number, token):
    for wrong in (number + 1000, "someone", None):
        wire.send(message(wrong, result=result()))


def twice(wire, number, token):
    wire.send(message(number, result=result()))
    wire.send(message(number, result={"content": [{"type": "text", "text": "again"}]}))


def huge(before, after):
    def send(wire, number, token):
        wire.write(before % number if b"%d" in before else before)
        for _ in range(HUGE // len(PIECE)):
            wire.write(PIECE)
        wire.write(after % number if b"%d" in after else after)
        wire.end()

    return send


def flood(wire, number, token):
    log = {"level": "error", "logger": "bad", "data": "flood " * 2000}
    for step in range(1500):
        progress = {"progressToken": token, "progress": step}
        for method, params in (
            ("notifications/progress", progress),
            ("notifications/message", log),
        ):
            notice = {"jsonrpc": "2.0", "method": method, "params": params}
            wire.send(json.dumps(notice).encode())
    wire.send(message(number, result=result()))


def ask_without_end(wire, number, token):
    while True:
        wire.send(b'{"jsonrpc": "2.0", "id": "asked", "method": "ping"}')


def talkative(wire, number, token):
    progress = {"progressToken": token, "progress": 1, "message": "at it " * 100}
    notice = {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
    for _ in range(8):
        wire.send(json.dumps(notice).encode())
    wire.send(message(number, result=result()))


def flood_wrong(wire, number, token):
    for _ in range(300):
        params = {"progressToken": token, "progress": "far"}
        notice = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        wire.send(json.dumps(notice).encode())
    wire.send(message(number, result=result()))


def odd_progress(wire, number, token):
    for step, total in (("NaN", 2), (1, "NaN"), ("Infinity", 2), (1, "-Infinity"), ("1e999", 0)):
        notice = {"jsonrpc": "2.0", "method": "notifications/progress"}
        params = f'{{"progressToken": {json.dumps(token)}, "progress": {step}, "total": {total}}}'
        wire.send(f'{json.dumps(notice)[:-1]}, "params": {params}}}'.encode())
    wire.send(message(number, result=result()))


def many_values(between):
    def send(wire, number, token):
        values = between.join([b"0," * 10_000] * 30)
        inside = b'{"structuredContent": {"a": [' + values + b'0]}, "content": []}'
        wire.send(with_id(number, inside))

    return send


def many_values_after_return(wire, number, token):
    wire.write(b'\r:"\rdata: ')  # a comment with one quote, behind which all looks like a string
    many_values(b"")(wire, number, token)


def ends_of_lines(wire, number, token):
    wire.begun = True
    wire.send_response(200)
    wire.send_header("content-type", "text/event-stream")
    wire.send_header("content-encoding", "gzip")
    wire.end_headers()
    wire.wfile.write(ENDS_OF_LINES)


def many_in_news(wire, number, token):
    many = b'"params": {"level": "error", "data": [' + b"0," * 30_000 + b"0]}}"
    wire.send(b'{"jsonrpc": "2.0", "method": "notifications/message",' + many)
    wire.send(message(number, result=result()))


def flood_stderr(wire, number, token):
    for _ in range(20):
        os.write(2, PIECE)
    wire.send(message(number, result=result()))


def close_stdin(wire, number, token):
    os.close(0)
    hang()


def close_stdout(wire, number, token):
    os.close(1)
    hang()


def both(wire, number, token):
    wire.send(message(number, result={}, error={"code": -32000, "message": "Broken."}))


def asks_too_much(wire, number, token):
    schema = {"type": "object", "properties": {}, "required": [1] * 20_000}
    asked = {"message": "Well?", "requestedSchema": schema}
    for method, params in (("elicitation/create", asked), ("ping", {})):
        request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        wire.send(json.dumps(request).encode())
    answered = json.loads(sys.stdin.buffer.readline())["id"]
    wire.send(message(number, result={"content": [{"type": "text", "text": answered}]}))


def answer_with(inside):
    return lambda wire, number, token: wire.send(with_id(number, inside))


ENDS_OF_LINES = b""
if MODE == "ends_of_lines":
    answered = message(0, result=result())
    ENDS_OF_LINES = gzip.compress(b"\n" * 10_000_000 + b"data: " + answered + b"\n\n", 1)

MISDEEDS = {
    "garbage": garbage,
    "half": half,
    "half_then_die": half_then_die,
    "wrong_id": wrong_id,
    "both": both,
    "twice": twice,
    "huge": huge(b'{"jsonrpc": "2.0", "id": %d, "result": {"text": "', b'"}}'),
    "huge_id_last": huge(b'{"result": {"text": "', b'"}, "jsonrpc": "2.0", "id": %d}'),
    "huge_notice": huge(b'{"jsonrpc": "2.0", "method": "notifications/message", "text": "', b'"}'),
    "huge_nobodys": huge(b'{"text": "', b'"}'),
    "invalid_utf8": answer_with(b'{"content": [{"type": "text", "text": "\xff\xfe"}]}'),
    "deep": answer_with(b'{"structuredContent": ' + DEEP + b', "content": []}'),
    "no_result": answer_with(b"7"),
    "no_content": answer_with(b'{"content": "text"}'),
    "many_parts": answer_with(b'{"content": [' + b"{}, " * 20_000 + b"{}]}"),
    "many_values": many_values(b""),
    "many_values_on_lines": many_values(b"\ndata: "),
    "many_values_after_return": many_values_after_return,
    "ends_of_lines": ends_of_lines,
    "charset": lambda wire, number, token: wire.send(message(number, result=result())),
    "many_in_news": many_in_news,
    "asks_too_much": asks_too_much,
    "flood": flood,
    "talkative": talkative,
    "flood_stderr": flood_stderr,
    "flood_wrong": flood_wrong,
    "odd_progress": odd_progress,
    "ask_without_end": ask_without_end,
    "never": hang,
    "dies": die,
    "slow": slow,
    "slow_changing": slow_changing,
    "close_stdin": close_stdin,
    "close_stdout": close_stdout,
}


def tools():
    names = ("fine",) if MODE == "well" else ("bad", "good", "pid")
    schemas = {name: {"name": name, "inputSchema": SCHEMA} for name in names}
    if MODE == "schema_bomb":
        schemas["bad"]["inputSchema"] = json.loads(BOMBS[sys.argv[-1]])
    if MODE == "many_icons":
        schemas["bad"]["icons"] = [{}] * 20_000
    if MODE == "huge_names":
        schemas["bad"]["description"] = "very " * 1_000_000
        schemas["long"] = {"name": "long_" * 20_000, "inputSchema": SCHEMA}
    if MODE == "many":
        schemas |= {
            f"tool_{n}": {"name": f"tool_{n}", "inputSchema": SCHEMA} for n in range(10_000)
        }
    return list(schemas.values())


def nested(levels):
    level = b'{"type": "object", "properties": {"a": '
    return level * levels + b"{}" + b"}}" * levels


def doubling(levels):
    defs = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(levels)
    }
    defs[f"d{levels}"] = {"type": "string"}
    first = {"$ref": "#/$defs/d0"}
    return json.dumps({"type": "object", "properties": {"a": first}, "$defs": defs}).encode()


BOMBS = {
    "nested": nested(40),
    "doubling": doubling(40),
    "endless": b'{"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}',
    "recursive": b'{"type": "object", "properties": {"a": {"$ref": "#"}}}',
    "pattern": b'{"type": "object", "properties": {"a": {"type": "string",'
    b' "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}}',
    "backtracking": b'{"type": "object", "properties": {"a": {"type": "string",'
    b' "pattern": "^(?=(a+)+$)(a|aa)+$"}}}',
}


def initialized():
    if MODE == "long_refusal":
        return {"error": {"code": -32000, "message": "No. " * 100_000}}
    return {
        "result": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": "bad", "version": "1"},
        }
    }


def answer(request, wire):
    number, method = request.get("id"), request.get("method")
    if number is None:
        return
    if MODE in {"never_initialize"} or (MODE == "never_list" and method == "tools/list"):
        hang()
    if MODE == "dies_initializing" or (MODE == "dies_listing" and method == "tools/list"):
        die()
    if method == "initialize":
        wire.send(message(number, **initialized()))
    elif method == "logging/setLevel" and MODE == "never_logs":
        pass
    elif method == "ping":
        wire.send(message(number, result={}))
    elif method == "tools/list":
        page = {"nextCursor": str(number)} if MODE == "endless_list" else {}
        if MODE == "huge_list":
            MISDEEDS["huge"](wire, number, None)
        else:
            wire.send(message(number, result={"tools": tools(), **page}))
    elif method == "tools/call":
        called = request["params"]["name"]
        if called == "bad" and MODE in MISDEEDS:
            MISDEEDS[MODE](wire, number, request["params"].get("_meta", {}).get("progressToken"))
        else:
            text = str(os.getpid()) if called == "pid" else "fine"
            wire.send(message(number, result={"content": [{"type": "text", "text": text}]}))
    else:
        wire.send(message(number, error={"code": -32601, "message": "Method not found"}))


class Pipe:
    def send(self, line):
        self.write(line + b"\n")

    def write(self, data):
        while data:
            data = data[os.write(1, data) :]

    def end(self):
        self.write(b"\n")


def speak():
    if MODE == "ignores_sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        answer(json.loads(line), Pipe())
    if MODE == "ignores_sigterm":
        hang()
    if MODE == "dies_leaving":
        os.abort()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.begun = False
        answer(request, self)
        if not self.begun:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
        else:
            self.close_connection = True

    def do_GET(self):
        self.send_error(405)

    do_DELETE = do_GET  # noqa: N815 - the name that http.server looks for

    def begin(self):
        self.begun = True
        self.send_response(200)
        kind = {"json": "application/json", "gzip": "application/json"}.get(KIND)
        events = "text/event-stream" + ("; charset=punycode" if MODE == "charset" else "")
        self.send_header("content-type", kind or events)
        if KIND == "gzip":
            self.send_header("content-encoding", "gzip")
        self.send_header("connection", "close")
        self.end_headers()
        if KIND == "gzip":
            self.wfile = gzip.GzipFile(fileobj=self.wfile, mode="wb", compresslevel=1)

    def send(self, line):
        self.write(line)
        self.end()

    def write(self, data):
        if not self.begun:
            self.begin()
            self.open = False
        if KIND == "events" and not self.open:
            self.open = True
            self.wfile.write(b"data: ")
        self.wfile.write(data)

    def end(self):
        if KIND == "events":
            self.open = False
            self.wfile.write(b"\n\n")
        elif KIND == "gzip":
            self.wfile.close()
        self.wfile.flush() if not self.wfile.closed else None

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    if KIND is None:
        speak()
    else:
        server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
        print(server.server_address[1], flush=True)
        server.serve_forever()
