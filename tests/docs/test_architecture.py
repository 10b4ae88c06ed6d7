"""The pages on the architecture say what the code is."""

import asyncio
import inspect
import re
import sys
from types import FrameType

import pytest
from genai_processors import processor
from genai_processors.content_api import ProcessorPart

from leonidas_tools import AdvancedToolProcessor, GeminiLiveProcessor, LiveToolSession
from leonidas_tools.simulator import (
    Call,
    LiveSimulator,
    Scenario,
    WaitForAnswers,
    WaitForInput,
)
from tests.docs.rooms import PACKAGE, PAGE, PICTURE, drawn, with_policies, with_table

CALL_PAGE = PAGE.with_name("way-of-a-call.md")
STEP = re.compile(r"^\| `([\w/]+\.py)` \| `([\w.<>]+)` \|", re.MULTILINE)
_OF_A_TASK = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def test_the_picture_of_the_rooms_is_drawn_from_the_code():
    """Else: `make picture` draws it."""
    assert PICTURE.read_text() == drawn()


def test_the_table_of_rooms_says_what_their_docstrings_say():
    """Else: `make picture` writes it."""
    assert PAGE.read_text() == with_table(PAGE.read_text())


def get_weather(city: str) -> dict[str, str]:
    """Current weather in a city."""
    return {"city": city}


def _is_timed(frame: FrameType | None) -> bool:
    """Return whether a timer or callback runs this, and not a task."""
    first = frame
    while frame is not None and frame.f_code is not asyncio.Handle._run.__code__:
        first, frame = frame, frame.f_back
    return frame is not None and first is not None and not first.f_code.co_flags & _OF_A_TASK


def _steps(heading: str, next_heading: str) -> list[tuple[str, str]]:
    """Return the rows of the page between two headings."""
    text = CALL_PAGE.read_text()
    return STEP.findall(text[text.index(heading) : text.index(next_heading)])


async def test_a_call_enters_the_functions_of_the_page_in_their_order_and_no_other_file():
    entered: list[tuple[str, str]] = []
    of_tasks: list[str | None] = []
    reading, starts = ("processors/call_stream.py", "_Calls.read"), [0]

    def note(frame, event, _):
        _, found, file = frame.f_code.co_filename.partition(f"/{PACKAGE}/")
        if event == "call" and found:
            entered.append((file, frame.f_code.co_qualname))
            of_tasks.append(None if _is_timed(frame) else file)

    answers: asyncio.Queue[object] = asyncio.Queue()

    async def calls():
        before = sys.getprofile()
        for call_id in "12":  # the second call finds compiled what is compiled once
            if call_id == "2":
                starts.append(len(entered) - 1 - entered[::-1].index(reading))
            part = ProcessorPart.from_function_call(name="get_weather", args={"city": "Faro"})
            part.metadata["id"] = call_id
            yield part
            if call_id == "1":
                sys.setprofile(note)
            await answers.get()
        sys.setprofile(before)

    async with processor.context():  # as in a Live session
        async for part in AdvancedToolProcessor(tools=[get_weather])(calls()):
            if part.function_response:
                answers.put_nowait(part)
    rows = _steps("## From the part", "## In a Live session")
    rest = iter(entered[starts[-1] :])
    assert [row for row in rows if row not in rest] == []
    assert {*of_tasks[starts[-1] :]} - {None} <= {file for file, _ in rows}


@pytest.mark.slow
async def test_a_call_of_a_live_session_enters_the_functions_of_the_page_in_their_order():
    entered: list[tuple[str, str]] = []

    def note(frame, event, _):
        _, found, file = frame.f_code.co_filename.partition(f"/{PACKAGE}/")
        if event == "call" and found:
            entered.append((file, frame.f_code.co_qualname))

    steps = [WaitForInput("text"), Call.one("get_weather", {"city": "Faro"}), WaitForAnswers()]
    before = sys.getprofile()
    async with LiveSimulator(Scenario(steps)) as gemini:
        live = GeminiLiveProcessor(
            "gemini-3.8-live", api_key="none", http_options=gemini.http_options()
        )
        sys.setprofile(note)
        try:
            async for _ in LiveToolSession(live, AdvancedToolProcessor([get_weather]))("Weather?"):
                pass
        finally:
            sys.setprofile(before)
    rest = iter(entered[entered.index(("live/call_tracker.py", "CallTracker.ask")) - 20 :])
    rows = _steps("## In a Live session", "## A call that asks")
    assert len(rows) > 15
    assert [row for row in rows if row not in rest] == []


def test_the_order_of_policies_on_the_page_is_the_table_in_the_code():
    assert PAGE.read_text() == with_policies(PAGE.read_text()), "run `make picture`"
