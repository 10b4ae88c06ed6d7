"""Extend the client library: token renewal after a restart, and concurrent requests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeAlias

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import OAuthToken
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from pydantic import ValidationError

from leonidas_tools.mcp.auth.failures import LoginError, refusal
from leonidas_tools.mcp.auth.request_bounds import OAuthRequestBounds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from contextlib import AsyncExitStack

    from mcp.shared.auth import OAuthMetadata

    from leonidas_tools.mcp.auth.tokens import TokenFile
    from leonidas_tools.settings.mcp_settings import OAuthSettings

_HEADER = "Authorization"
_IN_HEADER, _IN_FORM = "client_secret_basic", "client_secret_post"
_RENEWAL_SECONDS = 30.0
"""Timeout of a renewal."""
_PATIENCE_SECONDS = _RENEWAL_SECONDS + 5
"""Seconds to wait while another process renews a token, before it is considered hung."""
_MAX_LIFETIME_SECONDS = 10**10
_SETTLE_SECONDS = 5.0
"""Seconds to wait for a running renewal when the connection is closed."""
OpenClient: TypeAlias = "Callable[[], Awaitable[httpx2.AsyncClient]]"
"""Opens the HTTP client of a renewal, which is independent of the call that needs the token."""

_ROUNDS = 3
"""Attempts of a request: with the current token, with a renewed one, and after a login."""


class RenewingProvider(OAuthClientProvider):
    """Renews tokens before it requires a login, including tokens of an earlier process.

    The library keeps its lock from the start of a request to the head of its response. One slow
    call would block all others. This class keeps the lock only while it obtains a token.

    A renewal is a separate task, and is not cancelled with the call that needs the token. If a
    refresh token is valid only once, a renewal whose response is lost also loses the login.
    """

    def configure(self, file: TokenFile, auth: OAuthSettings, open_client: OpenClient) -> None:
        """Set the attributes that the library's constructor has no parameters for."""
        self._file = file
        self._bounds = OAuthRequestBounds(self.context.server_url, auth.issuer)
        self._open_client = open_client
        self._renewal: asyncio.Task[None] | None = None
        self._scopes = " ".join(auth.scopes)

    async def settle(self) -> None:
        """Wait for a running renewal, and cancel it after 5 seconds."""
        if self._renewal is not None:
            with anyio.CancelScope(shield=True):
                await asyncio.wait({self._renewal}, timeout=_SETTLE_SECONDS)
                self._renewal.cancel()
                await asyncio.wait({self._renewal})

    async def prepare(self, stack: AsyncExitStack) -> None:
        """Prepare a login; `stack` closes its resources when the login has ended."""

    def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield the requests of a login, and apply limits to each."""
        return self._bounds.bounded(super().async_auth_flow(request), request)

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        own = request.headers.get(_HEADER)
        refused: httpx2.Response | None = None
        for number in range(_ROUNDS):
            before = request.headers.pop(_HEADER, None)
            if own is not None:
                request.headers[_HEADER] = own
            self.context.protocol_version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
            await self._ensure_fresh_token()
            flow = super()._auth_flow(request)
            logs_in = False
            try:
                step = await anext(flow)
                while step is not request:
                    step = await flow.asend((yield step))
                if refused is not None and request.headers.get(_HEADER) in {before, own}:
                    logs_in = True
                    self._initialized = False  # if the login fails, its state is loaded again
                    async with contextlib.AsyncExitStack() as stack:
                        await self.prepare(stack)
                        step = await flow.asend(refused)
                        while step is not request:
                            step = await flow.asend((yield step))
                    self._initialized = True
            finally:
                await flow.aclose()
            refused = yield request
            if logs_in or not _wants_token(refused):
                return
            if number == 0 and refused.status_code == httpx2.codes.UNAUTHORIZED:
                await self._expire(request.headers.get(_HEADER))

    async def _ensure_fresh_token(self) -> None:
        """Renew the token if it has expired, once for all requests that wait for it."""
        async with self.context.lock:
            if not self._initialized:
                await self._initialize()
        await self._replace_expired()
        while self._needs_renewal():
            if self._renewal is None or self._renewal.done():
                self._renewal = asyncio.create_task(self._renew())
                self._renewal.add_done_callback(_retrieve_exception)
            await asyncio.shield(self._renewal)

    async def _renew(self) -> None:
        """Renew the token, or load a token that another process has renewed meanwhile."""
        async with self._file.turn(_PATIENCE_SECONDS):
            await self._replace_expired()
            if not self._needs_renewal():
                return
            async with self.context.lock, await self._open_client() as client:
                request = await self._refresh_token()
                try:
                    async with asyncio.timeout(_RENEWAL_SECONDS):
                        response = await self._bounds.send(client, request)
                except TimeoutError:
                    raise LoginError(
                        "its authorization server did not refresh the token within "
                        f"{_RENEWAL_SECONDS:g} s"
                    ) from None
                if not await self._handle_refresh_response(response):
                    self._initialized = False  # as in the library, before a login

    async def _replace_expired(self) -> None:
        """Load a token that another process has renewed, if the current one has expired."""
        if self.context.current_tokens is not None and not self.context.is_token_valid():
            async with self.context.lock:
                await self._load_renewed()

    def _needs_renewal(self) -> bool:
        return not self.context.is_token_valid() and self.context.can_refresh_token()

    async def _expire(self, header: str | None) -> None:
        """Mark a rejected token as expired, unless it has been renewed meanwhile."""
        async with self.context.lock:
            tokens = self.context.current_tokens
            is_current = tokens is not None and header == f"Bearer {tokens.access_token}"
            if is_current and self.context.can_refresh_token() and not await self._load_renewed():
                self.context.token_expiry_time = 1.0  # long ago

    async def _load_renewed(self) -> bool:
        """Load a token that another process has renewed, if any, as the old one is then invalid."""
        context, stored = self.context, await self._file.get_tokens()
        current = context.current_tokens
        if stored is None or (current is not None and current.access_token == stored.access_token):
            return False
        context.current_tokens = stored
        context.update_token_expiry(stored)
        return True

    async def _initialize(self) -> None:
        await super()._initialize()
        context = self.context
        context.oauth_metadata, context.protected_resource_metadata = await self._file.get_servers()
        if context.current_tokens is not None:
            context.update_token_expiry(context.current_tokens)

    async def _refresh_token(self) -> httpx2.Request:
        self._send_secret_as_asked()
        return await super()._refresh_token()

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        await response.aread()
        if response.status_code >= httpx2.codes.INTERNAL_SERVER_ERROR or (
            response.status_code == httpx2.codes.TOO_MANY_REQUESTS
        ):
            # The status does not concern the tokens: a login would not help, but a wait does.
            code = refusal(response)
            raise LoginError(f"its authorization server does not refresh the token ({code})")
        if response.status_code == httpx2.codes.OK:
            _check_token(response)
        before = self.context.current_tokens
        if await super()._handle_refresh_response(response):
            if not self.context.is_token_valid():
                self.context.token_expiry_time = None  # a lifetime of 0 has no meaning
            return True
        self.context.current_tokens = before
        if await self._load_renewed():
            return True
        self.context.clear_tokens()
        await self._file.forget_tokens()
        return False

    async def _perform_authorization(self) -> httpx2.Request:
        context = self.context
        if self._scopes:  # the library has replaced them with those that the server suggests
            context.client_metadata.scope = self._scopes
        before, _ = await self._file.get_servers()
        if _issuer_of(before) != _issuer_of(context.oauth_metadata):
            # If this login fails, the new authorization server must not get the old one's tokens.
            context.clear_tokens()
            await self._file.forget_tokens()
        await self._file.set_servers(context.oauth_metadata, context.protected_resource_metadata)
        self._send_secret_as_asked()
        return await super()._perform_authorization()

    def _send_secret_as_asked(self) -> None:
        """Send the secret in the form if the authorization server accepts none in the header."""
        metadata, client = self.context.oauth_metadata, self.context.client_info
        offered = None if metadata is None else metadata.token_endpoint_auth_methods_supported
        if client is None or client.token_endpoint_auth_method != _IN_HEADER or offered is None:
            return
        if _IN_HEADER not in offered and _IN_FORM in offered:
            client.token_endpoint_auth_method = _IN_FORM

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await response.aread()
        if response.status_code not in {httpx2.codes.OK, httpx2.codes.CREATED}:
            code = refusal(response)
            raise LoginError(f"its authorization server does not issue a token ({code})")
        _check_token(response)
        await super()._handle_token_response(response)


def _retrieve_exception(renewal: asyncio.Task[None]) -> None:
    """Retrieve the exception of a renewal that no request waits for any more."""
    if not renewal.cancelled():
        renewal.exception()


def _check_token(response: httpx2.Response) -> None:
    """Raise an error for a token that no header can contain, or with an endless lifetime.

    It would be stored, and then every request would fail, also those of the next login.
    """
    try:
        token = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        return  # the library raises an error
    text, seconds = token.access_token, token.expires_in or 0
    if not (text.isascii() and text.isprintable()) or abs(seconds) > _MAX_LIFETIME_SECONDS:
        raise LoginError("its authorization server did not return a valid token")


def _issuer_of(metadata: OAuthMetadata | None) -> str | None:
    return None if metadata is None else str(metadata.issuer)


def _wants_token(response: httpx2.Response) -> bool:
    if response.status_code == httpx2.codes.UNAUTHORIZED:
        return True
    is_scope = extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == httpx2.codes.FORBIDDEN and is_scope
