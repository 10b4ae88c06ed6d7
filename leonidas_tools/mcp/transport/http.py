"""The HTTP transports: streamable HTTP, and the older server-sent events."""

from __future__ import annotations

import json
import re
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.request import getproxies, proxy_bypass

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from leonidas_tools.files.gradual_reads import read_gradually
from leonidas_tools.mcp.auth import client_auth
from leonidas_tools.mcp.auth.failures import (
    LoginNeededError,
    LoginRequiredError,
    NotAuthorizedError,
    reason,
)
from leonidas_tools.mcp.auth.request_bounds import leads_away
from leonidas_tools.mcp.transport.limits import ResponseLimits
from leonidas_tools.mcp.transport.reasons import (
    PATH_HINT,
    StrangeAnswerError,
    request_reason,
    status_text,
)
from leonidas_tools.mcp.transport.tls import tls_context
from leonidas_tools.redaction import described
from leonidas_tools.redaction.addresses import shown_place
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

    from leonidas_tools.mcp.auth.client import OpenPage
    from leonidas_tools.settings.mcp_settings import MCPServerSettings

    Streams: TypeAlias = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]

logger = visible_logger(__name__)

NOT_SENT = secrets.randbits(48)
"""Code of a local error response: the request was not sent, or was refused before it was read.

The call may be sent again: a server must not be able to respond with this code, or with the next.
"""

SESSION_GONE = NOT_SENT + 1
"""Code of a local error response: the server has dropped the session, so it did nothing."""

WRONG_PATH = NOT_SENT + 2
"""Like `NOT_SENT`, if the server may be at another path."""

LOGIN_NEEDED = NOT_SENT + 3
"""Like `NOT_SENT`, if the user must log in."""

UNSENT = frozenset({NOT_SENT, WRONG_PATH, LOGIN_NEEDED})

WRONG_PATH_STATUSES = frozenset({
    httpx2.codes.BAD_REQUEST, httpx2.codes.NOT_FOUND, httpx2.codes.METHOD_NOT_ALLOWED,
})  # fmt: skip
CONNECT_SECONDS = 30.0
_GOODBYE_SECONDS = 2.0
_SESSION_HEADER = "mcp-session-id"
_NO_SESSION = -32000
"""Error code of servers on the TypeScript SDK, with status 400, for an unknown session."""
_OF_SESSION = re.compile("session|not initialized", re.IGNORECASE)
"""The message of an error about the session; any other error is the response to the call."""
_GIVEN_UP = frozenset({408, 499})
"""Statuses of gateways that no longer wait for the server, which may have received the request."""

_SILENCE_SECONDS = 300.0
_MAX_SSE_LENGTH = 1024 * 1024 - 1024
"""The longest event that the client library reads over the older transport."""


_PAGE = f"it answers with a web page; {PATH_HINT}"


FreshHeaders: TypeAlias = "Callable[[httpx2.Request], Awaitable[Mapping[str, str]]]"


class HTTPServer:
    """A server over HTTP, opened by `streams()`.

    `on_failure` is called when a request fails and, with transport `sse`, when the connection ends.
    `on_secret` is called with each received token, so that the token can be masked. Without
    `open_page`, no login is possible. `headers` returns more headers for each request.
    """

    def __init__(  # noqa: PLR0913 - each is left out as a rule
        self,
        name: str,
        settings: MCPServerSettings,
        on_failure: Callable[[str], None],
        *,
        on_bytes: Callable[[], None] = lambda: None,
        on_secret: Callable[[str], None] | None = None,
        open_page: OpenPage | None = None,
        headers: Callable[[], Awaitable[Mapping[str, str]]] | None = None,
    ) -> None:
        self._url = str(settings.url)
        self._settings = settings
        self._on_failure = on_failure
        longest = settings.max_message_bytes
        if settings.transport == "sse":
            longest = min(longest, _MAX_SSE_LENGTH)
        self._limits = ResponseLimits(longest, on_bytes=on_bytes, on_stray=on_failure)
        self._name = name
        self._headers = headers
        self._auth = client_auth(
            name, settings, self._open_login_client, open_page=open_page, on_secret=on_secret
        )

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """Open the transport.

        Raises:
            ConfigurationError: The `ca_file` cannot be used.
        """
        options = {
            "on_failure": self._on_failure,
            "limits": self._limits,
            "fresh_headers": None if self._headers is None else self._read_headers,
            "verify": await tls_context(self._settings),
        }
        opened = self._sse if self._settings.transport == "sse" else self._streamable
        try:
            async with opened(options) as streams:
                yield streams
        finally:
            if self._auth is not None:
                await self._auth.settle()

    async def _read_headers(self, request: httpx2.Request) -> Mapping[str, str]:
        """Return the headers of the hook; its error fails the request, which is not sent."""
        assert self._headers is not None
        try:
            return await self._headers()
        except Exception as error:  # the hook is foreign code, which may raise anything
            logger.warning("The headers for the MCP server %r: %s", self._name, described(error))
            reason = "its headers could not be obtained"
            raise NotAuthorizedError(reason, request=request) from error

    async def _open_login_client(self) -> httpx2.AsyncClient:
        client = httpx2.AsyncClient(verify=await tls_context(self._settings))
        read_gradually(client)
        return client

    @asynccontextmanager
    async def _streamable(self, options: dict[str, Any]) -> AsyncIterator[Streams]:
        async with (
            ReportingClient(
                headers=dict(self._settings.headers),
                auth=self._auth,
                timeout=httpx2.Timeout(CONNECT_SECONDS, read=_SILENCE_SECONDS),
                **options,
            ) as client,
            streamable_http_client(
                self._url, http_client=client, max_sse_event_size=2 * self._limits.longest
            ) as streams,
        ):
            yield streams

    @asynccontextmanager
    async def _sse(self, options: dict[str, Any]) -> AsyncIterator[Streams]:
        def client(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            return ReportingClient(headers=headers, timeout=timeout, auth=auth, **options)

        async with sse_client(
            self._url,
            headers=dict(self._settings.headers),
            timeout=CONNECT_SECONDS,
            httpx_client_factory=client,
            auth=self._auth,
        ) as streams:
            yield streams


class ReportingClient(httpx2.AsyncClient):
    """Answers a failed POST with an error response, so that the failure ends only one request.

    Otherwise, one refused connection ends the transport with all its requests. Every HTTP error has
    the message "Server returned an error response".
    """

    def __init__(
        self,
        *,
        on_failure: Callable[[str], None],
        limits: ResponseLimits,
        fresh_headers: FreshHeaders | None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        read_gradually(self)
        self._on_failure = on_failure
        self._limits = limits
        self._fresh_headers = fresh_headers

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request."""
        if request.method == "DELETE":
            request.extensions["timeout"] = httpx2.Timeout(_GOODBYE_SECONDS).as_dict()
        if request.method == "GET":
            # An event stream: it is silent while the server has nothing to send.
            request.extensions["timeout"] = httpx2.Timeout(CONNECT_SECONDS, read=None).as_dict()
        if request.method != "POST":
            response = await self._authorized(request, **options)
            if _is_page(response):
                raise StrangeAnswerError(_PAGE, request=request)
            return response
        try:
            response = await self._authorized(request, **options)
        except (
            httpx2.ConnectError,
            httpx2.ConnectTimeout,
            httpx2.PoolTimeout,
            httpx2.ProxyError,
            NotAuthorizedError,
        ) as error:
            code = LOGIN_NEEDED if isinstance(error, LoginRequiredError) else NOT_SENT
            return self._fail(request, code, _explain(error, request))
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            return self._fail(request, CONNECTION_CLOSED, _explain(error, request))
        if response.status_code >= httpx2.codes.BAD_REQUEST:
            return self._convert_refusal(request, response, _json_rpc_error(await response.aread()))
        problem = _find_problem(response)
        return response if problem is None else self._fail(request, *problem)

    async def _authorized(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if self._fresh_headers is not None:
            request.headers.update(await self._fresh_headers(request))
        try:
            response = await super().send(request, **{**options, "stream": True})
            return await self._limits.apply(response)
        except (OAuthFlowError, ValidationError) as error:
            # Raised outside `except`: the cause quotes the response of the authorization server.
            text, is_needed = reason(error), isinstance(error, LoginNeededError)
        raise (LoginRequiredError if is_needed else NotAuthorizedError)(text, request=request)

    def _convert_refusal(
        self, request: httpx2.Request, response: httpx2.Response, error: Mapping[str, Any]
    ) -> httpx2.Response:
        status = response.status_code
        if _SESSION_HEADER in request.headers and _is_session_gone(status, error):
            return self._fail(request, SESSION_GONE, "the server no longer knows the session")
        if error:
            return response
        may_have_run = status >= httpx2.codes.INTERNAL_SERVER_ERROR or status in _GIVEN_UP
        if status in WRONG_PATH_STATUSES:
            code = WRONG_PATH
        else:
            code = CONNECTION_CLOSED if may_have_run else NOT_SENT
        return self._fail(request, code, status_text(response))

    def _fail(self, request: httpx2.Request, code: int, reason: str) -> httpx2.Response:
        self._on_failure(reason)
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": reason}}

        return httpx2.Response(503, json=error, request=request)


def _is_session_gone(status: int, error: Mapping[str, Any]) -> bool:
    """Return whether a refused request named a session that the server does not know."""
    if not error:
        return status == httpx2.codes.NOT_FOUND
    is_gone = status == httpx2.codes.NOT_FOUND or (
        status == httpx2.codes.BAD_REQUEST and error.get("code") == _NO_SESSION
    )
    return is_gone and _OF_SESSION.search(str(error.get("message"))) is not None


def _explain(error: httpx2.RequestError, request: httpx2.Request) -> str:
    """Return the reason for a failure, and its place if that is not the server."""
    reason = request_reason(error)
    asked = error._request  # noqa: SLF001 - the property raises if there is none
    if asked is not None and asked.url.host != request.url.host:
        return f"{reason} (at its authorization server, {shown_place(str(asked.url))})"
    proxy = getproxies().get(request.url.scheme)
    if proxy and not proxy_bypass(request.url.host) and isinstance(error, httpx2.ConnectError):
        return f"{reason} (through the proxy {shown_place(proxy)})"
    return reason


def _find_problem(response: httpx2.Response) -> tuple[int, str] | None:
    """Return the error for a redirect to another origin or a web page; `None` without an error."""
    if leads_away(response):
        return NOT_SENT, status_text(response)
    return (WRONG_PATH, _PAGE) if _is_page(response) else None


def _is_page(response: httpx2.Response) -> bool:
    kind = response.headers.get("content-type", "").lower()
    return response.is_success and kind.startswith("text/html")


def _json_rpc_error(body: bytes) -> dict[str, Any]:
    """Return the error in a JSON-RPC response; empty if there is none."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {}
