"""A connection that is lost, refused or slow to answer, and how the next one is had."""

import asyncio
import math
import warnings

import pytest
from google.genai import Client, _common
from google.genai.types import LiveConnectConfig
from websockets.asyncio.messages import MAX_FRAGMENTS
from websockets.frames import Opcode
from websockets.protocol import SERVER, Protocol

from leonidas_tools import AdvancedToolProcessor, tool
from leonidas_tools.live.connection import connect
from leonidas_tools.simulator import (
    FunctionCall,
    LiveSimulator,
    Scenario,
)
from leonidas_tools.simulator.connection import ServerConnection
from tests.live import vertex
from tests.live.generated.virtual import Arena, VirtualEventLoop, VirtualSimulator
from tests.live.talking import (
    Talk,
    answer_to,
    frame,
    frames_in,
    held,
    on_elastic_time,
    outcomes_told,
    passes,
    responses_in,
    typed,
)


@pytest.fixture
def no_pongs(monkeypatch):
    """Servers answer no ping; they read all else, and close when they are asked to."""
    takes_in = Protocol.recv_frame

    def recv_frame(self, frame):
        if self.side is not SERVER or frame.opcode is not Opcode.PING:
            takes_in(self, frame)

    monkeypatch.setattr(Protocol, "recv_frame", recv_frame)


async def speaks(session):
    await session.say("Here I am.")
    await session.turn_complete()


def ping():
    """Answers."""
    return "pong"


def says(*parts):
    async def user(_):
        for part in parts:
            yield part

    return user


async def test_messages_of_the_server_are_shown_without_apparent_secrets(caplog):
    secrets = ["AIzaSyA4711zebra4711zebra4711zebra", "4712-zebra", "4713-zebra"]
    said = f"{secrets[0]}, token={secrets[1]}, wss://host/ws?key={secrets[2]}"

    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio")
        await session.close(1011, f"internal: {said}")

    _, talk = await held([first, speaks], user=says(frame()))
    lost = next(event for event in talk.events if event["event"] == "connection_lost")
    told = "internal: ***, token=***, wss://host/ws?key=***"
    assert told in lost["reason"]
    assert f"The connection was lost; reconnecting: {lost['reason']}" in caplog.text
    assert [each for each in secrets if each in caplog.text or each in str(talk.events)] == []


# The end.


async def test_a_hang_up_is_the_end_though_no_pong_comes(no_pongs):
    async def only(session):
        await session.session_resumption("handle")
        await session.wait_for_input("text")
        await session.wait_for_close()

    async with LiveSimulator(Scenario(connections=[only] * 3)) as simulator:
        talk = Talk(simulator, user=says(frame(), typed("book a table")))
        await talk.run(connections=0, seconds=15)
    assert len(simulator.setups) == 1
    assert [each.text for each in simulator.texts_received] == ["book a table"]


async def test_an_answer_is_not_sent_twice_after_a_go_away_without_a_pong(no_pongs):
    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio")
        await session.call(FunctionCall("f", id="c1", undeclared=True))
        await session.session_resumption("handle 2")
        await session.go_away(50)
        await session.turn_complete()
        await session.wait_for_close()

    async def user(talk):
        yield frame()
        (asked,) = await talk.called()
        yield answer_to(asked, {"output": 1})

    simulator, _ = await held([first, speaks], user=user)
    assert responses_in(simulator) == [[{"id": "c1", "name": "f", "response": {"output": 1}}]]
    assert outcomes_told(simulator) == []


async def test_closing_ends_the_session_even_if_the_server_does_not_react():
    async def deaf(session):
        await session.session_resumption(f"handle {session.number}")
        await session.go_silent()

    async def user(talk):
        yield frame()
        await talk.hears(lambda part: "session_resumption_update" in part.metadata)
        yield typed("book a table")

    async with LiveSimulator(Scenario(connections=[deaf] * 9)) as simulator:
        await Talk(simulator, user=user).run(connections=0)
    assert len(simulator.setups) == 1


async def test_the_socket_is_closed_also_when_waiting_for_the_good_bye_is_cancelled():
    async def deaf(session):
        await session.go_silent()

    opened = asyncio.get_running_loop().create_future()

    async def hold(simulator):
        client = Client(api_key="simulated", http_options=simulator.http_options())
        async with connect(client, "simulated", LiveConnectConfig()) as connection:
            opened.set_result(connection._socket.transport)

    async with LiveSimulator(Scenario(connections=[deaf])) as simulator:
        holding = asyncio.create_task(hold(simulator))
        transport = await opened
        await asyncio.wait({holding}, timeout=0.01)  # it waits for the server, which is silent
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding
        assert transport.is_closing()


async def test_a_server_that_calls_and_drops_is_tried_once_more_when_the_user_has_hung_up():
    async def drops(session):
        await session.session_resumption(f"handle {session.number}")
        await session.send_calls(FunctionCall("f", undeclared=True))
        if session.number == 1:
            await session.wait_for_input("text")
        await session.drop()

    async def user(talk):
        await talk.called()
        for number in range(3000):
            yield frame(number)
        yield typed("Good-bye")

    gate = {"gate_microphone_seconds": 600, "held_audio_seconds": 600, "give_up_seconds": 1}
    async with LiveSimulator(Scenario(connections=[drops] * 5)) as simulator:
        await Talk(simulator, user=user, **gate).run(connections=0)
    assert len(simulator.setups) == 2


# The next connection.


@on_elastic_time
async def test_a_long_talk_does_not_use_up_the_patience_with_a_server_that_restarts():
    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("text", containing="still there")
        await session.refuse_connections(1, http_status=503)
        await session.go_away(50)
        await session.turn_complete()
        await session.wait_for_close()

    async def user(talk):
        await talk.told("connection_opened")
        yield frame()
        await talk.arrived(1)
        await passes(15)
        yield typed("Are you still there?")

    _, talk = await held([first, speaks], user=user, give_up_seconds=10)
    assert [event["event"] for event in talk.events] == [
        "connection_opened", "connection_refused", "connection_renewed",
    ]  # fmt: skip
    assert talk.said == "Here I am."


def test_a_server_that_ends_each_connection_at_once_is_not_called_on_without_a_pause():
    async def leave(session):
        await session.go_away(0)
        await session.wait_for_close()

    async def talk(arena):
        scenario = Scenario(connections=[*[leave] * 10, speaks])
        async with VirtualSimulator(scenario, arena=arena) as simulator:
            talk = await Talk(simulator).run(11)
        return talk.said, asyncio.get_running_loop().time()

    with Arena() as arena, asyncio.Runner(loop_factory=VirtualEventLoop) as runner:
        said, seconds = runner.run(talk(arena))
    assert said == "Here I am."
    assert seconds > 3


async def test_a_message_in_very_many_pieces_costs_the_connection_but_not_the_conversation():
    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio")
        await session._connection._websocket.send(["{"] * (MAX_FRAGMENTS + 1))
        await session.wait_for_close()

    _, talk = await held([first, speaks])
    assert [event["event"] for event in talk.events] == [
        "connection_opened", "connection_lost", "connection_renewed",
    ]  # fmt: skip
    assert talk.said == "Here I am."


async def test_a_token_that_cannot_be_had_for_a_moment_is_asked_for_again():
    credentials = vertex.Credentials()

    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio")
        credentials.failures = 1
        await session.drop()

    async with LiveSimulator(Scenario(connections=[first, speaks]), generation="vertex") as server:
        client = Client(
            **vertex.PLACE, credentials=credentials, http_options=vertex.http_options(server)
        )
        talk = await Talk(server, model=vertex.MODEL, client=client).run(2)
    told = [(event["event"], event.get("reason")) for event in talk.events]
    assert told[0::2] == [("connection_opened", None), ("connection_refused", "no network")]
    assert talk.said == "Here I am."


async def test_a_session_is_not_renewed_while_it_cannot_be_resumed():
    tools = AdvancedToolProcessor(builtin_tools=False)

    async def first(session):
        await session.session_resumption("old")
        await session.wait_for_input("audio")
        await session.session_resumption(None)
        await session.say("Now.")
        await session.turn_complete()
        await session.wait_for_input("audio", count=2)
        await session.session_resumption("new")
        await session.wait_for_close()

    async def user(talk):
        yield frame(0)
        await talk.hears(lambda part: part.metadata.get("turn_complete"))
        tools.registry.register(tool(effect="read")(ping))
        for number in (1, 2):
            yield frame(number)
            await talk.arrived(number + 1)

    simulator, _ = await held([first, speaks], tools, user=user)
    assert [setup["sessionResumption"] for setup in simulator.setups] == [{}, {"handle": "new"}]


async def test_other_tools_that_a_server_refuses_in_mid_session_are_declared_in_the_next_setup():
    tools = AdvancedToolProcessor(builtin_tools=False)

    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio")
        tools.registry.register(tool(effect="read")(ping))
        await session.wait_for_context_update("ping")
        await session.close(1008, "Operation is not implemented, or supported, or enabled.")

    async def second(session):
        await session.call(FunctionCall("ping"))
        await session.session_resumption("handle 2")
        await session.turn_complete()
        tools.registry.register(tool(name="pong", effect="read")(ping))
        await session.wait_for_close()

    async def third(session):
        await session.call(FunctionCall("pong"))

    simulator, _ = await held([first, second, third], tools, generation="3.8-live")
    assert [update.connection for update in simulator.context_updates] == [1]


@pytest.mark.parametrize("manual", [False, True])
async def test_a_user_who_has_begun_to_speak_is_not_cut_short_by_a_go_away(manual):
    began = typed("")
    began.metadata["activity_start"] = True

    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("activity" if manual else "audio")
        if not manual:
            await session.send({"voiceActivity": {"type": "ACTIVITY_START"}})
        await session.go_away(50)
        await session.wait_for_input("audio", count=8)
        await session.turn_complete()
        await session.wait_for_close()

    async def user(talk):
        if manual:
            yield began
        else:
            yield frame(0)
        await talk.hears(lambda part: "go_away" in part.metadata)
        for number in range(1, 9):
            yield frame(number)
            await talk.arrived(number + (not manual))

    simulator, _ = await held([first, speaks], user=user)
    assert {connection for connection, number in frames_in(simulator) if number} == {1}


@pytest.mark.parametrize(
    "reply",
    [
        "no JSON",
        "[]",
        "null",
        "[" * 10_000,
        "9" * 5000,
        '{"setupComplete": {"sessionId": 5}}',
        '{"setupComplete": {}, "toolCall": {"functionCalls": [' + "{}," * 30_000 + "{}]}}",
    ],
)
async def test_a_reply_to_the_setup_that_cannot_be_read_costs_only_its_connection(
    monkeypatch, reply
):
    sends, replies = ServerConnection.send, [reply]

    async def send(self, message):
        garbled = message == {"setupComplete": {}} and replies
        await sends(self, replies.pop() if garbled else message)

    monkeypatch.setattr(ServerConnection, "send", send)
    async with LiveSimulator(Scenario(connections=[speaks, speaks]), speed=math.inf) as simulator:
        talk = await Talk(simulator, user=says(typed("Hello"))).run(2)
    assert replies == []
    assert [event["event"] for event in talk.events][:2] == [
        "connection_refused",
        "connection_opened",
    ]


async def test_unknown_words_of_the_server_are_neither_printed_nor_kept(monkeypatch):
    kept = {}
    monkeypatch.setattr(_common, "__warningregistry__", kept, raising=False)

    async def odd(session):
        await session.send({"usageMetadata": {"trafficType": "x" * 1000}})
        await speaks(session)

    with warnings.catch_warnings(record=True) as printed:
        warnings.simplefilter("default")
        await held([odd], user=says(typed("Hello")))
    assert [each for each in kept if "xxx" in str(each)] == []
    assert [each for each in printed if "xxx" in str(each.message)] == []
