"""The connection to Gemini Live through everything a session does, on the real client."""

import asyncio
import base64
import itertools
import json

import pytest
from genai_processors.content_api import ProcessorPart
from google.genai import Client, errors, types
from google.genai.live import AsyncSession

from leonidas_tools import AdvancedToolProcessor, SessionPolicy, ToolSession, tool
from leonidas_tools.live.connection import Connection
from leonidas_tools.session.speech import SpeechState
from leonidas_tools.simulator import (
    Call,
    FunctionCall,
    LiveSimulator,
    Say,
    Scenario,
    Send,
    TurnComplete,
    WaitForAnswers,
    WaitForInput,
)
from tests.live.talking import (
    Desk,
    Talk,
    frame,
    held,
    on_elastic_time,
    outcomes_told,
    passes,
    responses_in,
    says_when_called,
)

REPLY_SECONDS = 5.0
"""For so long a reply is expected to what the user has said."""


async def test_answers_that_are_ready_together_go_in_one_message():
    desk = Desk()
    desk.open()
    calls = tuple(FunctionCall("look", {"seat": seat}, id=f"c{seat}") for seat in range(5))
    simulator, _ = await held(
        [[WaitForInput("audio"), Call(calls), WaitForAnswers()]], desk.tools()
    )
    assert sorted(r["id"] for r in responses_in(simulator)[0]) == ["c0", "c1", "c2", "c3", "c4"]
    assert len(responses_in(simulator)) == 1


async def test_a_call_in_the_models_turn_and_in_a_tool_call_runs_once():
    desk = Desk()
    desk.open()
    once = (FunctionCall("book", {"seat": 4}, id="c1"),)
    script = [WaitForInput("audio"), Call(once, in_model_turn=True), Call(once), WaitForAnswers()]
    simulator, _ = await held([script], desk.tools())
    assert desk.booked == [4]
    assert [[r["id"] for r in each] for each in responses_in(simulator)] == [["c1"]]


@on_elastic_time
async def test_every_outcome_of_running_calls_survives_a_drop():
    desk = Desk()

    async def first(session):
        await session.session_resumption("handle")
        await session.send_calls(
            *(FunctionCall("look", {"seat": seat}, id=f"c{seat}") for seat in range(20))
        )
        await session.wait_for_input(containing="called")
        await session.drop()

    async def second(session):
        desk.open()
        told = []
        while len(told) < 20:
            (given,) = await session.wait_for_input("text")
            told += [line for line in given.text.splitlines() if line.startswith("{")]
        await session.say("Done.")
        await session.turn_complete()

    async def user(talk):
        async for part in says_when_called(20)(talk):
            yield part
        await talk.told("connection_renewed")
        await passes(REPLY_SECONDS)

    simulator, talk = await held([first, second], desk.tools(), user=user)
    assert sorted(o["id"] for o in outcomes_told(simulator)) == sorted(f"c{n}" for n in range(20))
    assert {o["response"]["result"] for o in outcomes_told(simulator)} == {
        f"seat {n}" for n in range(20)
    }
    assert simulator.setups[1]["sessionResumption"] == {"handle": "handle"}
    assert [event["event"] for event in talk.events] == [
        "connection_opened", "connection_lost", "connection_renewed",
    ]  # fmt: skip
    assert talk.said == "Done."


async def test_a_call_that_is_made_again_after_a_resume_runs_once():
    desk = Desk()

    async def first(session):
        await session.session_resumption("handle")
        await session.send_calls(FunctionCall("book", {"seat": 4}, id="before"))
        await session.wait_for_input(containing="called")
        await session.drop()

    async def second(session):
        await session.send_calls(FunctionCall("book", {"seat": 4}, id="after"))
        desk.open()
        (answer,) = await session.wait_for_answers("after")
        assert answer.response["result"] == "seat 4"
        await session.turn_complete()

    simulator, _ = await held([first, second], desk.tools(), user=says_when_called())
    assert desk.booked == [4]
    assert outcomes_told(simulator) == []


@on_elastic_time
async def test_words_of_the_user_before_an_outcome_make_no_new_call_of_a_repeat():
    desk = Desk()

    async def first(session):
        await session.session_resumption("handle")
        await session.send_calls(FunctionCall("book", {"seat": 4}, id="before"))
        await session.wait_for_input("audio", count=2)
        await session.drop()

    async def second(session):
        await session.input_transcription("Are you still there?")
        desk.open()
        await session.wait_for_input("text")
        (answer,) = await session.call(FunctionCall("book", {"seat": 4}, id="after"))
        assert answer.response["result"] == "seat 4"

    async def user(talk):
        yield frame(0)
        # A connection that is cut takes along what the client has not read.
        await talk.called()
        yield frame(1)
        await talk.hears(lambda part: part.substream_name == "input_transcription")
        await desk.opened()
        await passes(REPLY_SECONDS)

    await held([first, second], desk.tools(), user=user)
    assert desk.booked == [4]


async def test_a_tool_may_ask_to_run_again_after_a_resume():
    desk = Desk()
    desk.open()

    async def first(session):
        await session.session_resumption("handle")
        await session.call(FunctionCall("book", {"seat": 4}, id="before"))
        await session.drop()

    async def second(session):
        await session.call(FunctionCall("book", {"seat": 4}, id="after"))

    await held([first, second], desk.tools(repeat_after_resume=True))
    assert desk.booked == [4, 4]


@pytest.mark.parametrize(("spoken", "booked"), [(True, [4, 4]), (False, [4])])
async def test_the_same_call_on_the_next_connection_is_another_one_once_the_user_has_spoken(
    spoken, booked
):
    desk = Desk()
    desk.open()

    async def first(session):
        await session.call(FunctionCall("book", {"seat": 4}, id="before"))
        await session.wait_for_input("audio", count=20)
        await session.session_resumption("handle")
        await session.drop()

    async def second(session):
        if spoken:
            await session.input_transcription("Book it once more.")
        await session.call(FunctionCall("book", {"seat": 4}, id="after"))

    async def user(_):
        for number in range(40):
            yield frame(number)
            await asyncio.sleep(0.02)

    await held([first, second], desk.tools(), user=user)
    assert desk.booked == booked


async def test_a_message_of_an_unknown_kind_is_ignored():
    script = [
        WaitForInput("audio"),
        *[Send(odd) for odd in ({"news": {"of": "tomorrow"}}, "no JSON", {"toolCall": {}}, {})],
        Say("Still here."),
        TurnComplete(),
    ]
    _, talk = await held([script], AdvancedToolProcessor())
    assert talk.said == "Still here."


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param("[" * 10_000, id="nested too deep"),
        pytest.param(json.dumps({"toolCallCancellation": {"ids": ["c"] * 20_001}}), id="values"),
    ],
)
async def test_a_message_that_takes_too_much_to_read_is_skipped(odd, caplog):
    script = [WaitForInput("audio"), Send(odd), Say("Still here."), TurnComplete()]
    _, talk = await held([script], AdvancedToolProcessor())
    assert talk.said == "Still here."
    assert "Skipped a server message" in caplog.text


async def test_a_call_with_very_many_values_is_answered_like_those_beside_it():
    booked = []

    @tool
    async def book(seats: list[int]) -> int:
        booked.append(len(seats))
        return len(seats)

    calls = [FunctionCall("book", {"seats": [1] * n}, id=f"c{n}") for n in (20_001, 2)]
    script = [WaitForInput("audio"), Call(calls), WaitForAnswers(), TurnComplete()]
    simulator, _ = await held([script], AdvancedToolProcessor([book]))
    answers = {
        each["id"]: each["response"]["status"] for some in responses_in(simulator) for each in some
    }
    assert (answers, booked) == ({"c20001": "invalid_argument", "c2": "ok"}, [2])


class Waiting:
    """A socket with messages that have arrived already."""

    def __init__(self, *messages):
        self._messages = [*messages]

    async def recv(self, *, decode):
        return self._messages.pop()


class Deaf:
    """Receives messages, and does nothing with them."""

    def receive(self, message):
        pass

    def receive_audio(self, parts):
        pass


@pytest.mark.parametrize("message", [b'{"goAway": {"timeLeft": "50s"}}', b"no JSON"])
async def test_others_have_their_turn_while_very_many_messages_are_read(message):
    client = Client(api_key="simulated")._api_client
    connection = Connection(AsyncSession(client, Waiting(*[message] * 500)))
    turns = []

    async def others():
        while True:
            turns.append(None)
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    with pytest.raises(IndexError):
        await connection.receive(Deaf())
    waiting.cancel()
    assert len(turns) > 20


async def test_the_voice_changes_by_a_new_setup_at_a_quiet_moment():
    async def first(session):
        await session.wait_for_input("audio")
        await session.session_resumption("handle")
        await session.call(FunctionCall("change_voice", {"voice": "Puck"}))
        await session.say("I sound")
        await session.turn_complete()

    async def second(session):
        await session.say(" like Puck.")
        await session.turn_complete()

    session = ToolSession()
    simulator, talk = await held([first, second], AdvancedToolProcessor(), session=session)
    voices = [s["generationConfig"].get("speechConfig", {}) for s in simulator.setups]
    assert voices == [
        {},
        {"voice_config": {"prebuilt_voice_config": {"voice_name": "Puck"}}},
    ]
    assert simulator.setups[1]["sessionResumption"] == {"handle": "handle"}
    assert talk.said == "I sound like Puck."
    assert session.get(SpeechState).current.voice == "Puck"


async def test_a_go_away_is_followed_before_the_connection_ends():
    async def first(session):
        await session.session_resumption("handle")
        await session.say("One moment")
        await session.go_away(50)
        await session.turn_complete()
        await session.wait_for_input("text")  # never comes: the client leaves

    async def second(session):
        await session.say(", here I am.")
        await session.turn_complete()

    _, talk = await held([first, second], AdvancedToolProcessor())
    assert talk.said == "One moment, here I am."
    assert "connection_lost" not in [event["event"] for event in talk.events]


async def test_tools_that_change_reach_the_running_session():
    tools = AdvancedToolProcessor(builtin_tools=False)

    async def only(session):
        await session.wait_for_input("audio")
        tools.registry.register(tool(name="ping", effect="read")(lambda: "pong"))
        while "ping" not in session._declared:
            session._changed.clear()
            await session._changed.wait()
        (answer,) = await session.call(FunctionCall("ping"))
        assert answer.response["result"] == "pong"

    simulator, talk = await held([only], tools, generation="3.8-live")
    assert len(simulator.setups) == 1
    assert {"event": "tools_changed", "tools": ["ping"]} in talk.events


async def test_a_session_that_becomes_read_only_takes_its_tools_from_the_model():
    @tool(effect="once", requires_approval=False)
    def send() -> str:
        """Sends."""
        return "sent"

    @tool(effect="read")
    def look() -> str:
        """Looks."""
        return "seen"

    tools = AdvancedToolProcessor([send, look], builtin_tools=False)
    mine = ToolSession("kitchen")

    async def only(session):
        await session.wait_for_input("audio")
        mine.get(SessionPolicy).mode = "read_only"
        while "send" in session._declared:
            session._changed.clear()
            await session._changed.wait()
        (answer,) = await session.call(FunctionCall("look"))
        assert answer.response["result"] == "seen"

    simulator, talk = await held([only], tools, generation="3.8-live", session=mine)
    assert len(simulator.setups) == 1
    assert {"event": "tools_changed", "tools": ["look"]} in talk.events


async def test_a_session_that_begins_read_only_declares_nothing_that_changes_anything():
    @tool(effect="once", requires_approval=False)
    def send() -> str:
        """Sends."""
        return "sent"

    @tool(effect="read")
    def look() -> str:
        """Looks."""
        return "seen"

    tools = AdvancedToolProcessor([send, look], builtin_tools=False)
    mine = ToolSession("kitchen")
    mine.put(SessionPolicy("read_only"))

    async def only(session):
        await session.wait_for_input("audio")
        assert set(session._declared) == {"look"}

    await held([only], tools, generation="2.5", session=mine)


async def test_tools_that_change_take_another_connection_where_the_model_knows_no_other_way():
    tools = AdvancedToolProcessor(builtin_tools=False)

    async def first(session):
        await session.wait_for_input("audio")
        await session.session_resumption("handle")
        tools.registry.register(tool(name="ping", effect="read")(lambda: "pong"))
        await session.wait_for_input("text")

    async def second(session):
        (answer,) = await session.call(FunctionCall("ping"))
        assert answer.response["result"] == "pong"

    await held([first, second], tools, generation="2.5")


async def test_the_microphone_is_whole_and_in_order_over_a_drop():
    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio", count=50)
        await session.drop()

    async def second(session):
        await session.wait_for_input("audio", count=100)

    async def user(_):
        for number in range(200):
            yield frame(number)
            await asyncio.sleep(0.005)

    simulator, talk = await held([first, second], AdvancedToolProcessor(), user=user)
    heard = [_number(m) for m in simulator.messages if m.sender == "client" and _is_audio(m)]
    assert sorted(set(heard)) == list(range(200))
    seams = [after <= before for before, after in itertools.pairwise(heard)].count(True)
    assert seams <= 1  # what may not have arrived is said again, once
    assert talk.events[-1]["audio_dropped"] == 0


def _is_audio(message):
    return "audio" in message.data.get("realtime_input", {})


def _number(message):
    data = base64.urlsafe_b64decode(message.data["realtime_input"]["audio"]["data"])
    return int.from_bytes(data[:4], "big")


async def test_a_setup_that_is_refused_at_once_ends_the_stream_with_the_reason():
    async def only(session):
        await session.close(1007, "bad setup")

    async def user(_):
        yield frame()
        await asyncio.Event().wait()

    tools = AdvancedToolProcessor()
    async with LiveSimulator(Scenario(only), strict=False) as simulator:
        talk = Talk(simulator, tools, user=user, give_up_seconds=0.0)
        with pytest.raises(errors.APIError, match="bad setup"):
            await talk.run()


async def test_what_cannot_be_sent_is_left_out_and_the_session_goes_on():
    async def user(_):
        odd = types.Part(inline_data=types.Blob(data=b"\xff", mime_type="audio/pcm"))
        yield ProcessorPart(types.Part(text="Hello"), substream_name="realtime")
        yield ProcessorPart(odd, substream_name="realtime")
        yield frame(1)

    script = [WaitForInput("text"), WaitForInput("audio", count=2), Say("Hi."), TurnComplete()]
    _, talk = await held([script], AdvancedToolProcessor(), user=user)
    assert talk.said == "Hi."
