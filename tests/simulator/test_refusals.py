"""Each generation refuses in a setup and a response what its real server refuses, in its words."""

import dataclasses

import pytest

from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator import (
    GENERATIONS,
    Call,
    GoAway,
    LiveSimulator,
    Say,
    Scenario,
    TurnComplete,
    WaitForInput,
)

SCHEMA = "setup.tools[0].function_declarations[0].parameters"
ARGUMENT = "Request contains an invalid argument."
PLAIN = {"thinkingConfig": {"thinkingLevel": "LOW"}}
UNKNOWN = "Invalid JSON payload received. Unknown name \"{}\" at '{}': Cannot find field."


def declares(**fields):
    return {"tools": [{"functionDeclarations": [{"name": "f", **fields}]}]}


def takes(**schema):
    return declares(parameters={"type": "OBJECT", **schema})


def generates(**config):
    return {"generationConfig": config}


@pytest.mark.parametrize(
    ("generation", "setup", "words"),
    [
        ("3.8-thinking", {}, "Thinking level must be specified for this model"),
        (
            "3.8-thinking",
            generates(thinking_config={"thinking_level": "MINIMAL"}),
            "Thinking level MINIMAL is not supported for this model",
        ),
        ("3.8-live", generates(**PLAIN), "Thinking level is not supported for this model"),
        (
            "2.5",
            generates(responseModalities=["TEXT"]),
            "The requested combination of response modalities (TEXT) is not supported by the model",
        ),
        ("3.1", generates(enableAffectiveDialog=True), ARGUMENT),
        ("3.1", {"contextWindowCompression": {"slidingWindow": {}}}, ARGUMENT),
        ("2.5", {"proactivity": {"proactiveAudio": True}}, UNKNOWN.format("proactivity", "setup")),
        (
            "2.5",
            declares(parametersJsonSchema={"type": "object"}),
            "'f' has parametersJsonSchema, which this model does not read",
        ),
        ("3.8-live", takes(additionalProperties=False), "additionalProperties"),
        (
            "3.1",
            takes(properties={"x": {"type": ["STRING", "NULL"]}}),
            'Unknown name "type" at \'setup.tools[0]',
        ),
        (
            "2.5",
            takes(properties={"x": {"type": "ARRAY"}}),
            f"{SCHEMA}.properties[0].value.items: missing field.",
        ),
        (
            "2.5",
            takes(properties={"x": {"type": "STRING", "enum": [1]}}),
            f"Invalid value at '{SCHEMA}.properties[0].value.enum[0]' (TYPE_STRING), 1",
        ),
        (
            "2.5",
            takes(properties={"x": {"type": "STRING", "enum": [""]}}),
            f"{SCHEMA}.properties[0].value.enum[0]: cannot be empty",
        ),
        (
            "2.5",
            takes(properties={"x": {"type": "INTEGER", "enum": ["1"]}}),
            f"{SCHEMA}.properties[0].value.enum: only allowed for STRING type",
        ),
        ("2.5", takes(required=["x"]), f"{SCHEMA}.required[0]: property is not defined"),
    ],
)
async def test_a_setup_is_refused(connect_raw, generation, setup, words):
    async with LiveSimulator(Scenario(), generation=generation) as simulator:
        async with connect_raw(simulator) as client:
            await client.send({"setup": {"model": "models/x", **setup}})
            code, reason = await client.closing()
        with pytest.raises(SimulatorError):
            simulator.check()
    assert code == 1007
    assert words.encode()[:123].decode() in reason


@pytest.mark.parametrize(
    ("generation", "fields", "words"),
    [
        (
            "3.8-thinking",
            {"scheduling": "INTERRUPT"},
            "Function response scheduling is not supported for this model",
        ),
        ("3.8-live", {"parts": [{"inlineData": {"mimeType": "application/pdf"}}]}, ARGUMENT),
        ("2.5", {"parts": [{"inlineData": {"mimeType": "image/png"}}]}, ARGUMENT),
        ("3.1", {"parts": [{"inline_data": {"mime_type": "image/png"}}]}, None),
    ],
)
async def test_a_response_is_refused(connect_raw, generation, fields, words):
    steps = [Call.one("f", id="c1"), WaitForInput("text", within_seconds=60)]
    async with LiveSimulator(Scenario(steps), generation=generation) as simulator:
        async with connect_raw(simulator) as client:
            thinking = generates(**PLAIN) if generation == "3.8-thinking" else {}
            setup = {"model": "models/x", **declares(), **thinking}
            await client.send({"setup": setup})
            while "toolCall" not in await client.receive():
                pass
            response = {"id": "c1", "name": "f", "response": {}, **fields}
            await client.send({"toolResponse": {"functionResponses": [response]}})
            await client.send({"realtimeInput": {"text": "done"}})
            if words is None:
                await simulator.finished()
            else:
                assert await client.closing() == (1007, words)
        if words is not None:
            with pytest.raises(SimulatorError):
                simulator.check()


@pytest.mark.parametrize("compressed", [False, True])
async def test_a_session_ends_at_its_limit_unless_compressed(connect_raw, compressed):
    limited = dataclasses.replace(GENERATIONS["2.5"], session_seconds=0.01)
    steps = [WaitForInput("text", within_seconds=60)]
    simulator = LiveSimulator(Scenario(steps), quirks=limited)
    async with simulator, connect_raw(simulator) as client:
        compression = {"contextWindowCompression": {"slidingWindow": {}}} if compressed else {}
        await client.send({"setup": {"model": "models/x", **compression}})
        await client.receive()
        if compressed:
            await client.send({"realtimeInput": {"text": "done"}})
            assert (await simulator.finished()).ok
        else:
            assert "goAway" in await client.receive()
            expected = (1011, "Deadline expired before operation could complete.")
            assert await client.closing() == expected


async def test_video_ends_a_session_sooner(connect_raw):
    limited = dataclasses.replace(GENERATIONS["2.5"], video_session_seconds=0)
    steps = [WaitForInput("text", within_seconds=60)]
    picture = {"mimeType": "image/jpeg", "data": "AAAA"}
    simulator = LiveSimulator(Scenario(steps), quirks=limited)
    async with simulator, connect_raw(simulator) as client:
        await client.set_up()
        await client.send({"realtimeInput": {"video": picture}})
        assert (await client.closing())[0] == 1011


KINDS = ("toolCall", "turnComplete", "generationComplete", "outputTranscription", "modelTurn")


def kind_of(message):
    content = message.get("serverContent", message)
    if any(part.get("thought") for part in content.get("modelTurn", {}).get("parts", ())):
        return "thought"
    return "+".join(kind for kind in KINDS if kind in content) or "empty"


@pytest.mark.parametrize(
    ("generation", "kinds"),
    [
        ("2.5", ["thought", "toolCall", "thought", "outputTranscription", "modelTurn"]),
        ("3.1", ["empty", "toolCall", "empty", "outputTranscription+modelTurn"]),
        (
            "vertex",
            [
                *("toolCall", "generationComplete", "turnComplete"),
                *("outputTranscription", "modelTurn"),
            ],
        ),
    ],
)
async def test_a_reply_has_the_form_of_the_recordings(connect_raw, generation, kinds):
    steps = [Call.one("f", id="c1"), WaitForInput("text"), Say("Hi.", audio_seconds=0.1)]
    simulator = LiveSimulator(Scenario([*steps, GoAway(9)]), generation=generation)
    async with simulator, connect_raw(simulator) as client:
        await client.set_up("f")
        await client.send({"realtimeInput": {"text": "go on"}})
        seen = []
        while "goAway" not in (message := await client.receive()):
            if "sessionResumptionUpdate" not in message:
                seen.append(kind_of(message))
    assert seen == kinds


@pytest.mark.parametrize("ended", [False, True])
async def test_a_resumed_session_waits_for_lost_calls(connect_raw, ended):
    async def calls(session):
        await session.session_resumption("h")
        await Call.one("f", id="c1").play(session)
        await session.drop()

    heard = [WaitForInput("text"), TurnComplete()]
    async with LiveSimulator(
        Scenario(connections=[calls, heard]), generation="3.8-live"
    ) as simulator:
        async with connect_raw(simulator) as client:
            await client.set_up("f")
            await client.websocket.wait_closed()
        async with connect_raw(simulator) as client:
            await client.send({"setup": {"model": "m", "sessionResumption": {"handle": "h"}}})
            await client.receive()
            if ended:
                response = {"id": "c1", "name": "f", "response": {"error": "lost"}}
                await client.send({"toolResponse": {"functionResponses": [response]}})
                assert await client.receive() == {"serverContent": {"turnComplete": True}}
            else:
                await client.send({"realtimeInput": {"text": "swallowed"}})
            await client.send({"realtimeInput": {"text": "heard"}})
            assert (await simulator.finished()).ok
    assert simulator.connections[1].lost_calls == ("c1",)
