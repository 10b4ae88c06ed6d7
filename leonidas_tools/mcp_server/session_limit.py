"""Make room for a new session, so that silent ones cannot lock out other clients."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = visible_logger(__name__)

_SESSION = "mcp-session-id"
_REFUSED, _NOT_FOUND = 400, 404


class SessionLimit:
    """An ASGI app before that of the sessions, which refuses new ones once it has too many.

    Before that, the session is ended that has been silent longest, if no request of it is being
    answered: its client is told so with its next request, and opens another one.

    Args:
        app: Answers the requests of sessions.
        most: How many sessions it has at most.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._open: OrderedDict[str, None] = OrderedDict()  # the one silent longest comes first
        self._requests: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        session = Headers(scope=scope).get(_SESSION)
        if session is None and len(self._open) >= self._most:
            await self._make_room(scope)
        begun: list[str] = []

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                opened = Headers(raw=message["headers"]).get(_SESSION)
                if session is None and opened is not None:
                    begun.append(opened)
                    self._begin(opened)
                elif session is not None and _is_over(scope["method"], message["status"]):
                    self._open.pop(session, None)
            await send(message)

        if session is not None and session in self._open:
            begun.append(session)
            self._begin(session)
        try:
            await self._app(scope, receive, watch)
        finally:
            for each in begun:
                self._end(each)

    def _begin(self, session: str) -> None:
        self._open[session] = None
        self._requests[session] += 1

    def _end(self, session: str) -> None:
        self._requests[session] -= 1
        if not self._requests[session]:
            del self._requests[session]
        if session in self._open:
            self._open.move_to_end(session)

    async def _make_room(self, scope: Scope) -> None:
        """End the session that has been silent longest, unless all are being answered."""
        silent = next((each for each in self._open if each not in self._requests), None)
        if silent is None:
            return
        del self._open[silent]
        logger.info("A session that was silent longest is ended: %d are open", self._most)

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def ignore(_: Message) -> None:
            pass

        headers = [(_SESSION.encode(), silent.encode()), (b"accept", b"application/json")]
        await self._app({**scope, "method": "DELETE", "headers": headers}, receive, ignore)


def _is_over(method: str, status: int) -> bool:
    """Return whether an answer says that its session has ended."""
    return status == _NOT_FOUND or (method == "DELETE" and status < _REFUSED)
