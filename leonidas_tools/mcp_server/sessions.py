"""One tool session for each MCP session, or for each request where the protocol has none."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeAlias

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.calls.call import ToolSession
from leonidas_tools.calls.open_calls import OpenCalls
from leonidas_tools.policies.call_limits import CallCounts
from leonidas_tools.results.spill import Results
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

    A session of the older protocol has one, and so has a pipe. The newer protocol has no sessions
    over HTTP, and nothing in a request identifies its client: each request has a new session, of
    which nothing is kept. Only the limits of calls count for all requests from one address and one
    program, identified by its name and version.

    `notify` is called when a session has found tools, which are listed from then on. The limits
    of the `max_callers` most recent programs are counted. `single_client` is whether the server
    has only one client, as over a pipe.
    """

    def __init__(
        self, channel: Channel, notify: Callable[[], None], max_callers: int, *, single_client: bool
    ) -> None:
        self._channel = channel
        self._notify = notify
        self._max_callers = max_callers
        self._counts: OrderedDict[Hashable, tuple[CallCounts, OpenCalls]] = OrderedDict()
        self._single = self._new() if single_client else None
        self.connections: set[Connection] = set()
        """The open connections of the older protocol, whose clients are notified of changes."""

    def of(self, context: Context) -> ToolSession:
        """Return the session of a request."""
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return self._single or self._build_request_session(context)
        connection = context.session._connection  # noqa: SLF001 - no public API returns it
        session: ToolSession | None = connection.state.get(_KEY)
        if session is None:
            session = connection.state[_KEY] = self._single or self._new()
            self.connections.add(connection)
            connection.exit_stack.callback(self._end, connection, session)
        return session

    def _new(self) -> ToolSession:
        session = ToolSession()
        session.get(SessionPolicy).channel = self._channel
        session.get(PreferredTools).on_change(self._notify)
        return session

    def _build_request_session(self, context: Context) -> ToolSession:
        session, caller = ToolSession(), caller_of(context)
        session.get(SessionPolicy).channel = self._channel
        session.put(Results(keeps=False))
        calls, open_calls = self._counts.setdefault(caller, (CallCounts(), OpenCalls()))
        self._counts.move_to_end(caller)
        if len(self._counts) > self._max_callers:
            self._counts.popitem(last=False)
        session.put(calls)
        session.put(open_calls)
        return session

    def _end(self, connection: Connection, session: ToolSession) -> None:
        self.connections.discard(connection)
        session.get(Approvals).withdraw_all()


def caller_of(context: Context) -> Hashable:
    """Return the address and the program of a request over HTTP; several clients may share them."""
    if context.request is None:
        return None
    params, address = context.session.client_params, context.request.client
    return (
        None if address is None else address.host,
        None if params is None else (params.client_info.name, params.client_info.version),
    )
