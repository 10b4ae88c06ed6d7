"""Sessions whose time a test drives."""

import asyncio
import contextlib
import functools
import json
import math

from genai_processors import processor
from google.genai import Client

from leonidas_tools import LiveToolSession
from leonidas_tools.live.gemini import GeminiLiveProcessor
from leonidas_tools.live.live_events import LIVE_EVENT
from leonidas_tools.simulator import ElasticEventLoop, LiveSimulator, Scenario
from tests.live.talking import MODELS, frame
from tests.tasks import other_tasks

_TICK_SECONDS = 0.1
_REAL_SECONDS = 0.002


def on_elastic_loop(test):
    """Runs an async test on a loop whose time can be moved on."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        with asyncio.Runner(loop_factory=ElasticEventLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


async def passing(seconds, simulator=None):
    """Lets time pass, fifty times as fast as the clock: the network has its turn in between."""
    loop = asyncio.get_running_loop()
    for _ in range(round(seconds / _TICK_SECONDS)):
        loop.advance(_TICK_SECONDS - _REAL_SECONDS)
        if simulator is not None:
            simulator.advance(_TICK_SECONDS)
        await asyncio.sleep(_TICK_SECONDS)


class Session:
    """One session: the test listens, speaks and hangs up."""

    def __init__(
        self,
        scripts,
        tools,
        *,
        generation="3.8-live",
        server=None,
        strict=True,
        client=(),
        alone=True,
        **options,
    ):
        self.simulator = LiveSimulator(
            Scenario(scripts) if callable(scripts) else Scenario(connections=scripts),
            generation=server,
            strict=strict,
            speed=math.inf,
        )
        self.heard = []
        self.listens = asyncio.Event()
        self.listens.set()
        self._alone = alone  # else tasks of others may come while it is held
        self._tools = tools
        self._generation = generation
        self._client = dict(client)
        self._options = options
        self._says = asyncio.Queue()
        self._news = asyncio.Condition()
        self._frames = 0

    async def __aenter__(self):
        self._others = other_tasks()
        self._stack = contextlib.AsyncExitStack()
        await self._stack.__aenter__()
        await self._stack.enter_async_context(self.simulator)
        self.task = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, kind, *error):
        if kind is not None:
            self.task.cancel()
        else:
            await self.hang_up()
        await self._stack.__aexit__(kind, *error)
        if kind is None and self._alone:
            assert other_tasks() - self._others == set()

    async def hang_up(self):
        """The user has said all; returns when the session is over."""
        self._says.put_nowait(None)
        self.listens.set()
        await self.task
        await self.simulator.closed()

    def say(self, *parts):
        for part in parts:
            self._says.put_nowait(part)

    def speak(self, frames=1):
        """The microphone hears something."""
        for _ in range(frames):
            self.say(frame(self._frames))
            self._frames += 1

    @property
    def frames(self):
        """The numbers of the frames that the server has heard, in order."""
        return [int.from_bytes(e.data[:4], "big") for e in self.simulator.audio_received]

    @property
    def events(self):
        return [json.loads(p.text) for p in self.heard if p.metadata.get(LIVE_EVENT)]

    @property
    def said(self):
        return "".join(p.text for p in self.heard if p.substream_name == "output_transcription")

    async def hears(self, matches, count=1):
        """Waits until the listener has heard so many parts that fit."""
        async with self._news:
            await self._news.wait_for(lambda: sum(bool(matches(p)) for p in self.heard) >= count)

    async def hears_event(self, name, count=1):
        await self.hears(lambda p: p.metadata.get(LIVE_EVENT) and name in p.text, count)

    async def hears_calls(self, count=1):
        await self.hears(lambda p: p.function_call is not None, count)

    async def hears_turns(self, count=1):
        await self.hears(lambda p: p.metadata.get("turn_complete"), count)

    def agent(self):
        options = self.simulator.http_options()
        options.async_client_args |= self._client
        live = GeminiLiveProcessor(
            MODELS[self._generation],
            client=Client(api_key="simulated", http_options=options),
            tools=self._tools,
            **self._options,
        )
        return LiveToolSession(live, self._tools, settle_seconds=0.05)

    async def input(self):
        while (part := await self._says.get()) is not None:
            yield part

    async def _listen(self):
        async with processor.context():
            async for part in self.agent()(self.input()):
                self.heard.append(part)
                async with self._news:
                    self._news.notify_all()
                await self.listens.wait()
