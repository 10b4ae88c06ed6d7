"""The real google-genai client against the simulator."""

import asyncio
import math
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from google.genai import errors, types

from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator import (
    ABSENT,
    Answer,
    Call,
    Cancel,
    Close,
    Drop,
    Expect,
    FunctionCall,
    GenerationComplete,
    GoAway,
    InputTranscription,
    Interrupt,
    LiveSimulator,
    Outcome,
    Pause,
    Say,
    Scenario,
    Send,
    SessionResumption,
    TurnComplete,
    Usage,
    WaitForAnswers,
    WaitForInput,
)

pytestmark = pytest.mark.slow

PLAYED = Outcome(connection=1, status="played")


async def test_a_call_is_answered_and_quoted(connect, reply_to_all):
    steps = [
        WaitForInput("text", containing="hello"),
        Call.one("f", {"x": 1}, id="c1"),
        Expect("c1", status="ok", response={"result": 1}),
        Say("It is {answers.c1.result}.", audio_seconds=0),
        TurnComplete(),
    ]
    async with LiveSimulator(Scenario(steps)) as simulator:
        async with connect(simulator, "f") as session:
            await session.send_realtime_input(text="Hello there")
            messages = await reply_to_all(session)
            assert await simulator.finished() == PLAYED
        (call,) = simulator.calls
    assert messages[0].tool_call.function_calls == [
        types.FunctionCall(id="c1", name="f", args={"x": 1})
    ]
    said = [m.server_content.output_transcription for m in messages[1:-1]]
    assert "".join(each.text for each in said) == "It is 1."
    assert call.answers == (
        Answer(
            id="c1",
            name="f",
            response={"status": "ok", "result": 1},
            at=call.answers[0].at,
        ),
    )
    assert call.answered_once
    assert call.sent_at < call.answers[0].at


async def test_speech_is_a_transcription_beside_audio_as_long_as_the_text(connect, reply_to_all):
    simulator = LiveSimulator(Scenario([Say("one two three four"), TurnComplete()]))
    async with simulator, connect(simulator) as session:
        messages = await reply_to_all(session)
    audio = b"".join(message.data or b"" for message in messages)
    assert len(audio) == 11 * 4800  # 18 characters of 60 ms, in chunks of 100 ms
    texts = [m.server_content.output_transcription for m in messages]
    assert "".join(each.text for each in texts if each) == "one two three four"
    assert [each.finished for each in texts if each][-1] is True


async def test_every_kind_of_message_reaches_the_client(connect):
    steps = [
        InputTranscription("hi"),
        InputTranscription(" there", finished=True),
        Usage({"totalTokenCount": 10}),
        SessionResumption("h1"),
        SessionResumption(),
        GoAway(9.5),
        Send({"serverContent": {"waitingForInput": True}}),
        Interrupt(),
        GenerationComplete(),
        TurnComplete("MALFORMED_FUNCTION_CALL"),
    ]
    async with LiveSimulator(Scenario(steps)) as simulator, connect(simulator) as session:
        found = [m.model_dump(exclude_none=True) async for m in session.receive()]
    assert found == [
        {"server_content": {"input_transcription": {"text": "hi"}}},
        {"server_content": {"input_transcription": {"text": " there", "finished": True}}},
        {"usage_metadata": {"total_token_count": 10}},
        {"session_resumption_update": {"new_handle": "h1", "resumable": True}},
        {"session_resumption_update": {"resumable": False}},
        {"go_away": {"time_left": "9.5s"}},
        {"server_content": {"waiting_for_input": True}},
        {"server_content": {"interrupted": True}},
        {"server_content": {"generation_complete": True}},
        {
            "server_content": {
                "turn_complete": True,
                "turn_complete_reason": types.TurnCompleteReason.MALFORMED_FUNCTION_CALL,
            }
        },
    ]


async def test_arguments_and_ids_can_be_left_out_or_null(connect):
    calls = (
        FunctionCall("f", ABSENT, id="absent"),
        FunctionCall("f", None, id="null"),
        FunctionCall("f", {}, id=None),
        FunctionCall("f", {}),
    )
    async with LiveSimulator(Scenario([Call(calls), TurnComplete()])) as simulator:
        async with connect(simulator, "f") as session:
            await anext(session.receive())
        sent = next(m.data for m in simulator.messages if "toolCall" in m.data)
    assert sent["toolCall"]["functionCalls"] == [
        {"id": "absent", "name": "f"},
        {"id": "null", "name": "f", "args": None},
        {"name": "f", "args": {}},
        {"id": "call-4", "name": "f", "args": {}},
    ]


async def test_a_call_without_id_is_answered_by_name(connect, reply):
    steps = [Call((FunctionCall("f", {}, id=None),)), WaitForInput("text")]
    async with LiveSimulator(Scenario(steps)) as simulator:
        async with connect(simulator, "f") as session:
            await anext(session.receive())
            await reply(session, types.FunctionCall(id="invented", name="f"))
            await session.send_realtime_input(text="done")
            assert await simulator.finished() == PLAYED
        (call,) = simulator.calls
    assert (call.id, call.answered_once) == (None, True)


async def test_a_repeated_id_is_one_call_delivered_twice(connect, reply_to_all):
    steps = [
        Call.one("f", id="c1"),
        Call((FunctionCall("f", {}, id="c1"),), in_model_turn=True),
        WaitForInput("text"),
        TurnComplete(),
    ]
    async with LiveSimulator(Scenario(steps)) as simulator:
        async with connect(simulator, "f") as session:
            stream = session.receive()
            first, second = await anext(stream), await anext(stream)
            await session.send_realtime_input(text="both seen")
            assert await simulator.finished() == PLAYED
        (call,) = simulator.calls
    assert first.tool_call.function_calls[0].id == "c1"
    assert second.server_content.model_turn.parts[0].function_call.id == "c1"
    assert (call.deliveries, call.answers, call.pending) == (2, (), True)


async def test_a_cancelled_call_wants_no_answer(connect):
    steps = [Call.one("f", id="c1"), Cancel(("c1",)), WaitForAnswers(), TurnComplete()]
    async with LiveSimulator(Scenario(steps)) as simulator:
        async with connect(simulator, "f") as session:
            messages = [message async for message in session.receive()]
            assert await simulator.finished() == PLAYED
        (call,) = simulator.calls
    assert messages[1].tool_call_cancellation.ids == ["c1"]
    assert call.cancelled
    assert call.answered_once
    assert not call.pending


async def test_a_non_blocking_call_may_have_interim_answers(connect, reply):
    async def scenario(session):
        (answer,) = await session.call(FunctionCall("f", {}, id="c1"))
        assert answer.response == {"result": "all"}
        assert answer.scheduling == "WHEN_IDLE"

    async with LiveSimulator(scenario) as simulator:
        async with connect(simulator, "f", behavior="NON_BLOCKING") as session:
            await anext(session.receive())
            for result, more in (("half", True), ("all", False)):
                await session.send_tool_response(
                    function_responses=types.FunctionResponse(
                        id="c1",
                        name="f",
                        response={"result": result},
                        will_continue=more,
                        scheduling="WHEN_IDLE",
                    )
                )
            assert await simulator.finished() == PLAYED
        (call,) = simulator.calls
    assert [answer.final for answer in call.answers] == [False, True]
    assert call.answered_once


async def test_an_interim_answer_to_a_blocking_call_is_the_answer(connect, reply):
    async with LiveSimulator(Scenario([Call.one("f", id="c1")]), strict=False) as simulator:
        async with connect(simulator, "f") as session:
            await anext(session.receive())
            interim = types.FunctionResponse(
                id="c1", name="f", response={"result": "Running."}, will_continue=True
            )
            await session.send_tool_response(function_responses=interim)
            await reply(session, types.FunctionCall(id="c1", name="f"))
            await simulator.until(lambda: len(simulator.violations) > 0)
        (violation,) = simulator.violations
    assert violation.reason == "call 'c1' of 'f' was already answered"


async def test_tools_can_be_replaced_in_the_session(connect, reply_to_all):
    steps = [WaitForInput("text"), Call.one("g", id="c1"), WaitForAnswers(), TurnComplete()]
    async with LiveSimulator(Scenario(steps)) as simulator, connect(simulator, "f") as session:
        tools = [types.Tool(function_declarations=[types.FunctionDeclaration(name="g")])]
        await session.send_context_update(tools=tools)
        await session.send_realtime_input(text="now")
        await reply_to_all(session)
        assert await simulator.finished() == PLAYED


async def test_audio_texts_and_activity_are_waited_for(connect):
    seen = []

    async def scenario(session):
        seen.extend(await session.wait_for_input("activity"))
        seen.extend(await session.wait_for_input("audio", count=3))
        seen.extend(await session.wait_for_input("text", containing="WORLD"))
        assert len(await session.wait_for_input()) == 1

    blob = types.Blob(data=b"\xff\xfe" * 100, mime_type="audio/pcm;rate=16000")
    async with LiveSimulator(scenario) as simulator, connect(simulator) as session:
        await session.send_realtime_input(text="first")
        await session.send_realtime_input(activity_start=types.ActivityStart())
        await session.send_realtime_input(audio=blob)
        await session.send_realtime_input(media=blob)
        await session.send_realtime_input(audio=blob)
        content = types.Content(role="user", parts=[types.Part(text="hello world")])
        await session.send_client_content(turns=content)
        assert await simulator.finished() == PLAYED
    assert [(each.kind, each.text) for each in seen] == [
        ("activity", "activityStart"),
        ("audio", ""),
        ("audio", ""),
        ("audio", ""),
        ("text", "hello world"),
    ]


async def test_each_connection_has_its_script(connect):
    scripts = [[SessionResumption("h1"), Drop()], [TurnComplete(), Close(1008, reason="enough")]]
    async with LiveSimulator(Scenario(connections=scripts)) as simulator:
        resumption = types.SessionResumptionConfig()
        async with connect(simulator, session_resumption=resumption) as session:
            await anext(session.receive())
            with pytest.raises(errors.APIError) as dropped:
                await anext(session.receive())
        resumption = types.SessionResumptionConfig(handle="h1")
        async with connect(simulator, session_resumption=resumption) as session:
            await anext(session.receive())
            with pytest.raises(errors.APIError) as closed:
                await anext(session.receive())
        assert (await simulator.finished()).ok
        await simulator.closed()
    assert (dropped.value.code, closed.value.code) == (1006, 1008)
    assert "enough" in str(closed.value)
    assert [setup["sessionResumption"] for setup in simulator.setups] == [{}, {"handle": "h1"}]
    assert [outcome.connection for outcome in simulator.outcomes] == [1, 2]


async def test_one_connection_too_many_is_a_failure(connect):
    async with LiveSimulator(Scenario(connections=[[TurnComplete()]])) as simulator:
        async with connect(simulator) as session:
            await anext(session.receive())
        with pytest.raises(errors.APIError):
            await connect(simulator).__aenter__()
        with pytest.raises(SimulatorError, match="the scenario has 1 connections, not 2"):
            simulator.check()


async def test_a_scenario_restarts_on_each_connection(connect, reply_to_all):
    steps = [Call.one("f"), WaitForAnswers(), TurnComplete()]
    async with LiveSimulator(Scenario(steps)) as simulator:

        async def converse():
            async with connect(simulator, "f") as session:
                await reply_to_all(session)

        await asyncio.gather(*(converse() for _ in range(4)))
        assert (await simulator.finished(connections=4)).ok
    assert sorted(call.connection for call in simulator.calls) == [1, 2, 3, 4]
    assert all(call.answered_once for call in simulator.calls)


async def test_a_failed_expectation_names_the_step_and_reaches_both_sides(connect, reply):
    steps = [Call.one("f", id="c1"), Expect("c1", response={"result": {"a": 1}}), TurnComplete()]
    message = "step 2 (expect: {id: c1, response: {result: {a: 1}}}): response.result.a is 2, not 1"
    async with LiveSimulator(Scenario(steps)) as simulator, connect(simulator, "f") as session:
        call = (await anext(session.receive())).tool_call.function_calls[0]
        await reply(session, call, {"result": {"a": 2, "b": 3}})
        with pytest.raises(errors.APIError, match="scenario failed"):
            await anext(session.receive())
        failed = Outcome(connection=1, status="failed", message=message)
        assert await simulator.finished() == failed
        with pytest.raises(SimulatorError, match=r"response\.result\.a is 2"):
            simulator.check()


async def test_a_failed_assertion_is_reported_with_its_place(connect):
    async def play(session):
        assert session.answers == "none"

    simulator = LiveSimulator(Scenario(play), strict=False)
    async with simulator, connect(simulator, "f"):
        outcome = await simulator.finished()
    place = r"\(test_simulator_with_the_sdk.py:\d+: assert session.answers == \"none\"\)"
    assert re.search(place, outcome.message)


async def test_an_answer_that_does_not_come_fails_the_step(connect):
    steps = [Call.one("f", id="c1"), WaitForAnswers(within_seconds=0.01)]
    simulator = LiveSimulator(Scenario(steps), strict=False)
    async with simulator, connect(simulator, "f"):
        outcome = await simulator.finished()
    assert outcome.message == (
        "step 2 (wait_for_answers: {within_seconds: 0.01}): no answer to 'c1' within 0.01 s "
        "(within_seconds)"
    )


async def test_an_undeclared_function_is_the_scenarios_mistake(connect):
    simulator = LiveSimulator(Scenario([Call.one("get_wether")]), strict=False)
    async with simulator, connect(simulator, "get_weather"):
        outcome = await simulator.finished()
    assert not outcome.ok
    assert "no function 'get_wether'; the closest is 'get_weather'" in outcome.message
    assert "a rule or a setting hides or denies it: `leonidas policy explain" in outcome.message


async def test_a_quote_from_an_answer_that_was_not_waited_for_says_how_to_wait(connect):
    steps = [Call.one("f", id="c1"), Say("It is {answers.c1.result}.")]
    simulator = LiveSimulator(Scenario(steps), strict=False)
    async with simulator, connect(simulator, "f"):
        outcome = await simulator.finished()
    assert not outcome.ok
    assert "call 'c1' has no answer yet; wait for it with `wait_for_answers`" in outcome.message


async def test_a_client_that_leaves_early_is_noted_but_not_blamed(connect):
    async with LiveSimulator(Scenario([WaitForInput(within_seconds=60)])) as simulator:
        async with connect(simulator):
            pass
        outcome = await simulator.finished()
    assert outcome.status == "left"
    assert "step 1 (wait_for_input" in outcome.message


async def test_an_error_in_a_scenario_in_python_is_its_failure(connect):
    async def scenario(session):
        raise RuntimeError("oops")

    async with LiveSimulator(scenario, strict=False) as simulator, connect(simulator):
        outcome = await simulator.finished()
    assert outcome.message == "RuntimeError('oops')"


async def test_pauses_vanish_at_infinite_speed(connect, reply_to_all):
    steps = [Pause(3600), Say("a long story", audio_seconds=60, paced=True), TurnComplete()]
    simulator = LiveSimulator(Scenario(steps), speed=math.inf)
    async with simulator, connect(simulator) as session, asyncio.timeout(30):
        messages = await reply_to_all(session)
    assert sum(len(message.data or b"") for message in messages) == 60 * 48_000


async def test_a_long_pause_ends_with_the_client(connect):
    async with LiveSimulator(Scenario([Pause(3600)])) as simulator:
        async with connect(simulator):
            pass
        async with asyncio.timeout(30):
            assert (await simulator.finished()).status == "left"


async def test_an_open_session_does_not_keep_the_simulator(connect):
    simulator = LiveSimulator(Scenario([Pause(3600)]))
    async with simulator:
        session = await connect(simulator).__aenter__()
    assert simulator.outcomes[0].status == "left"
    with pytest.raises(errors.APIError):
        await anext(session.receive())


async def test_the_server_lives_while_the_clients_loop_is_blocked(connect):
    async with LiveSimulator(Scenario([WaitForInput("text"), TurnComplete()])) as simulator:
        async with connect(simulator) as session:
            await session.send_realtime_input(text="hello")
            assert simulator.wait_finished(30).ok  # holds this loop
        await simulator.closed()


def test_it_serves_a_program_that_knows_only_its_environment():
    program = """
import asyncio
from google import genai
async def main():
    client = genai.Client()
    async with client.aio.live.connect(model="m", config={"response_modalities": ["TEXT"]}) as s:
        async for message in s.receive():
            if message.server_content.output_transcription:
                print(message.server_content.output_transcription.text, end="")
asyncio.run(main())
"""
    with LiveSimulator(Scenario([Say("Hello.", audio_seconds=0), TurnComplete()])) as simulator:
        found = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | simulator.environment(),
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        simulator.wait_closed(30)
    assert (found.stdout, found.returncode) == ("Hello.", 0), found.stderr


def test_the_certificate_and_the_thread_are_gone_at_the_end():
    with LiveSimulator(Scenario()) as simulator:
        path = Path(simulator.environment()["SSL_CERT_FILE"])
        names = [thread.name for thread in threading.enumerate()]
        assert path.exists()
        assert "gemini-live-simulator" in names
        assert [each.name for each in path.parent.iterdir()] == ["certificate.pem"]
    assert not path.parent.exists()
    with pytest.raises(SimulatorError, match="running already"):
        simulator.start()


def test_it_says_that_it_is_not_running():
    with pytest.raises(SimulatorError, match="not running"):
        LiveSimulator(Scenario()).http_options()


async def test_waiting_for_a_connection_that_never_comes_times_out():
    with LiveSimulator(Scenario()) as simulator:
        with pytest.raises(TimeoutError):
            simulator.wait_closed(0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await simulator.finished()
