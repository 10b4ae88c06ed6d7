"""Add a token to each request, and obtain one if it is missing, by the settings."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import AnyUrl

from leonidas_tools.mcp.auth.callback import Callback
from leonidas_tools.mcp.auth.failures import LoginError, LoginNeededError
from leonidas_tools.mcp.auth.renewing import OpenClient, RenewingProvider
from leonidas_tools.mcp.auth.tokens import TokenFile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AsyncExitStack

    from mcp.shared.auth import AuthorizationCodeResult, OAuthMetadata

    from leonidas_tools.settings.mcp_settings import MCPServerSettings, OAuthSettings

OpenPage: TypeAlias = "Callable[[str], Awaitable[None]]"

_CLIENT_NAME = "Leonidas"
_PKCE = "S256"
_LATER = "http://127.0.0.1/callback"
"""Placeholder for the redirect URL of a login until its port is known."""


def client_auth(
    name: str,
    settings: MCPServerSettings,
    open_client: OpenClient,
    *,
    open_page: OpenPage | None = None,
    on_secret: Callable[[str], None] | None = None,
) -> RenewingProvider | None:
    """Return the token provider for requests to a server; `None` if its settings have no `auth`."""
    auth = settings.auth
    if auth is None:
        return None
    file = token_file(name, settings, on_secret)
    if auth.grant == "client_credentials":
        return ClientCredentialsAuth(settings, auth, file, open_client)
    return LoginAuth(name, settings, auth, file, open_client, open_page)


def token_file(
    name: str, settings: MCPServerSettings, on_secret: Callable[[str], None] | None = None
) -> TokenFile:
    """Return the token file of a server."""
    assert settings.auth is not None
    client = _configured_client(settings.auth)
    return TokenFile(name, str(settings.url), client, on_secret)


class ClientCredentialsAuth(RenewingProvider, ClientCredentialsOAuthProvider):
    """Obtains tokens with the client credentials of the settings."""

    def __init__(
        self,
        settings: MCPServerSettings,
        auth: OAuthSettings,
        file: TokenFile,
        open_client: OpenClient,
    ) -> None:
        assert auth.client_id is not None
        assert auth.client_secret is not None
        with warnings.catch_warnings():
            # Without an issuer, the server names its authorization server, as it does for logins.
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            super().__init__(
                server_url=str(settings.url),
                storage=file,
                client_id=auth.client_id,
                client_secret=auth.client_secret,
                scope=" ".join(auth.scopes) or None,
                issuer=auth.issuer,
            )
        self.configure(file, auth, open_client)


class LoginAuth(RenewingProvider, OAuthClientProvider):
    """Obtains tokens by a login of the user, and renews them without a login.

    Without `open_page`, no login is possible.
    """

    def __init__(
        self,
        name: str,
        settings: MCPServerSettings,
        auth: OAuthSettings,
        file: TokenFile,
        open_client: OpenClient,
        open_page: OpenPage | None,
    ) -> None:
        metadata = OAuthClientMetadata(
            client_name=_CLIENT_NAME,
            redirect_uris=[AnyUrl(_LATER)],
            scope=" ".join(auth.scopes) or None,
        )
        super().__init__(
            str(settings.url),
            metadata,
            file,
            self._open_login,
            self._wait_for_login,
            client_metadata_url=auth.client_metadata_url,
        )
        self.configure(file, auth, open_client)
        self._name = name
        self._auth = auth
        self._open_page = open_page
        self._callback: Callback | None = None
        self._refused: LoginError | None = None

    async def prepare(self, stack: AsyncExitStack) -> None:
        """Open the port for the redirect of the browser.

        Raises:
            LoginNeededError: No login is possible.
            LoginError: An earlier login was refused or not completed, or no port is free.
        """
        if self._open_page is None:
            raise LoginNeededError(self._name)
        if self._refused is not None:  # the client library tries a server in two ways
            raise LoginError(str(self._refused))
        registered = _registered_port(self.context.client_info)
        any_port = () if self._auth.callback_port else (registered, 0)
        self._callback = await stack.enter_async_context(
            Callback(*(port for port in (self._auth.callback_port, *any_port) if port is not None))
        )
        address = AnyUrl(self._callback.url)
        self.context.client_metadata.redirect_uris = [address]
        client = self.context.client_info
        if self._auth.client_id is None and client and address not in (client.redirect_uris or ()):
            self.context.client_info = None  # registered for an address that is not available

    async def _open_login(self, url: str) -> None:
        assert self._callback is not None
        assert self._open_page is not None
        _check_pkce(self.context.oauth_metadata)
        await self._bounds.check(url)
        self._callback.expect(url)
        await self._open_page(url)

    async def _wait_for_login(self) -> AuthorizationCodeResult:
        assert self._callback is not None
        try:
            return await self._callback.result(self._auth.login_timeout)
        except LoginError as error:
            self._refused = error
            raise


def _check_pkce(metadata: OAuthMetadata | None) -> None:
    """Raise an error if an authorization server declares challenge methods without S256.

    A server that declares none is accepted: many support S256 without declaring it.
    """
    offered = None if metadata is None else metadata.code_challenge_methods_supported
    if offered is not None and _PKCE not in offered:
        raise LoginError(f"its authorization server offers no {_PKCE} code challenges (PKCE)")


def _configured_client(auth: OAuthSettings) -> OAuthClientInformationFull | None:
    if auth.client_id is None:
        return None
    return OAuthClientInformationFull(
        client_id=auth.client_id,
        client_secret=auth.client_secret,
        issuer=auth.issuer,
        token_endpoint_auth_method="client_secret_basic" if auth.client_secret else "none",
    )


def _registered_port(client: OAuthClientInformationFull | None) -> int | None:
    """Return the port with which the client was registered, if any."""
    if client is None or not client.redirect_uris:
        return None
    return urlsplit(str(client.redirect_uris[0])).port
