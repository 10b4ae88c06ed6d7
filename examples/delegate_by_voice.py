"""A voice hands a job of several steps to an agent, goes on talking, and tells the result.

All models are simulated; with `OPENAI_BASE_URL` and `OPENAI_MODEL` set, a real one does the job.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from genai_processors.content_api import ProcessorPart

from leonidas_tools import AdvancedToolProcessor, GeminiLiveProcessor, LiveToolSession, tool
from leonidas_tools.agent import Delegation, OpenAIModel, ScriptedModel
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator import (
    Call,
    Expect,
    LiveSimulator,
    Say,
    Scenario,
    TurnComplete,
    WaitForInput,
)

small_talk_is_over = asyncio.Event()


@tool(effect="read")
async def search_tables(people: int) -> list[str]:
    """Searches free tables for a number of people."""
    await small_talk_is_over.wait()  # a slow service
    return ["noon", "one o'clock"]


@tool(effect="once")
def book_table(time: str, people: int) -> str:
    """Books a table."""
    return f"booked: {people} people at {time}"


AGENT: list[Any] = [
    {"text": "I look for a table.", "calls": [("search_tables", {"people": 4})]},
    {"text": "Noon is free.", "calls": [("book_table", {"time": "noon", "people": 4})]},
    "A table for four is booked at noon.",
]
VOICE = [
    WaitForInput("text", containing="table"),
    Call.one("delegate", {"task": "Find a table for four today, and book it."}, id="job"),
    Say("I see to it. Anything else meanwhile?", audio_seconds=0.2),
    TurnComplete(),
    WaitForInput("text", containing="capital"),
    Say("That is Lisbon.", audio_seconds=0.2),
    TurnComplete(),
    Expect("job", status="ok"),
    Say("{answers.job.result.answer}", audio_seconds=0.2),
]


def show(event: ToolEvent) -> None:
    if event.kind is EventKind.PROGRESS:
        print("agent:   ", event.data["message"])


async def main() -> None:
    model = OpenAIModel(name) if (name := os.environ.get("OPENAI_MODEL")) else ScriptedModel(AGENT)
    delegation = Delegation(model, progress_seconds=0)
    tools = AdvancedToolProcessor(tools=[search_tables, book_table, *delegation.tools])
    tools.monitor.subscribe(show)
    async with LiveSimulator(Scenario(VOICE), generation="3.8-live") as gemini:
        live = GeminiLiveProcessor(
            "gemini-3.8-live",
            api_key="none",
            http_options=gemini.http_options(),
        )
        voice_is_done = asyncio.Event()

        async def user() -> AsyncIterator[ProcessorPart]:
            for text in ("A table for four today, please.", "What is the capital of Portugal?"):
                print("user:    ", text)
                yield ProcessorPart(text)
                await voice_is_done.wait()  # it answers at once: the agent works beside it
                voice_is_done.clear()
            small_talk_is_over.set()
            await gemini.finished()

        async for part in LiveToolSession(live, tools)(user()):
            if part.substream_name == "output_transcription":
                print("voice:   ", part.text.strip())
            elif part.get_metadata("turn_complete"):
                voice_is_done.set()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except SimulatorError as error:  # such as a model that cannot be reached
        raise SystemExit(str(error)) from None
