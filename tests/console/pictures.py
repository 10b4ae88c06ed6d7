"""The pictures of the console, for the README and its guide.

`python -m tests.console.pictures`, or `make screenshot`, takes them from a real page that talks to
a simulated model, while a real MCP server runs.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from leonidas_tools import ToolContext, ToolError, ToolSession, tool
from leonidas_tools.session.tasks import TaskList
from leonidas_tools.simulator import FunctionCall
from tests.console.browser import chromium
from tests.console.test_talk import LONG, Model, fake_microphone, talker

PICTURES = Path(__file__).parents[2] / "docs" / "images"
_SERVER = Path(__file__).parents[1] / "mcp" / "servers" / "defined.py"
_TASKS = ["Look up the weather", "Find a flight", "Book the hotel"]


@tool(effect="read", untrusted=True)
async def get_weather(city: str) -> str:
    """Return the weather in a city."""
    await asyncio.sleep(2)
    return f"It is sunny in {city}."


@tool(effect="read", timeout_seconds=30)
async def find_flights(to: str, ctx: ToolContext) -> str:
    """Find flights to a city."""
    ctx.progress("asked 3 of 5 airlines", fraction=0.6)
    await asyncio.Event().wait()
    return to


@tool(effect="read")
async def look_up_loyalty_card(owner: str) -> str:
    """Return the number of points of an owner."""
    raise ToolError(f"The service has no answer for {owner}")


@tool(effect="once", requires_approval=True)
async def book_hotel(name: str, nights: int) -> str:
    """Book a hotel."""
    return f"{nights} nights at {name}"


async def _play(model):
    await model.wait_for_input("audio", count=25, within_seconds=LONG)
    await model.input_transcription("How is the weather in Porto, and what is a flight there?")
    await model.send_calls(FunctionCall("get_weather", {"city": "Porto"}, id="c1"))
    await model.say("Let me look.", paced=True)
    await model.wait_for_answers("c1")
    await model.say(" It is sunny in Porto. I ask the airlines now.", paced=True)
    await model.turn_complete()
    await model.wait_for_input("audio", count=60, within_seconds=LONG)
    await model.input_transcription("Book two nights at the Ribeira too.")
    hotel = {"name": "Ribeira", "nights": 2}
    await model.send_calls(
        FunctionCall("find_flights", {"to": "Porto"}, id="c2"),
        FunctionCall("look_up_loyalty_card", {"owner": "Ana"}, id="c3"),
        FunctionCall("book_hotel", hotel, id="c4"),
    )
    await model.wait_for_answers("c4")
    await model.say("Shall I book the Ribeira for two nights?", paced=True)
    await model.turn_complete()
    await model.wait_for_close(within_seconds=LONG)


def _settings(folder):
    """The settings with a server of MCP, whose tools a file in this folder describes."""
    described = [
        {"name": name, "description": text, "inputSchema": {"type": "object"}}
        for name, text in (("read_mail", "Read mail."), ("send_mail", "Send mail."))
    ]
    (folder / "mail.json").write_text(json.dumps(described))
    server = {"command": sys.executable, "args": [str(_SERVER), str(folder / "mail.json")]}
    return {"mcp_servers": {"mail": server}}


async def take() -> None:
    """Take the pictures once the agent has asked."""
    trip = ToolSession("trip")
    first, *_ = trip.get(TaskList).write(_TASKS)
    trip.get(TaskList).update(first.id, "completed")
    tools = [get_weather, find_flights, look_up_loyalty_card, book_hotel]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = Model(_play, tools, speed=1, config=_settings(folder))
        async with (
            model.tools,
            chromium(*fake_microphone(folder / "speech.wav")) as browser,
            model.served() as console,
        ):
            assert await model.tools.ready()
            await model.tools.execute("read_mail", session=trip)
            async with talker(browser, console.url) as person:
                await _take_of(person)


async def _take_of(person):
    page = person.page
    await page.set_viewport_size({"width": 900, "height": 700})
    await person.button("Start the microphone").click()
    turns = page.get_by_role("list", name="The last turns, newest first")
    await turns.get_by_text("the airlines now").wait_for()
    await page.screenshot(path=PICTURES / "console-talk.png")
    await turns.get_by_text("for two nights").wait_for()
    for width, height, scheme, file in (
        (1200, 1400, "light", "console-light.png"),
        (390, 1560, "dark", "console-dark-narrow.png"),
    ):
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": width, "height": height})
        await page.get_by_text("4 calls").wait_for()
        await page.evaluate("new Promise((drawn) => setTimeout(drawn, 1100))")  # the next tick
        await page.screenshot(path=PICTURES / file)


if __name__ == "__main__":
    asyncio.run(take())
