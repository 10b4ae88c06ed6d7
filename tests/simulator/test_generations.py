"""What each generation of models takes, refuses and does, seen by the real client."""

import asyncio

import pytest
from google import genai
from google.genai import errors, types

from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator import (
    GENERATIONS,
    Call,
    Expect,
    FunctionCall,
    Interrupt,
    LiveSimulator,
    Quirks,
    Say,
    Scenario,
    SessionResumption,
    TurnComplete,
    WaitForAnswers,
    WaitForInput,
)

IDLE = Scenario([WaitForInput("text", within_seconds=60)])
CALLING = Scenario([Call.one("f", id="c1"), WaitForInput("text", within_seconds=60)])
BLOB = types.Blob(data=b"\x00\x01", mime_type="audio/pcm;rate=16000")


async def closing(session):
    """The code and the reason that the session is closed with."""
    with pytest.raises(errors.APIError) as closed:
        async for _ in session.receive():
            pass
    return closed.value.code, closed.value.details


async def respond(session, **fields):
    response = {"id": "c1", "name": "f", "response": {"result": 1}} | fields
    await session.send_tool_response(function_responses=types.FunctionResponse(**response))


async def respond_once_called(session):
    async for message in session.receive():
        if message.tool_call:
            await respond(session)
            return


def test_there_is_a_table_for_each_generation():
    assert list(GENERATIONS) == ["2.5", "3.1", "3.8-live", "3.8-thinking", "vertex", "vertex-3.8"]
    with pytest.raises(SimulatorError, match=r"no generation '4'; choose from '2.5', "):
        LiveSimulator(IDLE, generation="4")


def test_what_is_said_closest_wins():
    scenario = Scenario(generation="3.1")
    assert LiveSimulator(scenario).quirks == GENERATIONS["3.1"]
    assert LiveSimulator(scenario, generation="2.5").quirks == GENERATIONS["2.5"]
    quirks = Quirks(text_frames=True)
    assert LiveSimulator(scenario, generation="2.5", quirks=quirks).quirks == quirks
    assert LiveSimulator(Scenario()).quirks == Quirks()


@pytest.mark.parametrize(
    ("generation", "behavior", "reason"),
    [
        ("3.1", "NON_BLOCKING", "'f' is declared NON_BLOCKING; this model supports only BLOCKING"),
        (
            "3.8-thinking",
            "BLOCKING",
            "BLOCKING function calls are not supported for this model",
        ),
        ("vertex", "BLOCKING", "'f' is declared BLOCKING; this model does not support `behavior`"),
    ],
)
async def test_a_behavior_that_the_model_does_not_know_is_refused_in_the_setup(
    connect, generation, behavior, reason
):
    async with LiveSimulator(IDLE, generation=generation) as simulator:
        with pytest.raises(errors.APIError, match=reason) as refused:
            await connect(simulator, "f", behavior=behavior).__aenter__()
        assert refused.value.code == 1007
        with pytest.raises(SimulatorError):
            simulator.check()


@pytest.mark.parametrize(
    ("generation", "behavior", "blocking"),
    [
        ("2.5", None, True),
        ("2.5", "NON_BLOCKING", False),
        ("3.1", None, True),
        ("3.1", "BLOCKING", True),
        ("3.8-live", None, False),
        ("3.8-live", "BLOCKING", True),
        ("3.8-thinking", None, False),
        ("3.8-thinking", "NON_BLOCKING", False),
        ("vertex", None, True),
    ],
)
async def test_the_model_waits_for_the_answer_or_not(connect, generation, behavior, blocking):
    async with LiveSimulator(CALLING, generation=generation) as simulator:
        async with connect(simulator, "f", behavior=behavior) as session:
            await anext(session.receive())
        (call,) = simulator.calls
    assert call.blocking is blocking


@pytest.mark.parametrize(
    ("generation", "behavior", "fields", "reason"),
    [
        ("2.5", "NON_BLOCKING", {"scheduling": "INTERRUPT", "will_continue": False}, None),
        ("3.8-live", None, {"scheduling": "SILENT"}, None),
        (
            "3.8-thinking",
            None,
            {"scheduling": "WHEN_IDLE"},
            "the response to call 'c1' sets scheduling, which this server does not support",
        ),
        (
            "2.5",
            "BLOCKING",
            {"scheduling": "WHEN_IDLE"},
            "call 'c1' of 'f' is BLOCKING; its response must not set scheduling",
        ),
        (
            "3.1",
            None,
            {"will_continue": False},
            "call 'c1' of 'f' is BLOCKING; its response must not set willContinue",
        ),
        (
            "3.8-live",
            "BLOCKING",
            {"scheduling": "WHEN_IDLE", "will_continue": True},
            "call 'c1' of 'f' is BLOCKING; its response must not set scheduling and willContinue",
        ),
        (
            "vertex",
            None,
            {"scheduling": "WHEN_IDLE"},
            "the response to call 'c1' sets scheduling, which this server does not support",
        ),
        (
            "vertex",
            None,
            {"will_continue": False},
            "the response to call 'c1' sets willContinue, which this server does not support",
        ),
    ],
)
async def test_how_an_answer_may_be_given(connect, generation, behavior, fields, reason):
    async with LiveSimulator(CALLING, generation=generation, strict=False) as simulator:
        async with connect(simulator, "f", behavior=behavior) as session:
            await anext(session.receive())
            await respond(session, **fields)
            await session.send_realtime_input(text="done")
            await simulator.finished()
        found = [violation.reason for violation in simulator.violations]
    assert found == ([] if reason is None else [reason])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"scheduling": "LATER"},
            "the scheduling of call 'c1' is SILENT, WHEN_IDLE, INTERRUPT, not 'LATER'",
        ),
        ({"willContinue": "yes"}, "the willContinue of call 'c1' is true or false, not 'yes'"),
        ({"id": 3}, "the id of a function response must be a string, not int"),
    ],
)
async def test_scheduling_and_will_continue_have_their_form(connect_raw, fields, reason):
    response = {"id": "c1", "name": "f", "response": {}} | fields
    async with LiveSimulator(CALLING) as simulator, connect_raw(simulator) as client:
        await client.set_up("f")
        await client.receive()
        await client.send({"toolResponse": {"functionResponses": [response]}})
        assert await client.closing() == (1007, reason)
        with pytest.raises(SimulatorError):
            simulator.check()


async def test_an_unspecified_behavior_says_nothing(connect_raw):
    function = {"name": "f", "behavior": "UNSPECIFIED"}
    setup = {"model": "m", "tools": [{"functionDeclarations": [function]}]}
    simulator = LiveSimulator(CALLING, generation="3.8-live")
    async with simulator, connect_raw(simulator) as client:
        await client.send({"setup": setup})
        await client.receive()
        await client.receive()
        assert simulator.calls[0].blocking is False


@pytest.mark.parametrize("generation", ["2.5", "3.1", "vertex"])
async def test_older_models_take_no_context_update(connect, generation):
    async with LiveSimulator(IDLE, generation=generation) as simulator:
        async with connect(simulator) as session:
            await session.send_context_update(system_instruction="Be brief.")
            code, reason = await closing(session)
        with pytest.raises(SimulatorError):
            simulator.check()
    assert (code, reason) == (
        1007,
        "this model does not support contextUpdate; reconnect to change tools or instruction",
    )


async def test_a_context_update_is_held_to_the_same_behaviors(connect):
    function = types.FunctionDeclaration(name="g", behavior="BLOCKING")
    async with LiveSimulator(IDLE, generation="3.8-thinking") as simulator:
        async with connect(simulator, "f") as session:
            tools = [types.Tool(function_declarations=[function])]
            await session.send_context_update(tools=tools)
            code, reason = await closing(session)
        with pytest.raises(SimulatorError):
            simulator.check()
    assert (code, reason) == (
        1007,
        "BLOCKING function calls are not supported for this model",
    )


async def test_media_chunks_are_refused_by_3_1(connect):
    async with LiveSimulator(IDLE, generation="3.1") as simulator, connect(simulator) as session:
        await session.send_realtime_input(audio=BLOB)
        await session.send_realtime_input(media=BLOB)
        assert await closing(session) == (
            1007,
            "realtime_input.media_chunks is deprecated. Use audio, video, or text instead.",
        )
        with pytest.raises(SimulatorError):
            simulator.check()


async def test_client_content_is_taken_by_3_1_as_history_only(connect):
    def turn(role, text):
        return types.Content(role=role, parts=[types.Part(text=text)])

    refused = (1007, "Request contains an invalid argument.")
    async with LiveSimulator(IDLE, generation="3.1") as simulator, connect(simulator) as session:
        await session.send_client_content(turns=turn("user", "Hello"), turn_complete=False)
        await session.send_client_content(turns=turn("model", "Hi"), turn_complete=True)
        await session.send_client_content(turns=turn("user", "And now?"))
        assert await closing(session) == refused
        with pytest.raises(SimulatorError):
            simulator.check()
    (violation,) = simulator.violations
    assert violation.data["clientContent"]["turns"][0]["parts"] == [{"text": "And now?"}]
    assert [(each.text, each.role) for each in simulator.texts_received[:2]] == [
        ("Hello", "user"),
        ("Hi", "model"),
    ]
    async with LiveSimulator(IDLE, generation="3.1") as simulator, connect(simulator) as session:
        await session.send_realtime_input(audio=BLOB)
        await session.send_client_content(turns=turn("user", "Too late"))
        assert await closing(session) == refused
        with pytest.raises(SimulatorError):
            simulator.check()


@pytest.mark.parametrize(("generation", "waits"), [("2.5", False), ("3.1", True)])
async def test_the_turn_of_a_blocking_call_ends_before_its_answer_or_after(
    connect, generation, waits
):
    steps = [Call.one("f", id="c1"), TurnComplete(), WaitForAnswers()]
    async with LiveSimulator(Scenario(steps), generation=generation) as simulator:
        async with connect(simulator, "f") as session:
            messages = []
            async for message in session.receive():
                messages.append(message)
                if message.tool_call and waits:
                    await respond(session)
            if not waits:
                await respond(session)
            assert (await simulator.finished()).ok
        kinds = [
            (m.sender, next(iter(m.data)))
            for m in simulator.messages
            if "tool_response" in m.data or m.data.get("serverContent", {}).get("turnComplete")
        ]
    order = [("client", "tool_response"), ("server", "serverContent")]
    assert kinds == (order if waits else order[::-1])


async def test_an_unanswered_blocking_turn_fails_by_name(connect):
    steps = [Call.one("f", id="c1"), TurnComplete(within_seconds=0.01)]
    simulator = LiveSimulator(Scenario(steps), generation="3.1", strict=False)
    async with simulator, connect(simulator, "f"):
        outcome = await simulator.finished()
    assert outcome.message == (
        "step 2 (turn_complete: {within_seconds: 0.01}): "
        "no turnComplete before the answer to 'c1' within 0.01 s (within_seconds)"
    )


async def test_a_thinking_model_ends_only_when_idle(connect):
    steps = [Say("One.", audio_seconds=0), Say("Two.", audio_seconds=0), TurnComplete()]
    simulator = LiveSimulator(Scenario(steps), generation="3.8-thinking")
    async with simulator, connect(simulator) as session:
        content = [message.server_content async for message in session.receive()]
    assert [
        (each.turn_complete, each.interaction_status and each.interaction_status.value)
        for each in content
        if each.turn_complete
    ] == [(True, "IN_PROGRESS"), (True, "IN_PROGRESS"), (True, "IDLE")]


async def test_an_interruption_takes_the_calls_back_when_asked(connect):
    steps = [
        Call((FunctionCall("f", id="c1"), FunctionCall("f", id="c2"))),
        WaitForAnswers(("c1",)),
        Interrupt(cancel=True),
        TurnComplete(),
    ]
    async with LiveSimulator(Scenario(steps), generation="3.1") as simulator:
        async with connect(simulator, "f") as session:
            messages = []
            async for message in session.receive():
                messages.append(message)
                if message.tool_call:
                    await respond(session)
        assert [call.cancelled for call in simulator.calls] == [False, True]
    assert messages[-3].server_content.interrupted
    assert messages[-2].tool_call_cancellation.ids == ["c2"]


async def test_a_call_without_id_outlives_an_interruption(connect):
    steps = [Call.one("f", id="c1"), Interrupt(cancel=True), TurnComplete()]
    async with LiveSimulator(Scenario(steps), generation="vertex") as simulator:
        async with connect(simulator, "f"):
            assert (await simulator.finished()).ok
        assert [call.cancelled for call in simulator.calls] == [False]


async def test_a_handle_comes_only_with_the_last_answer(connect):
    steps = [Call((FunctionCall("f", id="c1"), FunctionCall("f", id="c2"))), WaitForAnswers()]
    async with LiveSimulator(Scenario(steps), generation="2.5") as simulator:
        resumption = types.SessionResumptionConfig()
        async with connect(simulator, "f", session_resumption=resumption) as session:
            await respond_once_called(session)
            await respond(session, id="c2")
            stream = session.receive()
            found = [(await anext(stream)).session_resumption_update for _ in range(2)]
            assert (await simulator.finished()).ok
    assert [update.resumable or False for update in found] == [False, True]
    assert [each.handle for each in simulator.handles] == ["session-1-handle-1"]


async def test_calls_come_without_ids_from_vertex(connect, reply):
    steps = [
        Call((FunctionCall("f", {"x": 1}, id="first"), FunctionCall("f", {"x": 2}, id="second"))),
        Expect("first", response={"result": 1}),
        Expect("second", response={"result": 2}),
        Say("{answers.first.result}{answers.second.result}", audio_seconds=0),
        Interrupt(cancel=True),
        TurnComplete(),
    ]
    async with LiveSimulator(Scenario(steps), generation="vertex") as simulator:
        client = genai.Client(vertexai=True, api_key="x", http_options=simulator.http_options())
        config = {
            "response_modalities": ["AUDIO"],
            "tools": [{"function_declarations": [{"name": "f"}]}],
        }
        async with client.aio.live.connect(model="gemini-live-x", config=config) as session:
            messages = []
            async for message in session.receive():
                messages.append(message)
                if message.tool_call:
                    for call in message.tool_call.function_calls:
                        assert call.id is None
                        response = types.FunctionResponse(
                            name="f", response={"result": call.args["x"]}
                        )
                        await session.send_tool_response(function_responses=response)
            messages += [message async for message in session.receive()]  # the answer's own turn
            assert (await simulator.finished()).ok
        assert [(call.id, call.id_sent) for call in simulator.calls] == [
            ("first", False),
            ("second", False),
        ]
    said = [message.server_content.output_transcription for message in messages[1:]]
    assert [each.text for each in said if each] == ["12"]


async def test_an_answer_that_no_call_awaits_is_refused_by_vertex_too(connect_raw):
    answer = {"toolResponse": {"functionResponses": [{"name": "f", "response": {}}]}}
    async with LiveSimulator(CALLING, generation="vertex") as simulator:
        async with connect_raw(simulator) as client:
            await client.set_up("f")
            await client.receive()
            await client.send(answer)
            await client.send(answer)
            assert await client.closing() == (1007, "no call of 'f' awaits an answer")
        with pytest.raises(SimulatorError):
            simulator.check()


async def test_an_id_that_was_not_sent_cannot_be_cancelled(connect):
    async def scenario(session):
        await session.send_calls(FunctionCall("f", id="c1"))
        await session.cancel("c1")

    simulator = LiveSimulator(scenario, generation="vertex", strict=False)
    async with simulator, connect(simulator, "f"):
        outcome = await simulator.finished()
    assert outcome.message == "call 'c1' was sent without its id"


@pytest.mark.parametrize("generation", list(GENERATIONS))
async def test_handles_come_by_themselves_when_asked_for(connect, generation):
    steps = [TurnComplete(), Call.one("f", id="c1"), WaitForInput("text")]

    async def updates(**config):
        async with LiveSimulator(Scenario(steps), generation=generation) as simulator:
            async with connect(simulator, "f", **config) as session:
                async for message in session.receive():
                    assert message.server_content
                async for message in session.receive():
                    if message.tool_call:
                        break
                await respond(session)
                await session.send_realtime_input(text="done")
                await simulator.finished()
            return [
                each.data["sessionResumptionUpdate"]
                for each in simulator.messages
                if "sessionResumptionUpdate" in each.data
            ], [each.handle for each in simulator.handles]

    async with asyncio.timeout(30):
        if not GENERATIONS[generation].unasked_handles:
            assert await updates() == ([], [])
        found, handles = await updates(session_resumption=types.SessionResumptionConfig())
    assert found == [
        {"newHandle": "session-1-handle-1", "resumable": True},
        {"resumable": False},
        {"newHandle": "session-1-handle-2", "resumable": True},
    ]
    assert handles == ["session-1-handle-1", "session-1-handle-2"]


async def test_a_plain_server_sends_only_the_handles_of_the_scenario(connect):
    steps = [TurnComplete(), SessionResumption("h1"), TurnComplete()]
    async with LiveSimulator(Scenario(steps)) as simulator:
        resumption = types.SessionResumptionConfig()
        async with connect(simulator, session_resumption=resumption):
            assert (await simulator.finished()).ok
        assert [each.handle for each in simulator.handles] == ["h1"]
