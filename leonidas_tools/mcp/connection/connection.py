"""One open connection to an MCP server: its tools, their calls, and why it ended."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import mcp_types
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp.calls.calling import Calling
from leonidas_tools.mcp.calls.tool_task import TaskReports, ToolTask, called_as_tasks
from leonidas_tools.mcp.connection.changes import keep_subscribed
from leonidas_tools.mcp.connection.health import Health
from leonidas_tools.mcp.connection.identity import client_info
from leonidas_tools.mcp.connection.news import News
from leonidas_tools.mcp.features import Asks
from leonidas_tools.mcp.features.offers import Offers
from leonidas_tools.mcp.listing.listing import Listing, list_tools
from leonidas_tools.mcp.listing.output_schemas import OutputSchemas
from leonidas_tools.mcp.transport.mending import Mending
from leonidas_tools.mcp.transport.reasons import placed, reason_of, telling
from leonidas_tools.mcp.transport.redaction import Redaction
from leonidas_tools.mcp.transport.transports import transport_to
from leonidas_tools.mcp.transport.unreadable import TOO_LONG, UNREADABLE
from leonidas_tools.mcp.transport.wire_logs import discreet_logs
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from types import TracebackType

    from leonidas_tools.mcp.calls.call_terms import ServerCall
    from leonidas_tools.mcp.features import ServerAsks
    from leonidas_tools.mcp.features.calls import OnProgress
    from leonidas_tools.mcp.transport.stdio import StdioServer
    from leonidas_tools.settings.models import MCPServerSettings

logger = visible_logger(__name__)

_LEAVE_SECONDS = 1.0
_ANSWER_SECONDS = 30.0


class Connection:
    """A connection to one server, open inside `async with`, in one task from start to end.

    Args:
        name: The server's name.
        settings: How to reach it.
        asks: Answers what the server asks; by default as the settings say.
    """

    def __init__(
        self, name: str, settings: MCPServerSettings, asks: ServerAsks | None = None
    ) -> None:
        self.lost: str | None = None
        """Why the server is gone, once it is."""
        self.limit_seconds = settings.timeout or _ANSWER_SECONDS
        """How long the server may take to answer what is no call."""
        self._name = name
        self._settings = settings
        self._asks = asks or Asks().of(name, settings)
        self._offers = Offers(name, settings)
        self._redact = Redaction(settings)
        self._stack = AsyncExitStack()
        self._outputs = OutputSchemas()
        self._mending = Mending(self._outputs)
        self._reports = TaskReports()
        self._as_tasks: frozenset[str] = frozenset()
        self._stdio: StdioServer | None
        self._closed = False
        self._connect_seconds: float | None = None
        self._health = Health(
            self.ping, every_seconds=settings.ping_every or None, limit_seconds=self.limit_seconds
        )
        self._client: Client = self._new_client()
        self._news = News()
        self._calling = Calling(
            name=name,
            client=self._client,
            health=self._health,
            offers=self._offers,
            outputs=self._outputs,
            redact=self._redact,
            reports=self._reports,
            gone=lambda: self._gone,
            lose=self.lose,
            doubt=self._doubt,
            by_request=self._stdio is None,
        )
        self._watching: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._asks.check()
        begun = asyncio.get_running_loop().time()
        self._stack.enter_context(discreet_logs(self._redact))
        try:
            await self._stack.enter_async_context(self._client)
        except BaseException:
            await self._stack.aclose()
            raise
        self._connect_seconds = asyncio.get_running_loop().time() - begun
        self._watching.add(asyncio.create_task(self._asks.opened(self._client)))
        if self._announces_changes() and self._is_modern():
            self._watching.add(asyncio.create_task(keep_subscribed(self._client, self._doubt)))
        self._watching.add(asyncio.create_task(self._watch()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._closed = True
        self._asks.closed()
        ending: set[asyncio.Future[None]] = {*self._calling.under_way, *self._watching}
        for task in self._watching:
            task.cancel()
        # First, and whatever happens: a client left open would cancel this task for ever. Only its
        # own cancel scopes know whether a cancellation is theirs.
        swallowed = await self._stack.__aexit__(kind, error, traceback)
        if ending:
            await asyncio.wait(ending, timeout=_LEAVE_SECONDS)
        return bool(swallowed)

    def lose(self, what: str) -> None:
        """Notes that the server is gone."""
        if self.lost is None:
            self.lost = what
        self._news.set()

    async def news(self) -> bool:
        """Waits until the tools should be listed again: `False` says that the server is gone."""
        await self._news.wait(lambda: self.lost is not None)
        return self.lost is None

    def relist(self, settings: MCPServerSettings | None = None) -> None:
        """Has `news` say that the tools should be listed again.

        Args:
            settings: Other settings, which need no other connection.
        """
        if settings is not None:
            self._offers.settings = settings
        self._news.set()

    async def tools(self) -> Listing:
        """The server's tools, from all pages, and those for what else it offers.

        Raises:
            ConfigurationError: The pages never end.
        """
        listing = await list_tools(self._client, self._mending, self._outputs)
        self._as_tasks = called_as_tasks(listing.tools, self._client.server_capabilities)
        offered = self._offers.tools(self._client.server_capabilities)
        return replace(listing, tools=[*listing.tools, *offered])

    def task_for(self, call: ServerCall) -> ToolTask | None:
        """A call as a task that has not begun, if it can be made only so.

        Args:
            call: What is called.
        """
        if call.tool not in self._as_tasks:
            return None
        return ToolTask(self._name, call, self._redact)

    async def call(
        self, call: ServerCall, on_progress: OnProgress, task: ToolTask | None = None
    ) -> mcp_types.CallToolResult:
        """Calls a tool; being cancelled cancels the call at the server, which may take seconds.

        Args:
            call: What is called.
            on_progress: Awaited with each report.
            task: The call as a task, which may have begun over another connection.

        Raises:
            RetryableError: The server is gone and nothing happened.
            ToolError: The server is gone, and something may have happened; or it refused.
        """
        return await self._calling.call(call, on_progress, task or self.task_for(call))

    def why(self, error: BaseException | None) -> str:
        """Why the connection could not be opened or has ended, in a few words without secrets."""
        error = telling(error)
        if isinstance(error, ConfigurationError):
            return self._redact(error.message)
        return placed(self._redact(self.lost or _reason(error)), self._settings.url)

    @property
    def status(self) -> dict[str, Any]:
        """What can be said of an open connection, as plain JSON."""
        pid = None if self._stdio is None else self._stdio.pid
        said = {
            "pid": pid,
            "protocol_version": self._client.protocol_version,
            "connect_seconds": self._connect_seconds,
            "last_ping_seconds": self._health.last_ping_seconds,
        }
        return {key: value for key, value in said.items() if value is not None}

    @property
    def last_words(self) -> str:
        """What a server over stdio has said that explains its end; not for the model."""
        if self._stdio is None:
            return ""
        garbage, lines = self._stdio.garbage, self._stdio.last_lines
        printed = f"; it printed {garbage!r}, which is no MCP message" if garbage else ""
        return printed + (f"; it last wrote: {' / '.join(lines)}" if lines else "")

    def _new_client(self) -> Client:
        transport, self._stdio = transport_to(
            self._name,
            self._settings,
            self._redact,
            on_bytes=self._health.heard,
            on_lost=self.lose,
            on_doubt=self._doubt,
        )
        return Client(
            self._mending.of(transport),
            client_info=client_info(),
            message_handler=self._on_message,
            cache=None,
            **self._asks.client_options(),
        )

    def _doubt(self, what: str) -> None:
        """A request has failed: listing the tools will show whether the server is gone."""
        logger.debug("MCP server %r: %s", self._name, what)
        self._news.set()

    async def _on_message(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._news.set()
        await self._reports.heard(message)

    def _announces_changes(self) -> bool:
        tools = self._client.server_capabilities.tools
        return tools is not None and bool(tools.list_changed)

    def _is_modern(self) -> bool:
        return self._client.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def _watch(self) -> None:
        await self._health.silence()
        self.lose(f"no answer to a ping within {self.limit_seconds:g} s")

    async def ping(self) -> None:
        """Asks for what costs least to answer; newer servers know no ping."""
        session = self._client.session
        with contextlib.suppress(MCPError, ValidationError):
            if self._is_modern():
                await session.send_discover(self._client.protocol_version)
            else:
                await session.send_ping()

    @property
    def _gone(self) -> str | None:
        """Why no call can be made, if none can."""
        if self.lost is not None:
            return self._redact(self.lost)
        return "the connection was closed" if self._closed else None


def _reason(error: BaseException | None) -> str:
    if isinstance(error, MCPError) and error.code in UNREADABLE:
        what = error.message if error.code == TOO_LONG else "what is no message"
        return f"it answered with {what}"
    return reason_of(error)
