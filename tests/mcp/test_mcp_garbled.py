"""An answer that cannot be decoded fails its own call and no other."""

import asyncio
import json
import threading

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leonidas_tools.errors import ToolError
from tests.mcp.logins import Listener


class Garbled:
    """A server over HTTP; what `garbled` answers is said to be compressed and is not."""

    def __init__(self, *, streams=False):
        self.streams = streams
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
        answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        if self.streams:
            return Response(f"data: {answer}\n\n", media_type="text/event-stream")
        return Response(answer, media_type="application/json")

    async def _hello(self, params):
        about = {"name": "garbled", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}

    async def _tools(self, _):
        schema = {"type": "object"}
        names = "garbled", "half", "other"
        return {"tools": [{"name": n, "inputSchema": schema} for n in names]}

    async def _call(self, params):
        if params["name"] == "garbled":
            return None
        if params["name"] == "half":
            return {"content": [{"type": "text", "text": "Half an emoji: \ud83d"}]}
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


@pytest.mark.parametrize("streams", [False, True])
async def test_half_an_emoji_in_an_answer_is_read_as_a_replacement_character(serve, streams):
    server = Garbled(streams=streams)
    try:
        lab = await serve({"url": server.url}).ready()
        assert (await lab.call("half")).result == "Half an emoji: \ufffd"
    finally:
        await asyncio.to_thread(server.close)
