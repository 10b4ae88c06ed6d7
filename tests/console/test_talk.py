"""Talking to the agent on the page of the console, in a real browser."""

import asyncio
import contextlib
import math

import pytest
import pytest_asyncio

from leonidas_tools import AdvancedToolProcessor, LiveToolSession
from leonidas_tools.live.gemini import GeminiLiveProcessor
from leonidas_tools.simulator import LiveSimulator
from tests.console.browser import chromium
from tests.console.served import TOKEN, Served

pytestmark = pytest.mark.asyncio(loop_scope="module")
looped = pytest_asyncio.fixture(loop_scope="module")


class Model:
    """A simulated model whose conversations are opened by the page."""

    def __init__(self, play):
        self.tools = AdvancedToolProcessor(builtin_tools=False)
        self.play = play
        self.simulator = None

    @contextlib.asynccontextmanager
    async def agent(self):
        simulator = LiveSimulator(self.play, speed=math.inf)
        simulator.start()
        self.simulator = simulator
        try:
            live = GeminiLiveProcessor(
                "simulated",
                api_key="simulated",
                http_options=simulator.http_options(),
                tools=self.tools,
            )
            yield LiveToolSession(live, self.tools, settle_seconds=0)
        finally:
            simulator.stop()

    def served(self, **options):
        return Served(self.tools, agents=self.agent, **options)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    async with chromium() as started:
        yield started


class Talker:
    """A page whose messages to the agent are noted by the browser, not by the page."""

    def __init__(self, page):
        self.page = page
        self.sent = []
        self.received = []
        self.complaints = []
        self._news = asyncio.Event()
        page.on("websocket", self._opened)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._complained)

    def _opened(self, socket):
        socket.on("framesent", lambda frame: self._note(self.sent, frame))
        socket.on("framereceived", lambda frame: self._note(self.received, frame))

    def _note(self, frames, frame):
        frames.append(frame)
        self._news.set()

    async def until(self, reached):
        """Wait until the noted messages are as they should be."""
        while not reached():
            self._news.clear()
            await self._news.wait()

    def _complained(self, message):
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)

    async def type(self, text):
        await self.page.get_by_label("Say by typing").fill(text)
        await self.button("Send").click()

    async def reaches(self, state):
        await self.page.locator(f"#talk-section[data-state={state}]").wait_for()

    async def heard(self, samples):
        """Wait until the player has played so many samples."""
        await self.page.wait_for_function(
            "least => Number(document.querySelector('#talk-section').dataset.played) >= least",
            arg=samples,
        )


@contextlib.asynccontextmanager
async def talker(browser, url, **options):
    context = await browser.new_context(**options)
    context.set_default_timeout(60_000)
    try:
        page = await context.new_page()
        made = Talker(page)
        await page.goto(f"{url}/#token={TOKEN}")
        await page.get_by_role("heading", name="Talk", exact=True).wait_for()
        yield made
        assert made.complaints == []
    finally:
        await context.close()


def sound_in(frames):
    return b"".join(each for each in frames if isinstance(each, bytes))


async def echoes(model):
    """Answer one text with 0.5 s of sound."""
    (said,) = await model.wait_for_input("text")
    await model.say(f"You said {said.text}.", audio_seconds=0.5)
    await model.turn_complete()


async def test_typed_text_is_answered_in_words_and_sound(browser):
    async with Model(echoes).served() as console, talker(browser, console.url) as person:
        await person.type("good morning")
        turns = person.page.get_by_role("list", name="The last turns, newest first")
        await turns.get_by_text("You said good morning.").wait_for()
        await person.heard(12_000)
        await person.until(lambda: len(sound_in(person.received)) == 2 * 12_000)
