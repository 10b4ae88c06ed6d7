"""The stdio transport: JSON-RPC messages, a line each, to and from a child process."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.client.stdio import get_default_environment

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp.transport.inbox import Inbox
from leonidas_tools.mcp.transport.outbox import Outbox
from leonidas_tools.mcp.transport.process import ServerProcess
from leonidas_tools.mcp.transport.unreadable import MALFORMED, TOO_LONG, is_asked, stand_in
from leonidas_tools.mcp.transport.watchdog import Watchdog
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from leonidas_tools.mcp.transport.redaction import Redaction
    from leonidas_tools.settings.models import MCPServerSettings

logger = visible_logger(__name__)

_SHOWN_CHARACTERS = 80
_SEEN_BYTES = 512


class StdioServer:
    """A server over stdio, opened by `streams()`.

    Args:
        name: The server's name, for the log.
        settings: How to start it.
        redact: Takes secrets out of what the server prints.
        on_lost: Called when the server is gone, before anybody who waits for it is told.
        on_bytes: Called with each sound of it.
    """

    def __init__(
        self,
        name: str,
        settings: MCPServerSettings,
        redact: Redaction,
        *,
        on_lost: Callable[[str], None],
        on_bytes: Callable[[], None],
    ) -> None:
        self.garbage: str | None = None
        """What the server printed on standard output that was no message, if anything."""
        self.on_bytes = on_bytes
        self._name = name
        self._settings = settings
        self._redact = redact
        self._on_lost = on_lost
        self._process: ServerProcess | None = None

    @property
    def last_lines(self) -> list[str]:
        """What the server last wrote to standard error."""
        lines = [] if self._process is None else self._process.last_lines
        return [self._redact(line) for line in lines]

    @property
    def pid(self) -> int | None:
        """The number of the server's process, once it has been started."""
        return None if self._process is None else self._process.pid

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Inbox, Outbox]]:
        """Starts the server, and ends it with everything it has started.

        Raises:
            ConfigurationError: The command cannot be started.
        """
        self._inbox = Inbox(room=self._room, on_garbage=self._ignore, hold=self._hold)
        async with self._inbox as inbox, Watchdog() as watchdog:
            self._process = process = await self._start(watchdog)
            watchdog.watch(process.pid)
            try:
                yield inbox, Outbox(process.write)
            finally:
                await inbox.aclose()
                await process.stop()
                watchdog.watch(None)

    def on_line(self, line: bytes) -> None:
        """Called with each line of standard output."""
        self._inbox.put(line)

    def on_long_line(self, beginning: bytes, end: bytes) -> None:
        """Called with what is kept of a line of standard output that was too long."""
        what = f"a message of more than {self._settings.max_message_bytes:,} bytes"
        logger.warning("The MCP server %r wrote %s; it is not read", self._name, what)
        answer = stand_in(beginning, end, TOO_LONG, what)
        if answer is not None:
            self._inbox.put(answer)
        elif not is_asked(beginning):
            self.on_end(f"wrote {what}, and nobody knows which call it answers")

    def on_stderr(self, line: bytes) -> None:
        """Called with each line of standard error."""
        if logger.isEnabledFor(logging.DEBUG):
            text = self._redact(line.decode(errors="replace").rstrip())
            logger.debug("%s: %s", self._name, text)

    def on_end(self, what: str) -> None:
        """Called when nothing more can come."""
        self._on_lost(what)
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

    def _ignore(self, line: bytes) -> None:
        answer = stand_in(line[:_SEEN_BYTES], line[-_SEEN_BYTES:], MALFORMED, "what is no message")
        if answer is not None:
            self._inbox.put(answer)
            return
        level = logging.DEBUG if self.garbage else logging.WARNING
        shown = self._redact(line[:_SEEN_BYTES].decode(errors="replace").strip())
        shown = shown[:_SHOWN_CHARACTERS]
        self.garbage = self.garbage or shown
        logger.log(
            level, "The MCP server %r printed what is no message: %r; ignored", self._name, shown
        )
