"""When the user and the agent speak, as events."""

import asyncio
from contextlib import aclosing

from genai_processors import processor
from genai_processors.content_api import ProcessorPart

from leonidas_tools import AdvancedToolProcessor, LiveToolSession, ToolSession

KEY = "AIza" + "x" * 35


async def test_turns_of_the_user_and_the_agent_are_events_with_their_words_and_their_sound():
    over = asyncio.Event()

    @processor.processor_function
    async def model(content):
        async for _ in content:
            break
        for text in ("Say", " hello"):
            yield ProcessorPart(text, substream_name="input_transcription")
        for _ in range(2):
            yield ProcessorPart(bytes(24_000), mimetype="audio/pcm;rate=24000", role="model")
        yield ProcessorPart(f"Hello, {KEY}", substream_name="output_transcription")
        yield ProcessorPart("", role="model", metadata={"interrupted": True})
        yield ProcessorPart("Bye", role="model", substream_name="output_transcription")
        await over.wait()

    async def user():
        yield ProcessorPart("hi", role="user")
        await over.wait()

    heard = []
    async with AdvancedToolProcessor() as tools, aclosing(tools.events.subscribe()) as events:
        await anext(events)
        live = LiveToolSession(model, tools, session=ToolSession("s"), settle_seconds=0)

        async def listen():
            async for _ in live(user()):
                pass

        listening = asyncio.create_task(listen())
        async for event in events:
            if event["event"] == "speech":
                told = ("who", "state", "text", "sound_seconds", "interrupted")
                heard.append({key: event[key] for key in told if key in event})
                if len(heard) == 7:
                    over.set()
            if event["event"] == "session_ended":
                break
        await listening
    assert heard == [
        {"who": "user", "state": "began"},
        {"who": "user", "state": "ended", "text": "hi"},
        {"who": "user", "state": "began"},
        {"who": "user", "state": "ended", "text": "Say hello"},
        {"who": "agent", "state": "began"},
        {
            "who": "agent",
            "state": "ended",
            "text": "Hello, ***",
            "sound_seconds": 1.0,
            "interrupted": True,
        },
        {"who": "agent", "state": "began"},
        {"who": "agent", "state": "ended", "text": "Bye"},
    ]
