"""The tokens of one server in a file that only its owner can read."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, ValidationError

from leonidas_tools.files.private import PrivateFile
from leonidas_tools.mcp.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

M = TypeVar("M", bound=BaseModel)

_KIND = "tokens"


class TokenFile:
    """Stores tokens, the client that they were issued to, and the server that renews them.

    A stored token of another address or client is ignored: a token is sent only to the server that
    it was obtained for.

    `client` is the client of the settings; without it, a registered client is used. `on_secret` is
    called with each token that is read or written, so that the token can be masked.
    """

    def __init__(
        self,
        server: str,
        url: str,
        client: OAuthClientInformationFull | None = None,
        on_secret: Callable[[str], None] | None = None,
    ) -> None:
        self._file = PrivateFile(data_file(server, _KIND))
        self._owner = {"url": url, "client_id": None if client is None else client.client_id}
        self._client = client
        self._on_secret = on_secret or (lambda _: None)
        self._client_secret: str | None = None

    def turn(self, patience_seconds: float) -> AbstractAsyncContextManager[None]:
        """Prevent other processes from renewing these tokens, inside `async with`."""
        return self._file.turn(patience_seconds)

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens; `expires_in` counts from now."""
        data = await self._read()
        tokens = _parsed(OAuthToken, data.get("tokens"))
        if tokens is None:
            return None
        expires_at = data.get("expires_at")
        if isinstance(expires_at, int | float):
            tokens.expires_in = int(expires_at - time.time())
        self._report_tokens(tokens)
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens."""
        self._report_tokens(tokens)
        expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await self._write(tokens=_plain(tokens), expires_at=expires_at)

    async def forget_tokens(self) -> None:
        """Remove the tokens, but keep the registered client."""
        await self._write(tokens=None, expires_at=None)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client of the settings, or else the registered client."""
        if self._client is not None:
            return self._client
        client = _parsed(OAuthClientInformationFull, (await self._read()).get("client"))
        self._report_client(client)
        return client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registered client."""
        self._report_client(client_info)
        await self._write(client=_plain(client_info))

    async def get_servers(self) -> tuple[OAuthMetadata | None, ProtectedResourceMetadata | None]:
        """Return the metadata of the authorization server and of the protected resource."""
        data = await self._read()
        return (
            _parsed(OAuthMetadata, data.get("authorization_server")),
            _parsed(ProtectedResourceMetadata, data.get("resource")),
        )

    async def set_servers(
        self, metadata: OAuthMetadata | None, resource: ProtectedResourceMetadata | None
    ) -> None:
        """Store the metadata of the authorization server and of the protected resource."""
        await self._write(authorization_server=_plain(metadata), resource=_plain(resource))

    def remove(self) -> bool:
        """Remove the file; return whether there was one."""
        existed = self._file.stamp is not None
        self._file.remove()
        return existed

    def _report_client(self, client: OAuthClientInformationFull | None) -> None:
        if client is not None and client.client_secret:
            self._client_secret = client.client_secret
            self._on_secret(client.client_secret)

    def _report_tokens(self, tokens: OAuthToken) -> None:
        # The secret of the client again: of many secrets, only the newest are masked.
        for token in (tokens.access_token, tokens.refresh_token, self._client_secret):
            if token:
                self._on_secret(token)

    async def _read(self) -> dict[str, Any]:
        return await asyncio.to_thread(self._load)

    async def _write(self, **changes: Any) -> None:
        await asyncio.to_thread(self._update, changes)

    def _load(self) -> dict[str, Any]:
        try:
            data = json.loads(self._file.read() or "{}")
        except (OSError, ValueError):
            return {}
        is_ours = isinstance(data, dict) and all(data.get(k) == v for k, v in self._owner.items())
        return data if is_ours else {}

    def _update(self, changes: dict[str, Any]) -> None:
        with self._file.hold_lock():
            self._file.write(json.dumps({**self._load(), **self._owner, **changes}))


def _parsed(model: type[M], value: object) -> M | None:
    """Return the stored value; `None` if it is missing or invalid."""
    if value is None:
        return None
    try:
        return model.model_validate(value)
    except ValidationError:
        return None


def _plain(model: BaseModel | None) -> Any:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)
