"""The console over HTTP, served by a real server on this machine."""

import asyncio
import contextlib
import json
import time
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.routing import Mount

from leonidas_tools import Tool, ToolRuntime, ToolSession, tool
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.console import api, console_app
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp_server import connections, guard
from tests.console.served import BEARER, TOKEN, Desk, Served, until
from tests.hostile import HOSTILE

pytestmark = pytest.mark.asyncio(loop_scope="module")
looped = pytest_asyncio.fixture(loop_scope="module")
SECRET = "4111-1111-1111-1111"


@looped
async def desk():
    return Desk()


@looped
async def console(desk):
    async with Served(ToolRuntime(desk.tools(), builtin_tools=False)) as served:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def refusing_console():
    """Serve the requests that are refused and change nothing: one console for all of them."""
    async with Served(ToolRuntime(Desk().tools(), builtin_tools=False)) as served:
        yield served


async def test_a_call_that_runs_is_seen_and_cancelled(console, desk):
    session = ToolSession("kitchen")
    async with console.events() as events:
        assert (await until(events, "state"))["calls"] == []
        calling = asyncio.create_task(
            console.tools.execute("wait", session=session, call_id="fc-1")
        )
        await until(events, "tool_progress")
        answer = await console.client.post("/api/calls/fc-1/cancel", json={"session": "kitchen"})
        assert answer.json() == {"call": "fc-1", "accepted": True}
        assert (await until(events, "tool_cancel"))["call_id"] == "fc-1"
    assert (await calling).status == "cancelled"
    assert desk.stopped.is_set()
    again = await console.client.post("/api/calls/fc-1/cancel", json={})
    assert again.status_code == 409
    assert "'fc-1'" in again.json()["error"]


async def test_names_with_slashes_are_found(console, desk):
    slashed = Tool(desk.goes_on.wait, name="hall/lamp", effect="read")
    console.tools.registry.register(slashed)
    shown = await console.client.patch("/api/tools/hall%2Flamp", json={"timeout": 30})
    assert shown.json()["effective"]["timeout"]["value"] == 30
    async with console.events() as events:
        await until(events, "state")
        session = ToolSession("hall/left")
        calling = asyncio.create_task(console.tools.execute("hall/lamp", session=session))
        call = quote((await until(events, "tool_start"))["trace_id"], safe="")
        answer = await console.client.post(f"/api/calls/{call}/cancel", json={})
        assert answer.status_code == 200
    assert (await calling).status == "cancelled"


async def test_a_call_that_failed_is_tried_again_when_a_person_says_so(console, desk):
    async with console.events() as events:
        failed = await console.tools.execute("flaky", call_id="fc-2")
        assert failed.status == "failed"
        answer = await console.client.post("/api/calls/fc-2/retry", json={})
        assert answer.status_code == 200, answer.text
        await until(events, "tool_complete")
    assert desk.tries == 2


@pytest.mark.parametrize(
    ("answer", "status", "paid"),
    [
        ({"answer": "approve"}, "ok", [("Ana", 50)]),
        ({"answer": "deny", "reason": "too much"}, "denied", []),
    ],
)
async def test_a_question_is_shown_without_secrets_and_answered(
    console, desk, answer, status, paid
):
    session = ToolSession("kitchen")
    async with console.events() as events:
        await until(events, "state")
        arguments = {"to": "Ana", "amount": 50, "card": SECRET}
        pending = await console.tools.execute("pay", arguments, session=session)
        assert pending.status == "pending_approval"
        request = await until(events, "tool_approval_request")
        assert SECRET not in json.dumps(request)
        (question,) = await console.get("/api/approvals")
        assert question == request["request"]
        assert question["details"] == {
            "to": "Ana",
            "amount": 50,
            "card": question["details"]["card"],
        }
        path = f"/api/approvals/{question['id']}"
        told = await console.client.post(path, json=answer)
        assert told.json() == {"approval": question["id"], "answer": answer["answer"]}
        await until(events, "tool_complete" if paid else "tool_approval_answer")
    assert desk.paid == paid
    twice = await console.client.post(path, json={"answer": "approve"})
    assert (twice.status_code, desk.paid) == (409, paid)
    history = await console.get("/api/history", params={"tool": "pay"})
    assert SECRET not in json.dumps(history)
    assert status in {row["status"] for row in history} | {"denied"}


async def test_a_reader_that_comes_back_gets_what_it_missed_and_nothing_twice(console):
    async with console.events() as events:
        await until(events, "state")
        await console.tools.execute("flaky")
        seen = await until(events, "tool_start")
    missed = await until_failed(console, str(seen["sequence"]))
    assert [each["sequence"] for each in missed] == list(
        range(seen["sequence"] + 1, seen["sequence"] + 1 + len(missed))
    )
    assert "state" not in {each["event"] for each in missed}
    async with console.events(**{"Last-Event-ID": "1"}) as events:
        assert (await anext(events))["event"] == "state"


async def until_failed(console, after):
    missed = []
    async with console.events(**{"Last-Event-ID": after}) as events:
        async for event in events:
            missed.append(event)
            if event["event"] in {"tool_failed", "tool_error"}:
                return missed
    return missed


async def test_a_setting_that_is_changed_on_the_page_holds_in_the_session_and_in_the_file(
    desk, tmp_path
):
    file = tmp_path / "tools.yaml"
    file.write_text("tools:\n  flaky:  # the line is often busy\n    timeout: 5s\n")
    tools = ToolRuntime(desk.tools(), config=file, builtin_tools=False)
    async with Served(tools) as console:
        shown = await console.client.get("/api/tools/flaky")
        timeout = shown.json()["effective"]["timeout"]
        assert timeout["value"] == 5
        assert timeout["place"] == "tools.yaml:3"
        changed = await console.client.patch(
            "/api/tools/flaky", json={"enabled": False}, headers={"If-Match": shown.headers["etag"]}
        )
        assert changed.json()["enabled"] is False
        assert (await tools.execute("flaky")).status == "disabled"
        assert "# the line is often busy" in file.read_text()
        stale = await console.client.patch(
            "/api/tools/flaky", json={"enabled": True}, headers={"If-Match": shown.headers["etag"]}
        )
        assert stale.status_code == 412
        for wrong in ({"enabeld": True}, {"timeout": "soon"}):
            refused = await console.client.patch("/api/tools/flaky", json=wrong)
            assert refused.status_code == 422
            assert "tools.flaky" in refused.json()["error"]
            assert "tools.yaml" in refused.json()["error"]
            assert str(tmp_path) not in refused.text
        assert (await tools.execute("flaky")).status == "disabled"


async def test_a_session_may_be_made_read_only(console):
    session = ToolSession("kitchen")
    await console.tools.execute("flaky", session=session)
    changed = await console.client.patch("/api/sessions/kitchen", json={"mode": "read_only"})
    assert changed.json() == {"id": "kitchen", "mode": "read_only"}
    denied = await console.tools.execute("flaky", session=session)
    assert denied.status == "denied"
    found = {each["id"]: each["mode"] for each in await console.get("/api/sessions")}
    assert found["kitchen"] == "read_only"


async def test_a_session_is_not_taken_for_that_of_another_user_with_the_same_id(console):
    sessions = [ToolSession("pantry", user=user) for user in ("ana", "ben")]
    for session in sessions:
        await console.tools.execute("flaky", session=session)
    changed = await console.client.patch("/api/sessions/pantry", json={"mode": "autonomous"})
    assert changed.status_code == 409
    assert [session.get(SessionPolicy).mode for session in sessions] == [None, None]


ASKED = [
    ("GET", "/api/tools", None),
    ("GET", "/api/events", None),
    ("GET", "/api/approvals", None),
    ("GET", "/api/history", None),
    ("GET", "/metrics", None),
    ("POST", "/api/calls/x/cancel", {}),
    ("POST", "/api/approvals/x", {"answer": "approve"}),
    ("PATCH", "/api/tools/pay", {"enabled": False}),
    ("PATCH", "/api/sessions/x", {"mode": "autonomous"}),
]


@pytest.mark.parametrize(("method", "path", "body"), ASKED)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_who_may_not_gets_nothing(refusing_console, method, path, body, headers, status):
    answer = await refusing_console.client.request(method, path, json=body, headers=headers)
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "path",
    ["//api/tools", "/api//tools", "/API/tools", "/x/../api/tools", "/api/tools/", "/%61pi/tools",
     "/api%2ftools", "/static/../api/tools", "/metrics/", "/./metrics", "/%6detrics",
     "/metrics%0a", "/metrics%0A%0A",
     "/api/tools%0a"],
)  # fmt: skip
async def test_no_way_of_writing_a_path_gets_round_the_token(refusing_console, path):
    host, port = refusing_console.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert answer.split(b" ", 2)[1] in {b"401", b"404"}
    assert b"flaky" not in answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asking_console():
    """Serve one open question, which no test answers."""
    desk = Desk()
    settings = {"policies": {"approval": {"deadline": "1h"}}}
    async with Served(ToolRuntime(desk.tools(), settings, builtin_tools=False)) as served:
        await served.tools.execute("pay", {"to": "Ana", "amount": 50, "card": SECRET})
        yield served
    assert desk.paid == []


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        ('{"answer": "approve"}', "text/plain", 415),
        ('{"answer": "approve"}', "application/x-www-form-urlencoded", 415),
        ("answer=approve", "application/json", 400),
        ("[" * 100_000, "application/json", 400),
        ('["approve"]', "application/json", 400),
        ('{"answer": NaN}', "application/json", 400),
        ('{"answer": 1e999}', "application/json", 400),
        ('{"answer": "yes"}', "application/json", 422),
        ('{"answer": "approve", "sudo": true}', "application/json", 422),
        ('{"answer": "edit"}', "application/json", 422),
        ('"' + "x" * (1 << 20) + '"', "application/json", 413),
        ('{"answer": [' + "0," * 20_000 + "0]}", "application/json", 413),
    ],
)
async def test_an_invalid_decision_is_refused_and_decides_nothing(
    asking_console, content, kind, status
):
    (question,) = await asking_console.get("/api/approvals")
    answer = await asking_console.client.post(
        f"/api/approvals/{question['id']}", content=content, headers={"Content-Type": kind}
    )
    assert answer.status_code == status
    assert answer.json()["error"]
    assert await asking_console.get("/api/approvals") == [question]


@pytest.mark.parametrize("path", [path for method, path, _ in ASKED if method != "GET"])
async def test_nothing_is_changed_by_get(refusing_console, path):
    answer = await refusing_console.client.get(path, params={"answer": "approve"})
    assert answer.status_code in {404, 405} or path == "/api/tools/pay"


@pytest.mark.parametrize(
    "limit", ["0", "1001", "-1", "0000000010000000000", "٣", "1e3", "9" * 5000]
)
async def test_no_request_gets_more_rows_than_the_console_gives(refusing_console, limit):
    answer = await refusing_console.client.get("/api/history", params={"limit": limit})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("limit must be a number from 1 to 1000, not ")


@pytest.mark.parametrize("path", ["/", "/console.js", "/console.css", "/icon.svg"])
async def test_the_page_is_served_without_the_token_and_has_no_data(refusing_console, path):
    answer = await refusing_console.client.get(path, headers={"Authorization": ""})
    assert answer.status_code == 200
    assert "flaky" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_what_hostile_tools_say_is_json_and_nothing_else(desk):
    @tool(name="hostile", description=HOSTILE)
    def hostile() -> str:
        return HOSTILE

    async with Served(ToolRuntime([hostile], builtin_tools=False)) as console:
        (shown,) = await console.get("/api/tools")
        await console.tools.execute("hostile")
        answer = await console.client.get("/api/history")
    assert shown["name"] == "hostile"
    assert answer.headers["content-type"] == "application/json"
    assert len(answer.json()) == 1


async def test_a_body_that_does_not_come_in_time_is_refused_without_a_traceback(
    console, monkeypatch, caplog
):
    monkeypatch.setattr(guard, "_BODY_SECONDS", 0.05)

    host, port = console.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = [
        "POST /api/approvals/x HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {TOKEN}",
        "Content-Type: application/json", "Content-Length: 100", "Connection: close",
    ]  # fmt: skip
    writer.write("\r\n".join([*head, "", '{"answer": ']).encode())
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert "Exception" not in caplog.text


async def asking(console, path, times=1, *, token=""):
    """Return a connection on which so many requests were sent."""
    host, port = console.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode() * times)
    return reader, writer


async def test_a_client_that_takes_no_answer_is_cut_off(refusing_console, monkeypatch):
    monkeypatch.setattr(connections, "_CLIENT_SECONDS", 0.05)
    _, writer = await asking(refusing_console, "/console.js", 100_000)
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_a_slow_client_gets_the_whole_of_a_long_answer(monkeypatch):
    monkeypatch.setattr(connections, "_CLIENT_SECONDS", 0.2)
    long = "x" * 20_000_000

    @tool(name="long", description=long)
    def described() -> str:
        return ""

    async with Served(ToolRuntime([described], builtin_tools=False)) as console:
        reader, writer = await asking(console, "/api/tools/long", token=TOKEN)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        assert len(await reader.readexactly(length)) > len(long)
        writer.close()


async def test_of_a_long_conversation_only_the_last_calls_are_replayed(desk, monkeypatch, tmp_path):
    monkeypatch.setattr(api, "_MAX_ROWS", 2)
    desk.goes_on.set()
    settings = {"store": {"enabled": True, "url": str(tmp_path / "store.db")}}
    tools = ToolRuntime(desk.tools(), settings, builtin_tools=False)
    session = ToolSession("long")
    async with Served(tools) as console:
        for _ in range(4):
            await tools.execute("wait", session=session)
        steps = await console.get("/api/conversations/long")
        newest = await console.get("/api/history?session=long&limit=2")
    assert len(newest) == 2
    assert {step["trace_id"] for step in steps} == {call["trace_id"] for call in newest}


async def test_readers_beyond_the_limit_have_to_wait(console):
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(64):
            await stack.enter_async_context(console.client.stream("GET", "/api/events"))
        late = await console.client.get("/api/events")
        assert late.status_code == 503
        assert late.headers["retry-after"]
        assert (await console.client.get("/api/tools")).status_code == 200
    async with console.events() as events:
        assert (await anext(events))["event"] == "state"


async def test_too_many_changes_at_once_are_refused(console, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(guard, "monotonic", lambda: now)  # else a slow machine refuses none
    answers = [await console.client.post("/api/calls/x/cancel", json={}) for _ in range(60)]
    assert {answer.status_code for answer in answers} == {409, 429}
    assert (await console.client.get("/api/tools")).status_code == 200


async def test_every_operation_is_described_and_needs_the_token(refusing_console):
    description = await refusing_console.get("/openapi.json")
    for path, operations in description["paths"].items():
        for method in operations:
            asked = path.replace("{", "").replace("}", "")
            answer = await refusing_console.client.request(
                method, asked, headers={"Authorization": ""}
            )
            assert answer.status_code == 401, (method, path)
    assert len({o["operationId"] for p in description["paths"].values() for o in p.values()}) >= 19


async def test_health_is_public_and_says_no_more(console):
    for path, said in (("/healthz", "alive"), ("/readyz", "ready")):
        answer = await console.client.get(path, headers={"Authorization": ""})
        assert (answer.status_code, answer.json()) == (200, {"status": said})
    assert (await console.get("/api/health"))["status"] == "healthy"


async def test_the_console_mounts_in_another_app(desk):
    console = console_app(ToolRuntime(desk.tools(), builtin_tools=False), token=TOKEN)
    app = Starlette(routes=[Mount("/inside", console)], lifespan=lambda _: console)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://localhost"
        ) as client,
    ):
        assert (await client.get("/inside/")).status_code == 200
        assert (await client.get("/inside/api/tools")).status_code == 401
        tools = await client.get("/inside/api/tools", headers=BEARER)
    assert {each["name"] for each in tools.json()} >= {"wait", "flaky", "pay"}


async def test_without_a_token_there_is_no_console():
    with pytest.raises(ConfigurationError, match="token"):
        console_app(ToolRuntime(), token="")
    with pytest.raises(TypeError, match="ToolRuntime"):
        console_app([], token=TOKEN)
