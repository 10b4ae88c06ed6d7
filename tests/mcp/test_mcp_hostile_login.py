"""Login servers, and servers that name them, that attack the one who logs in."""

import asyncio
import contextlib

import pytest
from mcp.shared.auth import OAuthClientInformationFull
from starlette.responses import JSONResponse, Response

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp.auth import request_bounds, token_file
from leonidas_tools.mcp.auth.failures import LoginError
from leonidas_tools.mcp.auth.request_bounds import OAuthRequestBounds
from leonidas_tools.mcp.login import log_in
from leonidas_tools.mcp.transport.redaction import ServerRedaction
from leonidas_tools.settings.models import MCPServerSettings
from tests.mcp.hostile_login import Hostile, bomb, endless, garbage, trickling
from tests.mcp.logins import SCOPE, Guarded, browse

pytestmark = pytest.mark.slow

CLOUD = "http://169.254.169.254/latest/meta-data"
SECONDS = 30


@pytest.fixture
def hostile():
    with contextlib.closing(Hostile()) as hostile:
        yield hostile


async def why_not(settings, person=browse):
    """Why a login has failed."""
    async with asyncio.timeout(SECONDS):
        with pytest.raises(ConfigurationError) as error:
            await log_in("lab", MCPServerSettings(**settings), person)
    return error.value.message


# What it changes of what it says, and what is said of that.
LIES = {
    "metadata of another issuer": ("metadata", "issuer", "https://bank.example/", "issuer"),
    "an answer of another issuer": ("redirect", "iss", "https://bank.example/", "iss mismatch"),
    "two issuers": (
        "redirect",
        "iss",
        ["http://one.example", "http://two.example"],
        "the login was not completed",
    ),
    "two codes": ("redirect", "code", ["c0de", "other"], "the login was not completed"),
    "two states": ("redirect", "state", ["one", "two"], "the login was not completed"),
    "another state": ("redirect", "state", "guessed", "the login was not completed"),
    "an error beside a code": ("redirect", "error", "access_denied", "refused"),
    "no issuer though it was promised": (
        "metadata",
        "authorization_response_iss_parameter_supported",
        True,
        "missing iss",
    ),
    "a token for another server": (
        "resource",
        "resource",
        "https://bank.example/",
        "does not match",
    ),
    "no safe challenge": ("metadata", "code_challenge_methods_supported", ["plain"], "S256"),
    "a token endpoint in the clear": (
        "metadata",
        "token_endpoint",
        "http://192.0.2.1/token",
        "not encrypted",
    ),
    "a page in the clear": (
        "metadata",
        "authorization_endpoint",
        "http://192.0.2.1/login",
        "not encrypted",
    ),
    "the keys of the machine": ("metadata", "registration_endpoint", CLOUD, "not encrypted"),
    "the keys of the machine by TLS": (
        "metadata",
        "token_endpoint",
        "https://169.254.169.254/token",
        "inside this machine's network",
    ),
    "the keys of the machine written otherwise": (
        "metadata",
        "token_endpoint",
        "https://[::ffff:a9fe:a9fe]/token",
        "inside this machine's network",
    ),
}


@pytest.mark.parametrize(("where", "key", "value", "said"), LIES.values(), ids=LIES)
async def test_a_login_that_is_led_astray_ends_without_a_token(hostile, where, key, value, said):
    getattr(hostile, where)[key] = value
    assert said in await why_not(hostile.settings(login_timeout=1))
    assert "/token" not in hostile.paths()
    file = token_file("lab", MCPServerSettings(**hostile.settings()))
    assert await file.get_tokens() is None


@pytest.mark.parametrize(
    "place", [CLOUD, "http://[", "http://192.0.2.1/x", "http://0xa9fea9fe/", "gopher://h/x"]
)
async def test_the_address_of_the_metadata_may_not_lead_inside(hostile, place):
    hostile.asks = f'Bearer resource_metadata="{place}"'
    assert "its login leads to" in await why_not(hostile.settings())
    assert set(hostile.paths()) == {"/mcp"}


@pytest.mark.parametrize(
    "path", ["mcp", "resource", "oauth-authorization-server", "register", "token"]
)
@pytest.mark.parametrize("body", [endless, bomb, trickling, garbage])
async def test_no_answer_to_a_login_is_read_without_end(hostile, monkeypatch, path, body):
    if body is trickling:  # only time ends it; what has a size is given time on a busy machine
        monkeypatch.setattr(request_bounds, "_ANSWER_SECONDS", 1.0)

    def answer(request):
        response = body(request)
        if path == "mcp":
            response.status_code = 401
        return response

    hostile.body = {path: answer}
    said = await why_not(hostile.settings())
    told = ("sent a login response", "answered its login with", "did not finish its answer")
    assert any(each in said for each in told)


async def test_a_token_that_is_too_long_to_be_masked_at_once_is_not_taken(hostile):
    token = {"access_token": "x" * 900_000, "token_type": "Bearer"}
    hostile.body = {"token": lambda _: JSONResponse(token)}
    assert "answered its login with more than" in await why_not(hostile.settings())


@pytest.mark.parametrize(
    "token",
    [
        {"access_token": "tökén"},
        {"access_token": "t0ken\r\nX-Key: 1"},
        {"access_token": "t0ken", "expires_in": 10**400},
    ],
)
async def test_a_token_that_cannot_be_sent_is_not_taken_and_the_next_login_asks_again(
    hostile, token
):
    hostile.body = {"token": lambda _: JSONResponse({"token_type": "Bearer", **token})}
    for _ in range(2):
        hostile.asked.clear()
        assert "did not return a valid token" in await why_not(hostile.settings())
        assert "/authorize" in hostile.paths()


async def test_a_refusal_that_is_nested_very_deep_is_a_refusal(hostile):
    hostile.body = {"token": lambda _: Response("[" * 60_000, 400)}
    assert "does not issue a token (HTTP 400" in await why_not(hostile.settings())


def test_of_very_many_tokens_the_newest_are_masked():
    redact = ServerRedaction(MCPServerSettings(url="http://host/mcp?key=s3cret"))
    tokens = [f"token {number}: " + "x" * 60_000 for number in range(40)]
    for token in tokens:
        redact.learn(token)
    masked = [redact(token) == "***" for token in tokens]
    assert masked == [False] * 8 + [True] * 32
    assert redact("key=s3cret") == "key=***"


async def nobody(_):
    """A person who has gone away."""


async def test_after_a_failed_login_elsewhere_no_old_refresh_token_goes_there(hostile):
    settings = hostile.settings(client_id="ours", login_timeout=0.2)
    with contextlib.closing(Guarded()) as guarded:
        logins = guarded.logins
        logins.clients["ours"] = OAuthClientInformationFull(
            client_id="ours", token_endpoint_auth_method="none"
        )
        tokens = logins._tokens("ours", [SCOPE], hostile.url)
        file = token_file("lab", MCPServerSettings(**settings))
        await file.set_tokens(tokens)
        await file.set_servers(logins.described, None)
        await why_not(settings, nobody)
        await why_not(settings, nobody)
    assert logins.asked == ["refresh"]
    sent = [form for _, _, form in hostile.asked]
    assert [secret for secret in logins.said if any(secret in form for form in sent)] == []


async def test_the_headers_of_the_server_go_to_no_login_server(hostile):
    seen = []

    def token(request):
        seen.append(request.headers)
        return JSONResponse({"error": "invalid_grant"}, 400)

    hostile.body = {"token": token}
    await why_not({**hostile.settings(), "headers": {"X-Key": "s3cret"}})
    assert [each for each in seen if "x-key" in each] == []
    assert seen


PUBLIC, OWN = "https://93.184.216.34/mcp", "http://127.0.0.1:8000/mcp"


@pytest.mark.parametrize(
    ("server", "issuer", "url", "may"),
    [
        (PUBLIC, None, "https://93.184.215.14/token", True),
        (PUBLIC, None, "https://127.0.0.1/token", False),
        (PUBLIC, None, "http://127.0.0.1:9200/", False),
        (PUBLIC, None, "http://localhost:9200/", False),
        (PUBLIC, None, "http://app.localhost./", False),
        (PUBLIC, None, "https://[::1]/", False),
        (PUBLIC, None, "https://[::ffff:10.0.0.1]/", False),
        (PUBLIC, None, "https://[fd00::1]/", False),
        (PUBLIC, None, "https://10.0.0.1/", False),
        (PUBLIC, None, "https://100.64.0.1/", False),
        (PUBLIC, None, "https://0.0.0.0/", False),
        (PUBLIC, None, "https://2130706433/", False),
        (PUBLIC, None, "https://0x7f.1/", False),
        (PUBLIC, None, "http://93.184.216.34/token", False),
        (PUBLIC, "https://10.0.0.1", "https://10.0.0.1/token", True),
        (PUBLIC, "https://10.0.0.1", "http://10.0.0.1/token", False),
        (PUBLIC, "https://10.0.0.1", "https://10.0.0.2/token", False),
        ("https://10.0.0.1/mcp", None, "https://10.0.0.2/token", True),
        ("https://10.0.0.1/mcp", None, "https://127.0.0.1/token", False),
        ("http://10.0.0.1/mcp", None, "http://10.0.0.1:81/token", True),
        ("http://10.0.0.1/mcp", None, "http://10.0.0.2/token", False),
        (OWN, None, "http://127.0.0.1:9000/token", True),
        (OWN, None, "http://localhost:9000/token", True),
        (OWN, None, "https://93.184.215.14/token", True),
        (OWN, None, "http://93.184.215.14/token", False),
        (OWN, None, "https://169.254.169.254/", False),
        (PUBLIC, None, "https://168.63.129.16/", False),
        (PUBLIC, None, "https://192.0.0.192/", False),
        (PUBLIC, None, "https://192.88.99.1/", False),
        (PUBLIC, None, "https://224.0.0.1/", False),
        (PUBLIC, None, "https://[64:ff9b::a00:1]/", False),
        (PUBLIC, None, "https://[64:ff9b::5db8:d70e]/", True),
        (PUBLIC, None, "https://[64:ff9b:1::a00:1]/", False),
        (PUBLIC, None, "https://[2001:0:5db8:d70e:0:0:f5ff:fffe]/", False),
        (OWN, None, "https://[64:ff9b::a9fe:a9fe]/", False),
        ("https://10.0.0.1/mcp", None, "https://100.100.100.200/", False),
        ("https://10.0.0.1/mcp", None, "https://[fd00:ec2::254]/", False),
    ],
)
async def test_a_login_leads_to_nothing_closer_than_the_server(server, issuer, url, may):
    errand = OAuthRequestBounds(server, issuer)
    with contextlib.nullcontext() if may else pytest.raises(LoginError, match="login leads to"):
        await errand.check(url)
