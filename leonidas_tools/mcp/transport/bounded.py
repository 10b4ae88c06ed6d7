"""Read responses of a server over HTTP as they arrive, with bounded messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

from leonidas_tools.mcp.transport.lines import LineSplitter
from leonidas_tools.mcp.transport.unreadable import TOO_LONG, is_asked, stand_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_DATA = b"data:"
_ENCODED = ("content-encoding", "content-length", "transfer-encoding")


class ResponseBounds:
    """Bounds what a server answers.

    Args:
        longest: How many bytes a message may have.
        on_bytes: Called with each sound of the server.
        on_stray: Called, with what happened, where the call of a too long answer is unknown.
    """

    def __init__(
        self, longest: int, *, on_bytes: Callable[[], None], on_stray: Callable[[str], None]
    ) -> None:
        self.too_long = f"a message of more than {longest:,} bytes"
        self.longest = longest
        self.on_bytes = on_bytes
        self._on_stray = on_stray

    async def apply(self, response: httpx2.Response) -> httpx2.Response:
        """Return an event stream that is bounded while it is read; any other body, read to its end.

        What is too long is an error `TOO_LONG` instead.
        """
        self.on_bytes()
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            return _with(response, stream=_Events(response, self))
        body = bytearray()
        async for chunk in response.aiter_bytes():
            self.on_bytes()
            body += chunk
            if len(body) > self.longest:
                await response.aclose()
                error = {"code": TOO_LONG, "message": self.too_long}
                return httpx2.Response(
                    httpx2.codes.BAD_GATEWAY,
                    json={"jsonrpc": "2.0", "id": None, "error": error},
                    request=response.request,
                )
        return _with(response, content=bytes(body))

    def event_line(self, beginning: bytes, end: bytes) -> bytes:
        """Return a line for an event stream in the place of one that is too long."""
        message = beginning.removeprefix(_DATA)
        answer = stand_in(message, end, TOO_LONG, self.too_long)
        if answer is None and not is_asked(message):
            # Where a request has a stream of its own, its answer needs no id.
            answer = stand_in(b'{"id":0,', b"", TOO_LONG, self.too_long)
            self._on_stray(f"answered with {self.too_long}")
        return _DATA + (answer or b"")


class _Events(httpx2.AsyncByteStream):
    """An event stream line by line."""

    def __init__(self, response: httpx2.Response, bounds: ResponseBounds) -> None:
        self._response = response
        self._bounds = bounds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        whole: list[bytes] = []
        lines = LineSplitter(
            self._bounds.longest + len(_DATA) + 1,
            whole.append,
            lambda beginning, end: whole.append(self._bounds.event_line(beginning, end)),
        )
        async for chunk in self._response.aiter_bytes():
            self._bounds.on_bytes()
            lines.feed(chunk)
            if whole:
                yield b"".join(line + b"\n" for line in whole)
                whole.clear()
        lines.flush()
        yield b"\n".join(whole)

    async def aclose(self) -> None:
        await self._response.aclose()


def _with(
    response: httpx2.Response,
    *,
    content: bytes | None = None,
    stream: httpx2.AsyncByteStream | None = None,
) -> httpx2.Response:
    """Return the answer with another body, which is not encoded."""
    headers = [(k, v) for k, v in response.headers.multi_items() if k.lower() not in _ENCODED]
    changed = httpx2.Response(
        response.status_code,
        headers=headers,
        content=content,
        stream=stream,
        request=response.request,
        extensions=response.extensions,
        history=response.history,
    )
    changed.next_request = response.next_request
    return changed
