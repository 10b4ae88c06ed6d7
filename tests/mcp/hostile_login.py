"""An MCP server and an authorization server that send what a test says, and record requests."""

import asyncio
import gzip
import inspect
import json
import urllib.parse

import httpx2
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.mcp.logins import Listener


class Hostile:
    """Asks for a token on one port of loopback and gives none that is good for anything.

    `resource`, `metadata` and `redirect` are what it says; a test changes them.
    """

    def __init__(self):
        self._here, self._there = Listener(), Listener()
        self.url, self.issuer = f"{self._here.url}/mcp", f"{self._there.url}/"
        self.resource = {"resource": self.url, "authorization_servers": [self.issuer]}
        self.metadata = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}authorize",
            "token_endpoint": f"{self.issuer}token",
            "registration_endpoint": f"{self.issuer}register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }
        self.redirect = {}
        self.asks = f'Bearer resource_metadata="{self._here.url}/resource"'
        self.body = None
        self.asked = []  # (host, path, form) of each request
        app = Starlette(routes=[Route("/{path:path}", self._answer, methods=["GET", "POST"])])
        self._here.serve(app)
        self._there.serve(app)

    def settings(self, **auth):
        return {"url": self.url, "auth": {"login_timeout": 2, **auth}}

    def paths(self, *, host=None):
        return [path for at, path, _ in self.asked if host in (None, at)]

    def close(self):
        self._there.end()
        self._here.close()
        self._there.close()

    async def _answer(self, request):
        path = request.path_params["path"].rpartition("/")[2]
        sent = (await request.body()).decode()
        self.asked.append((request.headers["host"], request.url.path, sent))
        if self.body is not None and path in self.body:
            answer = self.body[path](request)
            return await answer if inspect.isawaitable(answer) else answer
        said = {
            "resource": self.resource,
            "oauth-authorization-server": self.metadata,
            "token": {"access_token": "t0ken", "token_type": "Bearer"},
        }
        if path == "mcp":
            return Response(status_code=401, headers={"WWW-Authenticate": self.asks})
        if path == "register":
            return JSONResponse({**json.loads(sent), "client_id": "made"}, 201)
        if path == "authorize":
            query = {"state": request.query_params["state"], "code": "c0de", **self.redirect}
            back = f"{request.query_params['redirect_uri']}?"
            return RedirectResponse(back + urllib.parse.urlencode(query, doseq=True))
        return JSONResponse(said[path]) if path in said else Response(status_code=404)


async def opened():
    """A client that a token is renewed by."""
    return httpx2.AsyncClient()


def endless(_):
    async def chunks():
        while True:
            yield b" " * 65_536
            await asyncio.sleep(0)  # so that it is told that the client has gone

    return StreamingResponse(chunks(), media_type="application/json")


def bomb(_):
    body = gzip.compress(b" " * 50_000_000)
    return Response(body, headers={"Content-Encoding": "gzip"}, media_type="application/json")


def trickling(_):
    async def chunks():
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    return StreamingResponse(chunks(), media_type="application/json")


def garbage(_):
    return Response(b"\xff\x00", headers={"Content-Encoding": "gzip"})
