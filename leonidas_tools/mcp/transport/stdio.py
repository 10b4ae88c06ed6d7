"""The stdio transport: JSON-RPC messages, one per line, to and from a child process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

from anyio import EndOfStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from leonidas_tools.calls.queues import BoundedQueue
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp.transport.limits import (
    MALFORMED,
    SEARCHED_BYTES,
    TOO_LONG,
    TOO_MANY,
    has_too_many,
    is_request,
    make_readable,
    replacement_error,
)
from leonidas_tools.mcp.transport.process import ServerProcess, Watchdog
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcp_types import JSONRPCMessage

    from leonidas_tools.mcp.transport.redaction import ServerRedaction
    from leonidas_tools.settings.models import MCPServerSettings

logger = visible_logger(__name__)

_SHOWN_CHARACTERS = 80


class StdioServer:
    """A server over stdio, opened by `streams()`.

    `redact` masks secrets in the output of the server. `on_lost` is called before the waiting calls
    fail.
    """

    def __init__(
        self,
        name: str,
        settings: MCPServerSettings,
        redact: ServerRedaction,
        *,
        on_lost: Callable[[str, int | None], None],
        on_bytes: Callable[[], None],
    ) -> None:
        self.garbage: str | None = None
        """Text the server printed on standard output that was not a message, if any."""
        self.on_bytes = on_bytes
        self._name = name
        self._settings = settings
        self._redact = redact
        self._on_lost = on_lost
        self._process: ServerProcess | None = None

    @property
    def last_lines(self) -> list[str]:
        """Return the last lines of the server's standard error, without secrets."""
        lines = [] if self._process is None else self._process.last_lines
        return [self._redact(line) for line in lines]

    @property
    def pid(self) -> int | None:
        """Return the id of the server's process, once the process has started."""
        return None if self._process is None else self._process.pid

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[MessageReader, MessageWriter]]:
        """Start the server; at exit, stop the server and its child processes.

        Raises:
            ConfigurationError: The command cannot be started.
        """
        self._inbox = MessageReader(room=self._room, on_garbage=self._on_garbage, hold=self._hold)
        async with self._inbox as inbox, Watchdog() as watchdog:
            self._process = process = await self._start(watchdog)
            watchdog.watch(process.pid)
            try:
                yield inbox, MessageWriter(process.write)
            finally:
                await inbox.aclose()
                await process.stop()
                watchdog.watch(None)

    def on_line(self, line: bytes) -> None:
        """Receive a line of standard output."""
        if has_too_many(line):
            self._replace(line[:SEARCHED_BYTES], line[-SEARCHED_BYTES:], TOO_MANY)
        else:
            self._inbox.put(line)

    def on_long_line(self, beginning: bytes, end: bytes) -> None:
        """Receive the kept parts of a too long line of standard output."""
        reason = f"a message of more than {self._settings.max_message_bytes:,} bytes"
        self._replace(beginning, end, reason)

    def _replace(self, beginning: bytes, end: bytes, reason: str) -> None:
        logger.warning("The MCP server %r wrote %s; ignored", self._name, reason)
        answer = replacement_error(beginning, end, TOO_LONG, reason)
        if answer is not None:
            self._inbox.put(answer)
        elif not is_request(beginning):
            self.on_end(f"wrote {reason}, which answers no known call", None)

    def on_stderr(self, line: bytes) -> None:
        """Receive a line of standard error."""
        if logger.isEnabledFor(logging.DEBUG):
            text = self._redact(line.decode(errors="replace").rstrip())
            logger.debug("%s: %s", self._name, text)

    def on_end(self, reason: str, exit_code: int | None) -> None:
        """Receive the end of the output, and the exit code if the server has exited."""
        self._on_lost(reason, exit_code)
        self._inbox.end()

    async def _start(self, watchdog: Watchdog) -> ServerProcess:
        settings = self._settings
        assert settings.command is not None
        try:
            return await ServerProcess.start(
                self,
                settings.max_message_bytes,
                (settings.command, *settings.args),
                env=get_default_environment() | settings.env | watchdog.environment,
                cwd=settings.cwd,
            )
        except FileNotFoundError as error:
            missing = "directory" if error.filename == settings.cwd else "command"
            raise ConfigurationError(f"the {missing} {error.filename!r} was not found") from error
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigurationError(
                f"the command {settings.command!r} cannot be started: {why}"
            ) from error

    async def _room(self) -> None:
        if self._process is not None:
            await self._process.room()

    def _hold(self, held: bool) -> None:
        if self._process is not None:
            self._process.hold(held)

    def _on_garbage(self, line: bytes) -> None:
        start, end = line[:SEARCHED_BYTES], line[-SEARCHED_BYTES:]
        answer = replacement_error(start, end, MALFORMED, "invalid output")
        if answer is not None:
            self._inbox.put(answer)
            return
        level = logging.DEBUG if self.garbage else logging.WARNING
        shown = self._redact(line[:SEARCHED_BYTES].decode(errors="replace").strip())
        shown = shown[:_SHOWN_CHARACTERS]
        self.garbage = self.garbage or shown
        logger.log(
            level, "The MCP server %r printed invalid output: %r; ignored", self._name, shown
        )


_MAX_WAITING = 256
_FEW_WAITING = 64


class MessageReader:
    """A queue of lines, which the client library reads as messages.

    A line is parsed only when it is needed, and the event loop runs between two queued lines: a
    server that sends a flood blocks no other server. If many lines are queued, reading is paused.

    `room` waits while the server does not read earlier responses; `hold` is called with `True` to
    pause reading, and with `False` to resume it.
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
        self._lines: BoundedQueue[bytes] = BoundedQueue()
        self._held = False

    def put(self, line: bytes) -> None:
        """Queue a line; ignore blank lines."""
        if self._lines.is_closed or not line.strip():
            return
        self._lines.put(line)
        if not self._held and len(self._lines) > _MAX_WAITING:
            self._held = True
            self._hold(True)

    def end(self) -> None:
        """Record the end of the input; queued lines are still read."""
        self._lines.close()

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            EndOfStream: No more messages follow.
        """
        while True:
            line = await self._next_line()
            try:
                message = _read(line)
            except ValidationError:
                self._on_garbage(line)
            else:
                if isinstance(message, JSONRPCRequest):  # before a response, this would deadlock
                    await self._room()
                return SessionMessage(message)

    async def aclose(self) -> None:
        """Drop the queued lines."""
        self.end()
        self._lines.remove(lambda _: True)
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
        await self._lines.wait()
        if not self._lines:
            raise EndOfStream
        line = self._lines.popleft()
        if self._held and len(self._lines) <= _FEW_WAITING:
            self._held = False
            self._hold(False)
        return line


class _ResponseOnly(JSONRPCResponse):
    """A response without an error, and without the method of a request."""

    error: None = None
    method: None = None


def _read(line: bytes) -> JSONRPCMessage:
    """Return the message in a line."""
    if not is_request(line[:SEARCHED_BYTES]):
        # Most messages are responses; this model parses them in a third of the time.
        with contextlib.suppress(ValidationError):
            return _ResponseOnly.model_validate_json(line, by_name=False)
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return jsonrpc_message_adapter.validate_json(make_readable(line), by_name=False)


class MessageWriter:
    """Writes messages directly, without a task between, so that a write blocks no caller.

    `write` must not block.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message."""
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._write(text.encode() + b"\n")

    async def aclose(self) -> None:
        """Do nothing: the pipe is closed with the process."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
