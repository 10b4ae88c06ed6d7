"""Preferences are read and written over HTTP, by whoever has the token."""

import httpx
import pytest

from leonidas_tools import AdvancedToolProcessor, ToolSession, tool
from leonidas_tools.console import HTTPAccess, preferences_app
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.store import Store

TOKEN = {"Authorization": "Bearer s3cret"}


def client_of(store, headers=TOKEN, base="http://localhost", **access):
    app = preferences_app(store.preferences, HTTPAccess(token="s3cret", **access))
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url=base, headers=headers, verify=False)


@pytest.fixture
async def store(tmp_path):
    async with Store(tmp_path / "kept.db") as opened:
        yield opened


async def test_what_is_written_is_read_again(store):
    async with client_of(store) as client:
        empty = await client.get("/preferences/ana")
        assert (empty.status_code, empty.json()["values"], empty.headers["etag"]) == (
            200,
            {},
            '"0"',
        )
        put = await client.put("/preferences/ana", json={"voice": "Kore", "mode": "ask"})
        patched = await client.patch("/preferences/ana", json={"mode": None, "rate": 1.5})
        read = await client.get("/preferences/ana")
    assert put.json()["version"] == 1
    assert patched.json() == read.json() == (await store.preferences.read("ana")).to_json()
    assert read.json()["values"] == {"voice": "Kore", "rate": 1.5}


@pytest.mark.parametrize(
    ("path", "user"),
    [
        ("a%2Fb", "a/b"),
        ("a%2Fb%2F", "a/b/"),
        ("%2F", "/"),
        ("..%2Fana", "../ana"),
        ("a%252Fb", "a%2Fb"),
        ("ana%20%3F%23", "ana ?#"),
        ("%E5%90%8D", "名"),
    ],
)
async def test_a_users_id_may_hold_anything(store, path, user):
    async with client_of(store) as client:
        put = await client.put(f"/preferences/{path}", json={"a": 1})
        read = await client.get(f"/preferences/{path}")
    assert (put.status_code, read.json()["user"], read.json()["values"]) == (200, user, {"a": 1})
    assert (await store.preferences.read(user)).values == {"a": 1}


async def test_half_a_character_is_replaced_since_no_text_can_hold_it(store):
    content = b'{"\\ud800": "\\udfff"}'
    async with client_of(store) as client:
        put = await client.put("/preferences/ana", content=content)
        read = await client.get("/preferences/ana")
    assert (put.status_code, read.status_code) == (200, 200)
    assert read.json()["values"] == {"\ufffd": "\ufffd"}


async def test_a_change_of_what_has_changed_meanwhile_is_refused(store):
    async with client_of(store) as client:
        await client.put("/preferences/ana", json={"a": 1}, headers={"If-Match": '"0"'})
        stale = await client.patch("/preferences/ana", json={"a": 2}, headers={"If-Match": '"0"'})
        assert stale.status_code == 412
        assert "version 1, not 0" in stale.json()["error"]
        good = await client.patch("/preferences/ana", json={"a": 2}, headers={"If-Match": '"1"'})
        assert (good.status_code, good.headers["etag"]) == (200, '"2"')


async def test_a_saved_preference_applies_at_once_in_running_sessions(tmp_path):
    @tool(effect="once")
    async def touch() -> str:
        return "touched"

    settings = {"store": {"enabled": True, "url": str(tmp_path / "kept.db")}}
    async with AdvancedToolProcessor([touch], settings) as tools, client_of(tools.store) as client:
        session = ToolSession(user="ana")
        assert (await tools.execute("touch", session=session)).ok
        await client.patch("/preferences/ana", json={"mode": "read_only"})
        assert (await tools.execute("touch", session=session)).status == "denied"


@pytest.mark.parametrize(
    ("content", "headers", "status", "said"),
    [
        (b"{", {}, 400, "not valid JSON"),
        (b"[1]", {}, 400, "JSON object"),
        (b"[" * 100_000, {}, 400, "not valid JSON"),
        (b'{"mode": "autonomus"}', {}, 422, "'mode' is 'autonomus'"),
        (b'{"a": "' + b"x" * 300_000 + b'"}', {}, 422, "longer than"),
        (b'{"a": "' + b"x" * (1 << 20) + b'"}', {}, 413, "at most"),
        (b'{"a": [' + b"0," * 20_000 + b"0]}", {}, 413, "at most"),
        (b"{}", {"If-Match": "one"}, 400, "If-Match"),
    ],
)
async def test_what_cannot_be_written_is_refused_with_a_reason(
    store, content, headers, status, said
):
    async with client_of(store) as client:
        for method in ("PUT", "PATCH"):
            refused = await client.request(
                method, "/preferences/ana", content=content, headers=headers
            )
            assert (refused.status_code, said in refused.json()["error"]) == (status, True)
    assert (await store.preferences.read("ana")).version == 0


@pytest.mark.parametrize(
    ("headers", "base", "status"),
    [
        ({}, "http://localhost", 401),
        ({"Authorization": "Bearer other"}, "http://localhost", 401),
        ({"Authorization": "Basic s3cret"}, "http://localhost", 401),
        (TOKEN, "http://evil.example", 421),
        ({**TOKEN, "Origin": "https://evil.example"}, "http://localhost", 403),
        ({**TOKEN, "Origin": "null"}, "http://localhost", 403),
        ({**TOKEN, "Origin": "http://localhost"}, "http://localhost", 200),
        ({**TOKEN, "Origin": "https://page.example"}, "http://localhost", 200),
    ],
)
async def test_only_who_may_is_answered(store, headers, base, status):
    async with client_of(store, headers, base, origins=["https://page.example"]) as client:
        for method in ("GET", "PUT", "PATCH"):
            answer = await client.request(method, "/preferences/ana", json={"a": 1})
            assert answer.status_code == status
    assert (await store.preferences.read("ana")).version == (2 if status == 200 else 0)


async def test_a_page_of_a_named_origin_may_write(store):
    asks = {"Origin": "https://page.example", "Access-Control-Request-Method": "PATCH"}
    async with client_of(store, asks, origins=["https://page.example"]) as client:
        allowed = await client.options("/preferences/ana")
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://page.example"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", "/preferences/ana", 405),
        ("GET", "/preferences", 404),
        ("GET", "/preferences/", 404),
        ("PUT", "/preferences/", 404),
        ("GET", "/preferences/ana%0A", 404),
        ("GET", "/preferences/a%0Ab", 404),
        ("GET", "/", 404),
    ],
)
async def test_what_is_not_there_is_said(store, method, path, status):
    async with client_of(store) as client:
        assert (await client.request(method, path)).status_code == status


async def test_a_store_that_cannot_be_used_does_not_say_where_it_is(tmp_path):
    (tmp_path / "file").write_text("no folder")
    async with Store(tmp_path / "file" / "kept.db") as store, client_of(store) as client:
        answer = await client.get("/preferences/ana")
    assert answer.status_code == 503
    assert answer.json() == {"error": "The store cannot be used now: try again later"}


def test_without_a_token_nothing_is_served(tmp_path):
    with pytest.raises(ConfigurationError, match="only with a token"):
        preferences_app(Store(tmp_path / "kept.db").preferences, HTTPAccess())
