"""A generated session, played by the simulator and held by the real client."""

import asyncio
import math
import time
from collections import deque

from genai_processors import processor
from google.genai import Client
from websockets.exceptions import ConnectionClosed

from leonidas_tools import AdvancedToolProcessor, LiveToolSession, ToolContext, ToolError, tool
from leonidas_tools.live.gemini import GeminiLiveProcessor
from leonidas_tools.simulator import (
    ClientLeftError,
    ElasticEventLoop,
    LiveSimulator,
    Scenario,
)
from tests.live.generated.steps import name_of
from tests.live.generated.virtual import VirtualEventLoop, VirtualSimulator
from tests.live.generated.wiretap import Wiretap, outcomes_in
from tests.live.talking import MODELS, VERTEX_MODELS, frame
from tests.tasks import other_tasks

FRAME_SECONDS = 0.02
PASSED_SECONDS = 0.0193
"""How much of a frame passes at once: the conversation is twenty times as fast as its clock."""
PASSED_OFFLINE_SECONDS = 0.015
"""The same while a connection is being made, which takes its real time and has limits."""
_PATIENCE_SECONDS = 60.0


class Show:
    """One session: what is planned, and what became of it."""

    def __init__(
        self,
        *,
        generation,
        plan,
        steps,
        unique_ids,
        arena=None,
        delay_seconds=0.0,
        frame_seconds=FRAME_SECONDS,
    ):
        self._arena = arena
        self._frame_seconds = frame_seconds
        self._delay_seconds = delay_seconds
        self.generation = generation
        self.plan = plan
        self.has_ids = generation != "vertex"
        self.unique_ids = unique_ids
        self.runs = [0] * len(plan)
        self.switched = set()
        self.cancelled_later = set()
        self.repeated = set()
        self.heard_user = set()
        """The connections on which the user has spoken."""
        self.frames = 0
        self.heard = []
        self.problems = []
        self.tap = Wiretap()
        self._steps = deque(steps)
        self._asked = 0
        self._messages_read = 0
        self._told = set()
        self._ids = {}
        self.done = asyncio.Event()
        self._loop = None

    # The client's side.

    async def hold(self):
        """Holds the session to its end."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda _, problem: self.problems.append(problem))
        self.tools = AdvancedToolProcessor(
            tools=[self._tool(n, p) for n, p in enumerate(self.plan) if p.way != "unknown"],
            builtin_tools=False,
        )
        async with self._make_simulator() as self.simulator, processor.context():
            async for part in LiveToolSession(self._live(), self.tools, settle_seconds=0.05)(
                self._user()
            ):
                self.heard.append(part)
            await self.simulator.closed()
        assert other_tasks() == set()
        return self

    def _make_simulator(self):
        options = {"generation": self.generation, "speed": math.inf}
        if self._arena is None:
            return LiveSimulator(Scenario(self.play), **options)
        workers = self.tools.runtime.executor.workers
        self._loop.delay_seconds = self._delay_seconds
        self._loop.wait_for(lambda: workers._jobs or workers._alive > workers._idle)
        return VirtualSimulator(Scenario(self.play), arena=self._arena, **options)

    def _live(self):
        options = self.tap.options(self.simulator.http_options())
        vertex = self.generation in VERTEX_MODELS
        return GeminiLiveProcessor(
            {**MODELS, **VERTEX_MODELS}[self.generation],
            client=Client(api_key="simulated", vertexai=vertex, http_options=options),
            tools=self.tools,
        )

    async def _user(self):
        while not self.done.is_set():
            yield frame(self.frames)
            self.frames += 1
            online = self.simulator.open_connections
            self._loop.advance(PASSED_SECONDS if online else PASSED_OFFLINE_SECONDS)
            await asyncio.sleep(self._frame_seconds)
        # Else the last words are lost if the server closes the connection while they travel, for
        # the client leaves before it knows.
        await asyncio.sleep(4 * self._delay_seconds)

    def _tool(self, number, planned):
        async def works(ctx: ToolContext, n: int = 0) -> dict:
            self.runs[number] += 1
            await asyncio.sleep(planned.seconds)
            if planned.way == "reports":
                ctx.progress("half done")
                await asyncio.sleep(planned.seconds)
            if planned.way == "raises":
                raise ToolError("no")
            return {"number": number}

        def sync(n: int = 0) -> dict:
            self.runs[number] += 1
            time.sleep(planned.seconds / 100)
            return {"number": number}

        scheduling = planned.scheduling
        if planned.way == "reports":
            scheduling = {"ok": planned.scheduling, "progress": "SILENT"}
        return tool(
            name=name_of(number),
            description="Does something.",
            effect=planned.effect,
            behavior=planned.behavior,
            scheduling=scheduling,
            lane=name_of(number),
        )(sync if planned.way == "sync" else works)

    # The server's side: in its own thread.

    async def play(self, session):
        """Plays one connection, up to where it ends; the next one goes on from there."""
        try:
            await self._play(session)
        except (ClientLeftError, ConnectionClosed):
            raise
        except Exception:
            self._end()  # the verdict is known: no other connection is to be tried
            raise

    async def _play(self, session):
        self._ids[session.number] = 0
        while self._steps:
            await self._steps.popleft().play(self, session)
        await session.wait_for_answers()
        await session.say("Good bye.", audio_seconds=0.02)
        await session.turn_complete()
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await self.simulator.until(lambda: self.owed() == set())
        self._end()

    def _end(self):
        self._loop.call_soon_threadsafe(self.done.set)

    def new_calls(self, count):
        first, self._asked = self._asked, min(self._asked + count, len(self.plan))
        return [self._call(number) for number in range(first, self._asked)]

    def repeated_calls(self, session, count):
        """Calls of this session, of earlier connections, that the model has no answer to."""
        if session.resumed_from is None:
            return []
        before = {c.number for c in self.simulator.connections if c.session == session.session}
        made_here = {c.name for c in self.simulator.calls if c.connection == session.number}
        names = [
            call.name
            for call in self.simulator.calls
            if call.connection in before - {session.number}
            and not self.is_cancelled(call.name)
            and call.name not in self.answered()
            and call.name not in made_here
        ]
        chosen = list(dict.fromkeys(names))[:count]
        self.repeated |= set(chosen)
        return [self._call(number_of(name)) for name in chosen]

    def answered_calls(self, session, count):
        """Calls with a side effect that earlier connections of this session have answered.

        There are none once the user has spoken: to call them then is a new request.
        """
        if session.resumed_from is None or session.number in self.heard_user:
            return []
        before = {c.number for c in self.simulator.connections if c.session == session.session}
        made_here = {c.name for c in self.simulator.calls if c.connection == session.number}
        names = [
            call.name
            for call in self.simulator.calls
            if call.connection in before - {session.number}
            and self.plan[number_of(call.name)].effect == "once"
            and not self.is_cancelled(call.name)
            and call.name in self.answered()
            and call.name not in made_here
        ]
        chosen = list(dict.fromkeys(names))[:count]
        self.repeated |= set(chosen)
        return [self._call(number_of(name)) for name in chosen]

    def _call(self, number):
        if self.unique_ids:
            call_id = f"call-{number}-{len(self.simulator.calls)}-{len(self.repeated)}"
        else:
            connection = max(self._ids)
            self._ids[connection] += 1
            call_id = f"call-{self._ids[connection]}"
        return self.plan[number].call(number, call_id)

    def cancellable(self, session):
        return [
            call.id
            for call in self.simulator.calls
            if call.connection == session.number and call.pending and call.id_sent
        ]

    def cancel_lost(self, session):
        """The ids of calls of earlier connections that have no answer, which it is to end."""
        if not (self.has_ids and self.unique_ids) or session.resumed_from is None:
            return []
        lost = [
            call
            for call in self.simulator.calls
            if call.connection != session.number
            and call.name not in self.answered()
            and call.name not in self.repeated
        ][:1]
        self.cancelled_later |= {call.name for call in lost}
        return [call.id for call in lost]

    def switch(self, number):
        """Switches a tool off, or on again."""
        number %= len(self.plan)
        if self.plan[number].way != "unknown":
            name = name_of(number)
            enabled = not self.tools.settings.current.for_tool(name).enabled
            self.switched.add(name)
            self.tools.settings.update({f"tools.{name}.enabled": enabled})

    # What is known of the calls.

    def answered(self):
        """Names of the calls whose outcome has reached the model."""
        news = self.simulator.messages[self._messages_read :]
        self._messages_read += len(news)
        self._told |= {o["name"] for m in news if m.sender == "client" for o in outcomes_in(m.data)}
        return self._told | {c.name for c in self.simulator.calls if c.final_answers}

    def is_cancelled(self, name):
        """Whether the server has taken a call back, the last time that it made it."""
        calls = [call for call in self.simulator.calls if call.name == name]
        return name in self.cancelled_later or (bool(calls) and calls[-1].cancelled)

    def asked(self):
        """Names of the calls that the client has received."""
        return {
            name
            for wire in tuple(self.tap.wires)
            for _, what, _, name in wire.received()
            if what == "call"
        }

    def owed(self):
        """Names of calls that the client has received and told no outcome of."""
        return {n for n in self.asked() - self.answered() if not self.is_cancelled(n)}


def number_of(name):
    return int(name.rpartition("_")[2])


def held(**options):
    """Holds a session on a loop whose time the user's frames move on; in an arena, virtually."""
    loop = VirtualEventLoop if options.get("arena") else ElasticEventLoop
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(_held(options))


async def _held(options):
    return await Show(**options).hold()
