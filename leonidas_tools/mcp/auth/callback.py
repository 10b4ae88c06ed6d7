"""The redirect target of a login: a port on loopback, open until the login ends."""

from __future__ import annotations

import asyncio
import contextlib
import html
import secrets
from typing import Self
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from leonidas_tools.mcp.auth.failures import LoginError

_HOST = "127.0.0.1"
_PATH = "/callback"
_REQUEST_SECONDS = 10.0
_SHOWN_CHARACTERS = 60
_MAX_HEAD_BYTES = 16_384
_MAX_OPEN = 64
_PAGE = """<!doctype html><meta charset="utf-8"><title>Leonidas</title><p>{text}</p>"""


class Callback:
    """Receives the redirect of the browser, inside `async with`.

    A request without the state of this login is refused and changes nothing, because any page can
    send a browser here.

    `ports` are tried in turn; 0 is any free port.
    """

    def __init__(self, *ports: int) -> None:
        self._ports = ports
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, None] = {}
        self._state = ""
        self._result: asyncio.Future[AuthorizationCodeResult] | None = None

    async def __aenter__(self) -> Self:
        self._result = asyncio.get_running_loop().create_future()
        for port in self._ports:
            with contextlib.suppress(OSError):
                self._server = await asyncio.start_server(
                    self._serve, _HOST, port, limit=_MAX_HEAD_BYTES, backlog=_MAX_OPEN // 4
                )
                return self
        raise LoginError(
            f"the callback port {self._ports[-1]} is in use; free it, or set another "
            "`callback_port` under `auth`"
        )

    async def __aexit__(self, *error: object) -> None:
        if self._result is not None and not self._result.cancel() and not self._result.cancelled():
            self._result.exception()  # retrieved, so that asyncio logs no warning
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Return the redirect URL of the login."""
        assert self._server is not None
        return f"http://{_HOST}:{self._server.sockets[0].getsockname()[1]}{_PATH}"

    def expect(self, authorization_url: str) -> None:
        """Record the state that the redirect must contain."""
        self._state = _get_single(parse_qs(urlsplit(authorization_url).query), "state") or ""

    async def result(self, timeout_seconds: float) -> AuthorizationCodeResult:
        """Wait for the redirect, and return its authorization code.

        Raises:
            LoginError: The user refused the login, or did not complete it within the timeout.
        """
        assert self._result is not None
        try:
            async with asyncio.timeout(timeout_seconds):
                return await asyncio.shield(self._result)
        except TimeoutError:
            raise LoginError(f"the login was not completed within {timeout_seconds:g} s") from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        while len(self._open) > _MAX_OPEN:  # silent connections must not keep the browser out
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        try:
            # An invalid request must not be logged as an error of this program.
            with contextlib.suppress(
                OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, IndexError
            ):
                async with asyncio.timeout(_REQUEST_SECONDS):
                    await self._reply(reader, writer)
        finally:
            self._open.pop(writer, None)
            writer.transport.abort()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return
        status, text = self._answer(head.split(b" ")[1].decode("ascii"))
        page = _PAGE.format(text=html.escape(text)).encode()
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
            f"Content-Length: {len(page)}\r\nCache-Control: no-store\r\n"
            "Connection: close\r\n\r\n".encode()
            + page
        )
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    def _answer(self, target: str) -> tuple[str, str]:
        """Return the status and the text of the page; record the result of the login."""
        assert self._result is not None
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        state = _get_single(query, "state") or ""
        is_repeated = any(len(values) > 1 for values in query.values())  # RFC 6749 allows none
        is_same = secrets.compare_digest(state.encode(), self._state.encode())
        is_ours = parts.path == _PATH and self._state and is_same
        if is_repeated or not is_ours:
            return "400 Bad Request", "This is not part of a login in progress."
        if self._result.done():
            return "200 OK", "This login has ended already."
        code, error = _get_single(query, "code"), _get_single(query, "error")
        if code is None or error is not None:
            why = (error or "no code was given")[:_SHOWN_CHARACTERS]
            self._result.set_exception(LoginError(f"the login was refused: {why!a}"))
            return "200 OK", "The login was refused. You can close this window."
        self._result.set_result(
            AuthorizationCodeResult(code=code, state=state, iss=_get_single(query, "iss"))
        )
        return "200 OK", "You are logged in. You can close this window."


def _get_single(query: dict[str, list[str]], name: str) -> str | None:
    values = query.get(name)
    return values[0] if values else None
