"""The pages on the architecture say what the code is."""

import asyncio
import re
import sys

from genai_processors.content_api import ProcessorPart

from leonidas_tools import AdvancedToolProcessor, tool
from tests.docs.rooms import PACKAGE, PAGE, PICTURE, ROOT, drawn, with_table

CALL_PAGE = PAGE.with_name("way-of-a-call.md")
STEP = re.compile(r"^\| (?:\d+|\u2013) \| `([\w/]+\.py)` \|", re.MULTILINE)
IN_ORDER = re.compile(r"^\| \d+ \| `([\w/]+\.py)` \|", re.MULTILINE)


def test_the_picture_of_the_rooms_is_drawn_from_the_code():
    """Else: `make picture` draws it."""
    assert PICTURE.read_text() == drawn()


def test_the_table_of_rooms_says_what_their_docstrings_say():
    """Else: `make picture` writes it."""
    assert PAGE.read_text() == with_table(PAGE.read_text())


@tool(effect="read")
async def get_weather(city: str) -> dict[str, str]:
    """Current weather in a city."""
    return {"city": city}


async def test_a_call_enters_the_files_of_the_page_in_its_order():
    entered: list[str] = []

    def note(frame, event, _):
        _, found, file = frame.f_code.co_filename.partition(f"/{PACKAGE}/")
        if event == "call" and found and file not in entered:
            entered.append(file)

    answers: asyncio.Queue[object] = asyncio.Queue()

    async def calls():
        before = sys.getprofile()
        for profile in (before, note):  # the second call finds compiled what is compiled once
            sys.setprofile(profile)
            yield ProcessorPart.from_function_call(name="get_weather", args={"city": "Faro"})
            await answers.get()
        sys.setprofile(before)

    async for part in AdvancedToolProcessor(tools=[get_weather])(calls()):
        if part.function_response:
            answers.put_nowait(part)
    page = CALL_PAGE.read_text()
    assert [file for file in STEP.findall(page) if not (ROOT / PACKAGE / file).exists()] == []
    numbered = IN_ORDER.findall(page)
    assert [file for file in entered if file in numbered] == numbered
