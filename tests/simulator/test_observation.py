"""What a test can see of a session: sound, texts, context, declarations, sockets."""

import pytest
from google.genai import types

from leonidas_tools.simulator import (
    ContextUpdate,
    LiveSimulator,
    Outcome,
    ReceivedAudio,
    ReceivedText,
    Scenario,
    SessionResumption,
    TurnComplete,
    WaitForContextUpdate,
    WaitForInput,
    WaitForProgress,
)

TWICE = Scenario([SessionResumption("h1"), WaitForInput("text", within_seconds=60)])


def blob(data, mime_type="audio/pcm;rate=16000"):
    return types.Blob(data=data, mime_type=mime_type)


async def test_the_microphone_is_heard_over_all_connections_in_order(connect):
    async with LiveSimulator(TWICE) as simulator:
        for data, handle in ((b"\x01\x00", None), (b"\x02\x00", "h1")):
            resumption = types.SessionResumptionConfig(handle=handle)
            async with connect(simulator, session_resumption=resumption) as session:
                await session.send_realtime_input(audio=blob(data))
                await session.send_realtime_input(video=blob(b"jpg", "image/jpeg"))
                await session.send_realtime_input(media=blob(data + data))
                await session.send_realtime_input(text="done")
                await simulator.until(
                    lambda h=handle: len(simulator.texts_received) == (1 if h is None else 2)
                )
    audio = simulator.audio_received
    assert audio == tuple(
        ReceivedAudio(
            connection=connection, at=each.at, data=data, mime_type="audio/pcm;rate=16000"
        )
        for each, (connection, data) in zip(
            audio,
            [
                (1, b"\x01\x00"),
                (1, b"\x01\x00\x01\x00"),
                (2, b"\x02\x00"),
                (2, b"\x02\x00\x02\x00"),
            ],
            strict=True,
        )
    )
    assert simulator.heard_pcm() == b"\x01\x00" * 3 + b"\x02\x00" * 3
    assert simulator.heard_pcm(2) == b"\x02\x00" * 3


async def test_texts_say_where_they_came_from(connect):
    async with LiveSimulator(TWICE) as simulator, connect(simulator) as session:
        content = types.Content(role="user", parts=[types.Part(text="one"), types.Part(text="two")])
        await session.send_client_content(turns=content)
        await session.send_realtime_input(text="three")
        await simulator.until(lambda: len(simulator.texts_received) == 3)
    texts = simulator.texts_received
    assert texts == (
        ReceivedText(connection=1, at=texts[0].at, text="one", source="clientContent", role="user"),
        ReceivedText(connection=1, at=texts[1].at, text="two", source="clientContent", role="user"),
        ReceivedText(connection=1, at=texts[2].at, text="three", source="realtimeInput"),
    )


async def test_what_is_declared_follows_the_context_updates(connect):
    seen = []

    async def scenario(session):
        seen.append(list(session.declared))
        seen.append(await session.wait_for_context_update())
        seen.append(list(session.declared))
        await session.turn_complete()
        await session.wait_for_context_update("h")
        seen.append(list(session.declared))
        await session.turn_complete()
        await session.wait_for_context_update()

    function = types.FunctionDeclaration(name="g", description="Does.", behavior="NON_BLOCKING")
    simulator = LiveSimulator(scenario, generation="3.8-live")
    async with simulator, connect(simulator, "f", "g") as session:
        assert list(simulator.declared()) == ["f", "g"]
        await session.send_context_update(system_instruction="Be brief.")
        await anext(session.receive())
        assert list(simulator.declared(1)) == ["f", "g"]
        tools = [types.Tool(function_declarations=[function])]
        await session.send_context_update(tools=tools)
        tools = [types.Tool(function_declarations=[types.FunctionDeclaration(name="h")])]
        await session.send_context_update(tools=tools)
        await anext(session.receive())
        await session.send_context_update(tools=[])
        assert await simulator.finished() == Outcome(connection=1, status="played")
    updates = simulator.context_updates
    assert seen == [["f", "g"], updates[0], ["f", "g"], ["h"]]
    assert updates == (
        ContextUpdate(connection=1, at=updates[0].at, system_instruction="Be brief."),
        ContextUpdate(
            connection=1,
            at=updates[1].at,
            tools={"g": {"name": "g", "description": "Does.", "behavior": "NON_BLOCKING"}},
        ),
        ContextUpdate(connection=1, at=updates[2].at, tools={"h": {"name": "h"}}),
        ContextUpdate(connection=1, at=updates[3].at, tools={}),
    )
    assert simulator.declared() == {}


async def test_a_context_update_that_does_not_come_fails_by_name(connect):
    steps = [WaitForContextUpdate("h", within_seconds=0.01)]
    simulator = LiveSimulator(Scenario(steps), strict=False)
    async with simulator, connect(simulator):
        outcome = await simulator.finished()
    assert outcome.message == (
        "step 1 (wait_for_context_update: {declaring: h, within_seconds: 0.01}): "
        "no context update that declares 'h' came within 0.01 s (within_seconds)"
    )


async def test_a_scenario_waits_until_a_tool_runs_each_time_anew(connect):
    steps = [
        TurnComplete(),
        WaitForProgress("pay"),
        TurnComplete(),
        WaitForProgress("pay", within_seconds=0.01),
    ]
    simulator = LiveSimulator(Scenario(steps), strict=False)
    async with simulator, connect(simulator) as session:
        await anext(session.receive())
        simulator.note_progress("look")
        simulator.note_progress("pay")
        await anext(session.receive())
        outcome = await simulator.finished()
    assert outcome.message == (
        "step 4 (wait_for_progress: {tool: pay, within_seconds: 0.01}): no `ctx.progress` of 'pay' "
        "was passed on by `note_progress` within 0.01 s (within_seconds)"
    )


async def test_a_scenario_sees_the_bytes_that_it_waited_for(connect):
    seen = []

    async def scenario(session):
        seen.extend(await session.wait_for_input("audio", count=2))

    async with LiveSimulator(scenario) as simulator, connect(simulator) as session:
        await session.send_realtime_input(audio=blob(b"\x01\x00"))
        await session.send_realtime_input(audio=blob(b"\xff\xff", "audio/pcm"))
        await simulator.finished()
    assert [(each.data, each.mime_type) for each in seen] == [
        (b"\x01\x00", "audio/pcm;rate=16000"),
        (b"\xff\xff", "audio/pcm"),
    ]


def test_before_anybody_came_there_is_nothing_to_see():
    with LiveSimulator(Scenario()) as simulator:
        assert simulator.declared() == {}
        assert simulator.heard_pcm() == b""
        assert simulator.open_connections == ()
    assert simulator.connections == ()


@pytest.mark.parametrize("control", ["advance", "pause_listening"])
def test_only_a_running_simulator_takes_commands(control):
    from leonidas_tools.errors import SimulatorError

    arguments = [1] if control == "advance" else []
    with pytest.raises(SimulatorError, match="not running"):
        getattr(LiveSimulator(Scenario()), control)(*arguments)
