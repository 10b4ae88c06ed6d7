"""The picture of a conversation on the page, for the README.

`python -m tests.console.pictures`, or `make screenshot`, takes it from a real page that talks to a
simulated model.
"""

import asyncio
import tempfile
from pathlib import Path

from leonidas_tools import tool
from leonidas_tools.simulator import FunctionCall
from tests.console.browser import chromium
from tests.console.test_talk import LONG, Model, fake_microphone, talker

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "console-talk.png"
_SIZE = {"width": 900, "height": 700}


@tool(effect="read")
async def get_weather(city: str) -> str:
    """Return the weather in a city."""
    await asyncio.sleep(2)
    return f"It is sunny in {city}."


async def _play(model):
    await model.wait_for_input("audio", count=25, within_seconds=LONG)
    await model.input_transcription("How is the weather in Porto?")
    await model.send_calls(FunctionCall("get_weather", {"city": "Porto"}, id="c1"))
    await model.say("Let me look.", paced=True)
    await model.wait_for_answers("c1")
    await model.say(" It is sunny in Porto, and it stays so until Sunday.", paced=True)
    await model.turn_complete()
    await model.wait_for_close(within_seconds=LONG)


async def take() -> None:
    """Take the picture once the agent has answered."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            chromium(*fake_microphone(Path(folder) / "speech.wav")) as browser,
            Model(_play, [get_weather], speed=1).served() as console,
            talker(browser, console.url) as person,
        ):
            page = person.page
            await page.set_viewport_size(_SIZE)
            await person.button("Start the microphone").click()
            turns = page.get_by_role("list", name="The last turns, newest first")
            await turns.get_by_text("until Sunday").wait_for()
            await page.screenshot(path=PICTURE)


if __name__ == "__main__":
    asyncio.run(take())
