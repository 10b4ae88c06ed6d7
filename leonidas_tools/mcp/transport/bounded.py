"""Read HTTP responses of a server as they arrive, with a size limit for messages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx2

from leonidas_tools.mcp.transport.lines import LineSplitter
from leonidas_tools.mcp.transport.unreadable import (
    SEARCHED_BYTES,
    TOO_LONG,
    TOO_MANY,
    has_too_many,
    is_asked,
    replacement_error,
    well_formed,
)
from leonidas_tools.results.json_size import MAX_VALUES, count_values, has_too_many_values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_DATA = b"data:"
_FEWEST_DIGITS, _MAX_DIGITS = 3, 7
"""Allowed digits of the time before the client reconnects, in milliseconds."""
_PIECE_BYTES = 4_096
_ENCODED = ("content-encoding", "content-length", "transfer-encoding")


class ResponseBounds:
    """Limits the responses of a server.

    `on_stray` is called with a message if the call of a response that is too long is unknown.
    """

    def __init__(
        self, longest: int, *, on_bytes: Callable[[], None], on_stray: Callable[[str], None]
    ) -> None:
        self.too_long = f"a message of more than {longest:,} bytes"
        self.longest = longest
        self.on_bytes = on_bytes
        self._on_stray = on_stray

    async def apply(self, response: httpx2.Response) -> httpx2.Response:
        """Return an event stream that is limited while it is read, or a response with its body.

        A message that is too long becomes an error `TOO_LONG`.
        """
        self.on_bytes()
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            return _replace_body(response, stream=_Events(response, self))
        body = bytearray()
        async for chunk in response.aiter_bytes():
            self.on_bytes()
            body += chunk
            if len(body) > self.longest:
                await response.aclose()
                return _error_response(response, self.too_long)
        content = bytes(body)
        if has_too_many_values(content):
            return _error_response(response, TOO_MANY)
        return _replace_body(response, content=well_formed(content))

    def event_line(self, beginning: bytes, end: bytes, what: str) -> bytes:
        """Return a line that replaces a line of an event stream that is too long."""
        message = beginning.removeprefix(_DATA)
        answer = replacement_error(message, end, TOO_LONG, what)
        if answer is None and not is_asked(message):
            # If a request has its own stream, its response needs no id.
            answer = replacement_error(b'{"id":0,', b"", TOO_LONG, what)
            self._on_stray(f"answered with {what}")
        return _DATA + (answer or b"")


class _Events(httpx2.AsyncByteStream):
    """An event stream line by line."""

    def __init__(self, response: httpx2.Response, bounds: ResponseBounds) -> None:
        self._response = response
        self._bounds = bounds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        whole: list[bytes] = []
        bounds = self._bounds
        event = _EventSize()

        def take(line: bytes) -> None:
            if event.is_too_much(line):
                line = bounds.event_line(line[:SEARCHED_BYTES], line[-SEARCHED_BYTES:], TOO_MANY)
            if not _is_odd_pause(line):
                whole.append(well_formed(line))

        lines = LineSplitter(
            bounds.longest + len(_DATA) + 1,
            take,
            lambda beginning, end: whole.append(bounds.event_line(beginning, end, bounds.too_long)),
        )
        async for piece in self._pieces():
            lines.feed(piece)
            if whole:
                yield b"".join(line + b"\n" for line in whole)
                whole.clear()
        lines.flush()
        yield b"\n".join(whole)

    async def _pieces(self) -> AsyncIterator[bytes]:
        """Yield the body in short pieces, with only line feeds as line endings.

        A compressed body may arrive as one long chunk that consists only of line endings.
        """
        is_after_return = False
        async for chunk in self._response.aiter_bytes():
            self._bounds.on_bytes()
            for start in range(0, len(chunk), _PIECE_BYTES):
                if start:
                    await asyncio.sleep(0)  # lets the event loop run
                piece = chunk[start : start + _PIECE_BYTES]
                if is_after_return:
                    piece = piece.removeprefix(b"\n")
                is_after_return = piece.endswith(b"\r")
                yield piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    async def aclose(self) -> None:
        await self._response.aclose()


class _EventSize:
    """Counts the values of one event, whose message may have many lines."""

    def __init__(self) -> None:
        self._values = 0

    def is_too_much(self, line: bytes) -> bool:
        """Count the values of a line; return whether its event has too many."""
        if not line:
            self._values = 0
            return False
        if has_too_many(line.removeprefix(_DATA).lstrip()):
            return True
        self._values += count_values(line)
        return self._values > MAX_VALUES


def _is_odd_pause(line: bytes) -> bool:
    """Return whether a line sets a reconnection time that is invalid, too short or too long."""
    name, _, said = line.partition(b":")
    if not name.endswith(b"retry"):
        return False
    digits = said.strip().lstrip(b"0")
    return not (digits.isdigit() and _FEWEST_DIGITS <= len(digits) <= _MAX_DIGITS)


def _error_response(response: httpx2.Response, what: str) -> httpx2.Response:
    error = {"code": TOO_LONG, "message": what}
    return httpx2.Response(
        httpx2.codes.BAD_GATEWAY,
        json={"jsonrpc": "2.0", "id": None, "error": error},
        request=response.request,
    )


def _replace_body(
    response: httpx2.Response,
    *,
    content: bytes | None = None,
    stream: httpx2.AsyncByteStream | None = None,
) -> httpx2.Response:
    """Return the response with another body, which is not encoded."""
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
    changed.encoding = "utf-8"  # by the protocol; another encoding may take hours to decode
    return changed
