"""What is promised, for whatever a session may bring: scripts nobody has thought of.

P1: every call gets exactly one answer, and none after it was cancelled. P2: all else passes in
order. P5: a side effect happens once for each id.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterable
from dataclasses import dataclass, field
from typing import Any

from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from leonidas_tools import AdvancedToolProcessor, RetryableError, Tool, ToolContext, ToolSession
from tests.promises.faults.play import Heard, audio, call, cancellation
from tests.tasks import other_tasks

_IDS = tuple("abcdef")
_DOORS = 3


class Play:
    """What the tools of one session share: doors they wait behind, and who ran."""

    def __init__(self) -> None:
        self.doors = [asyncio.Event() for _ in range(_DOORS)]
        self.ran: Counter[str] = Counter()


async def waits(tag: str, door: int, ctx: ToolContext) -> str:
    play = ctx.session.get(Play)
    play.ran[tag] += 1
    await play.doors[door].wait()
    return tag


async def fails(tag: str, door: int, ctx: ToolContext) -> None:
    play = ctx.session.get(Play)
    play.ran[tag] += 1
    await play.doors[door].wait()
    raise SystemExit(tag)


async def retries(tag: str, door: int, ctx: ToolContext) -> str:
    play = ctx.session.get(Play)
    play.ran[tag] += 1
    await asyncio.sleep(0)
    if play.ran[tag] == 1:
        raise RetryableError("Not yet.")
    return tag


def in_thread(tag: str, door: int, ctx: ToolContext) -> str:
    ctx.progress(tag)
    return tag


TOOLS = (
    Tool(waits, name="reads", effect="read"),
    Tool(waits, name="sets", effect="idempotent"),
    Tool(waits, name="charges", effect="once"),
    Tool(waits, name="charges_elsewhere", effect="once", lane="elsewhere"),
    Tool(fails, name="breaks", effect="once"),
    Tool(retries, name="retries", effect="read", lane="retries"),
    Tool(in_thread, name="computes", effect="read"),
)
NAMES = (*(tool.name for tool in TOOLS), "there_is_no_such_tool")


@dataclass(frozen=True)
class Step:
    """One thing that happens: a part comes, a door opens, or everybody gets a turn."""

    what: str
    name: str = ""
    id: str | None = None
    door: int = 0
    fits: bool = True


def steps() -> st.SearchStrategy[list[Step]]:
    calls = st.builds(
        Step,
        what=st.just("call"),
        name=st.sampled_from(NAMES),
        id=st.sampled_from(_IDS) | st.none(),
        door=st.integers(0, _DOORS - 1),
        fits=st.sampled_from([True, True, True, False]),
    )
    cancels = st.builds(Step, what=st.just("cancel"), id=st.sampled_from(_IDS))
    opens = st.builds(Step, what=st.just("open"), door=st.integers(0, _DOORS - 1))
    others = st.builds(Step, what=st.sampled_from(["audio", "turn", "turn"]))
    return st.lists(st.one_of(calls, calls, cancels, opens, others), max_size=25)


@dataclass
class Session:
    """A script on its way, what it said and what was heard."""

    script: list[Step]
    own: ToolSession = field(default_factory=ToolSession)
    said: list[ProcessorPart] = field(default_factory=list)
    heard: Heard = field(default_factory=Heard)

    async def run(self, tools: AdvancedToolProcessor) -> None:
        async with processor.context():
            async for part in tools.in_session(self.own)(self._source()):
                self.heard.take(part)

    async def _source(self) -> AsyncIterable[ProcessorPart]:
        play = self.own.get(Play)
        for number, step in enumerate(self.script):
            match step.what:
                case "turn":
                    for _ in range(5):
                        await asyncio.sleep(0)
                case "open":
                    play.doors[step.door].set()
                case _:
                    part = self._part(step, number)
                    self.said.append(part)
                    yield part
        for door in play.doors:
            door.set()

    def _part(self, step: Step, number: int) -> ProcessorPart:
        if step.what == "audio":
            return audio(number)
        if step.what == "cancel":
            assert step.id is not None
            return cancellation(step.id)
        door = step.door if step.fits else "no number"
        return call(step.name, {"tag": step.id or f"{number}", "door": door}, id=step.id)

    def check(self) -> None:
        self._passed_in_order()
        self._answered_once()
        self._took_effect_once()

    def _passed_in_order(self) -> None:
        passed = [part for part in self.said if part.function_call is None]
        assert len(passed) == len(self.heard.passed)
        assert all(one is other for one, other in zip(passed, self.heard.passed, strict=True))

    def _answered_once(self) -> None:
        asked: dict[str, types.FunctionCall] = {}
        cancelled: set[str] = set()
        never: set[str] = set()
        without_id: list[str | None] = []
        for part in self.said:
            if part.function_call is not None:
                identifier = part.metadata.get("id")
                if identifier is None:
                    without_id.append(part.function_call.name)
                elif identifier not in asked:
                    asked[identifier] = part.function_call
                    never |= {identifier} & cancelled
            elif part.tool_cancellation:
                cancelled.add(part.tool_cancellation)
        assert Counter(n for i, n, _ in self.heard.answers if i is None) == Counter(without_id)
        found = Counter(i for i, _, _ in self.heard.answers if i is not None)
        assert set(found) <= set(asked) - never
        for identifier in set(asked) - cancelled:
            assert found[identifier] == 1, identifier
        assert not [identifier for identifier, times in found.items() if times > 1]
        for identifier, name, body in self.heard.answers:
            if identifier is not None:
                assert name == asked[identifier].name
                _check(asked[identifier], body)
        self._nothing_after_a_cancellation()

    def _nothing_after_a_cancellation(self) -> None:
        cancelled: set[str | None] = set()
        for part in self.heard.parts:
            if part.get_metadata("tool_event"):
                continue
            if part.tool_cancellation:
                cancelled.add(part.tool_cancellation)
            elif part.function_response is not None:
                assert part.function_response.id not in cancelled

    def _took_effect_once(self) -> None:
        first: dict[str, types.FunctionCall] = {}
        for part in self.said:
            if part.function_call is not None:
                first.setdefault((part.function_call.args or {})["tag"], part.function_call)
        for tag, times in self.own.get(Play).ran.items():
            assert _fits(first[tag])
            assert times <= (2 if first[tag].name == "retries" else 1)


def _fits(asked: types.FunctionCall) -> bool:
    return isinstance((asked.args or {})["door"], int)


def _check(asked: types.FunctionCall, body: dict[str, Any]) -> None:
    """Whether the answer is the one this call must get."""
    match asked.name:
        case "there_is_no_such_tool":
            assert body["reason_code"] == "unknown_tool"
        case _ if not _fits(asked):
            assert (body["status"], body["reason_code"]) == ("invalid_argument", "wrong_type")
        case "breaks":
            assert body["message"] == "The tool 'breaks' failed."
        case _:
            expected = {"status": "ok", "result": (asked.args or {})["tag"], "retryable": False}
            assert body == expected


async def _play(*scripts: list[Step]) -> None:
    settings_of_all = {"defaults": {"retry_delay": "1ms"}}
    tools = AdvancedToolProcessor(tools=TOOLS, config=settings_of_all, builtin_tools=False)
    sessions = [Session(script) for script in scripts]
    async with asyncio.timeout(20), tools:
        await asyncio.gather(*(session.run(tools) for session in sessions))
    for session in sessions:
        session.check()
    ledger = tools.monitor.ledger
    assert (ledger.in_flight, ledger.protocol_errors) == (0, 0)
    assert other_tasks() == set()


@settings(max_examples=150, deadline=None)
@given(steps())
def test_every_call_has_one_answer_in_any_session(script: list[Step]) -> None:
    asyncio.run(_play(script))


@settings(max_examples=40, deadline=None)
@given(st.lists(steps(), min_size=2, max_size=6))
def test_sessions_that_share_a_processor_have_each_their_own_answers(
    scripts: list[list[Step]],
) -> None:
    asyncio.run(_play(*scripts))


@settings(max_examples=60, deadline=None)
@given(steps(), st.integers(0, 30))
def test_nothing_is_left_of_a_session_that_is_broken_off(script: list[Step], turns: int) -> None:
    async def broken_off() -> None:
        tools = AdvancedToolProcessor(tools=TOOLS, builtin_tools=False)
        session = Session([*script, Step("turn")] * 2)
        async with asyncio.timeout(20), tools:
            task = asyncio.create_task(session.run(tools))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        found = Counter(identifier for identifier, _, _ in session.heard.answers if identifier)
        assert all(times == 1 for times in found.values())
        assert tools.monitor.ledger.in_flight == 0
        assert other_tasks() == set()

    asyncio.run(broken_off())


async def test_many_calls_of_many_sessions_at_once_are_each_answered_once() -> None:
    tools = AdvancedToolProcessor(tools=TOOLS, builtin_tools=False)
    before = threading.active_count()

    async def one(session: int) -> list[Any]:
        parts = [
            call("computes", {"tag": f"{session}.{n}", "door": 0}, id=str(n)) for n in range(50)
        ]
        parts += [
            call("reads", {"tag": f"{session}.{n}", "door": 0}, id=str(n)) for n in range(50, 100)
        ]
        own = ToolSession(str(session))
        own.get(Play).doors[0].set()
        heard = Heard()
        async with processor.context():
            async for part in tools.in_session(own)(parts):
                heard.take(part)
        return sorted((int(i or ""), body["result"]) for i, _, body in heard.answers)

    async with asyncio.timeout(60), tools:
        found = await asyncio.gather(*(one(session) for session in range(20)))
    assert found == [[(n, f"{s}.{n}") for n in range(100)] for s in range(20)]
    assert tools.monitor.ledger.to_json() == {
        "seen": 2000, "started": 2000, "ended": 2000, "cancelled": 0, "in_flight": 0,
        "protocol_errors": 0,
    }  # fmt: skip
    assert threading.active_count() < before + 60
