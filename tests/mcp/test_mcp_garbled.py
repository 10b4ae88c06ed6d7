"""An answer that cannot be decoded fails its own call; an odd character fails nothing."""

import asyncio
import json
import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leonidas_tools.errors import ToolError
from leonidas_tools.mcp.transport.limits import make_readable
from tests.mcp.logins import Listener


class Garbled:
    """A server over HTTP; what `garbled` answers is said to be compressed and is not.

    It writes `odd` instead of each `@@`.
    """

    def __init__(self, *, streams=False, odd=b""):
        self.streams = streams
        self.odd = odd
        self._listener = Listener()
        self.url = f"{self._listener.url}/mcp"
        self.waiting, self.may_end = threading.Event(), threading.Event()
        self.close = self._listener.close
        route = Route("/mcp", self._answer, methods=["GET", "POST", "DELETE"])
        self._listener.serve(Starlette(routes=[route]))

    async def _answer(self, request):
        if request.method != "POST":
            return Response(status_code=405)
        asked = await request.json()
        answers = {"initialize": self._hello, "tools/list": self._tools, "tools/call": self._call}
        if "id" not in asked:
            return Response(status_code=202)
        if asked["method"] not in answers:
            error = {"code": -32601, "message": "Method not found"}
            return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        result = await answers[asked["method"]](asked.get("params"))
        if result is None:
            kind = {"content-type": "application/json", "content-encoding": "gzip"}
            return Response(b"\xff\x00", headers=kind)
        answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        answer = answer.replace(b"@@", self.odd)
        if self.streams:
            return Response(b"data: " + answer + b"\n\n", media_type="text/event-stream")
        return Response(answer, media_type="application/json")

    async def _hello(self, params):
        about = {"name": "garbled", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}

    async def _tools(self, _):
        schema = {"type": "object"}
        names = "garbled", "odd", "other"
        more = {"description": "Odd: @@", "title": "@@", "_meta": {"@@": "@@"}}
        return {"tools": [{"name": n, "inputSchema": schema, **more} for n in names]}

    async def _call(self, params):
        if params["name"] == "garbled":
            return None
        if params["name"] == "odd":
            return {"content": [{"type": "text", "text": "Odd: @@"}]}
        self.waiting.set()
        await asyncio.to_thread(self.may_end.wait, 20)
        return {"content": [{"type": "text", "text": "fine"}]}


async def test_an_answer_that_cannot_be_decoded_ends_no_other_call(serve):
    server = Garbled()
    try:
        lab = await serve({"url": server.url}).ready()
        other = asyncio.create_task(lab.call("other"))
        await asyncio.to_thread(server.waiting.wait, 20)
        with pytest.raises(ToolError, match="was lost during the call"):
            await lab.call("garbled")
        server.may_end.set()
        assert (await other).result == "fine"
    finally:
        server.may_end.set()
        await asyncio.to_thread(server.close)


ODD = {
    "the first half of a character": (rb"\ud83d", "\ufffd"),
    "the second half": (rb"\uDE00", "\ufffd"),
    "the halves in the wrong order": (rb"\ude00\ud83d", "\ufffd\ufffd"),
    "a half after a pair": (rb"\ud83d\ude00\ud83d", "\U0001f600\ufffd"),
    "a half after backslashes": (rb"\\" * 300 + rb"\ud83d", "\\" * 300 + "\ufffd"),
    "a half that is only written": (rb"\\ud83d\ude00", "\\ud83d\ufffd"),
    "a half in bytes": (b"\xed\xa0\xbd", "\ufffd\ufffd\ufffd"),
    "Latin-1": (b"caf\xe9", "caf\ufffd"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("streams", [False, True])
async def test_an_odd_character_is_replaced(serve, streams, odd):
    written, shown = ODD[odd]
    server = Garbled(streams=streams, odd=written)
    try:
        lab = await serve({"url": server.url}).ready()
        assert list(lab.tools) == ["garbled", "odd", "other"]
        assert lab.tools["other"].metadata.description == f"Odd: {shown}"
        assert (await lab.call("odd")).result == f"Odd: {shown}"
    finally:
        await asyncio.to_thread(server.close)


WRITTEN = st.sampled_from([rb"\ud83d", rb"\uDE00", rb"\\", rb"\"", rb"\u0041", b"ud83d", b"x"])


@given(st.lists(WRITTEN, max_size=12))
def test_only_lone_halves_are_replaced(parts):
    message = b'["' + b"".join(parts) + b'"]'
    expected = re.sub("[\ud800-\udfff]", "\ufffd", json.loads(message)[0])
    assert json.loads(make_readable(message)) == [expected]


@pytest.mark.parametrize("part", [rb"\ud83d", rb"x\ude00", rb"\\\\\ud83d", rb"\ud83d\ude00\ude00"])
def test_very_many_halves_leave_no_lone_one(part):
    assert from_json(make_readable(b'["' + part * 20_000 + b'"]'))
