"""Check the connection to a server over HTTP: name, port, TLS; find another path that answers."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from mcp.shared.exceptions import MCPError

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp.auth import LoginRequiredError
from leonidas_tools.mcp.doctor.check_result import CheckResult, failed, ok
from leonidas_tools.mcp.transport.http import LOGIN_NEEDED, WRONG_PATH, WRONG_PATH_STATUSES
from leonidas_tools.mcp.transport.reasons import (
    StrangeAnswerError,
    breaks_protocol,
    request_reason,
    root_error,
)
from leonidas_tools.mcp.transport.tls import tls_context, tls_reason
from leonidas_tools.redaction.addresses import shown_place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leonidas_tools.settings.mcp_settings import MCPServerSettings

_SECONDS = 10.0
_MAX_BYTES = 64 * 1024
_OTHER_PATHS = ("/mcp", "/sse", "/mcp/", "/")
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "leonidas-tools", "version": "0"},
    },
}


async def check_address(settings: MCPServerSettings) -> AsyncIterator[CheckResult]:
    """Resolve the host, connect, and negotiate TLS; stop at the first failure."""
    parts = urlsplit(str(settings.url))
    host = str(parts.hostname)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    proxy = getproxies().get(parts.scheme)
    if proxy and not proxy_bypass(host):
        yield ok("proxy", f"{shown_place(proxy)}, from the system settings")
        return
    for check in (_check_name, _check_port):
        finding = await check(host, port)
        yield finding
        if finding.outcome == "failed":
            return
    if parts.scheme == "https":
        yield await _check_tls(settings, host, port)


async def find_server(settings: MCPServerSettings) -> str | None:
    """Return another URL of the same host at which an MCP server answers, if there is one."""
    parts = urlsplit(str(settings.url))
    try:
        context = await tls_context(settings)
    except ConfigurationError:
        return None
    async with httpx2.AsyncClient(
        verify=context, timeout=_SECONDS, headers=dict(settings.headers)
    ) as client:
        for path in _OTHER_PATHS:
            url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
            if path != parts.path and await _speaks_mcp(client, url):
                return shown_place(url)
    return None


def is_wrong_path(error: Exception) -> bool:
    """Return whether an error suggests that another path of the same host is right."""
    match root_error(error):
        case MCPError() as refused:
            return refused.code == WRONG_PATH
        case httpx2.HTTPStatusError() as refused:
            return refused.response.status_code in WRONG_PATH_STATUSES
        case StrangeAnswerError():
            return True
        case cause:
            return breaks_protocol(cause)


def needs_login(error: Exception) -> bool:
    """Return whether an error means that the user must log in."""
    match root_error(error):
        case MCPError() as refused:
            return refused.code == LOGIN_NEEDED
        case cause:
            return isinstance(cause, LoginRequiredError)


async def _check_name(host: str, port: int) -> CheckResult:
    begun = time.perf_counter()
    try:
        async with asyncio.timeout(_SECONDS):
            infos = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )
    except (OSError, TimeoutError):
        return failed(
            "name",
            f"{host!r} cannot be resolved",
            "correct the host of the url; or check the network, such as a VPN",
        )
    addresses = ", ".join(dict.fromkeys(str(each[4][0]) for each in infos))
    return ok("name", addresses, time.perf_counter() - begun)


async def _check_port(host: str, port: int) -> CheckResult:
    begun = time.perf_counter()
    try:
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return failed(
            "connection",
            f"port {port} did not respond within {_SECONDS:g} s",
            "a firewall may block it",
        )
    except OSError as error:
        return failed(
            "connection",
            f"port {port}: {request_reason(error)}",
            "start the server, or correct the port of the url",
        )
    writer.close()
    return ok("connection", f"port {port} is open", time.perf_counter() - begun)


async def _check_tls(settings: MCPServerSettings, host: str, port: int) -> CheckResult:
    begun = time.perf_counter()
    try:
        context = await tls_context(settings)
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except ConfigurationError as error:
        return failed("TLS", error.message)
    except ssl.SSLError as error:
        message, _, hint = tls_reason(error).partition("; ")
        return failed("TLS", message, hint or None)
    except (OSError, TimeoutError) as error:
        return failed("TLS", request_reason(error))
    certificate = writer.get_extra_info("peercert") or {}
    writer.close()
    until = certificate.get("notAfter")
    return ok(
        "TLS",
        "the certificate is trusted" + (f", and valid until {until}" if until else ""),
        time.perf_counter() - begun,
    )


async def _speaks_mcp(client: httpx2.AsyncClient, url: str) -> bool:
    headers = {"Accept": "application/json, text/event-stream"}
    try:
        if url.endswith("/sse"):
            async with client.stream("GET", url, headers=headers) as response:
                return _is_stream(response)
        async with client.stream("POST", url, json=_HELLO, headers=headers) as response:
            kind = response.headers.get("content-type", "")
            if _is_stream(response):
                return True
            if not kind.startswith("application/json"):
                return False
            body = b""
            async with asyncio.timeout(_SECONDS):
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > _MAX_BYTES:
                        break
            return b'"jsonrpc"' in body
    except (httpx2.HTTPError, TimeoutError):
        return False


def _is_stream(response: httpx2.Response) -> bool:
    kind = response.headers.get("content-type", "")
    return response.is_success and kind.startswith("text/event-stream")
