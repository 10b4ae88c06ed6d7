"""The HTTP client of a transport, which answers a failed request with the reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.request import getproxies, proxy_bypass

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from leonidas_tools.files.gradual_reads import read_gradually
from leonidas_tools.mcp.auth.failures import (
    LoginNeededError,
    LoginRequiredError,
    NotAuthorizedError,
    reason,
)
from leonidas_tools.mcp.auth.request_bounds import leads_away
from leonidas_tools.mcp.transport.reasons import PATH_HINT, StrangeAnswerError, status_text, why
from leonidas_tools.redaction.addresses import shown_place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from leonidas_tools.mcp.transport.limits import ResponseLimits

NOT_SENT = 41_000
"""Code of a local error response: the request was not sent, or was refused before it was read."""

SESSION_GONE = 41_001
"""Code of a local error response: the server has dropped the session, so it did nothing."""

WRONG_PATH = 41_004
"""Like `NOT_SENT`, if the server may be at another path."""

LOGIN_NEEDED = 41_005
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
_GIVEN_UP = frozenset({408, 499})
"""Statuses of gateways that no longer wait for the server, which may have received the request."""

_PAGE = f"it answers with a web page; {PATH_HINT}"


FreshHeaders: TypeAlias = "Callable[[httpx2.Request], Awaitable[Mapping[str, str]]]"


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
            return self._failed(request, code, _where(error, request))
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            return self._failed(request, CONNECTION_CLOSED, _where(error, request))
        if response.status_code >= httpx2.codes.BAD_REQUEST:
            return self._refused(request, response, _json_rpc_error(await response.aread()))
        strange = _strange(response)
        return response if strange is None else self._failed(request, *strange)

    async def _authorized(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if self._fresh_headers is not None:
            request.headers.update(await self._fresh_headers(request))
        try:
            response = await super().send(request, **{**options, "stream": True})
            return await self._limits.apply(response)
        except (OAuthFlowError, ValidationError) as error:
            # Raised outside `except`: the cause quotes the response of the authorization server.
            why_not, is_needed = reason(error), isinstance(error, LoginNeededError)
        raise (LoginRequiredError if is_needed else NotAuthorizedError)(why_not, request=request)

    def _refused(
        self, request: httpx2.Request, response: httpx2.Response, error: Mapping[str, Any]
    ) -> httpx2.Response:
        status = response.status_code
        if _SESSION_HEADER in request.headers and (
            status == httpx2.codes.NOT_FOUND
            or (status == httpx2.codes.BAD_REQUEST and error.get("code") == _NO_SESSION)
        ):
            return self._failed(request, SESSION_GONE, "the server no longer knows the session")
        if error:
            return response
        may_have_run = status >= httpx2.codes.INTERNAL_SERVER_ERROR or status in _GIVEN_UP
        if status in WRONG_PATH_STATUSES:
            code = WRONG_PATH
        else:
            code = CONNECTION_CLOSED if may_have_run else NOT_SENT
        return self._failed(request, code, status_text(response))

    def _failed(self, request: httpx2.Request, code: int, what: str) -> httpx2.Response:
        self._on_failure(what)
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": what}}

        return httpx2.Response(503, json=error, request=request)


def _where(error: httpx2.RequestError, request: httpx2.Request) -> str:
    """Return the reason for a failure, and its place if that is not the server."""
    what = why(error)
    asked = error._request  # noqa: SLF001 - the property raises if there is none
    if asked is not None and asked.url.host != request.url.host:
        return f"{what} (at its authorization server, {shown_place(str(asked.url))})"
    proxy = getproxies().get(request.url.scheme)
    if proxy and not proxy_bypass(request.url.host) and isinstance(error, httpx2.ConnectError):
        return f"{what} (through the proxy {shown_place(proxy)})"
    return what


def _strange(response: httpx2.Response) -> tuple[int, str] | None:
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
