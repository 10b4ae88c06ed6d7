"""One MCP server: its state, its tools, its calls, and the task that keeps it connected."""

from __future__ import annotations

import asyncio
import importlib
import math
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from leonidas_tools.mcp.calls.call import call_of, server_down
from leonidas_tools.mcp.connection.reconnect import keep_connected, send
from leonidas_tools.mcp.features.ongoing_calls import OngoingCalls
from leonidas_tools.mcp.listing.definitions import AnyTool, DefinitionReader
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from leonidas_tools.calls.call import ToolResult
    from leonidas_tools.calls.context import ToolContext
    from leonidas_tools.errors import RetryableError
    from leonidas_tools.mcp.connection.connection import MCPConnection
    from leonidas_tools.mcp.listing.listing import Listing
    from leonidas_tools.mcp.servers import HeadersHook
    from leonidas_tools.settings.models import MCPServerSettings
    from leonidas_tools.tools.tool import ToolEffect

logger = visible_logger(__name__)

_CONNECTION = "leonidas_tools.mcp.connection.connection"


class ServerState(StrEnum):
    """The state of a server."""

    STARTING = "starting"
    STANDBY = "standby"
    READY = "ready"
    DOWN = "down"
    STOPPED = "stopped"


class MCPServer:
    """One MCP server: connects in the background, reconnects after a loss, and runs calls.

    A server with `start: lazy` connects for its first call. If no earlier session has cached its
    tools, the server first connects once to list them, and then waits in standby.
    """

    def __init__(
        self,
        name: str,
        settings: MCPServerSettings,
        on_tools: Callable[[list[AnyTool]], None],
        headers: HeadersHook | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.state = ServerState.STOPPED
        self.last_error: str | None = None
        """Reason of the last failure of the server, in a sentence."""
        self._reason: str = say("mcp_not_started")
        self._on_tools = on_tools
        self._headers = headers
        self._ongoing = OngoingCalls()
        self.definitions = DefinitionReader(name, settings, self._call)
        self._listed: Listing | None = None
        self._publishing = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._connection: MCPConnection | None = None
        self._owner: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._calls = 0
        self._discovers = True
        """Whether connections begin with `server/discover`; some servers do not survive it."""

    def start(self) -> None:
        """Start to connect in the background, unless this was started before."""
        if self._owner is not None:
            return
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        if not self._is_lazy:
            self._wanted.set()
        self._reason = say("mcp_starting")
        self._set(ServerState.STARTING)
        self._owner = asyncio.create_task(self._keep_connected(), name=f"mcp:{self.name}")

    def stop(self, *, drain: bool = False) -> Coroutine[Any, Any, None]:
        """Refuse new calls at once, and return a coroutine that disconnects.

        The process of a server over stdio is ended with all its child processes. With `drain`,
        running calls may finish first; no other call starts, and no question is asked.
        """
        owner, self._owner = self._owner, None
        if owner is not None:
            self._reason = say("mcp_stopped")
            self.state = ServerState.STOPPED
            self._notify()
            self._ongoing.close()
        return self._end(owner, drain=drain)

    async def wait_for(self, *states: ServerState) -> ServerState:
        """Wait until the server is in one of these states."""
        while self.state not in states:
            await self._changed.wait()
        return self.state

    async def wait_until_tried(self) -> None:
        """Wait until connecting has succeeded or failed."""
        while self.is_starting:
            await self._changed.wait()

    @property
    def is_starting(self) -> bool:
        """Return whether connecting has neither succeeded nor failed."""
        return self.state is ServerState.STARTING

    @property
    def is_usable(self) -> bool:
        """Return whether calls are accepted: connected, or about to connect with the next call."""
        return self.state in {ServerState.READY, ServerState.STANDBY}

    def apply(self, settings: MCPServerSettings) -> None:
        """Apply settings that need no new connection."""
        self.settings = self.definitions.settings = settings
        if self._connection is not None:
            self._connection.relist(settings)

    @property
    def is_stale(self) -> bool:
        """Return whether settings or trusted definitions have changed since the tools were read."""
        return self.definitions.are_stale

    async def reread(self) -> None:
        """Read the tools again, from the server if it is connected."""
        if self._connection is not None:
            self._connection.relist()
        elif self._listed is not None:
            await self._publish(None)

    def unavailable(self) -> RetryableError:
        """Return the error of a call while the server is not connected."""
        return server_down(self.name, self._reason)

    def status(self) -> dict[str, Any]:
        """Return the status as plain JSON."""
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

    async def _keep_connected(self) -> None:
        """Keep the server connected until cancelled."""
        try:
            await _import(_CONNECTION)
        except ImportError as error:
            self._on_down(f"the package {error.name!r} is not installed", "")
            return
        me = asyncio.current_task()
        await keep_connected(
            until_needed=self._wait_for_call, serve=self._serve, is_wanted=lambda: self._owner is me
        )

    async def _wait_for_call(self) -> None:
        """Wait until a call needs the server; return at once if its tools are unknown."""
        from leonidas_tools.mcp.listing.listing import ListingCache

        if self._wanted.is_set():
            return
        if self._listed is None:
            listing = await asyncio.to_thread(ListingCache(self.name, self.settings).load)
            if listing is None:
                return
            await self._publish(listing)
        self._set(ServerState.STANDBY)
        await self._wanted.wait()
        self._set(ServerState.STARTING)

    async def _serve(self) -> float | None:
        """Connect, and serve calls until the connection ends.

        Return the seconds that a lost connection was ready. Return `None` if the next connection
        needs no delay: the server has ended the session, does not know `server/discover`, or waits
        in standby.
        """
        from leonidas_tools.mcp.connection.connection import MCPConnection

        connection = MCPConnection(
            self.name,
            self.settings,
            self._ongoing,
            discovers=self._discovers,
            headers=self._headers,
        )
        now = asyncio.get_running_loop().time
        ready_at = math.inf
        try:
            async with asyncio.timeout(connection.limit_seconds) as limit, connection:
                try:
                    await self._list(connection)
                finally:
                    if not limit.expired():
                        limit.reschedule(None)
                self._discovers = not connection.needs_initialize
                if not self._wanted.is_set():
                    self._set(ServerState.STANDBY)
                    return None
                ready_at = now()
                await self._serve_until_lost(connection)
            return None if connection.is_session_gone else now() - ready_at
        except Exception as error:  # noqa: BLE001 - any error means that the server is down
            return self._handle_failure(connection, error, max(now() - ready_at, 0.0))
        finally:
            if self._connection is connection:  # another connection may be open by now
                self._connection = None

    async def _serve_until_lost(self, connection: MCPConnection) -> None:
        self._connection = connection
        self._set(ServerState.READY)
        while await connection.wait_for_change():
            await self._list_again(connection)
        # Before the connection is closed, which may take a while.
        if connection.is_session_gone:
            self._connection = None
            self._set(ServerState.STARTING)
        else:
            self._on_down(connection.explain(None), connection.last_output)

    def _handle_failure(
        self, connection: MCPConnection, error: Exception, ready_seconds: float
    ) -> float | None:
        # Only the type: the text may contain addresses.
        logger.debug("MCP server %r: %s", self.name, type(error).__name__)
        if not ready_seconds:
            # After a failure with `initialize` alone, the next attempt begins with discovery.
            self._discovers = not (self._discovers and connection.needs_initialize)
            if not self._discovers:
                return None
        self._on_down(connection.explain(error), connection.last_output)
        return ready_seconds

    async def _list(self, connection: MCPConnection) -> None:
        from leonidas_tools.mcp.listing.listing import ListingCache

        listing = await connection.tools()
        logger.info("MCP server %r has %d tools", self.name, len(listing.tools))
        if self._is_lazy:
            await asyncio.to_thread(ListingCache(self.name, self.settings).keep, listing)
        await self._publish(listing)

    async def _list_again(self, connection: MCPConnection) -> None:
        try:
            async with asyncio.timeout(connection.limit_seconds):
                await self._list(connection)
        except TimeoutError:
            if not self._calls:
                raise
            connection.relist()  # many servers are silent during a call, which has its own timeout

    async def _publish(self, listing: Listing | None) -> None:
        """Publish the tools of a listing, or of the last listing if it is `None`."""
        async with self._publishing:
            self._listed = listing = listing or self._listed
            self._on_tools([] if listing is None else await self.definitions.read(listing))

    async def _ensure_connected(self) -> MCPConnection:
        """Return the open connection, which the first call of a lazy server opens."""
        self._wanted.set()
        if self._is_lazy and self.state in {ServerState.STANDBY, ServerState.STARTING}:
            await self.wait_for(ServerState.READY, ServerState.DOWN, ServerState.STOPPED)
        if self._connection is None or self.state is ServerState.STOPPED:
            raise self.unavailable()
        return self._connection

    async def _call(
        self, tool: str, arguments: Mapping[str, Any], context: ToolContext, effect: ToolEffect
    ) -> ToolResult:
        paused = self._ongoing.take_paused(context)
        if paused is not None:
            return await paused.resume(context)
        connection = await self._ensure_connected()
        self.definitions.check_trust(tool)
        call = call_of(tool, arguments, context, effect)
        self._calls += 1
        sending = partial(send, call, connection, self._next_connection)
        ongoing = self._ongoing.begin(context, sending)
        ongoing.on_end(self._on_call_end)
        return await ongoing.resume(context)

    async def _next_connection(self, before: MCPConnection) -> MCPConnection | None:
        while self._connection is before:
            await self._changed.wait()
        await self.wait_for(ServerState.READY, ServerState.STOPPED)
        return self._connection

    def _on_call_end(self) -> None:
        self._calls -= 1
        self._notify()

    async def _end(self, owner: asyncio.Task[None] | None, *, drain: bool) -> None:
        while drain and self._calls:
            await self._changed.wait()
        if owner is not None:
            owner.cancel()
            await asyncio.wait({owner})

    @property
    def _is_lazy(self) -> bool:
        return self.settings.start == "lazy"

    def _on_down(self, reason: str, last_output: str) -> None:
        self.last_error = f"The MCP server {self.name!r} is down: {reason}{last_output}"
        self._reason = reason
        if self.state is not ServerState.DOWN:
            logger.warning("%s", self.last_error)
        self._set(ServerState.DOWN)

    def _set(self, state: ServerState) -> None:
        if self.state is ServerState.STOPPED and state is not ServerState.STARTING:
            return  # a connection that is being closed reports its end
        self.state = state
        self._notify()

    def _notify(self) -> None:
        """Wake all tasks that wait for a change of state."""
        self._changed.set()
        self._changed = asyncio.Event()


async def _import(module: str) -> None:
    """Import a module in a thread, because the client library takes half a second."""
    # Even if it seems loaded: while another server imports it, its lock would block the loop.
    worker = ThreadPoolExecutor(1, thread_name_prefix="leonidas-mcp-import")
    try:
        await asyncio.get_running_loop().run_in_executor(worker, importlib.import_module, module)
    finally:
        worker.shutdown(wait=False)
