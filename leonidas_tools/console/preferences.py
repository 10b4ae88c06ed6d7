"""The preferences of users over HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

from leonidas_tools.console.bodies import json_object
from leonidas_tools.errors import ConfigurationError, StaleVersionError, StoreError
from leonidas_tools.mcp_server.guard import AccessGuard

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from leonidas_tools.mcp_server import HTTPAccess
    from leonidas_tools.store import Preferences
    from leonidas_tools.store.preferences import PreferenceTable


def preferences_app(preferences: PreferenceTable, access: HTTPAccess) -> ASGIApp:
    """Return an ASGI app that reads and writes `tools.store.preferences` over HTTP.

    `GET /preferences/USER` returns `{"user", "values", "version", "updated"}`. USER is the rest of
    the path, slashes (`%2F`) included, without line ends. `PUT` replaces the values; `PATCH` merges
    them by RFC 7396 (`null` removes a value); both return the same as `GET`. A request that has the
    version in `If-Match` fails with 412 if a newer version exists. Values that the library could
    not read fail with 422. A change applies at once to the sessions of all tools that have this
    store.

    Raises:
        ConfigurationError: `access` has no token.

    Example:
        >>> from leonidas_tools.console import HTTPAccess
        >>> from leonidas_tools.store import Store
        >>> app = preferences_app(Store("kept.db").preferences, HTTPAccess(token="s3cret"))
    """
    if access.token is None:
        raise ConfigurationError("Preferences are served only with a token: give one")
    endpoint = PreferenceEndpoint(preferences)
    # `:path`, since servers decode `%2F` to a slash before the app receives it.
    route = Route("/preferences/{user:path}", endpoint.answer, methods=["GET", "PUT", "PATCH"])
    return AccessGuard(_Spoken(Router([route], redirect_slashes=False)), access)


class PreferenceEndpoint:
    """Reads and writes the preferences of the user in the path."""

    def __init__(self, preferences: PreferenceTable) -> None:
        self._preferences = preferences

    async def answer(self, request: Request) -> Response:
        """Handle one request."""
        try:
            found = await self._handle(request)
        except StaleVersionError as error:
            raise HTTPException(412, str(error)) from error
        except StoreError as error:  # its message contains the address of the store
            raise HTTPException(503, "The store cannot be used now: try again later") from error
        except ValueError as error:
            raise HTTPException(422, str(error)) from error
        told = json.dumps(found.to_json())  # in ASCII: JSON may contain lone surrogates
        return Response(told, headers={"ETag": f'"{found.version}"'}, media_type="application/json")

    async def _handle(self, request: Request) -> Preferences:
        user = request.path_params["user"]
        if not user or not request.scope["path"].endswith(user):  # the route drops a line end
            raise HTTPException(404, "Name a user: /preferences/USER")
        if request.method in ("GET", "HEAD"):
            return await self._preferences.read(user)
        version, values = _version(request), await json_object(request)
        if request.method == "PUT":
            return await self._preferences.write(user, values, version=version)
        return await self._preferences.patch(user, values, version=version)


class _Spoken:
    """Sends HTTP errors as JSON."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._app(scope, receive, send)
        except HTTPException as error:
            told = JSONResponse({"error": error.detail}, error.status_code, error.headers)
            await told(scope, receive, send)


def _version(request: Request) -> int | None:
    said = request.headers.get("if-match")
    if said is None or said.strip() == "*":
        return None
    text = said.strip().removeprefix("W/").strip('"')
    if not (text.isascii() and text.isdecimal()):
        raise HTTPException(400, 'If-Match must be the version that was read, such as "3"')
    return int(text)
