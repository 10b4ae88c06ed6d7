"""Limit the messages of a server before they are parsed; replace unreadable ones by errors."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

import httpx2
from mcp_types import PARSE_ERROR

from leonidas_tools.results.json_size import MAX_VALUES, count_values, has_too_many_values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

TOO_LONG = 41_002
"""Code of a local error response: the server's response was longer than allowed."""

MALFORMED = 41_003
"""Code of a local error response: the server's response could not be parsed."""

TOO_MANY = "a message with too many values"
"""Description of a message that would block the event loop while it is parsed."""

UNREADABLE = frozenset({TOO_LONG, MALFORMED, PARSE_ERROR})
"""The codes of all errors that replace an unreadable response, including the library's own."""

SEARCHED_BYTES = 512
"""Bytes at each end of a message that are searched for its id."""

_MAX_REQUEST_VALUES = 25_000
"""Most values in a request or notification: a server may send any number of these."""
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID = rb'"id"\s*:\s*(\d{1,18})\s*'
_AT_THE_BEGINNING = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb",")
_AT_THE_END = re.compile(_ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")
_METHOD = re.compile(rb'\s*\{[^{}\[\]]*"method"\s*:')
_SURROGATE = re.compile("[\ud800-\udfff]")
_DATA = b"data:"
_PIECE_BYTES = 4_096
_ENCODED = ("content-encoding", "content-length", "transfer-encoding")


def make_readable(message: bytes) -> bytes:
    r"""Return a JSON message with a replacement character for each lone surrogate and invalid byte.

    Servers in JavaScript write an escaped half of a character where they cut a text in the middle
    of an emoji. Python's libraries read no part of a message with one.

    Example:
        >>> make_readable(rb'["\ud83d\ude00 \ud83d"]').decode()
        '["😀 \ufffd"]'
        >>> make_readable(b'["caf\xe9"]').decode()
        '["caf\ufffd"]'
    """
    text = message.decode(errors="replace")
    if r"\ud" not in text and r"\uD" not in text:
        return text.encode()
    try:
        text = json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text.encode()
    return _SURROGATE.sub("\ufffd", text).encode()


def has_too_many(message: bytes) -> bool:
    """Return whether a message has more values than may be parsed at once."""
    most = _MAX_REQUEST_VALUES if is_request(message[:SEARCHED_BYTES]) else MAX_VALUES
    return has_too_many_values(message, most)


def replacement_error(beginning: bytes, end: bytes, code: int, what: str) -> bytes | None:
    """Return an error for the call that a message answers; `None` if that call is not found.

    Libraries write the id either before the result, or after it as the last field. A request of the
    server is not a response, and is not replaced.

    Example:
        >>> replacement_error(b'{"jsonrpc":"2.0","id":7,"result":[', b"", TOO_LONG, "Too long.")
        b'{"jsonrpc": "2.0", "id": 7, "error": {"code": 41002, "message": "Too long."}}'
        >>> replacement_error(b'{"result":[', b'],"jsonrpc":"2.0","id":7}', TOO_LONG, "Too long.")
        b'{"jsonrpc": "2.0", "id": 7, "error": {"code": 41002, "message": "Too long."}}'
    """
    match = _AT_THE_BEGINNING.match(beginning) or _AT_THE_END.search(end)
    return (
        None if match is None or is_request(beginning) else error_message(int(match[1]), code, what)
    )


def error_message(request_id: int, code: int, what: str) -> bytes:
    """Return the error response to a request."""
    error = {"code": code, "message": what}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode()


def is_request(beginning: bytes) -> bool:
    """Return whether a message with this beginning is a request or a notification.

    Example:
        >>> [is_request(each) for each in (b'{"method":"ping","id":1}', b'{"result":{"method":')]
        [True, False]
    """
    return _METHOD.match(beginning) is not None


class LineSplitter:
    r"""Splits a stream of bytes into lines.

    `on_line` is called with each line, without its line ending. `on_long` is called with the
    beginning and the end of a line of more than `longest` bytes.

    Example:
        >>> lines = LineSplitter(5, print, lambda start, end: print("too long:", start, end))
        >>> lines.feed(b"one\ntwo")
        b'one'
        >>> lines.feed(b" and more\nthree\n")
        too long: b'two and more' b'two and more'
        b'three'
    """

    def __init__(
        self,
        longest: int,
        on_line: Callable[[bytes], None],
        on_long: Callable[[bytes, bytes], None],
    ) -> None:
        self._longest = longest
        self._on_line = on_line
        self._on_long = on_long
        self._parts: list[bytes] = []
        self._length = 0
        self._beginning = self._end = b""

    def feed(self, data: bytes) -> None:
        """Process some bytes."""
        *ended, begun = data.split(b"\n")
        for part in ended:
            self._add(part)
            self.flush()
        self._add(begun)

    def flush(self) -> None:
        """End the current line."""
        parts, self._parts, length, self._length = self._parts, [], self._length, 0
        if length > self._longest:
            self._on_long(self._beginning, self._end)
        else:
            self._on_line(b"".join(parts))

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length <= self._longest:
            self._parts.append(part)
            return
        if self._length - len(part) <= self._longest:
            part = b"".join((*self._parts, part))
            self._beginning, self._end = part[:SEARCHED_BYTES], b""
            self._parts.clear()
        self._end = (self._end + part[-SEARCHED_BYTES:])[-SEARCHED_BYTES:]


class ResponseLimits:
    """Limits the HTTP responses of a server.

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
        return _replace_body(response, content=make_readable(content))

    def replace_line(self, beginning: bytes, end: bytes, what: str) -> bytes:
        """Return a line that replaces a line of an event stream that is too long."""
        message = beginning.removeprefix(_DATA)
        answer = replacement_error(message, end, TOO_LONG, what)
        if answer is None and not is_request(message):
            # If a request has its own stream, its response needs no id.
            answer = error_message(0, TOO_LONG, what)
            self._on_stray(f"answered with {what}")
        return _DATA + (answer or b"")


class _Events(httpx2.AsyncByteStream):
    """An event stream line by line."""

    def __init__(self, response: httpx2.Response, limits: ResponseLimits) -> None:
        self._response = response
        self._limits = limits
        self._lines: list[bytes] = []
        self._values = 0
        """Number of values in the current event, whose message may have many lines."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        limits = self._limits
        splitter = LineSplitter(limits.longest + len(_DATA) + 1, self._add, self._replace)
        async for piece in self._pieces():
            splitter.feed(piece)
            if self._lines:
                yield b"".join(line + b"\n" for line in self._lines)
                self._lines.clear()
        splitter.flush()
        yield b"\n".join(self._lines)

    def _add(self, line: bytes) -> None:
        message = line.removeprefix(_DATA)
        self._values = self._values + count_values(line) if line else 0
        if self._values > MAX_VALUES or has_too_many(message):
            self._replace(line[:SEARCHED_BYTES], line[-SEARCHED_BYTES:], TOO_MANY)
        else:
            field = line[: len(line) - len(message)]
            self._lines.append(field + make_readable(message))

    def _replace(self, beginning: bytes, end: bytes, what: str | None = None) -> None:
        self._lines.append(self._limits.replace_line(beginning, end, what or self._limits.too_long))

    async def _pieces(self) -> AsyncIterator[bytes]:
        """Yield the body in short pieces, with only line feeds as line endings.

        A compressed body may arrive as one long chunk that consists only of line endings.
        """
        is_after_return = False
        async for chunk in self._response.aiter_bytes():
            self._limits.on_bytes()
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
