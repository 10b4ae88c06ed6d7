"""Whatever keeps a server over HTTP from being reached is told in one clear sentence."""

import asyncio
import contextlib
import socket
import ssl

import mcp_types
import pytest
from mcp.server.mcpserver import MCPServer

from leonidas_tools.errors import ToolError
from leonidas_tools.settings.models import MCPServerSettings
from tests.mcp.certificates import DAY, Authority
from tests.mcp.logins import Listener

PATH = "is the path of the url right, such as /mcp, or /sse for transport 'sse'?"
SECRET = "s3cret-of-the-user"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextlib.asynccontextmanager
async def answering(reply, *, tls=None):
    """Answers every request with the same bytes; gives the port and what was asked."""
    asked = []

    async def answer(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            asked.append(await reader.read(65_536))
            writer.write(reply)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls) as front:
        yield front.sockets[0].getsockname()[1], asked


def http(status, body=b"", **headers):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def tls_of(files):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    return context


HTML = http("200 OK", b"<html>Welcome!</html>", Content_Type="text/html; charset=utf-8")
REPLIES = [
    (http("401 Unauthorized"), "HTTP 401 Unauthorized", "it rejected the token"),
    (
        http("403 Forbidden"),
        "HTTP 403 Forbidden",
        "this token or client address is not allowed",
    ),
    (http("404 Not Found"), "HTTP 404 Not Found", PATH),
    (http("405 Method Not Allowed"), "HTTP 405 Method Not Allowed", PATH),
    (http("500 Internal Server Error"), "HTTP 500 Internal Server Error", None),
    (http("503 Service Unavailable"), "HTTP 503 Service Unavailable", None),
    (HTML, "it answers with a web page", PATH),
    (
        b"SSH-2.0-OpenSSH_9.6\r\n",
        "it does not speak HTTP",
        "should the url begin with https://?",
    ),
]


@pytest.mark.parametrize(("reply", "what", "hint"), REPLIES, ids=[row[1] for row in REPLIES])
@pytest.mark.parametrize("path", ["mcp", "sse"])
async def test_an_invalid_answer_is_reported_in_one_sentence(serve, reply, what, hint, path):
    async with answering(reply) as (port, _):
        url = f"http://127.0.0.1:{port}/{path}"
        server = serve({"url": url, "headers": {"Authorization": f"Bearer {SECRET}"}})
        behind = "" if hint is None else f"; {hint}"
        assert await server.down() == f"The MCP server 'lab' is down: {what} at {url}{behind}"
        await server.mcp.stop()


@pytest.mark.parametrize("path", ["mcp", "sse"])
async def test_a_redirect_to_another_host_is_named_and_gets_nothing(serve, path):
    async with answering(HTML) as (other, seen):
        away = http("307 Temporary Redirect", Location=f"http://localhost:{other}/x?key={SECRET}")
        async with answering(away) as (port, _):
            url = f"http://127.0.0.1:{port}/{path}"
            server = serve({"url": url, "headers": {"X-Key": SECRET}})
            assert await server.down() == (
                "The MCP server 'lab' is down: HTTP 307 Temporary Redirect: it redirects to "
                f"http://localhost:{other}/x at {url}; set that url if it is the right one"
            )
            await server.mcp.stop()
    assert seen == []


CERTIFICATES = {
    "of an unknown signer": (
        {},
        False,
        "its certificate is signed by an unknown authority",
        "; name its certificate in `ca_file`",
    ),
    "self-signed": (
        {"signs_itself": True},
        False,
        "its certificate is self-signed",
        "; name it in `ca_file` if it is the right one",
    ),
    "expired": (
        {"begins": -2 * DAY, "ends": -DAY},
        True,
        "its certificate has expired",
        "",
    ),
    "of the future": (
        {"begins": DAY, "ends": 2 * DAY},
        True,
        "its certificate is not valid yet",
        "",
    ),
    "for another address": (
        {"host": "127.0.0.9"},
        True,
        "its certificate is for another host",
        "",
    ),
    "for another name": (
        {"host": "example.org"},
        True,
        "its certificate is for another host",
        "",
    ),
}


@pytest.mark.parametrize("case", CERTIFICATES)
@pytest.mark.parametrize("path", ["mcp", "sse"])
async def test_a_wrong_certificate_is_reported(serve, tmp_path, case, path):
    options, is_known, what, hint = CERTIFICATES[case]
    authority = Authority(tmp_path)
    tls = tls_of(authority.issue("server", **options))
    async with answering(HTML, tls=tls) as (port, asked):
        url = f"https://127.0.0.1:{port}/{path}"
        known = {"ca_file": str(authority.file)} if is_known else {}
        server = serve({"url": url, "headers": {"X-Key": SECRET}, **known})
        assert await server.down() == f"The MCP server 'lab' is down: {what} at {url}{hint}"
        await server.mcp.stop()
    assert asked == []


async def test_a_signer_named_in_the_settings_is_trusted(serve, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    listener, adding = Listener("https"), MCPServer("adding")

    @adding.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))
    async def add(a: int, b: int) -> int:
        return a + b

    app = adding.streamable_http_app()
    listener.serve(app, ssl_certfile=str(certificate), ssl_keyfile=str(key))
    try:
        settings = {"url": f"{listener.url}/mcp", "ca_file": str(authority.file)}
        server = await serve(settings).ready()
        assert (await server.call("add", a=1, b=2)).result == {"result": 3}
        await server.mcp.stop()
    finally:
        listener.close()


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("missing.pem", None, "the ca_file '{file}' was not found"),
        ("words.pem", "no certificate", "the ca_file '{file}' contains no PEM certificate"),
    ],
)
async def test_an_unusable_ca_file_is_reported(serve, tmp_path, name, text, reason):
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    server = serve({"url": "https://127.0.0.1:1/mcp", "ca_file": str(file)})
    expected = f"The MCP server 'lab' is down: {reason.format(file=file)}"
    assert await server.down() == expected


async def test_tls_where_there_is_none_and_none_where_there_is_tls_are_reported(serve, tmp_path):
    async with answering(HTML) as (port, _):
        server = serve({"url": f"https://127.0.0.1:{port}/mcp"})
        assert await server.down() == (
            "The MCP server 'lab' is down: it does not speak TLS at "
            f"https://127.0.0.1:{port}/mcp; should the url begin with http://?"
        )
        await server.mcp.stop()
    tls = tls_of(Authority(tmp_path).issue("server"))
    async with answering(HTML, tls=tls) as (port, _):
        server = serve({"url": f"http://127.0.0.1:{port}/mcp"})
        assert await server.down() == (
            "The MCP server 'lab' is down: it does not speak HTTP at "
            f"http://127.0.0.1:{port}/mcp; should the url begin with https://?"
        )
        await server.mcp.stop()


async def test_an_unknown_host_is_reported(serve):
    url = "http://no-such-host.invalid/mcp"
    assert await serve({"url": url}).down() == (
        f"The MCP server 'lab' is down: its host name cannot be resolved at {url}"
    )


@pytest.mark.parametrize("url", ["http://", "http://[::1/mcp", "http://host:port/mcp"])
def test_an_address_without_a_host_is_refused_in_the_settings(url):
    with pytest.raises(ValueError, match="url must name a host"):
        MCPServerSettings(url=url)


async def test_a_proxy_of_the_environment_is_used_and_named_where_it_fails(serve, monkeypatch):
    async with answering(http("407 Proxy Authentication Required")) as (port, asked):
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        server = serve({"url": "http://example.invalid/mcp"})
        assert await server.down() == (
            "The MCP server 'lab' is down: HTTP 407 Proxy Authentication Required at "
            "http://example.invalid/mcp; the proxy requires a login"
        )
        await server.mcp.stop()
    assert asked[0].startswith(b"POST http://example.invalid/mcp")
    async with answering(http("403 Forbidden")) as (port, asked):
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        server = serve({"url": "https://example.invalid/mcp"})
        assert await server.down() == (
            "The MCP server 'lab' is down: the proxy rejected the connection: 403 Forbidden at "
            "https://example.invalid/mcp"
        )
        await server.mcp.stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
    server = serve({"url": "http://example.invalid/mcp"})
    assert await server.down() == (
        "The MCP server 'lab' is down: connection refused (through the proxy "
        f"http://127.0.0.1:{port}) at http://example.invalid/mcp"
    )


class Switchable:
    """An MCP server whose HTTP answers can be exchanged for others while it runs."""

    def __init__(self):
        self.status, self.type, self.body = None, None, None
        server = MCPServer("switchable")

        @server.tool()
        async def add(a: int, b: int) -> int:
            return a + b

        app = server.streamable_http_app()
        self._listener = Listener()
        self.url = f"{self._listener.url}/mcp"

        async def switch(scope, receive, send):
            if scope["type"] != "http" or self.status is None:
                await app(scope, receive, send)
                return
            headers = [(b"content-type", self.type)]
            await send({"type": "http.response.start", "status": self.status, "headers": headers})
            await send({"type": "http.response.body", "body": self.body})

        self._listener.serve(switch)

    def answer(self, status, kind=b"text/plain", body=b"no"):
        self.status, self.type, self.body = status, kind, body

    def close(self):
        self._listener.close()


@pytest.mark.parametrize(
    ("reply", "status", "message"),
    [
        ((401,), "unavailable", "HTTP 401 Unauthorized; it requires a token"),
        ((403,), "unavailable", "HTTP 403 Forbidden; "),
        ((200, b"text/html"), "unavailable", "it answers with a web page"),
        ((408,), "unknown_outcome", "HTTP 408 Request Timeout"),
        ((499,), "unknown_outcome", "HTTP 499"),
        ((502,), "unknown_outcome", "HTTP 502 Bad Gateway"),
    ],
    ids=str,
)
async def test_a_call_that_is_refused_on_the_way_has_one_answer(serve, reply, status, message):
    switchable = Switchable()
    try:
        server = await serve({"url": switchable.url}).ready()
        switchable.answer(*reply)
        with pytest.raises(ToolError) as refused:
            await server.call("add", a=1, b=2)
        assert refused.value.status == status
        assert message in refused.value.message
        switchable.status = None
        await server.back()
        await server.mcp.stop()
    finally:
        switchable.close()
