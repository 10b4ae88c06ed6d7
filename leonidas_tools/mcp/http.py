"""The HTTP transports: streamable HTTP, and the older server-sent events."""

from __future__ import annotations

import json
import os
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

NOT_SENT = 41_000
"""The code of an answer made here: the request never left, or was refused before it was read."""

SESSION_GONE = 41_001
"""The code of an answer made here: the server has forgotten the session, so it did nothing."""

_CONNECT_SECONDS = 30.0
_SILENCE_SECONDS = 300.0
_GOODBYE_SECONDS = 2.0
_SESSION_HEADER = "mcp-session-id"
_NO_SESSION = -32000
"""What servers on the TypeScript SDK say, with status 400, of a session they do not know."""


class ReportingClient(httpx2.AsyncClient):
    """Answers a failed POST in the server's place, so that it ends one request and no other.

    Left alone, one refused connection ends the transport with all its requests, and every HTTP
    error reads "Server returned an error response".

    Args:
        on_failure: Called with what happened.
        options: As for `httpx2.AsyncClient`.
    """

    def __init__(self, *, on_failure: Callable[[str], None], **options: Any) -> None:
        super().__init__(**options)
        self._on_failure = on_failure

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Sends a request."""
        if request.method == "DELETE":
            request.extensions["timeout"] = httpx2.Timeout(_GOODBYE_SECONDS).as_dict()
        if request.method == "GET":
            # An event stream: nothing comes for as long as the server has nothing to say.
            request.extensions["timeout"] = httpx2.Timeout(_CONNECT_SECONDS, read=None).as_dict()
        if request.method != "POST":
            return await super().send(request, **options)
        try:
            response = await super().send(request, **options)
            if response.status_code < httpx2.codes.BAD_REQUEST:
                return response
            return self._refused(request, response, _json_rpc_error(await response.aread()))
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return self._failed(request, NOT_SENT, why(error))
        except httpx2.TransportError as error:
            return self._failed(request, CONNECTION_CLOSED, why(error))

    def _refused(
        self, request: httpx2.Request, response: httpx2.Response, error: Mapping[str, Any]
    ) -> httpx2.Response:
        status = response.status_code
        if _SESSION_HEADER in request.headers and (
            status == httpx2.codes.NOT_FOUND
            or (status == httpx2.codes.BAD_REQUEST and error.get("code") == _NO_SESSION)
        ):
            return self._failed(request, SESSION_GONE, "the server has forgotten the session")
        if error:
            return response
        code = NOT_SENT if status < httpx2.codes.INTERNAL_SERVER_ERROR else CONNECTION_CLOSED
        return self._failed(request, code, _status_text(response))

    def _failed(self, request: httpx2.Request, code: int, what: str) -> httpx2.Response:
        self._on_failure(what)
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": what}}
        return httpx2.Response(503, json=error, request=request)


@asynccontextmanager
async def http_streams(
    url: str, headers: dict[str, str], on_failure: Callable[[str], None]
) -> AsyncIterator[tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]]:
    """Opens streamable HTTP.

    Args:
        url: Where the server is.
        headers: Sent with every request.
        on_failure: Called when a request fails.
    """
    timeout = httpx2.Timeout(_CONNECT_SECONDS, read=_SILENCE_SECONDS)
    async with (
        ReportingClient(on_failure=on_failure, headers=headers, timeout=timeout) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


@asynccontextmanager
async def sse_streams(
    url: str, headers: dict[str, str], on_lost: Callable[[str], None]
) -> AsyncIterator[tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]]:
    """Opens server-sent events.

    Args:
        url: Where the server is.
        headers: Sent with every request.
        on_lost: Called when the stream ends or a request fails, which ends the connection.
    """

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return ReportingClient(on_failure=on_lost, headers=headers, timeout=timeout, auth=auth)

    async with sse_client(
        url, headers=headers, timeout=_CONNECT_SECONDS, httpx_client_factory=client
    ) as (read, write):
        yield _Watched(read, lambda: on_lost("closed the connection")), write


class _Watched:
    """A stream that tells when it ends, before its reader knows."""

    def __init__(
        self, stream: ReadStream[SessionMessage | Exception], on_end: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._on_end = on_end

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.aclose()


def why(error: BaseException) -> str:
    """Why a request failed, in a few words."""
    if isinstance(error, httpx2.HTTPStatusError):
        return _status_text(error.response)
    cause = _os_error(error)
    if isinstance(cause, socket.gaierror):
        return "the name of its host is not known"
    if cause is not None and cause.errno is not None:
        return os.strerror(cause.errno).lower()
    if isinstance(error, httpx2.TimeoutException):
        return "it took too long to connect or to answer"
    return "the connection broke"


def _status_text(response: httpx2.Response) -> str:
    return f"HTTP {response.status_code} {response.reason_phrase}".strip()


def _os_error(error: BaseException | None) -> OSError | None:
    """The operating system's error behind an error, if there is one."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, OSError) and error.errno is not None:
            return error
        error = error.__cause__ or error.__context__
    return None


def _json_rpc_error(body: bytes) -> dict[str, Any]:
    """The error in a JSON-RPC answer; empty if there is none."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}
