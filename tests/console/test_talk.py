"""Talking to the agent on the page of the console, in a real browser."""

import asyncio
import contextlib
import functools
import json
import math
import wave
from array import array

import pytest
import pytest_asyncio

from leonidas_tools import AdvancedToolProcessor, LiveToolSession
from leonidas_tools.cli.conversation import live_config
from leonidas_tools.cli.talking import simulated_agent
from leonidas_tools.live.gemini import GeminiLiveProcessor
from leonidas_tools.simulator import LiveSimulator
from leonidas_tools.simulator.audio import tone
from tests.console.browser import chromium
from tests.console.served import TOKEN, Line, Served, port_to_come_back_to

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
ELSEWHERE = "talk.example"
LONG = 600  # seconds: the page ends each conversation
looped = pytest_asyncio.fixture(loop_scope="module")


class Model:
    """A simulated model whose conversations are opened by the page."""

    def __init__(self, play, tools=(), *, speed=math.inf, config=None):
        self.tools = AdvancedToolProcessor(tools, config, builtin_tools=False)
        self.play = play
        self.speed = speed
        self.simulator = None

    @contextlib.asynccontextmanager
    async def agent(self):
        simulator = LiveSimulator(self.play, speed=self.speed)
        simulator.start()
        self.simulator = simulator
        try:
            live = GeminiLiveProcessor(
                "simulated",
                api_key="simulated",
                http_options=simulator.http_options(),
                tools=self.tools,
                config=live_config(),
            )
            yield LiveToolSession(live, self.tools, settle_seconds=0)
        finally:
            simulator.stop()

    def served(self, **options):
        return Served(self.tools, agents=self.agent, **options)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    """Start a browser without a microphone."""
    async with chromium(f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1") as started:
        yield started


def fake_microphone(file, *, pause_seconds=0.0):
    """Return the arguments of a browser whose microphone hears a tone again and again."""
    with wave.open(str(file), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(24_000)
        sound.writeframes(tone(1.0) + bytes(round(pause_seconds * 24_000) * 2))
    return (
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={file}",
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def speaking_browser(tmp_path_factory):
    """Start a browser with a microphone that hears a tone."""
    file = tmp_path_factory.mktemp("microphone") / "tone.wav"
    async with chromium(*fake_microphone(file)) as started:
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

    async def gets(self, samples):
        """Wait until so many samples are played or wait to be, and none was dropped."""
        await self.page.wait_for_function(
            """all => {
                const { played, queued } = document.querySelector('#talk-section').dataset;
                return Number(played) + Number(queued) === all;
            }""",
            arg=samples,
        )


@contextlib.asynccontextmanager
async def talker(browser, url, *, faults=False):
    """Open the page; what its console complains of is a fault, where faults are not awaited."""
    context = await browser.new_context()
    context.set_default_timeout(60_000)
    try:
        page = await context.new_page()
        made = Talker(page)
        await page.goto(f"{url}/#token={TOKEN}")
        await page.get_by_role("heading", name="Talk", exact=True).wait_for()
        yield made
        assert faults or made.complaints == []
    finally:
        await context.close()


def sound_in(frames):
    return b"".join(each for each in frames if isinstance(each, bytes))


async def echoes(model):
    """Answer each text with 0.5 s of sound."""
    while True:
        (said,) = await model.wait_for_input("text", within_seconds=LONG)
        await model.say(f"You said {said.text}.", audio_seconds=0.5)
        await model.turn_complete()


async def test_typed_text_is_answered_in_words_and_sound(browser):
    async with Model(echoes).served() as console, talker(browser, console.url) as person:
        await person.type("good morning")
        turns = person.page.get_by_role("list", name="The last turns, newest first")
        await turns.get_by_text("You said good morning.").wait_for()
        await person.heard(12_000)
        await person.until(lambda: len(sound_in(person.received)) == 2 * 12_000)


async def listens(model):
    """Answer a second of sound, and then a text."""
    await model.wait_for_input("audio", count=50, within_seconds=LONG)
    await model.say("I hear you.", audio_seconds=0.5)
    await model.turn_complete()
    await model.wait_for_input("text", within_seconds=LONG)
    await model.say("Until later.", audio_seconds=0.1)
    await model.turn_complete()
    await model.wait_for_close(within_seconds=LONG)


async def test_the_microphone_is_heard_byte_for_byte_answered_and_played(speaking_browser):
    model = Model(listens)
    async with model.served() as console, talker(speaking_browser, console.url) as person:
        await person.button("Start the microphone").click()
        await person.reaches("listening")
        await person.heard(12_000)
        await person.button("Mute").click()
        await person.reaches("muted")
        await person.type("goodbye")
        await person.heard(12_000 + 2_400)
        muted = json.dumps({"type": "audio_end"}, separators=(",", ":"))
        await person.until(lambda: len(person.sent) > 1 and person.sent[-2] == muted)
        sent = sound_in(person.sent)
        await model.simulator.until(lambda: len(model.simulator.heard_pcm()) >= len(sent))
        assert model.simulator.heard_pcm() == sent
        assert {len(each) for each in person.sent if isinstance(each, bytes)} == {640}
        assert max(array("h", sent)) > 500  # it is not silence


@pytest.mark.slow
async def test_without_a_key_the_simulated_agent_answers_what_it_hears(tmp_path):
    tools = AdvancedToolProcessor(builtin_tools=False)
    agents = functools.partial(simulated_agent, tools)
    spoken = fake_microphone(tmp_path / "speech.wav", pause_seconds=2.0)
    async with (
        chromium(*spoken) as browser,
        Served(tools, agents=agents) as console,
        talker(browser, console.url) as person,
    ):
        turns = person.page.get_by_role("list", name="The last turns, newest first")
        await person.type("good {morning}")
        await turns.get_by_text("You have typed: good (morning)").wait_for()
        await person.button("Start the microphone").click()
        await turns.get_by_text("I have heard you for").first.wait_for()
        await person.button("End the conversation").click()
        await person.reaches("idle")


async def talks_long(model):
    """Speak for 40 seconds until interrupted, and then shortly."""
    await model.wait_for_input("text", containing="begin", within_seconds=LONG)
    await model.say("Once upon a time.", audio_seconds=40)
    await model.wait_for_input("text", containing="stop", within_seconds=LONG)
    await model.interrupt()
    await model.turn_complete()
    await model.wait_for_input("text", containing="go on", within_seconds=LONG)
    await model.say("The end.", audio_seconds=0.5)
    await model.turn_complete()
    await model.wait_for_close(within_seconds=LONG)


async def test_an_interruption_silences_the_agent_at_once(browser):
    async with Model(talks_long).served() as console, talker(browser, console.url) as person:
        await person.type("begin")
        await person.until(lambda: len(sound_in(person.received)) == 2 * 40 * 24_000)
        await person.heard(2_400)
        await person.type("stop")
        section = person.page.locator("#talk-section[data-queued='0']")
        await section.wait_for()
        played = int(await section.get_attribute("data-played"))
        assert played < 40 * 24_000
        await person.type("go on")
        await person.heard(played + 12_000)
        assert await section.get_attribute("data-played") == str(played + 12_000)


async def test_a_machine_without_a_microphone_says_so_and_still_types(browser):
    async with Model(echoes).served() as console, talker(browser, console.url) as person:
        await person.button("Start the microphone").click()
        await person.page.get_by_text("There is no microphone: connect one").wait_for()
        await person.type("hello")
        await person.heard(12_000)


@pytest.mark.slow
async def test_a_microphone_that_is_not_allowed_says_how_to_allow_it():
    refusing = ("--use-fake-device-for-media-stream", "--deny-permission-prompts")
    async with (
        chromium(*refusing) as browser,
        Model(echoes).served() as console,
        talker(browser, console.url) as person,
    ):
        await person.button("Start the microphone").click()
        await person.page.get_by_text("allow it for this page in the browser").wait_for()


async def test_a_page_that_is_not_secure_says_why_and_still_types(browser):
    async with Model(echoes).served(hosts=[ELSEWHERE]) as console:
        url = console.url.replace("127.0.0.1", ELSEWHERE)
        async with talker(browser, url, faults=True) as person:
            await person.button("Start the microphone").click()
            await person.page.get_by_text("open the page there").wait_for()
            await person.type("hello")
            turns = person.page.get_by_role("list", name="The last turns, newest first")
            await turns.get_by_text("You said hello.").wait_for()


async def test_a_conversation_that_was_lost_begins_again(browser):
    port = port_to_come_back_to()
    async with contextlib.AsyncExitStack() as stack:
        async with Model(echoes).served(port=port) as before:
            person = await stack.enter_async_context(talker(browser, before.url, faults=True))
            await person.type("hello")
            await person.heard(12_000)
        await person.reaches("lost")
        async with Model(echoes).served(port=port):
            await person.page.get_by_text("A new conversation has begun.").wait_for()
            await person.reaches("typing")
            await person.type("again")
            await person.heard(24_000)
            await person.button("End the conversation").click()
            await person.reaches("idle")


async def goes_on(model):
    """Speak for 40 seconds; answer a text that comes after them."""
    await model.wait_for_input("text", containing="begin", within_seconds=LONG)
    await model.say("Once upon a time.", audio_seconds=40)
    await model.turn_complete()
    await model.wait_for_input("text", containing="go on", within_seconds=LONG)
    await model.say("The end.", audio_seconds=0.5)
    await model.turn_complete()
    await model.wait_for_close(within_seconds=LONG)


async def test_a_conversation_goes_on_after_its_connection_was_lost(browser):
    model = Model(goes_on)
    async with (
        model.served() as console,
        Line(console.url) as line,
        talker(browser, line.url, faults=True) as person,
    ):
        await person.type("begin")
        await person.until(lambda: len(sound_in(person.received)) == 2 * 40 * 24_000)
        talked_to = model.simulator
        line.cut()
        await person.page.locator("#talk-section[data-resumed=true]").wait_for()
        await person.reaches("typing")
        await person.type("go on")
        turns = person.page.get_by_role("list", name="The last turns, newest first")
        await turns.get_by_text("The end.").wait_for()
        await person.gets(40 * 24_000 + 12_000)
        assert model.simulator is talked_to


@pytest.mark.slow
async def test_an_agent_that_always_fails_is_not_tried_for_ever(browser):
    opened = []

    @contextlib.asynccontextmanager
    async def fails():
        opened.append(True)
        raise ConnectionError("no model")
        yield

    tools = AdvancedToolProcessor(builtin_tools=False)
    async with Served(tools, agents=fails) as console, talker(browser, console.url) as person:
        await person.type("hello")
        await person.page.get_by_text("The agent has failed: see the log of the server").wait_for()
        await person.reaches("failed")
        assert len(opened) == 5
