"""The HTTP transports: streamable HTTP, and the older server-sent events."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from leonidas_tools.files.gradual_reads import read_gradually
from leonidas_tools.mcp.auth import NotAuthorizedError, client_auth
from leonidas_tools.mcp.features.ongoing_calls import current_context
from leonidas_tools.mcp.transport.http_client import CONNECT_SECONDS, ReportingClient
from leonidas_tools.mcp.transport.limits import ResponseLimits
from leonidas_tools.mcp.transport.tls import tls_context
from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

    from leonidas_tools.mcp.auth.client import OpenPage
    from leonidas_tools.mcp.servers import HeadersHook
    from leonidas_tools.settings.mcp_settings import MCPServerSettings

logger = visible_logger(__name__)

_SILENCE_SECONDS = 300.0
_MAX_SSE_LENGTH = 1024 * 1024 - 1024
"""The longest event that the client library reads over the older transport."""


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
        headers: HeadersHook | None = None,
    ) -> None:
        self._url = str(settings.url)
        self._settings = settings
        self._on_failure = on_failure
        longest = settings.max_message_bytes
        if settings.transport == "sse":
            longest = min(longest, _MAX_SSE_LENGTH)
        self._limits = ResponseLimits(longest, on_bytes=on_bytes, on_stray=on_failure)
        self._name = name
        self._on_secret = on_secret or (lambda _: None)
        self._headers = headers
        self._auth = client_auth(
            name, settings, self._open_login_client, open_page=open_page, on_secret=on_secret
        )

    @asynccontextmanager
    async def streams(
        self,
    ) -> AsyncIterator[tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]]:
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

    async def _read_headers(self, request: httpx2.Request) -> dict[str, str]:
        """Return the headers of the hook; its error fails the request, which is not sent."""
        assert self._headers is not None
        try:
            headers = dict(await self._headers(self._name, current_context()))
        except Exception as error:  # the hook is foreign code, which may raise anything
            logger.warning("The headers for the MCP server %r: %s", self._name, described(error))
            raise NotAuthorizedError(
                "its headers could not be obtained", request=request
            ) from error
        for value in headers.values():
            self._on_secret(value)
            self._on_secret(value.rpartition(" ")[2])  # without `Bearer`
        return headers

    async def _open_login_client(self) -> httpx2.AsyncClient:
        client = httpx2.AsyncClient(verify=await tls_context(self._settings))
        read_gradually(client)
        return client

    @asynccontextmanager
    async def _streamable(
        self, options: dict[str, Any]
    ) -> AsyncIterator[tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]]:
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
    async def _sse(
        self, options: dict[str, Any]
    ) -> AsyncIterator[tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]]:
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
        ) as (read, write):
            yield _Watched(read, lambda: self._on_failure("closed the connection")), write


class _Watched:
    """A stream that calls `on_end` at its end, before its reader is notified."""

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
