"""Upstream's LiveProcessor against the simulator."""

import asyncio

from genai_processors import content_api, processor
from genai_processors.core import live_model

from leonidas_tools.simulator import (
    Call,
    LiveSimulator,
    Outcome,
    Say,
    Scenario,
    TurnComplete,
    WaitForAnswers,
    WaitForInput,
)

CONFIG = {
    "response_modalities": ["AUDIO"],
    "tools": [{"function_declarations": [{"name": "f"}, {"name": "g"}]}],
}


async def converse(simulator):
    """Speaks, answers every call, and leaves at the end of the turn; returns what was said."""
    inbox = asyncio.Queue()
    microphone = content_api.ProcessorPart(
        b"\x00" * 320, mimetype="audio/pcm;rate=16000", substream_name="realtime"
    )
    await inbox.put(microphone)

    async def feed():
        while (part := await inbox.get()) is not None:
            yield part

    model = live_model.LiveProcessor(
        api_key="x",
        model_name="gemini-live-x",
        realtime_config=CONFIG,
        http_options=simulator.http_options(),
    )
    texts = []
    async with processor.context():
        async for part in model(feed()):
            if part.substream_name == "output_transcription":
                texts.append(part.text)
            if call := part.part.function_call:
                response = content_api.ProcessorPart.from_function_response(
                    name=call.name,
                    response=call.name,
                    function_call_id=part.metadata["id"],
                )
                await inbox.put(response)
            if part.get_metadata("turn_complete"):
                await inbox.put(None)
    return "".join(texts)


async def test_a_whole_conversation():
    steps = [
        WaitForInput("audio"),
        Call.one("f", id="c1"),
        WaitForAnswers(),
        Call.one("g", id="c2"),
        WaitForAnswers(("c2",)),
        Say("{answers.c1.result} and {answers.c2.result}"),
        TurnComplete(),
    ]
    async with LiveSimulator(Scenario(steps)) as simulator:
        assert await converse(simulator) == "f and g"
        assert await simulator.finished() == Outcome(connection=1, status="played")
        assert [call.answered_once for call in simulator.calls] == [True, True]
