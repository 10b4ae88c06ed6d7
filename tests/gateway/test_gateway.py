"""Conversations over the gateway: a real server, a real client, and a simulated model."""

import asyncio

import pytest
from websockets.exceptions import InvalidStatus

from leonidas_tools import ToolContext, tool
from leonidas_tools.gateway import GatewayLimits, make_token, resumption_guard
from leonidas_tools.session.speech import SpeechState
from leonidas_tools.simulator import (
    Call,
    Expect,
    FunctionCall,
    InputTranscription,
    Say,
    TurnComplete,
    Usage,
    WaitForAnswers,
    WaitForClose,
    WaitForInput,
)
from tests.gateway.served import SECRET, Client, Served, subprotocols


@tool(effect="read")
async def who(ctx: ToolContext) -> str:
    """Say who is speaking."""
    return f"user {ctx.session.user}"


TALK = (
    WaitForInput("audio"),
    InputTranscription("who am I"),
    Call.one("who", id="c1"),
    WaitForAnswers(),
    Say("{answers.c1.result}", audio_seconds=0.5),
    TurnComplete(),
)


async def test_a_websocket_is_a_conversation_with_sound_transcripts_and_tools():
    async with Served(TALK, tools=[who]) as served, served.client("ana") as client:
        await client.websocket.send(bytes(640))
        await client.until("turn_complete")
        said = [m for m in client.messages if m["type"] == "transcript"]
        assert "".join(m["text"] for m in said if m["who"] == "user") == "who am I"
        assert "".join(m["text"] for m in said if m["who"] == "agent") == "user ana"
        events = [m["event"] for m in client.messages if m["type"] == "tool"]
        assert events == ["tool_start", "tool_complete"]
        assert len(client.sound) == 16_000  # half a second at 16 kHz


async def test_a_scenario_that_fails_in_one_conversation_plays_in_the_next():
    failing = [Expect("none", within_seconds=0)]
    async with Served(connections=[failing, [TurnComplete()]]) as served:
        async with served.opened(make_token(SECRET, "ana")) as websocket:
            client = Client(websocket)
            await client.say("start")
            assert await client.closed() == 1011
        async with served.client("ben") as client:
            await client.until("turn_complete")


async def test_the_log_has_the_beginning_and_the_end_of_each_conversation_and_each_refusal(caplog):
    caplog.set_level("INFO", "leonidas_tools.gateway")
    limits = GatewayLimits(conversations_per_user=1)
    late = make_token(SECRET, "ben", seconds=0.001)
    async with Served([WaitForClose()], limits=limits) as served, served.client("ana") as client:
        await served.code_for("ana")
        for token, headers in ((None, {}), (late, {}), (late, {"Origin": "http://evil.org"})):
            with pytest.raises(InvalidStatus):
                await served.opened(token, headers=headers)
    session = client.ready["session"]
    not_signed_in = "A client at 127.0.0.1 was refused, since it is not signed in:"
    said = [each.getMessage() for each in caplog.records if each.levelname == "INFO"]
    assert said == [
        f"The conversation {session} of 'ana' has begun",
        "A conversation of 'ana' was refused: Too many conversations of this user: end one",
        f"{not_signed_in} there is no token",
        f"{not_signed_in} Signature has expired",
        "A request was refused with 403: This origin may not use this server.",
        f"The conversation {session} of 'ana' has ended: The client has left",
    ]


async def test_the_metrics_are_those_of_conversations_and_of_tools():
    async with Served(TALK, tools=[who]) as served, served.client("ana") as client:
        await client.websocket.send(bytes(640))
        await client.until("turn_complete")
        served.tools.monitor.metrics()  # counts what has happened; a page is a moment behind
        token = make_token(SECRET, "metrics", audience="leonidas-metrics")
        page = await served.http.get("/metrics", headers={"Authorization": f"Bearer {token}"})
    assert "leonidas_conversations 1.0" in page.text
    assert 'leonidas_tool_calls_total{category="python",status="ok",tool="who"} 1.0' in page.text
    assert "ana" not in page.text


@pytest.mark.parametrize(
    ("start", "frame", "heard"),
    [
        ({"format": "mulaw"}, b"\xff" * 160, 4000),
        ({"format": "mulaw", "rate": 16_000}, b"\xff" * 320, 8000),
        ({"rate": 8000}, bytes(320), 8000),
        ({"rate": 24_000}, bytes(960), 24_000),
    ],
)
async def test_sound_goes_both_ways_in_the_format_of_the_client(start, frame, heard):
    async with Served(TALK, tools=[who]) as served, served.client(start=start) as client:
        await client.websocket.send(frame)
        await client.until("turn_complete")
        assert len(client.sound) == heard


@tool(effect="idempotent")
async def hurry(ctx: ToolContext) -> str:
    """Speak twice as fast."""
    ctx.session.get(SpeechState).set(rate=2.0)
    return "hurried"


async def test_the_client_hears_the_changed_speech():
    steps = [WaitForInput("text"), Call.one("hurry", id="c1"), WaitForAnswers()]
    steps += [Say("Hello.", audio_seconds=2.0), TurnComplete()]
    async with Served(steps, tools=[hurry]) as served, served.client() as client:
        await client.say("text", text="faster")
        await client.until("turn_complete")
        assert len(client.sound) == pytest.approx(32_000, rel=0.1)  # a second at 16 kHz


async def test_a_page_signs_in_by_a_subprotocol():
    async with Served(TALK, tools=[who]) as served:
        token = make_token(SECRET, "bea")
        async with served.opened(None, subprotocols=subprotocols(token)) as websocket:
            assert websocket.subprotocol == "leonidas.gateway.v1"
            client = Client(websocket)
            await client.say("start")
            assert (await client.until("ready"))["rate"] == 16_000


async def test_what_is_typed_is_answered():
    steps = (WaitForInput("text", containing="hello"), Say("Hello."), TurnComplete())
    async with Served(steps) as served, served.client() as client:
        await client.say("text", text="hello")
        await client.until("turn_complete")


def paying():
    """A tool whose effect happens once, what it has paid, and an event of its beginning."""
    paid, begun = [], asyncio.Event()

    @tool(effect="once", requires_approval=False)
    async def pay(amount: int) -> str:
        paid.append(amount)
        begun.set()
        return f"{amount} paid"

    return pay, paid, begun


@pytest.mark.parametrize("heard", [False, True])
async def test_without_a_store_a_call_is_not_made_again_by_a_resumption(heard):
    pay, paid, begun = paying()

    async def first(session):
        await session.wait_for_input("text")
        await session.session_resumption("h1")
        await session.call(FunctionCall("pay", {"amount": 5}, id="c1"))
        await session.say("Paid.")
        if heard:
            await session.session_resumption("h2")
        await session.wait_for_close()

    async def second(session):
        await session.wait_for_close()

    async with Served(connections=[first, second], tools=[pay]) as served:
        async with served.client() as client:
            await client.say("text", text="Pay.")
            token = (await client.until("resumption"))["token"]
            if heard:
                token = (await client.until("resumption"))["token"]
            await begun.wait()
        async with served.opened(make_token(SECRET, "ana")) as websocket:
            again = Client(websocket)
            await again.say("start", resume=token)
            if heard:
                assert (await again.until("ready"))["resumed"]
            else:
                assert await again.closed() == 1003
    assert paid == [5]


async def test_a_resumption_ends_the_conversation_before_so_that_only_one_model_calls():
    pay, paid, begun = paying()

    async def first(session):
        await session.wait_for_input("text")
        await session.session_resumption("h1")
        await session.wait_for_input("text")
        await session.call(FunctionCall("pay", {"amount": 5}, id="c1"))
        await session.wait_for_close()

    async def second(session):
        await session.call(FunctionCall("pay", {"amount": 5}, id="c2"))
        await session.wait_for_close()

    async with (
        Served(connections=[first, second], tools=[pay]) as served,
        served.client() as before,
        served.opened(make_token(SECRET, "ana")) as websocket,
    ):
        await before.say("text", text="Pay.")
        token = (await before.until("resumption"))["token"]
        after = Client(websocket)
        await after.say("start", resume=token)
        assert await before.closed() == 1000
        assert (await after.until("ready"))["session"] == before.ready["session"]
        await begun.wait()
    assert paid == [5]


async def test_of_two_conversations_that_use_a_resumption_at_once_one_goes_on():
    async def first(session):
        await session.wait_for_input("text")
        await session.session_resumption("h1")
        await session.wait_for_close()

    async def next_one(session):
        await session.wait_for_close()

    limits = GatewayLimits(conversations_per_user=3)
    async with Served(connections=[first, next_one, next_one], limits=limits) as served:
        async with served.client() as client:
            await client.say("text", text="Hello.")
            token = (await client.until("resumption"))["token"]
            await client.websocket.close()
        both = [served.opened(make_token(SECRET, "ana")) for _ in range(2)]
        async with both[0] as one, both[1] as other:
            clients = Client(one), Client(other)
            for each in clients:
                await each.say("start", resume=token)
            ends = [asyncio.create_task(each.closed()) for each in clients]
            done, going = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            assert ([each.result() for each in done], len(going)) == ([1000], 1)
            served.serving.cancel()
            assert await going.pop() == 1012


async def test_a_call_of_a_session_that_is_long_past_is_not_made_again_by_a_resumption(monkeypatch):
    monkeypatch.setattr(resumption_guard, "_MAX_SESSIONS", 1)
    pay, paid, _ = paying()

    async def pays(session):
        await session.wait_for_input("text")
        await session.session_resumption("h1")
        await session.call(FunctionCall("pay", {"amount": 5}, id="c1"))
        await session.say("Paid.")
        await session.turn_complete()
        await session.wait_for_close()

    async with Served(connections=[pays] * 3, tools=[pay]) as served:
        tokens = []
        for _ in range(2):
            async with served.client() as client:
                await client.say("text", text="Pay.")
                tokens.append((await client.until("resumption"))["token"])
                await client.until("turn_complete")
        async with served.opened(make_token(SECRET, "ana")) as websocket:
            again = Client(websocket)
            await again.say("start", resume=tokens[0])
            assert await again.closed() == 1003
    assert paid == [5, 5]


async def test_without_a_store_a_call_is_not_made_again_by_a_resumption_in_another_process():
    pay, paid, begun = paying()

    async def pays(session):
        await session.wait_for_input("text")
        await session.session_resumption("h1")
        await session.call(FunctionCall("pay", {"amount": 5}, id="c1"))
        await session.wait_for_close()

    async with (
        Served(connections=[pays], tools=[pay]) as one,
        Served(connections=[pays], tools=[pay]) as other,
    ):
        async with one.client() as client:
            await client.say("text", text="Pay.")
            token = (await client.until("resumption"))["token"]
            await begun.wait()
        async with other.opened(make_token(SECRET, "ana")) as websocket:
            again = Client(websocket)
            await again.say("start", resume=token)
            await again.say("text", text="Pay.")
            assert await again.closed() == 1003
    assert paid == [5]


async def test_a_user_at_a_limit_is_refused():
    steps = (
        WaitForInput("text"),
        Say("Hello.", audio_seconds=0),
        Usage({"promptTokenCount": 100}),
        TurnComplete(),
        WaitForInput("text", containing="ends now"),
        Say("Goodbye!", audio_seconds=0),
        TurnComplete(),
    )
    config = {"usage": {"user_day": {"tokens": 100}}}
    async with Served(steps, config=config) as served:
        async with served.client("ana") as client:
            await client.say("text", text="Hello")
            assert await client.closed() == 1008
        said = [each["text"] for each in client.messages if each["type"] == "transcript"]
        assert said == ["Hello.", "Goodbye!"]
        async with served.opened(make_token(SECRET, "ana")) as websocket:
            again = Client(websocket)
            await again.say("start")
            assert await again.closed() == 1008
        assert again.messages == []
        async with served.client("bo"):
            pass
