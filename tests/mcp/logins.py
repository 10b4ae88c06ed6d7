"""An authorization server and an MCP server that takes its tokens, each on a port of loopback."""

import asyncio
import base64
import contextlib
import gc
import secrets
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings

import mcp_types
import uvicorn
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import build_metadata, create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.auth import OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

SCOPE = "use"
ACCOUNT = ("robot", "robot's own s3cret")


class Logins:
    """Clients, codes and tokens: what the SDK's handlers ask for."""

    def __init__(self, resource):
        self.resource = resource
        self.clients, self.codes, self.access, self.refresh = {}, {}, {}, {}
        self.said = []  # every code, token and secret that has been given out
        self.asked = []  # what happened at the token endpoint, by grant
        self.answer = "code"  # what a person answers: "code" or an error
        self.lifetime_seconds = 3600
        self.ill = False
        self.asks_for_form = False

    def _new(self):
        self.said.append(secrets.token_urlsafe(24))
        return self.said[-1]

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client):
        if client.client_secret:
            self.said.append(client.client_secret)
        self.clients[client.client_id] = client

    async def authorize(self, client, params):
        if self.answer != "code":
            return construct_redirect_uri(
                str(params.redirect_uri), error=self.answer, state=params.state
            )
        code = self._new()
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client, code):
        return self.codes.get(code)

    async def exchange_authorization_code(self, client, code):
        self.asked.append("code")
        del self.codes[code.code]
        return self._tokens(client.client_id, code.scopes, code.resource)

    async def load_refresh_token(self, client, token):
        if token not in self.refresh:
            self.asked.append("refused")
        return self.refresh.get(token)

    async def exchange_refresh_token(self, client, token, scopes):
        if self.refresh.pop(token.token, None) is None:
            raise TokenError("invalid_grant")
        self.asked.append("refresh")
        return self._tokens(client.client_id, scopes, self.resource)

    async def load_access_token(self, token):
        return self.access.get(token)

    async def verify_token(self, token):
        return self.access.get(token)

    async def revoke_token(self, token):
        self.asked.append("revoke")
        self.access.clear()
        self.refresh.clear()

    def _tokens(self, client_id, scopes, resource, *, renewable=True):
        access, refresh = self._new(), self._new()
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, resource=resource
        )
        if renewable:
            self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(
            access_token=access,
            expires_in=self.lifetime_seconds,
            scope=" ".join(scopes),
            refresh_token=refresh if renewable else None,
        )

    async def metadata(self, request):
        if self.asks_for_form:
            self.described.token_endpoint_auth_methods_supported = ["client_secret_post"]
        return JSONResponse(self.described.model_dump(mode="json", exclude_none=True))

    async def token(self, request):
        form = await request.form()
        if self.ill:
            return JSONResponse({"error": "temporarily_unavailable"}, status_code=503)
        if form.get("grant_type") != "client_credentials":
            return await TokenHandler(self, ClientAuthenticator(self)).handle(request)
        self.asked.append("account")
        given = request.headers.get("authorization", "").removeprefix("Basic ")
        parts = map(urllib.parse.unquote, base64.b64decode(given).decode().split(":"))
        in_form = (form.get("client_id"), form.get("client_secret"))
        if (in_form if self.asks_for_form else tuple(parts)) != ACCOUNT:
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        tokens = self._tokens(ACCOUNT[0], [SCOPE], form.get("resource"), renewable=False)
        return JSONResponse(tokens.model_dump(exclude_none=True))


class Listener:
    """Serves an application in a thread of its own."""

    def __init__(self, scheme="http"):
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"{scheme}://127.0.0.1:{self._socket.getsockname()[1]}"

    def serve(self, app, **options):
        config = uvicorn.Config(
            app, log_config=None, timeout_graceful_shutdown=1, lifespan="on", **options
        )
        self._server = uvicorn.Server(config)
        run = self._server.run
        self._thread = threading.Thread(target=run, args=[[self._socket]], daemon=True)
        self._thread.start()

    def end(self):
        """Has it end; `close` waits for it."""
        self._server.should_exit = True

    def close(self):
        self.end()
        self._thread.join(20)
        self._socket.close()


class Guarded:
    """Both servers together; `url` is that of the MCP server."""

    def __init__(self, *, transport="http", json_response=False):
        self._here, self._there = Listener(), Listener()
        path = "/sse" if transport == "sse" else "/mcp"
        self.url = self._here.url + path
        self.logins = Logins(self.url)
        issuer = AnyHttpUrl(self._there.url)
        registration = ClientRegistrationOptions(
            enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE]
        )
        revocation = RevocationOptions(enabled=True)
        self.logins.described = build_metadata(issuer, None, registration, revocation)
        own = [
            Route("/token", self.logins.token, methods=["POST"]),
            Route("/.well-known/oauth-authorization-server", self.logins.metadata),
        ]
        routes = create_auth_routes(
            self.logins,
            issuer,
            client_registration_options=registration,
            revocation_options=revocation,
        )
        self._there.serve(Starlette(routes=[*own, *routes]))
        self.issuer = str(issuer)
        server = self._mcp_server(issuer)
        app = (
            server.sse_app()
            if transport == "sse"
            else server.streamable_http_app(json_response=json_response)
        )
        self.headers = []
        self._here.serve(self._recorded(app))

    def _recorded(self, app):
        async def recorded(scope, receive, send):
            if scope["type"] == "http":
                self.headers.append(dict(scope["headers"]))
            await app(scope, receive, send)

        return recorded

    def _mcp_server(self, issuer):
        server = MCPServer(
            "guarded",
            token_verifier=self.logins,
            auth=AuthSettings(
                issuer_url=issuer,
                resource_server_url=AnyHttpUrl(self.url),
                required_scopes=[SCOPE],
                validate_token_resource=True,
            ),
        )
        reading = mcp_types.ToolAnnotations(read_only_hint=True)
        self.waiting, self.may_end = threading.Event(), threading.Event()

        @server.tool(annotations=reading)
        async def add(a: int, b: int) -> int:
            return a + b

        @server.tool(annotations=reading)
        async def echo(fails: bool = False) -> dict[str, str]:
            given = get_access_token().token
            if fails:
                raise ToolError(f"refused with {given}")
            return {given: f"Bearer {given}"}

        @server.tool(annotations=reading)
        async def wait() -> str:
            self.waiting.set()
            await asyncio.to_thread(self.may_end.wait, 30)
            return "ended"

        return server

    def settings(self, **auth):
        return {"url": self.url, "auth": auth}

    def close(self):
        self.may_end.set()
        self._there.end()
        self._here.close()
        self._there.close()
        with warnings.catch_warnings():  # the SDK's servers leave streams open
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


async def browse(url):
    """A person's browser: goes where it is sent, and answers yes at once."""
    await asyncio.to_thread(_get, url)


def _get(url):
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(url, timeout=20).close()
