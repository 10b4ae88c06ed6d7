"""Logins by OAuth, against an authorization server on loopback."""

import asyncio
import contextlib
import json
import logging
import socket
import stat
import urllib.error
import urllib.parse
import urllib.request

import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.responses import JSONResponse, Response

from leonidas_tools.errors import ConfigurationError, RetryableError
from leonidas_tools.mcp.auth import client_auth, token_file
from leonidas_tools.mcp.data_files import data_file
from leonidas_tools.mcp.login import log_in, log_out
from leonidas_tools.settings.models import MCPServerSettings
from tests.mcp.hostile_login import Hostile, opened
from tests.mcp.logins import ACCOUNT, SCOPE, Guarded, browse

pytestmark = pytest.mark.slow

NEEDED = "The MCP server 'lab' is down: needs a login: run `leonidas mcp login lab`"


@pytest.fixture
def guard(caplog):
    """Starts the servers; after the test nothing secret stands in any log."""
    running = []
    caplog.set_level(logging.DEBUG)

    def start(**options):
        running.append(Guarded(**options))
        return running[-1]

    yield start
    for guarded in running:
        guarded.close()
    records = caplog.get_records("call")
    ours = [r for r in records if not r.name.startswith(("mcp.server", "uvicorn", "sse"))]
    assert [record for record in ours if record.name.startswith("mcp.client.auth")] == []
    texts = "\n".join(logging.Formatter("%(message)s").format(record) for record in ours)
    for guarded in running:
        assert [secret for secret in guarded.logins.said if secret in texts] == []


def of(settings):
    return MCPServerSettings(**settings)


async def logged_in(guarded, **auth):
    async with asyncio.timeout(30):
        return await log_in("lab", of(guarded.settings(**auth)), browse)


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_person_logs_in_once_and_the_tools_answer(guard, serve, transport):
    guarded = guard(transport=transport)
    assert await logged_in(guarded) == "logged in"
    assert await logged_in(guarded) == "was logged in"
    server = await serve(guarded.settings()).ready()
    assert (await server.call("add", a=1, b=2)).result == {"result": 3}
    assert guarded.logins.asked == ["code"]


async def test_the_tokens_are_kept_where_only_their_owner_reads_them(guard):
    guarded = guard()
    await logged_in(guarded)
    file = data_file("lab", "tokens")
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (file.parent, *file.parent.iterdir())}
    assert modes == {file.parent.name: 0o700, file.name: 0o600, f"{file.name}.lock": 0o600}


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_that_hands_back_its_token_gives_it_to_no_model(guard, serve, transport):
    guarded = guard(transport=transport)
    await logged_in(guarded)
    server = await serve(guarded.settings()).ready()
    assert (await server.call("echo")).result == {"***": "Bearer ***"}
    assert "refused with ***" in (await server.call("echo", fails=True)).message
    guarded.logins.access.clear()  # so that it is renewed
    assert (await server.call("echo")).result == {"***": "Bearer ***"}
    assert guarded.logins.asked == ["code", "refresh"]


async def test_a_client_names_itself_by_its_metadata_document(guard, serve):
    guarded = guard()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    document = "https://client.example/leonidas.json"
    guarded.logins.described.client_id_metadata_document_supported = True
    guarded.logins.clients[document] = OAuthClientInformationFull(
        client_id=document,
        redirect_uris=[f"http://127.0.0.1:{port}/callback"],
        token_endpoint_auth_method="none",
        scope=SCOPE,
    )
    auth = {"client_metadata_url": document, "callback_port": port}
    assert await logged_in(guarded, **auth) == "logged in"
    assert list(guarded.logins.clients) == [document]
    server = await serve(guarded.settings(**auth)).ready()
    assert (await server.call("add", a=1, b=2)).result == {"result": 3}


async def test_a_server_that_takes_no_metadata_document_registers_the_client(guard):
    guarded = guard()
    auth = {"client_metadata_url": "https://client.example/leonidas.json"}
    assert await logged_in(guarded, **auth) == "logged in"
    assert len(guarded.logins.clients) == 1


async def test_without_a_person_the_server_is_down_and_nothing_is_begun(guard, serve):
    guarded = guard()
    server = serve(guarded.settings())
    assert await server.down() == NEEDED
    assert (guarded.logins.clients, guarded.logins.asked) == ({}, [])


async def test_a_login_elsewhere_brings_a_server_that_is_down_back(guard, serve):
    guarded = guard()
    server = serve(guarded.settings())
    await server.down()
    await logged_in(guarded)
    await server.back()
    assert (await server.call("add", a=1, b=2)).result == {"result": 3}


async def test_an_expired_token_of_an_earlier_process_is_renewed_where_it_came_from(guard, serve):
    guarded = guard()
    await logged_in(guarded)
    file = data_file("lab", "tokens")
    file.write_text(json.dumps({**json.loads(file.read_text()), "expires_at": 1}))
    server = await serve(guarded.settings()).ready()
    assert (await server.call("add", a=1, b=2)).result == {"result": 3}
    assert guarded.logins.asked == ["code", "refresh"]


async def test_a_token_that_is_revoked_is_renewed_once_for_all_calls(guard, serve):
    guarded = guard()
    await logged_in(guarded)
    server = await serve(guarded.settings()).ready()
    guarded.logins.access.clear()
    answers = await asyncio.gather(*(server.call("add", a=1, b=n) for n in range(10)))
    assert [answer.result["result"] for answer in answers] == list(range(1, 11))
    assert guarded.logins.asked == ["code", "refresh"]


async def test_what_another_process_has_renewed_is_not_renewed_again(guard, serve):
    guarded = guard()
    await logged_in(guarded)
    first, second = serve(guarded.settings()), serve(guarded.settings())
    await first.ready()
    await second.ready()
    guarded.logins.access.clear()
    assert (await first.call("add", a=1, b=2)).result == {"result": 3}
    assert (await second.call("add", a=1, b=2)).result == {"result": 3}
    assert guarded.logins.asked == ["code", "refresh"]


async def test_a_renewal_that_another_process_was_faster_with_costs_no_login():
    newer = OAuthToken(access_token="new", refresh_token="2", expires_in=3600)

    async def answer(_):
        await file.set_tokens(newer)
        return JSONResponse({"error": "invalid_grant"}, 400)

    def guarded(request):
        return Response(
            status_code=200 if request.headers["authorization"] == "Bearer new" else 401
        )

    with contextlib.closing(Hostile()) as server:
        server.body = {"token": answer, "mcp": guarded}
        settings = of(server.settings(client_id="ours"))
        file, auth = token_file("lab", settings), client_auth("lab", settings, opened)
        await file.set_tokens(OAuthToken(access_token="old", refresh_token="1", expires_in=-10))
        async with httpx2.AsyncClient(auth=auth) as client:
            assert (await client.post(settings.url)).status_code == 200
    assert (await file.get_tokens()).refresh_token == "2"


async def test_where_nothing_can_be_renewed_a_person_has_to_log_in_again(guard, serve):
    guarded = guard()
    await logged_in(guarded)
    guarded.logins.access.clear()
    guarded.logins.refresh.clear()
    server = serve(guarded.settings())
    assert await server.down() == NEEDED
    assert await logged_in(guarded) == "logged in"
    await server.back()
    assert len(guarded.logins.clients) == 1


async def test_a_login_server_that_is_ill_costs_no_login(guard, serve):
    guarded = guard()
    await logged_in(guarded)
    guarded.logins.access.clear()
    guarded.logins.ill = True
    server = serve(guarded.settings())
    assert await server.down() == (
        "The MCP server 'lab' is down: its authorization server does not refresh the token "
        f"(temporarily_unavailable) at {guarded.url}"
    )
    guarded.logins.ill = False
    await server.back()
    assert guarded.logins.asked == ["code", "refresh"]


async def test_an_answer_that_takes_long_holds_no_other(guard, serve):
    guarded = guard(json_response=True)
    await logged_in(guarded)
    server = await serve(guarded.settings()).ready()
    waiting = asyncio.create_task(server.call("wait"))
    await asyncio.to_thread(guarded.waiting.wait, 20)
    assert (await server.call("add", a=1, b=2)).result == {"result": 3}
    guarded.may_end.set()
    assert (await waiting).result == {"result": "ended"}


async def test_a_forged_answer_does_not_end_the_login(guard):
    guarded = guard()
    refused = []

    async def attacked(url):
        redirect = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["redirect_uri"][0]
        for forged in ("?code=evil&state=guessed", "?code=evil", "x?error=access_denied"):
            with pytest.raises(urllib.error.HTTPError) as error:
                await asyncio.to_thread(urllib.request.urlopen, redirect + forged)
            refused.append(error.value.code)
            error.value.close()
        await browse(url)

    async with asyncio.timeout(30):
        assert await log_in("lab", of(guarded.settings()), attacked) == "logged in"
    assert refused == [400, 400, 400]


async def nobody(url):
    """A person who has gone away."""


@pytest.mark.parametrize(
    ("auth", "answer", "person", "reason"),
    [
        ({}, "access_denied", browse, "the login was refused: 'access_denied'"),
        ({"login_timeout": 0.1}, "code", nobody, "the login was not completed within 0.1 s"),
        (
            {"client_id": "unknown"},
            "code",
            browse,
            "the login was not completed within 1 s",
        ),
        (
            {"grant": "client_credentials", "client_id": ACCOUNT[0], "client_secret": "wr0ng"},
            "code",
            browse,
            "its authorization server does not issue a token (invalid_client)",
        ),
    ],
)
async def test_a_login_that_fails_says_why(guard, auth, answer, person, reason):
    guarded = guard()
    guarded.logins.answer = answer
    settings = of(guarded.settings(**{"login_timeout": 1, **auth}))
    async with asyncio.timeout(30):
        with pytest.raises(ConfigurationError) as error:
            await log_in("lab", settings, person)
    assert error.value.message == f"Login to the MCP server 'lab' failed: {reason} at {guarded.url}"


@pytest.mark.parametrize("answer", ["access_denied", "code"])
async def test_a_person_who_does_not_log_in_is_asked_once(guard, answer):
    guarded = guard()
    guarded.logins.answer = answer
    pages = []

    async def person(url):
        pages.append(url)
        if answer != "code":
            await browse(url)

    settings = of(guarded.settings(login_timeout=0.1))
    async with asyncio.timeout(30):
        with pytest.raises(ConfigurationError):
            await log_in("lab", settings, person)
    assert len(pages) == 1


async def test_a_port_that_is_taken_is_named(guard):
    guarded = guard()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigurationError, match=f"the callback port {port} is in use"
        ) as error:
            await logged_in(guarded, callback_port=port)
    assert "`callback_port`" in error.value.message
    assert guarded.logins.clients == {}


@pytest.mark.parametrize("asks_for_form", [False, True])
async def test_an_account_of_our_own_needs_no_person(guard, serve, asks_for_form):
    guarded = guard()
    guarded.logins.asks_for_form = asks_for_form
    name, secret = ACCOUNT
    auth = {"grant": "client_credentials", "client_id": name, "client_secret": secret}
    server = await serve(guarded.settings(**auth, issuer=guarded.issuer)).ready()
    guarded.logins.access.clear()
    assert (await server.call("add", a=1, b=2)).result == {"result": 3}
    assert guarded.logins.asked == ["account", "account"]


async def test_more_scopes_than_were_granted_need_another_login(guard, serve):
    guarded = guard()
    await logged_in(guarded)
    server = await serve(guarded.settings()).ready()
    for token in guarded.logins.access.values():
        token.scopes = ["other"]
    with pytest.raises(RetryableError) as refused:
        await server.call("add", a=1, b=2)
    assert refused.value.message == (
        "The MCP server 'lab' is not available: needs a login: run `leonidas mcp login lab`."
    )
    assert await logged_in(guarded) == "logged in"
    await server.back()
    assert (await server.call("add", a=1, b=2)).result == {"result": 3}


async def test_a_secret_goes_to_no_other_login_server_than_its_own(guard, serve):
    guarded = guard()
    name, secret = ACCOUNT
    auth = {"grant": "client_credentials", "client_id": name, "client_secret": secret}
    server = serve(guarded.settings(**auth, issuer="https://login.example.org"))
    assert "does not follow the protocol" in await server.down()
    assert guarded.logins.asked == []


async def test_a_token_goes_to_no_other_address_than_its_own(guard, serve):
    first, second = guard(), guard()
    await logged_in(first)
    server = serve(second.settings())
    assert await server.down() == NEEDED
    assert [headers for headers in second.headers if b"authorization" in headers] == []


async def test_a_logout_forgets_the_tokens_here_and_there(guard, serve):
    guarded = guard()
    await logged_in(guarded)
    assert await log_out("lab", of(guarded.settings()))
    assert not data_file("lab", "tokens").exists()
    assert (guarded.logins.asked, guarded.logins.access) == (["code", "revoke"], {})
    assert not await log_out("lab", of(guarded.settings()))
    assert await serve(guarded.settings()).down() == NEEDED
