"""One tool session for each MCP connection."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeAlias

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.calls.call import ToolSession
from leonidas_tools.tools.preferred import PreferredTools

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext

    from leonidas_tools.approvals.request import Channel

Context: TypeAlias = "ServerRequestContext[Any, Any]"

_KEY = "leonidas_tools.session"


class Sessions:
    """The sessions of the connected clients.

    Each connection of the older protocol has one session, and so does a pipe. The newer protocol
    has no sessions over HTTP. There, all requests from one address and one program, identified by
    its name and version, share a session.

    `tell` is called when a session has found tools, which are listed from then on. Of the programs
    over HTTP, the `most` recent ones keep their session; any other one starts a new session.
    """

    def __init__(self, channel: Channel, tell: Callable[[], None], most: int) -> None:
        self._channel = channel
        self._tell = tell
        self._most = most
        self._callers: OrderedDict[Hashable, ToolSession] = OrderedDict()
        self.connections: set[Connection] = set()
        """The open connections of the older protocol, whose clients are notified of changes."""

    def of(self, context: Context) -> ToolSession:
        """Return the session of a request."""
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return self._of_caller(_caller(context))
        connection = connection_of(context)
        session: ToolSession | None = connection.state.get(_KEY)
        if session is None:
            session = connection.state[_KEY] = self._new()
            self.connections.add(connection)
            connection.exit_stack.callback(self._end, connection, session)
        return session

    def _of_caller(self, caller: Hashable) -> ToolSession:
        session = self._callers.get(caller)
        if session is None:
            session = self._callers[caller] = self._new()
        self._callers.move_to_end(caller)
        if len(self._callers) > self._most:
            self._callers.popitem(last=False)
        return session

    def _new(self) -> ToolSession:
        session = ToolSession()
        session.get(SessionPolicy).channel = self._channel
        session.get(PreferredTools).on_change(self._tell)
        return session

    def _end(self, connection: Connection, session: ToolSession) -> None:
        self.connections.discard(connection)
        session.get(Approvals).withdraw_all()


def connection_of(context: Context) -> Connection:
    """Return the connection of a request, which in the newer protocol lasts only as long."""
    connection: Connection = context.session._connection  # noqa: SLF001 - no public API returns it
    return connection


def _caller(context: Context) -> Hashable:
    """Return the best available identity of a client of the newer protocol."""
    if context.request is None:
        return None
    said, address = context.session.client_params, context.request.client
    return (
        None if address is None else address.host,
        None if said is None else (said.client_info.name, said.client_info.version),
    )
