"""Log in to a server with the help of the user, and log out."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Literal

import httpx2
from mcp.client.client import Client
from pydantic import ValidationError

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp.auth import token_file
from leonidas_tools.mcp.auth.failures import LoginError
from leonidas_tools.mcp.auth.request_bounds import OAuthRequestBounds
from leonidas_tools.mcp.transport.http import HTTPServer
from leonidas_tools.mcp.transport.reasons import reason_of, with_place
from leonidas_tools.mcp.transport.redaction import ServerRedaction, discreet_logs
from leonidas_tools.mcp.transport.tls import tls_context

if TYPE_CHECKING:
    from leonidas_tools.mcp.auth import OpenPage
    from leonidas_tools.settings.mcp_settings import MCPServerSettings, OAuthSettings

_ANSWER_SECONDS = 30.0
_GOODBYE_SECONDS = 10.0


async def log_in(
    name: str, settings: MCPServerSettings, open_page: OpenPage
) -> Literal["logged in", "was logged in", "not asked"]:
    """Connect once, and let the user log in if the server requires it.

    Raises:
        ConfigurationError: The server has no `auth`, cannot be reached, or refused the login.
    """
    auth = _auth_of(name, settings)
    redact = ServerRedaction(settings)
    asked: list[str] = []

    async def open_once(url: str) -> None:
        asked.append(url)
        await open_page(url)

    server = HTTPServer(name, settings, lambda _: None, on_secret=redact.learn, open_page=open_once)
    try:
        with discreet_logs(redact):
            limit_seconds = (settings.timeout or _ANSWER_SECONDS) + auth.login_timeout
            async with (
                asyncio.timeout(limit_seconds),
                Client(server.streams(), cache=None) as client,
            ):
                if client.server_capabilities.tools is not None:
                    with contextlib.suppress(ValidationError):  # only the login matters here
                        await client.list_tools()
    except Exception as error:  # noqa: BLE001 - any error ends the login, with its reason
        reason = with_place(redact(reason_of(error)), settings.url)
        raise ConfigurationError(f"Login to the MCP server {name!r} failed: {reason}") from None
    if asked:
        return "logged in"
    return "not asked" if await token_file(name, settings).get_tokens() is None else "was logged in"


async def log_out(name: str, settings: MCPServerSettings) -> bool:
    """Remove a server's tokens, and revoke them if its authorization server supports this.

    Return whether there were stored data.

    Raises:
        ConfigurationError: The server has no `auth`.
    """
    auth = _auth_of(name, settings)
    file = token_file(name, settings)
    tokens, client = await file.get_tokens(), await file.get_client_info()
    metadata, _ = await file.get_servers()
    existed = file.remove()
    if tokens is None or client is None or metadata is None or not metadata.revocation_endpoint:
        return existed
    form = {"token": tokens.refresh_token or tokens.access_token, "client_id": client.client_id}
    if client.client_secret is not None:
        form["client_secret"] = client.client_secret
    # The tokens are removed here in any case; if they cannot be revoked, they expire.
    with contextlib.suppress(httpx2.HTTPError, LoginError, TimeoutError):
        url = str(metadata.revocation_endpoint)
        await OAuthRequestBounds(str(settings.url), auth.issuer).check(url)
        context = await tls_context(settings)
        async with (
            asyncio.timeout(_GOODBYE_SECONDS),
            httpx2.AsyncClient(verify=context, timeout=_GOODBYE_SECONDS) as http,
            http.stream("POST", url, data=form),  # the response is not read
        ):
            pass
    return existed


def _auth_of(name: str, settings: MCPServerSettings) -> OAuthSettings:
    if settings.url is None:
        raise ConfigurationError(f"The MCP server {name!r} is a command, which needs no login")
    if settings.auth is None:
        raise ConfigurationError(
            f"The MCP server {name!r} has no `auth` in the settings: "
            "write `auth: {grant: authorization_code}`"
        )
    return settings.auth
