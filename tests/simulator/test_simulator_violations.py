"""Clients that break the protocol: each breach is named, and a strict server closes."""

import asyncio
import base64

import pytest
import websockets

from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator import (
    Call,
    Cancel,
    LiveSimulator,
    Outcome,
    Quirks,
    Scenario,
    WaitForInput,
)
from leonidas_tools.simulator.wire import CLIENT_FIELDS

IDLE = Scenario([WaitForInput(within_seconds=60)])
CALLING = Scenario([Call.one("f", id="c1"), WaitForInput(within_seconds=60)])
AUDIO = {"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": "AAAA"}}}


def respond(**fields):
    body = {"id": "c1", "name": "f", "response": {"result": 1}} | fields
    return {"toolResponse": {"functionResponses": [{k: v for k, v in body.items() if v != "-"}]}}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (AUDIO, "the first message must be the setup"),
        ({"setup": {}}, "the setup names no model"),
        ({"setup": {"model": ""}}, "the setup names no model"),
        ({"setup": []}, "'setup' must be an object, not list"),
        ("not JSON", "the message is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "a message must be a JSON object, not list"),
        ("[" * 200_000, "the message is nested too deeply"),
    ],
)
async def test_a_bad_first_message_is_refused(connect_raw, message, reason):
    simulator = LiveSimulator(IDLE)
    async with simulator:
        async with connect_raw(simulator) as client:
            await client.send(message)
            assert await client.closing() == (1007, reason)
        await simulator.closed()
        assert [violation.reason for violation in simulator.violations] == [reason]
        with pytest.raises(SimulatorError, match="connection 1: "):
            simulator.check()
    assert simulator.outcomes == (
        Outcome(
            connection=1, status="left", message="the client disconnected before the session began"
        ),
    )


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"setup": {"model": "models/x"}}, "a second setup"),
        ({}, "a message must have exactly one top-level field; this one has none"),
        (
            {"setup": {}, "clientContent": {}},
            (
                "a message must have exactly one top-level field; this one has 'setup', "
                "'clientContent'"
            ),
        ),
        (
            {"tool_answer": {}},
            f"unknown top-level field 'tool_answer'; known are {', '.join(CLIENT_FIELDS)}",
        ),
        ('{"realtimeInput": {"text": NaN}}', "NaN is not JSON"),
        ('{"realtimeInput": {"text": -Infinity}}', "-Infinity is not JSON"),
        ({"realtimeInput": {"txt": "hi"}}, "unknown field 'txt' in realtimeInput"),
        (
            {"realtime_input": {"audio": {"data": "not base64!"}}},
            "the data of realtimeInput.audio is not base64",
        ),
        (
            {"realtime_input": {"media_chunks": [{"data": "A"}]}},
            "the data of realtimeInput.mediaChunks is not base64",
        ),
        (
            {"client_content": {"turns": [{"parts": [{"inline_data": {"data": 3}}]}]}},
            "the data of an inlineData part is not base64",
        ),
        (
            {"client_content": {"turns": [{"parts": [{"text": ""}]}], "turn_complete": True}},
            "an empty turn: its parts are empty, yet it interrupts the model",
        ),
        ({"tool_response": {}}, "a tool response without functionResponses"),
        (respond(id="-"), "a function response of 'f' has no id"),
        (respond(name="-"), "the function response to call 'c1' has no name"),
        (respond(name=""), "the function response to call 'c1' has no name"),
        (respond(response="-"), "the response to call 'c1' must be an object, not NoneType"),
        (respond(response=[1]), "the response to call 'c1' must be an object, not list"),
        (respond(id="c2"), "no call 'c2' was issued; the last were 'c1'"),
        (respond(name="g"), "call 'c1' is of 'f'; it was answered as 'g'"),
    ],
)
async def test_a_breach_in_the_session_is_refused(connect_raw, message, reason):
    async with LiveSimulator(CALLING) as simulator, connect_raw(simulator) as client:
        await client.set_up("f")
        await client.receive()
        await client.send(message)
        assert await client.closing() == (1007, reason.encode()[:123].decode())
        assert [violation.reason for violation in simulator.violations] == [reason]
        with pytest.raises(SimulatorError) as raised:
            simulator.check()
    assert f"- connection 1: {reason}" in str(raised.value)


async def test_a_second_answer_is_refused(connect_raw):
    async with LiveSimulator(CALLING) as simulator, connect_raw(simulator) as client:
        await client.set_up("f")
        await client.receive()
        await client.send(respond())
        await client.send(respond())
        assert await client.closing() == (1007, "call 'c1' of 'f' was already answered")
        with pytest.raises(SimulatorError):
            simulator.check()
    (call,) = simulator.calls
    assert len(call.final_answers) == 2
    assert not call.answered_once


async def test_an_answer_after_the_cancellation_is_refused(connect_raw):
    steps = [Call.one("f", id="c1"), Cancel(("c1",)), WaitForInput(within_seconds=60)]
    async with LiveSimulator(Scenario(steps)) as simulator, connect_raw(simulator) as client:
        await client.set_up("f")
        await client.receive()
        assert await client.receive() == {"toolCallCancellation": {"ids": ["c1"]}}
        await simulator.until(lambda: simulator.calls[0].cancellation_seen_at is not None)
        await client.send(respond())
        assert (await client.closing())[0] == 1007
        with pytest.raises(SimulatorError, match="was cancelled; no response is allowed"):
            simulator.check()
    assert not simulator.calls[0].answered_once


async def test_an_answer_to_another_connections_call_is_refused(connect_raw):
    simulator = LiveSimulator(Scenario(connections=[[Call.one("f", id="c1")], []]))
    async with simulator:
        async with connect_raw(simulator) as client:
            await client.set_up("f")
            await client.receive()
        async with connect_raw(simulator) as client:
            await client.set_up("f")
            await client.send(respond())
            assert await client.closing() == (
                1007,
                "call 'c1' was issued on connection 1, not on this one",
            )
        with pytest.raises(SimulatorError):
            simulator.check()


async def test_a_lenient_server_notes_the_breach_and_goes_on(connect_raw):
    scenario = Scenario([Call.one("f", id="c1"), WaitForInput("text")])
    simulator = LiveSimulator(scenario, strict=False)
    async with simulator, connect_raw(simulator) as client:
        await client.set_up("f")
        await client.send("not JSON")
        await client.send({"tool_answer": {}})
        await client.send(respond(id="c2"))
        await client.send({"realtimeInput": {"text": "still here"}})
        assert (await simulator.finished()).ok
    assert [violation.close_code for violation in simulator.violations] == [1007] * 3
    assert simulator.violations[0].data == "not JSON"


@pytest.mark.parametrize(
    ("quirks", "message", "code"),
    [
        (Quirks(audio_blocked_while_pending=True), AUDIO, 1008),
        (
            Quirks(audio_blocked_while_pending=True),
            {"realtime_input": {"media_chunks": [{"data": "AAAA"}]}},
            1008,
        ),
        (
            Quirks(refuse_media_chunks=True),
            {"realtime_input": {"media_chunks": [{"data": "AAAA"}]}},
            1007,
        ),
        (Quirks(max_message_bytes=100), {"realtimeInput": {"text": "x" * 100}}, 1009),
    ],
)
async def test_a_quirk_refuses_what_the_plain_server_takes(connect_raw, quirks, message, code):
    scenario = Scenario([Call.one("f", id="c1"), WaitForInput()])
    async with LiveSimulator(scenario) as simulator, connect_raw(simulator) as client:
        await client.set_up("f")
        await client.receive()
        await client.send(message)
        assert (await simulator.finished()).ok
    simulator = LiveSimulator(scenario, strict=False, quirks=quirks)
    async with simulator, connect_raw(simulator) as client:
        await client.set_up("f")
        await client.receive()
        await client.send(message)
        await simulator.until(lambda: len(simulator.violations) > 0)
    assert [violation.close_code for violation in simulator.violations] == [code]


async def test_audio_is_blocked_only_while_a_call_is_pending(connect_raw):
    quirks = Quirks(audio_blocked_while_pending=True)
    async with LiveSimulator(Scenario([Call.one("f", id="c1")]), quirks=quirks) as simulator:
        async with connect_raw(simulator) as client:
            await client.set_up("f")
            await client.receive()
            await client.send(respond())
            await client.send(AUDIO)
            await simulator.until(lambda: simulator.messages[-1].data == AUDIO)
        assert simulator.violations == ()


@pytest.mark.parametrize(("text_frames", "kind"), [(False, bytes), (True, str)])
async def test_frames_are_binary_or_text_both_ways(connect_raw, text_frames, kind):
    scenario = Scenario([WaitForInput("text", count=2)])
    quirks = Quirks(text_frames=text_frames)
    simulator = LiveSimulator(scenario, quirks=quirks)
    async with simulator, connect_raw(simulator) as client:
        await client.websocket.send(b'{"setup": {"model": "m"}}')
        assert isinstance(await client.websocket.recv(), kind)
        await client.websocket.send('{"realtimeInput": {"text": "text frame"}}')
        await client.websocket.send(b'{"realtime_input": {"text": "binary frame"}}')
        assert (await simulator.finished()).ok


async def test_both_cases_and_both_alphabets_are_understood(connect_raw):
    sound = b"\xfb\xff\xbf"
    scenario = Scenario([Call.one("f", id="c1"), WaitForInput("audio", count=4)])
    async with LiveSimulator(scenario) as simulator, connect_raw(simulator) as client:
        tools = [{"function_declarations": [{"name": "f", "parameters_json_schema": {}}]}]
        await client.send({"setup": {"model": "m", "tools": tools}})
        await client.receive()
        await client.receive()
        response = {"id": "c1", "name": "f", "response": {"some_key": 1}, "will_continue": False}
        await client.send({"tool_response": {"function_responses": [response]}})
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            data = encode(sound).decode()
            blob = {"data": data, "mime_type": "audio/pcm"}
            await client.send({"realtime_input": {"audio": blob}})
            await client.send({"realtimeInput": {"mediaChunks": [blob]}})
        assert (await simulator.finished()).ok
        assert simulator.calls[0].answers[0].response == {"some_key": 1}


async def test_another_path_is_not_found(connect_raw):
    async with LiveSimulator(IDLE) as simulator:
        with pytest.raises(websockets.InvalidStatus) as raised:
            await connect_raw(simulator, path="/v1/models").__aenter__()
    assert raised.value.response.status_code == 404


async def test_leaving_raises_unexpected_violations(connect_raw):
    async def break_the_protocol():
        async with LiveSimulator(IDLE) as simulator, connect_raw(simulator) as client:
            await client.send("not JSON")
            await client.closing()

    with pytest.raises(SimulatorError, match="the message is not JSON"):
        await break_the_protocol()


async def test_an_error_in_the_test_is_not_hidden_by_the_check(connect_raw):
    async def fail_after_a_breach():
        async with LiveSimulator(IDLE) as simulator, connect_raw(simulator) as client:
            await client.send("not JSON")
            await client.closing()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_after_a_breach()


async def test_a_client_that_vanishes_leaves_nothing_behind(connect_raw):
    async with LiveSimulator(CALLING) as simulator, connect_raw(simulator) as client:
        await client.set_up("f")
        client.websocket.transport.abort()
        async with asyncio.timeout(30):
            assert (await simulator.finished()).status == "left"
            await simulator.closed()
    assert simulator.calls[0].pending
