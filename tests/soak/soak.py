"""The soak: conversations side by side, settings that change, and MCP servers that are killed."""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from leonidas_tools import AdvancedToolProcessor, Tool, tool
from tests.soak.conversation import Conversation
from tests.soak.resources import Memory, Resources, resident_mib
from tests.soak.server import Servers

MCP_SERVERS = ("alpha", "beta", "gamma")
_MCP_PROGRAM = Path(__file__).with_name("mcp_server.py")
_FRAME_SECONDS = 0.0025
_PAUSE_SECONDS = 0.02
"""Of all conversations together: the more there are, the slower is each."""
_LASTING = 4
"""Every fourth conversation lasts to the end; another takes the place of one that does not."""
_SHORT_SECONDS = (5.0, 45.0)
_FIRST = 8
_FIRST_SECONDS = 3.0
_RELOAD_SECONDS = 1.0
_KILLS = 60
_MIN_KILL_SECONDS = 3.0
_BROKEN = "tools: [this is no mapping"
_ENDING_SECONDS = 30.0
_POLL_SECONDS = 0.05
_MEASUREMENTS = 40
WARM_UP = 0.3
"""How much of the time has passed when memory is measured first."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be done."""

    sessions: int
    seconds: float
    seed: int = 0


@dataclass(kw_only=True)
class State:
    """How it goes."""

    plan: Plan
    began: float = field(default_factory=time.monotonic)
    open: int = 0
    over: int = 0
    done: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    """The resident memory in MiB, with the seconds that had passed."""
    idle: list[Memory] = field(default_factory=list)
    """What is in use without conversations: after the first few, and after all."""

    @property
    def seconds(self) -> float:
        """Return how many seconds have passed."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float:
        """Return how many seconds are left."""
        return self.plan.seconds - self.seconds

    def measure(self) -> float:
        """Measure the memory."""
        self.memory.append((self.seconds, resident_mib()))
        return self.memory[-1][1]


class Soak:
    """Runs a plan; `state` says how it goes."""

    def __init__(self, plan: Plan) -> None:
        self.state = State(plan=plan)
        self._random = random.Random(plan.seed)
        self._numbers = itertools.count(plan.seed * 1_000_000 + 1)
        self._conversations: dict[int, Conversation] = {}

    async def run(self) -> None:
        """Hold all conversations, and note what was wrong."""
        before = Resources.held()
        with tempfile.TemporaryDirectory(prefix="leonidas-soak-") as directory:
            self._directory = Path(directory)
            self._write(self._settings())
            tools = AdvancedToolProcessor(
                tools=self._tools(), config=self._config, builtin_tools=False
            )
            async with Servers() as self._servers, tools:
                await tools.ready()
                await self._warm_up(tools)
                self.state.began = time.monotonic()
                await self._hold_all(tools)
                self.state.idle.append(Memory.in_use())
        self.state.problems += await _left(before)

    async def _warm_up(self, tools: AdvancedToolProcessor) -> None:
        """Hold a few conversations, for which much is imported and made that stays."""
        async with asyncio.TaskGroup() as seats:
            for _ in range(_FIRST):
                seats.create_task(self._hold(tools, seconds=_FIRST_SECONDS))
        self.state.idle.append(Memory.in_use())

    async def _hold_all(self, tools: AdvancedToolProcessor) -> None:
        trouble = [
            asyncio.create_task(each) for each in (self._reload(), self._kill(), self._measure())
        ]
        async with asyncio.TaskGroup() as seats:
            for seat in range(self.state.plan.sessions):
                seats.create_task(self._seat(seat, tools))
        for task in trouble:
            task.cancel()
        for task in trouble:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _seat(self, seat: int, tools: AdvancedToolProcessor) -> None:
        """Hold one conversation after the other, until the time is over."""
        plan = self.state.plan
        # Spread over a tenth of the time, so that they do not all do the same.
        await asyncio.sleep(seat / plan.sessions * plan.seconds / 10)
        while self.state.seconds_left > 0:
            seconds = self.state.seconds_left
            if seat % _LASTING:
                seconds = min(seconds, self._random.uniform(*_SHORT_SECONDS))
            await self._hold(tools, seconds=seconds)

    async def _hold(self, tools: AdvancedToolProcessor, *, seconds: float) -> None:
        number = next(self._numbers)
        conversation = Conversation(
            number,
            tools=tools,
            seconds=seconds,
            frame_seconds=_FRAME_SECONDS * self.state.plan.sessions,
            pause_seconds=_PAUSE_SECONDS * self.state.plan.sessions,
        )
        self._conversations[number] = conversation
        self.state.open += 1
        await conversation.hold(self._servers)
        del self._conversations[number]
        self.state.open -= 1
        self.state.over += 1
        self.state.done.update(conversation.done)
        self.state.problems += [f"conversation {number}: {p}" for p in conversation.problems]

    # The tools.

    def _tools(self) -> list[Tool[..., Any]]:
        def ran(conversation: int, number: int) -> None:
            self._conversations[conversation].runs[number] += 1

        @tool(effect="read", lane="off")
        async def look(conversation: int, number: int, seconds: float) -> int:
            """Looks for something."""
            await asyncio.sleep(seconds)
            return number

        @tool(effect="once", lane="off")
        async def book(conversation: int, number: int, seconds: float) -> int:
            """Books something."""
            ran(conversation, number)
            await asyncio.sleep(seconds)
            return number

        @tool(effect="once", lane="count")
        def count(conversation: int, number: int, seconds: float) -> int:
            """Counts something, in a thread."""
            ran(conversation, number)
            time.sleep(seconds / 100)
            return number

        @tool(effect="once", lane="off")
        async def fail(conversation: int, number: int, seconds: float) -> int:
            """Fails."""
            ran(conversation, number)
            await asyncio.sleep(seconds)
            raise ValueError(number)

        return [look, book, count, fail]

    # What changes and fails.

    @property
    def _config(self) -> Path:
        return self._directory / "tools.yaml"

    def _settings(self) -> dict[str, Any]:
        lanes = {name: {"timeout": self._random.randint(20, 30)} for name in ("book", "count")}
        return {
            "tools": {**lanes, "look": {"enabled": self._random.random() < 0.8}},
            "mcp_servers": {name: self._mcp_server(name) for name in MCP_SERVERS},
        }

    def _mcp_server(self, name: str) -> dict[str, Any]:
        args = [str(_MCP_PROGRAM), name, str(self._pid_file(name))]
        tools = {f"{name}_echo": {"lane": "off"}}
        return {"command": sys.executable, "args": args, "timeout": 30, "tools": tools}

    def _pid_file(self, name: str) -> Path:
        return self._directory / f"{name}.pid"

    def _write(self, settings: dict[str, Any] | str) -> None:
        text = settings if isinstance(settings, str) else yaml.safe_dump(settings)
        new = self._config.with_suffix(".new")
        new.write_text(text)
        new.replace(self._config)

    async def _reload(self) -> None:
        while True:
            await asyncio.sleep(_RELOAD_SECONDS)
            is_broken = self._random.random() < 0.1
            self._write(_BROKEN if is_broken else self._settings())
            self.state.done["reloads"] += 1

    async def _kill(self) -> None:
        """Kill one MCP server after the other; each is started again by our own tools."""
        killed: dict[str, int] = {}
        for name in itertools.cycle(MCP_SERVERS):
            await asyncio.sleep(max(_MIN_KILL_SECONDS, self.state.plan.seconds / _KILLS))
            pid = int(self._pid_file(name).read_text())
            if pid != killed.get(name) and _runs(pid):  # it is back
                os.kill(pid, signal.SIGKILL)
                killed[name] = pid
                self.state.done["kills"] += 1

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(self.state.plan.seconds / _MEASUREMENTS)
            self.state.measure()


def _runs(pid: int) -> bool:
    """Return whether a process is one of our MCP servers; ids of others may be the same later."""
    try:
        return str(_MCP_PROGRAM).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


async def _left(before: Resources) -> list[str]:
    """Return what is still there of what was not there before, once all had time to end."""
    until = time.monotonic() + _ENDING_SECONDS
    while (left := Resources.held().beyond(before)) and time.monotonic() < until:
        await asyncio.sleep(_POLL_SECONDS)
    return left
