"""A live session counts the turns of its user."""

from __future__ import annotations

import asyncio

import pytest
from genai_processors import processor
from genai_processors.content_api import ProcessorPart

from leonidas_tools import AdvancedToolProcessor, LiveToolSession, ToolSession
from leonidas_tools.calls.turns import Turns


class Says(processor.Processor):
    """A model that says something, and then listens until the input ends."""

    def __init__(self, *parts: ProcessorPart) -> None:
        self.parts = parts

    async def call(self, content):
        for part in self.parts:
            yield part
        async for _ in content:
            pass


async def turns(model: Says, *said: ProcessorPart) -> int:
    session = ToolSession()
    agent = LiveToolSession(model, AdvancedToolProcessor(), session=session, settle_seconds=0.01)

    async def user():
        for part in said:
            yield part

    async with asyncio.timeout(10), processor.context():
        async for _ in agent(user()):
            pass
    return session.get(Turns).number


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (ProcessorPart("What time", substream_name="input_transcription"), 1),
        (ProcessorPart("", metadata={"interrupted": True}), 1),
        (ProcessorPart("It is noon", substream_name="output_transcription"), 0),
        (ProcessorPart("", metadata={"turn_complete": True}), 0),
        (ProcessorPart(b"\0" * 4, mimetype="audio/pcm;rate=24000"), 0),
    ],
)
async def test_what_the_server_hears_of_the_user_begins_a_turn(
    part: ProcessorPart, expected: int
) -> None:
    assert await turns(Says(part)) == expected


async def test_a_text_of_the_user_begins_a_turn_and_sound_does_not() -> None:
    sound = ProcessorPart(b"\0" * 640, mimetype="audio/pcm;rate=16000", substream_name="realtime")
    assert await turns(Says(), ProcessorPart("What time is it?"), sound) == 1
