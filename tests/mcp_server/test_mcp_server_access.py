"""Who may speak to a server over HTTP: hosts, origins, tokens."""

import httpx2
import pytest
from starlette.datastructures import Headers

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp_server import HTTPAccess, MCPApp, mcp_app, serve_http
from tests.mcp_server.conftest import HELLO, MODES, SECONDS, add

TOKEN = "s3cret-token"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST", 200),
        ("[::1]:{port}", 200),
        ("tools.example.com", 200),
        ("tools.example.com:8443", 200),
        ("exact.example.com:8443", 200),
        ("exact.example.com", 421),
        ("evil.example.com", 421),
        ("evil.example.com:{port}", 421),
        ("127.0.0.1.evil.example.com", 421),
        ("localhost.evil.example.com:{port}", 421),
        ("evil.example.com@127.0.0.1", 421),
        ("192.0.2.7", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
async def test_a_server_answers_to_its_own_names_only(serve, host, status):
    hosts = ["tools.example.com", "Exact.example.com:8443"]
    serving = await serve(add, token=TOKEN, hosts=hosts)
    port = httpx2.URL(serving.url).port
    authorization = f"Bearer {TOKEN}"
    answer = await serving.post(HELLO, host=host.format(port=port), authorization=authorization)
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 200),
        ("https://app.example.com", 200),
        ("https://APP.example.com", 200),
        ("http://app.example.com", 403),
        ("https://app.example.com.evil.com", 403),
        ("https://evil.example.com", 403),
        ("http://localhost:3000", 403),
        ("null", 403),
        ("", 403),
    ],
)
async def test_pages_of_other_origins_may_not_use_it(serve, origin, status):
    serving = await serve(add, origins=["https://app.example.com/"])
    origin = origin.format(port=httpx2.URL(serving.url).port)
    assert (await serving.post(HELLO, origin=origin)).status_code == status


async def test_an_allowed_page_passes_the_preflight_before_it_shows_the_token(serve):
    serving = await serve(add, token=TOKEN, origins=["https://app.example.com"])
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "x-any"}
    async with httpx2.AsyncClient(timeout=SECONDS) as http:
        allowed, refused = [
            await http.options(serving.url, headers={"origin": origin, **asks})
            for origin in ("https://app.example.com", "https://evil.example.com")
        ]
    assert allowed.headers["access-control-allow-origin"] == "https://app.example.com"
    assert refused.status_code == 403


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"],
)
async def test_without_the_token_nothing_is_answered(serve, authorization):
    serving = await serve(add, token=TOKEN)
    headers = {} if authorization is None else {"authorization": authorization}
    for body in (HELLO, "garbage"):
        answer = await serving.post(body, **headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in answer.text


@MODES
async def test_with_the_token_all_is_as_ever(serve, mode):
    serving = await serve(add, token=TOKEN)
    client = await serving.client(mode, headers={"authorization": f"Bearer {TOKEN}"})
    assert (await client.call_tool("add", {"a": 1})).content[0].text == "2"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "tools.example.com"])
async def test_beyond_this_machine_it_is_not_served_without_a_token(host):
    tools = AdvancedToolProcessor(tools=[add])
    with pytest.raises(ConfigurationError, match="requires a token"):
        await serve_http(tools, host=host, port=0)
    with pytest.raises(ConfigurationError, match="requires a token"):
        mcp_app(tools, hosts=["tools.example.com"])
    with pytest.raises(ConfigurationError, match="token is empty"):
        await serve_http(tools, token=" ")


def test_a_server_that_is_reached_by_any_address_answers_to_those_but_to_no_foreign_name():
    access = HTTPAccess(token=TOKEN, any_address=True)
    told = {
        host: access.refusal(Headers({"host": host}))
        for host in ("192.0.2.7:8000", "[2001:db8::1]:8000", "localhost", "evil.example.com")
    }
    assert [host for host, refusal in told.items() if refusal] == ["evil.example.com"]


async def test_what_a_client_says_of_a_proxy_changes_nothing(serve, monkeypatch):
    answer, seen = MCPApp.__call__, []

    async def recorded(app, scope, receive, send):
        seen.append((scope["client"][0], scope["scheme"]))
        await answer(app, scope, receive, send)

    monkeypatch.setattr(MCPApp, "__call__", recorded)
    serving = await serve(add)
    proxy = {"x_forwarded_for": "192.0.2.7", "x_forwarded_proto": "https"}
    assert (await serving.post(HELLO, **proxy)).status_code == 200
    assert (await serving.post(HELLO, **proxy, host="evil.example.com")).status_code == 421
    assert seen == [("127.0.0.1", "http")] * 2


async def test_no_client_is_redirected(serve):
    serving = await serve(add)
    async with httpx2.AsyncClient(timeout=SECONDS) as http:
        answer = await http.post(f"{serving.url}/", content=HELLO)
    assert (answer.status_code, "location" in answer.headers) == (404, False)
