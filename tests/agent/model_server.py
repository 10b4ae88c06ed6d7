"""A real HTTP server on loopback that speaks the streaming formats of OpenAI and Gemini."""

import asyncio
import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reply:
    """The reply to one request.

    Args:
        events: Each becomes one server-sent event; a text is sent as it is.
        status: The status of the response.
        body: A whole body instead of events.
        headers: Further headers.
        ending: `done` ends the stream; `cut` drops the connection in the middle of the body;
            `hang` keeps it open in silence until the client leaves.
    """

    events: list[Any] = field(default_factory=list)
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    ending: str = "done"


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any


class ModelServer:
    """Gives prepared replies, one for each request; the last one again and again.

    `left` is set when a client has closed the connection of a reply that hangs.
    """

    def __init__(self, replies):
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.left = asyncio.Event()
        self.url = ""

    async def handle(self, reader, writer):
        try:
            request = await _request(reader)
            if request is None:
                return
            self.requests.append(request)
            at = min(len(self.requests), len(self.replies)) - 1
            await self._reply(self.replies[at], reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _reply(self, reply, reader, writer):
        whole = reply.body is not None
        kind = "application/json" if whole else "text/event-stream"
        head = [f"HTTP/1.1 {reply.status} X", f"content-type: {kind}", "connection: close"]
        head += [f"{name}: {value}" for name, value in reply.headers.items()]
        if whole:
            data = json.dumps(reply.body).encode()
            head.append(f"content-length: {len(data)}")
            writer.write("\r\n".join([*head, "", ""]).encode() + data)
            await writer.drain()
            return
        head.append("transfer-encoding: chunked")
        writer.write("\r\n".join([*head, "", ""]).encode())
        for event in reply.events:
            text = event if isinstance(event, str) else f"data: {json.dumps(event)}\r\n\r\n"
            data = text.encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
        if reply.ending == "hang":
            await reader.read()  # ends when the client closes the connection
            self.left.set()
        elif reply.ending == "done":
            writer.write(b"0\r\n\r\n")
            await writer.drain()


async def _request(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.split("\r\n")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    data = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(first.split()[1], headers, json.loads(data or b"null"))


@asynccontextmanager
async def model_server(*replies):
    """Run a server with these replies."""
    server = ModelServer(replies)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    async with listening:
        yield server


def chunk(delta=None, finish=None, **more):
    """One piece in OpenAI's format."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {
        "id": "x",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "test",
        "choices": choices,
        **more,
    }


def usage(prompt, completion):
    """The last piece, which counts the tokens."""
    total = prompt + completion
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    return chunk(usage=counts)


def says(text, finish="stop", counted=(7, 3)):
    """A reply in words."""
    words = [chunk({"content": word}) for word in re.findall(r"\S+\s*", text)]
    counts = [usage(*counted)] if counted else []
    return Reply([*words, chunk({}, finish), *counts, "data: [DONE]\n\n"])


def calls(*made, finish="tool_calls"):
    """A reply that calls functions; each is (id, name, arguments as text)."""
    pieces = []
    for index, (id_, name, arguments) in enumerate(made):
        half = len(arguments) // 2
        begin = {"index": index, "id": id_, "type": "function"}
        pieces.append({**begin, "function": {"name": name, "arguments": arguments[:half]}})
        pieces.append({"index": index, "function": {"arguments": arguments[half:]}})
    events = [chunk({"tool_calls": [piece]}) for piece in pieces]
    return Reply([*events, chunk({}, finish), usage(9, 4), "data: [DONE]\n\n"])


def refuses(status, message, **headers):
    """A reply that is an error."""
    return Reply(status=status, body={"error": {"message": message}}, headers=headers)


def gemini(*parts, finish="STOP", counted=(7, 3), **more):
    """A reply in Gemini's format."""
    content = {"role": "model", "parts": list(parts)}
    body = {"candidates": [{"content": content, "finishReason": finish}], **more}
    if counted:
        body["usageMetadata"] = {
            "promptTokenCount": counted[0],
            "candidatesTokenCount": counted[1],
        }
    return Reply([body])
