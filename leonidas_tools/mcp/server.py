"""One MCP server, and the one task that owns its connection."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from leonidas_tools.mcp.calls.call_terms import call_of
from leonidas_tools.mcp.calls.errors import server_down
from leonidas_tools.mcp.calls.results import to_result
from leonidas_tools.mcp.connection.reconnect import delay_seconds
from leonidas_tools.mcp.connection.sending import send
from leonidas_tools.mcp.features import Asks
from leonidas_tools.mcp.listing.definitions import AnyTool, Definitions
from leonidas_tools.mcp.loading import load
from leonidas_tools.mcp.server_state import ServerState
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from leonidas_tools.calls.call import ToolResult
    from leonidas_tools.calls.context import ToolContext
    from leonidas_tools.errors import RetryableError
    from leonidas_tools.mcp.connection.connection import Connection
    from leonidas_tools.mcp.listing.listing import Listing
    from leonidas_tools.settings.models import MCPServerSettings
    from leonidas_tools.tools.tool import ToolEffect

logger = visible_logger(__name__)

_CONNECTION = "leonidas_tools.mcp.connection.connection"
_STEADY_SECONDS = 30.0
"""A connection that held this long was good: the next reconnection does not wait long."""


class MCPServer:
    """One MCP server: connects in the background, reconnects when it is lost, runs calls.

    One that starts lazily connects with the first call. If its tools are not known from an earlier
    session, it connects before that to list them, and stands by.

    Args:
        name: The server's name.
        settings: How to reach it.
        on_tools: Called with its tools each time they have been listed.
        asks: Answers what the server asks.
    """

    def __init__(
        self,
        name: str,
        settings: MCPServerSettings,
        on_tools: Callable[[list[AnyTool]], None],
        asks: Asks | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.state = ServerState.STOPPED
        self.last_error: str | None = None
        """Why the server was last found down, in a sentence."""
        self._reason = "it has not been started"
        self._on_tools = on_tools
        self._asks = (asks or Asks()).of(name, settings)
        self.definitions = Definitions(name, settings, self._call)
        self._listed: Listing | None = None
        self._publishing = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._connection: Connection | None = None
        self._owner: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._calls = 0

    def start(self) -> None:
        """Connects in the background; does nothing if that has begun."""
        if self._owner is not None:
            return
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        if not self._is_lazy:
            self._wanted.set()
        self._reason = "it is starting"
        self._set(ServerState.STARTING)
        self._owner = asyncio.create_task(self._own(), name=f"mcp:{self.name}")

    def stop(self, *, drain: bool = False) -> Coroutine[Any, Any, None]:
        """Disconnects, and ends a server over stdio with every process it has started.

        It is stopped, and can be started again, at once; its end is to be awaited.

        Args:
            drain: Whether calls under way may end first; none begins, and no person is asked more.
        """
        owner, self._owner = self._owner, None
        if owner is not None:
            self._reason = "it was stopped"
            self.state = ServerState.STOPPED
            self._tell()
            self._asks.calls.close()
        return self._end(owner, drain=drain)

    async def wait_for(self, *states: ServerState) -> ServerState:
        """Waits until the server is in one of these states."""
        while self.state not in states:
            await self._changed.wait()
        return self.state

    def apply(self, settings: MCPServerSettings) -> None:
        """Applies settings that mean the same server: what is used of it, where it may work.

        Args:
            settings: The settings.
        """
        self._asks.apply(settings)
        self.settings = self.definitions.settings = settings
        if self._connection is not None:
            self._connection.relist(settings)

    @property
    def is_stale(self) -> bool:
        """Whether settings, or what a person trusts, are others than when the tools were read."""
        return self.definitions.are_stale

    async def reread(self) -> None:
        """Reads the tools anew, from the server if it is connected."""
        if self._connection is not None:
            self._connection.relist()
        elif self._listed is not None:
            await self._publish(None)

    def unavailable(self) -> RetryableError:
        """Return what a call is told while the server is not connected."""
        return server_down(self.name, self._reason)

    def status(self) -> dict[str, Any]:
        """How the server does, as plain JSON."""
        status = {
            "name": self.name,
            "transport": self.settings.transport,
            "state": self.state.value,
            "calls": self._calls,
            **self.definitions.report.status(),
        }
        if self._connection is not None:
            status |= self._connection.status
        return status if self.last_error is None else {**status, "last_error": self.last_error}

    async def _own(self) -> None:
        """Keeps the server connected until cancelled."""
        try:
            await load(_CONNECTION)
        except ImportError as error:
            self._went_down(f"the package {error.name!r} is not installed", "")
            return
        loop = asyncio.get_running_loop()
        attempt = 0
        # A cancellation can get lost where a connection breaks at the same moment: its own error
        # takes the place. So that the owner ends, it looks whether it still is the owner.
        while True:
            await self._stand_by()
            begun = loop.time()
            await self._serve()
            if self._owner is not asyncio.current_task():
                return
            if self.state is ServerState.STANDBY:
                continue
            attempt = 0 if loop.time() - begun > _STEADY_SECONDS else attempt
            await asyncio.sleep(delay_seconds(attempt))
            attempt += 1

    async def _stand_by(self) -> None:
        """Waits until the server is needed: for a call, or for its tools."""
        from leonidas_tools.mcp.listing.listing import KeptListing

        if self._wanted.is_set():
            return
        if self._listed is None:
            listing = await asyncio.to_thread(KeptListing(self.name, self.settings).load)
            if listing is None:
                return
            await self._publish(listing)
        self._set(ServerState.STANDBY)
        await self._wanted.wait()
        self._set(ServerState.STARTING)

    async def _serve(self) -> None:
        """Connects, and serves calls until the connection ends."""
        from leonidas_tools.mcp.connection.connection import Connection

        connection = Connection(self.name, self.settings, self._asks)
        error: BaseException | None = None
        try:
            async with asyncio.timeout(connection.limit_seconds) as guard, connection:
                try:
                    await self._list(connection)
                finally:
                    if not guard.expired():
                        guard.reschedule(None)
                if not self._wanted.is_set():
                    self._set(ServerState.STANDBY)
                    return
                self._connection = connection
                self._set(ServerState.READY)
                while await connection.news():
                    await self._list_again(connection)
                # Said before the connection is closed, which may take a while.
                self._went_down(connection.why(None), connection.last_words)
                return
        except Exception as caught:  # noqa: BLE001 - whatever it is, the server is down for it
            error = caught
        finally:
            if self._connection is connection:  # it may be started again before it has ended
                self._connection = None
        logger.debug("MCP server %r: %s", self.name, type(error).__name__)  # texts tell addresses
        self._went_down(connection.why(error), connection.last_words)

    async def _list(self, connection: Connection) -> None:
        from leonidas_tools.mcp.listing.listing import KeptListing

        listing = await connection.tools()
        logger.info("MCP server %r has %d tools", self.name, len(listing.tools))
        if self._is_lazy:
            await asyncio.to_thread(KeptListing(self.name, self.settings).keep, listing)
        await self._publish(listing)

    async def _list_again(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(connection.limit_seconds):
                await self._list(connection)
        except TimeoutError:
            if not self._calls:
                raise
            connection.relist()  # many a server answers nothing beside a call, which has its time

    async def _publish(self, listing: Listing | None) -> None:
        """Tells of the tools in a listing; of those in the last one for `None`."""
        async with self._publishing:
            self._listed = listing = listing or self._listed
            self._on_tools([] if listing is None else await self.definitions.read(listing))

    async def _connected(self) -> Connection:
        """The open connection, which the first call of a lazy server opens.

        Raises:
            RetryableError: There is none.
        """
        self._wanted.set()
        if self._is_lazy and self.state in {ServerState.STANDBY, ServerState.STARTING}:
            await self.wait_for(ServerState.READY, ServerState.DOWN, ServerState.STOPPED)
        if self._connection is None or self.state is ServerState.STOPPED:
            raise self.unavailable()
        return self._connection

    async def _call(
        self, tool: str, arguments: Mapping[str, Any], context: ToolContext, effect: ToolEffect
    ) -> ToolResult:
        paused = self._asks.calls.paused(context)
        if paused is not None:
            return to_result(await paused.go_on(context))
        connection = await self._connected()
        self.definitions.check_trust(tool)
        call = call_of(tool, arguments, context, effect)
        self._calls += 1
        sending = partial(send, call, connection, self._following)
        under_way = self._asks.calls.begin(context, sending)
        under_way.on_end(self._ended)
        return to_result(await under_way.go_on(context))

    async def _following(self) -> Connection | None:
        await self.wait_for(ServerState.READY, ServerState.STOPPED)
        return self._connection

    def _ended(self) -> None:
        self._calls -= 1
        self._tell()

    async def _end(self, owner: asyncio.Task[None] | None, *, drain: bool) -> None:
        while drain and self._calls:
            await self._changed.wait()
        if owner is not None:
            owner.cancel()
            await asyncio.wait({owner})

    @property
    def _is_lazy(self) -> bool:
        return self.settings.start == "lazy"

    def _went_down(self, reason: str, last_words: str) -> None:
        self.last_error = f"The MCP server {self.name!r} is down: {reason}{last_words}"
        self._reason = reason
        if self.state is not ServerState.DOWN:
            logger.warning("%s", self.last_error)
        self._set(ServerState.DOWN)

    def _set(self, state: ServerState) -> None:
        if self.state is ServerState.STOPPED and state is not ServerState.STARTING:
            return  # the last words of a connection that is being closed
        self.state = state
        self._tell()

    def _tell(self) -> None:
        """Wakes whoever waits for the server to change."""
        self._changed.set()
        self._changed = asyncio.Event()
