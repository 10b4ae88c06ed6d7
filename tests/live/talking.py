"""A conversation over our own connection with the simulator."""

import asyncio
import functools
import json
import math

from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from google.genai import types

from leonidas_tools import AdvancedToolProcessor, LiveToolSession, tool
from leonidas_tools.live.gemini import GeminiLiveProcessor
from leonidas_tools.live.live_events import LIVE_EVENT
from leonidas_tools.simulator import ElasticEventLoop, LiveSimulator, Scenario
from tests.tasks import other_tasks

MODELS = {
    "2.5": "gemini-2.5-flash-native-audio-preview-12-2025",
    "3.1": "gemini-3.1-flash-live-preview",
    "3.8-live": "gemini-3.8-live",
    "3.8-thinking": "gemini-3.8-live-extended-thinking",
}
VERTEX_MODELS = {
    "vertex": "gemini-live-2.5-flash-native-audio",
    "vertex-3.8": "gemini-3.8-live",
}
FRAME_BYTES = 640
RATE = "audio/pcm;rate=16000"


def frame(number=0):
    """20 ms of microphone, told from every other frame by its number."""
    return ProcessorPart(
        number.to_bytes(4, "big") * (FRAME_BYTES // 4), mimetype=RATE, substream_name="realtime"
    )


def on_elastic_time(test):
    """Plays a test on a loop whose time it can move on."""

    @functools.wraps(test)
    def play(**arguments):
        with asyncio.Runner(loop_factory=ElasticEventLoop) as runner:
            runner.run(test(**arguments))

    return play


async def passes(seconds):
    """Lets time pass for the client."""
    await asyncio.wrap_future(asyncio.get_running_loop().advance(seconds))


class Desk:
    """Tools whose calls wait until the test lets them go."""

    def __init__(self):
        self._loop = asyncio.get_running_loop()
        self._open = asyncio.Event()
        self.booked = []

    def open(self):
        """From any thread: scenarios are played in the simulator's own."""
        self._loop.call_soon_threadsafe(self._open.set)

    async def opened(self):
        """Wait until it is open, however late the simulator's thread gets to it."""
        await self._open.wait()

    def tools(self, **options):
        @tool(effect="once", lane=None, **options)
        async def book(seat: int) -> str:
            """Books a seat."""
            self.booked.append(seat)
            await self._open.wait()
            return f"seat {seat}"

        @tool(effect="read")
        async def look(seat: int) -> str:
            """Looks at a seat."""
            await self._open.wait()
            return f"seat {seat}"

        return AdvancedToolProcessor(tools=[book, look], builtin_tools=False)


class Talk:
    """One conversation: who listens hears all, and the user hangs up when it is played.

    Without tools the connection is alone, and the user answers calls.
    """

    def __init__(
        self, simulator, tools=None, *, generation="2.5", user=None, session=None, **options
    ):
        self.simulator = simulator
        self.live = GeminiLiveProcessor(
            options.pop("model", MODELS[generation]),
            **{"api_key": "simulated", "http_options": simulator.http_options()} | options,
            tools=tools or (),
        )
        self.agent = self.live
        if tools is not None:
            self.agent = LiveToolSession(self.live, tools, session=session, settle_seconds=0.05)
        self.heard = []
        self.spoken = 0
        self._user = user
        self._news = asyncio.Condition()

    async def run(self, connections=1, seconds=30):
        """Holds the conversation until the script of the last connection is played.

        With 0 connections the user hangs up when all is said.
        """
        async with asyncio.timeout(seconds), processor.context():
            await self.held(connections)
        assert other_tasks() == set()
        return self

    async def held(self, connections=1):
        """Holds the conversation within a context that is there."""
        async for part in self.agent(self._says(connections)):
            self.heard.append(part)
            async with self._news:
                self._news.notify_all()

    async def hears(self, matches, count=1):
        """Waits until the listener has heard so many parts that fit."""
        async with self._news:
            await self._news.wait_for(lambda: len([*filter(matches, self.heard)]) >= count)

    async def called(self, count=1):
        """Waits for so many calls, and returns all that there were."""
        await self.hears(is_call, count)
        return [part for part in self.heard if is_call(part)]

    async def told(self, event, count=1):
        """Waits until the listener was told of something that happened to the connection."""
        await self.hears(
            lambda p: LIVE_EVENT in p.metadata and event_of(p)["event"] == event, count
        )

    async def arrived(self, count):
        """Waits until the server has so much of the microphone."""
        await self.simulator.until(lambda: len(self.simulator.audio_received) >= count)

    @property
    def events(self):
        """What the listener was told of the connection."""
        return [event_of(p) for p in self.heard if LIVE_EVENT in p.metadata]

    @property
    def said(self):
        return "".join(p.text for p in self.heard if p.substream_name == "output_transcription")

    async def _says(self, connections):
        if self._user is None:
            yield frame()
        else:
            async for part in self._user(self):
                yield part
        if connections:
            await self.simulator.finished(connections)


def typed(text):
    """What the user types while the conversation goes on."""
    return ProcessorPart(text, substream_name="realtime")


def is_call(part):
    return part.part.function_call is not None


def event_of(part):
    return json.loads(part.text)


def answer_to(call, response, **fields):
    """The answer to a call that was heard."""
    asked = call.part.function_call
    answer = types.FunctionResponse(id=asked.id, name=asked.name, response=response, **fields)
    return ProcessorPart(types.Part(function_response=answer), role="user")


def says_when_called(calls=1):
    """A user who says so when the tools have so many calls: only then may a line be cut."""

    async def user(talk):
        yield frame()
        await talk.hears(lambda part: part.function_call is not None, calls)
        yield ProcessorPart("called", substream_name="realtime")

    return user


def outcomes_told(simulator):
    """Outcomes that reached the model as conversation, in the order they came."""
    return [
        json.loads(line)
        for message in simulator.messages
        if message.sender == "client"
        for text in texts_of(message.data)
        for line in text.splitlines()
        if line.startswith("{")
    ]


def texts_of(message):
    """The texts in a message of the client."""
    realtime = message.get("realtime_input", {})
    if "text" in realtime:
        yield realtime["text"]
    for turn in message.get("client_content", {}).get("turns", ()):
        for part in turn.get("parts", ()):
            if "text" in part:
                yield part["text"]


def responses_in(simulator):
    """The function responses of each message that carries any."""
    return [
        message.data["tool_response"]["functionResponses"]
        for message in simulator.messages
        if message.sender == "client" and "tool_response" in message.data
    ]


def sent_by_client(simulator, kind):
    """What the messages of that kind hold, each with the number of its connection."""
    return [
        (message.connection, message.data[kind])
        for message in simulator.messages
        if message.sender == "client" and kind in message.data
    ]


def frames_in(simulator):
    """The numbers of the frames of the microphone, each with that of its connection."""
    return [
        (each.connection, int.from_bytes(each.data[:4], "big")) for each in simulator.audio_received
    ]


async def held(scripts, tools=None, *, server=None, **options):
    """Plays one script for each connection; strictly."""
    server = {"speed": math.inf} | (server or {})
    async with LiveSimulator(Scenario(connections=scripts), **server) as simulator:
        talk = await Talk(simulator, tools, **options).run(len(scripts))
    assert [outcome for outcome in simulator.outcomes if outcome.status == "failed"] == []
    assert simulator.violations == ()
    return simulator, talk
