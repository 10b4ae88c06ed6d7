"""The ids of unanswered requests; a second request with one of these ids is refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Annotated

from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp_types import (
    INVALID_REQUEST,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response

from leonidas_tools.results.json_size import has_too_many_values

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage, RequestId
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SESSION = "mcp-session-id"
_CANCELLED = "notifications/cancelled"


class UnansweredRequests:
    """The unanswered requests of one client.

    Example:
        >>> requests = UnansweredRequests()
        >>> requests.begin(7), requests.begin("7")
        (True, False)
        >>> requests.end(7), requests.end(7)
        (None, None)
        >>> requests.begin(7)
        True
    """

    def __init__(self) -> None:
        self._ids: Counter[RequestId] = Counter()

    def __len__(self) -> int:
        return len(self._ids)

    def heard(self, message: JSONRPCMessage) -> JSONRPCError | None:
        """Record a message of the client; return an error if the id of a request is in use."""
        if isinstance(message, JSONRPCRequest) and not self.begin(message.id):
            return id_in_use(message.id)
        if isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self.end(cancelled_request_id_from_params(message.params))  # it will not be answered
        return None

    def said(self, message: JSONRPCMessage) -> None:
        """Record a message to the client."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self.end(message.id)

    def begin(self, identifier: RequestId | None) -> bool:
        """Record a request that needs an answer; return whether its id was free."""
        if identifier is None:
            return True
        identifier = coerce_request_id(identifier)
        self._ids[identifier] += 1
        return self._ids[identifier] == 1

    def end(self, identifier: RequestId | None) -> None:
        """Record that a request was answered, or needs no answer any more."""
        if identifier is None:
            return
        identifier = coerce_request_id(identifier)
        self._ids[identifier] -= 1
        if self._ids[identifier] <= 0:
            del self._ids[identifier]


def id_in_use(identifier: RequestId) -> JSONRPCError:
    """Return the error response to a request whose id is in use."""
    error = ErrorData(code=INVALID_REQUEST, message="A request with this id is still running.")
    return JSONRPCError(jsonrpc="2.0", id=identifier, error=error)


class RequestCheck:
    """ASGI middleware that refuses invalid requests before they reach a session.

    It refuses incomplete bodies, bodies with too many values, and requests whose id is in use: the
    transport of the older protocol would send both responses to the last of them. An id is in use
    until its request is answered, even if the client has disconnected.

    The app receives the whole body in one message.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._sessions: dict[str, UnansweredRequests] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await receive()
        refusal = _refusal(body)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        session = Headers(scope=scope).get(_SESSION)
        identifier = _identifier(body["body"])
        if session is None or identifier is None:
            await self._app(scope, _replayed(body, receive), send)
            return
        requests = self._sessions.setdefault(session, UnansweredRequests())
        try:
            if requests.begin(identifier):
                await self._app(scope, _replayed(body, _never), send)
            else:
                text = id_in_use(identifier).model_dump_json(by_alias=True, exclude_unset=True)
                refusal = Response(text, 409, media_type="application/json")
                await refusal(scope, receive, send)
        finally:
            requests.end(identifier)
            if not requests:
                self._sessions.pop(session, None)


class _Request(BaseModel):
    """A JSON-RPC message with an id and a method, parsed as the transport parses it."""

    id: Annotated[int, Field(strict=True)] | str
    method: str


def _refusal(body: Message) -> Response | None:
    """Return the response that refuses a body; `None` if the body is accepted."""
    if body["type"] != "http.request" or body["more_body"]:
        return PlainTextResponse("The request body was not received in time.", 408)
    if has_too_many_values(body["body"]):
        return PlainTextResponse("The request body has too many values.", 413)
    return None


def _identifier(body: bytes) -> RequestId | None:
    """Return the id of a request; `None` if the body is not a request."""
    try:
        return _Request.model_validate_json(body).id
    except ValidationError:
        return None


def _replayed(first: Message, others: Receive) -> Receive:
    """Return a function that receives a message again, and then the others."""
    messages = [first]

    async def receive() -> Message:
        return messages.pop() if messages else await others()

    return receive


async def _never() -> Message:
    """Wait forever, to hide that the client has disconnected."""
    await asyncio.Event().wait()
    raise AssertionError
