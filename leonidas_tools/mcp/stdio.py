"""The stdio transport: JSON-RPC messages, a line each, to and from a child process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp.process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from leonidas_tools.mcp.redaction import Redaction
    from leonidas_tools.settings.models import MCPServerSettings

logger = logging.getLogger(__name__)

Inbox: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
Outbox: TypeAlias = MemoryObjectSendStream[SessionMessage]

_SHOWN_CHARACTERS = 80
_FLUSH_SECONDS = 0.5
"""How long messages already sent, such as cancellations, may take to reach the server."""


class StdioServer:
    """A server over stdio, opened by `streams()`.

    Args:
        name: The server's name, for the log.
        settings: How to start it.
        redact: Takes secrets out of what the server prints.
        on_lost: Called when the server is gone, before anybody who waits for it is told.
    """

    def __init__(
        self,
        name: str,
        settings: MCPServerSettings,
        redact: Redaction,
        on_lost: Callable[[str], None],
    ) -> None:
        self.garbage: str | None = None
        """What the server printed on standard output that was no message, if anything."""
        self._name = name
        self._settings = settings
        self._redact = redact
        self._on_lost = on_lost
        self._process: ServerProcess | None = None
        self._received: MemoryObjectSendStream[SessionMessage | Exception] | None = None

    @property
    def last_lines(self) -> list[str]:
        """What the server last wrote to standard error."""
        lines = [] if self._process is None else self._process.last_lines
        return [self._redact(line) for line in lines]

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Inbox, Outbox]]:
        """Starts the server, and ends it with everything it has started.

        Raises:
            ConfigurationError: The command cannot be started.
        """
        # Without a bound: what is read must not wait, and what is written must not hold a caller.
        received, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        outbox, to_send = anyio.create_memory_object_stream[SessionMessage](math.inf)
        self._received = received
        with received, inbox, outbox, to_send:
            self._process = process = await self._start()
            writing = asyncio.create_task(_write(process, to_send))
            try:
                yield inbox, outbox
            finally:
                outbox.close()
                inbox.close()
                try:
                    await asyncio.wait({writing}, timeout=_FLUSH_SECONDS)
                finally:
                    writing.cancel()
                    await process.stop()

    async def _start(self) -> ServerProcess:
        settings = self._settings
        assert settings.command is not None
        try:
            return await ServerProcess.start(
                settings.command,
                settings.args,
                env=get_default_environment() | settings.env,
                cwd=settings.cwd,
                on_line=self._receive,
                on_stderr=self._log,
                on_end=self._lost,
            )
        except FileNotFoundError as error:
            missing = "directory" if error.filename == settings.cwd else "command"
            raise ConfigurationError(f"the {missing} {error.filename!r} was not found") from error
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigurationError(
                f"the command {settings.command!r} cannot be started: {why}"
            ) from error

    def _receive(self, line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._ignore(line)
            return
        if self._received is not None:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._received.send_nowait(SessionMessage(message))

    def _ignore(self, line: bytes) -> None:
        level = logging.DEBUG if self.garbage else logging.WARNING
        shown = self._redact(line.decode(errors="replace").strip())[:_SHOWN_CHARACTERS]
        self.garbage = self.garbage or shown
        logger.log(
            level, "The MCP server %r printed what is no message: %r; ignored", self._name, shown
        )

    def _log(self, line: bytes) -> None:
        if logger.isEnabledFor(logging.DEBUG):
            text = self._redact(line.decode(errors="replace").rstrip())
            logger.debug("%s: %s", self._name, text)

    def _lost(self, what: str) -> None:
        self._on_lost(what)
        if self._received is not None:
            self._received.close()


async def _write(
    process: ServerProcess, to_send: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    with contextlib.suppress(OSError):
        async for message in to_send:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.write(text.encode() + b"\n")
