"""The lines of a server, read as messages one by one."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Self

from anyio import EndOfStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_types import JSONRPCMessage

_MOST_WAITING = 256
_FEW_WAITING = 64


class Inbox:
    """Lines as they come, and messages as they are read, in the form the client library reads.

    A line is read as late as it is asked for, and between two that wait the loop gets a turn: a
    server that floods us holds nobody else up. Once many wait, the server does.

    Args:
        room: Waits until there is room for an answer to what the server asks.
        on_garbage: Called with a line that is no message.
        hold: Called with whether the server shall wait.
    """

    def __init__(
        self,
        *,
        room: Callable[[], Awaitable[None]],
        on_garbage: Callable[[bytes], None],
        hold: Callable[[bool], None],
    ) -> None:
        self._room = room
        self._on_garbage = on_garbage
        self._hold = hold
        self._lines: deque[bytes] = deque()
        self._held = False
        self._ended = False
        self._news = asyncio.Event()

    def put(self, line: bytes) -> None:
        """Takes a line; blank ones say nothing."""
        if self._ended or not line.strip():
            return
        self._lines.append(line)
        self._news.set()
        if not self._held and len(self._lines) > _MOST_WAITING:
            self._held = True
            self._hold(True)

    def end(self) -> None:
        """Takes note that no more lines come; those that wait are still read."""
        self._ended = True
        self._news.set()

    async def receive(self) -> SessionMessage | Exception:
        """The next message.

        Raises:
            EndOfStream: There is none any more.
        """
        while True:
            line = await self._next_line()
            try:
                message = _read(line)
            except ValidationError:
                self._on_garbage(line)
            else:
                if isinstance(message, JSONRPCRequest):  # to wait before an answer is a deadlock
                    await self._room()
                return SessionMessage(message)

    async def aclose(self) -> None:
        """Forgets the lines that wait."""
        self.end()
        self._lines.clear()
        self._hold(False)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _next_line(self) -> bytes:
        if self._lines:
            await asyncio.sleep(0)
        while not self._lines:
            if self._ended:
                raise EndOfStream
            self._news.clear()
            await self._news.wait()
        line = self._lines.popleft()
        if self._held and len(self._lines) <= _FEW_WAITING:
            self._held = False
            self._hold(False)
        return line


class _Answer(JSONRPCResponse):
    """An answer that is nothing else: no error and no question that has a result beside it."""

    error: None = None
    method: None = None


def _read(line: bytes) -> JSONRPCMessage:
    """The message in a line.

    Raises:
        ValidationError: There is none.
    """
    try:  # an answer, as most are: a third of the time that it takes to look what it is
        return _Answer.model_validate_json(line, by_name=False)
    except ValidationError:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
