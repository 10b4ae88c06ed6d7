"""The page of the console: files that ship with the package, without a build step."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

_TYPES = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}


def page_routes() -> list[Route]:
    """Return a route for each file of the page; the page itself is at `/`."""
    folder = files("leonidas_tools.console") / "static"
    routes = []
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        kind = file.name.rpartition(".")[2]
        if kind in _TYPES:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            routes.append(Route(path, _file(file.read_bytes(), _TYPES[kind])))
    return routes


def _file(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return Response(content, media_type=media_type, headers={"cache-control": "no-cache"})

    return answer
