"""What happens can be followed: the state first, then every change in order, whoever is slow."""

import asyncio
import contextlib
import json
from contextlib import aclosing

import jsonschema_rs
import pytest

from leonidas_tools import (
    AdvancedToolProcessor,
    RetryableError,
    ToolContext,
    tool,
)
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.calls.call import ToolCall, ToolSession
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.monitoring.event_stream import EventStream, events_schema, to_sse
from leonidas_tools.monitoring.event_stream.schema import kinds
from leonidas_tools.session.tasks import TaskList
from leonidas_tools.toolboxes import tasks


def strict(schema):
    """The schema without room for what is not declared, but in what tools say in their words."""
    schema = json.loads(json.dumps(schema))
    free = {"ToolProgress", "Iteration"}
    for name, definition in schema["$defs"].items():
        if name not in free:
            definition["additionalProperties"] = False
    return schema


@pytest.fixture(scope="module")
def validator():
    return jsonschema_rs.validator_for(strict(events_schema()))


class Reader:
    """Reads a stream and checks each event against the schema."""

    def __init__(self, events, validator):
        self.events = events
        self.validator = validator
        self.heard = []

    async def next(self):
        async with asyncio.timeout(10):
            event = await anext(self.events)
        self.validator.validate(json.loads(json.dumps(event)))
        assert set(event) >= {"version", "sequence", "at", "event"}
        self.heard.append(event)
        return event

    async def until(self, kind, **like):
        while True:
            event = await self.next()
            if event["event"] == kind and like.items() <= event.items():
                return event

    @property
    def kinds(self):
        return [event["event"] for event in self.heard]


@pytest.fixture
async def read(validator):
    """Makes readers, which leave at the end."""
    async with contextlib.AsyncExitStack() as stack:

        async def reader(stream, **options):
            events = await stack.enter_async_context(aclosing(stream.subscribe(**options)))
            return Reader(events, validator)

        yield reader


def started(name="search", session=None, **more):
    call = ToolCall(name=name, session=session or ToolSession("s"), number=1, **more)
    return ToolEvent(kind=EventKind.START, call=call)


# --- the state, and what comes after -----------------------------------------------------------


async def test_a_reader_gets_the_state_and_then_every_event(read):
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    async with AdvancedToolProcessor([wait]) as tools:
        session = ToolSession("kitchen")
        session.get(TaskList).write(["Wait"])
        waiting = asyncio.create_task(tools.execute("wait", session=session, call_id="c1"))
        await begun.wait()
        reader = await read(tools.events)
        state = await reader.next()
        go_on.set()
        await waiting
        end = await reader.next()
    told = {"call_id": "c1", "tool": "wait", "session": "kitchen", "trace_id": "kitchen-1"}
    at, sequence = state["calls"][0]["at"], state["sequence"]
    assert state == {
        "version": 1,
        "sequence": sequence,
        "at": state["at"],
        "event": "state",
        "calls": [{**told, "at": at}],
        "approvals": [],
        "tasks": {
            "kitchen": [{"id": "1", "title": "Wait", "status": "pending", "calls": []}],
        },
        "untrusted": {},
        "breakers": {},
        "live": [],
    }
    assert end == {
        "version": 1,
        "sequence": sequence + 1,
        "event": "tool_complete",
        **told,
        "at": end["at"],
        "seconds": end["seconds"],
        "status": "ok",
    }


async def test_everything_that_can_happen_to_a_call_is_reported_in_order(read):
    attempts = []

    @tool(effect="read", retry_attempts=1, fallback_tools=["backup"])
    async def faulty(ctx: ToolContext) -> None:
        ctx.progress("Trying", fraction=0.5, place="here")
        attempts.append(1)
        raise RetryableError("not now")

    @tool(effect="read")
    async def backup() -> str:
        return "instead"

    @tool(undo=lambda: None)
    async def half_done() -> None:
        raise ValueError("broken")

    @tool
    async def agent(ctx: ToolContext) -> None:
        ctx.emit(EventKind.ITERATION, {"number": 1})

    config = {"tools": {"faulty": {"retry_delay": "1ms"}}}
    all_tools = [faulty, backup, half_done, agent, *tasks.TOOLS]
    async with AdvancedToolProcessor(all_tools, config) as tools:
        reader = await read(tools.events)
        await reader.next()
        await tools.execute("faulty")
        await tools.execute("half_done")
        await tools.execute("agent")
        await tools.execute("fulty")
        await tools.execute("write_tasks", {"tasks": ["Look", "Book"]})
        await tools.execute("update_task", {"id": "1", "status": "in_progress"})
        await tools.execute("backup")
        last = await reader.until("tool_complete", tool="backup")
    assert reader.kinds == [
        "state",
        *("tool_start", "tool_progress", "tool_retry", "tool_progress", "tool_fallback"),
        "tool_complete",
        *("tool_start", "tool_undo", "tool_failed"),
        *("tool_start", "iteration", "tool_complete"),
        "tool_error",
        *("tool_start", "task_list", "tool_complete"),
        *("tool_start", "task_update", "tool_complete"),
        *("tool_start", "tool_complete"),
    ]
    assert last["task"] == "1"
    numbers = [event["sequence"] for event in reader.heard]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    progress = reader.heard[2]
    assert (progress["message"], progress["fraction"], progress["place"]) == ("Trying", 0.5, "here")


async def test_a_call_that_waits_names_the_one_it_waits_for(read):
    over = asyncio.Event()

    @tool(lane="door")
    async def hold() -> None:
        await over.wait()

    @tool(effect="read", lane="door")
    async def look() -> None: ...

    async with AdvancedToolProcessor([hold, look]) as tools:
        first = await read(tools.events)
        running = [asyncio.create_task(tools.execute(name)) for name in ("hold", "look")]
        waiting = await first.until("tool_wait", tool="look")
        second = await read(tools.events)
        state = await second.next()
        over.set()
        await asyncio.gather(*running)
        waited = await second.until("tool_wait", tool="look")
        await second.until("tool_complete", tool="look")
        ended = await (await read(tools.events)).next()
    assert (waiting["waits_for"], waited["waits_for"]) == ("hold", None)
    assert [(call["tool"], call.get("waits_for")) for call in state["calls"]] == [
        ("hold", None),
        ("look", "hold"),
    ]
    assert ended["calls"] == []


async def test_a_breaker_and_a_cached_answer_are_reported(read):
    @tool(effect="read", retry_attempts=0)
    async def broken() -> None:
        raise ValueError

    @tool(effect="read", cache_seconds=60)
    async def known() -> int:
        return 1

    config = {"policies": {"breaker": {"min_calls": 1}}}
    async with AdvancedToolProcessor([broken, known], config) as tools:
        reader = await read(tools.events)
        await reader.next()
        await tools.execute("broken")
        told = await reader.until("tool_breaker")
        assert (told["breaker"], told["state"]) == ("broken", "open")
        await tools.execute("known")
        await tools.execute("known")
        await reader.until("tool_complete", tool="known")
        assert (await reader.until("tool_complete", tool="known"))["cached"] is True
        late = await read(tools.events)
        assert (await late.next())["breakers"] == {"broken": "open", "known": "closed"}


async def test_the_event_of_a_question_has_all_that_an_answer_needs(read):
    @tool(requires_approval=True)
    async def send(amount: int, password: str) -> str:
        return "sent"

    async with AdvancedToolProcessor([send]) as tools:
        session = ToolSession("s")
        reader = await read(tools.events)
        await reader.next()
        await tools.execute("send", {"amount": 5, "password": "hunter2"}, session=session)
        asked = await reader.until("tool_approval_request")
        late = await read(tools.events)
        state = await late.next()
        assert state["approvals"] == [asked["request"]]
        assert asked["request"]["details"] == {"amount": 5, "password": "***"}
        assert "hunter2" not in json.dumps(reader.heard)
        session.get(Approvals).decide(asked["approval_id"], Decision.approve())
        answered = await reader.until("tool_approval_answer")
        assert (answered["decision"], answered["by"]) == ("approve", "person")
        await reader.until("tool_complete", tool="send")


async def test_settings_and_alerts_are_reported(read):
    @tool(effect="read")
    async def fine() -> None:
        return None

    async with AdvancedToolProcessor([fine], {"tools": {}}) as tools:
        reader = await read(tools.events)
        await reader.next()
        rule = {"name": "many", "metric": "calls_per_minute", "above": 0, "min_calls": 0}
        tools.settings.update({"monitoring.alerts": [rule]})
        await reader.until("settings_changed")
        await tools.execute("fine")
        tools.monitor.alerts()
        alert = await reader.until("alert")
        assert (alert["name"], alert["state"]) == ("many", "firing")


# --- readers -----------------------------------------------------------------------------------


async def test_a_reader_of_one_session_hears_of_no_other(read):
    stream = EventStream()
    mine, other = ToolSession("mine"), ToolSession("other")
    for session in (mine, other):
        stream(started(session=session))
        session.get(TaskList).write(["Something"])
    reader = await read(stream, session=mine)
    assert list((await reader.next())["tasks"]) == ["mine"]
    stream(started(session=other))
    stream(started(session=mine))
    stream.publish("settings_changed")
    await reader.until("settings_changed")
    assert reader.kinds == ["state", "tool_start", "settings_changed"]
    assert reader.heard[1]["session"] == "mine"


async def test_a_reader_can_choose_kinds_and_names_only_those_there_are(read):
    stream = EventStream()
    reader = await read(stream, kinds=["settings_changed"])
    await reader.next()
    stream(started())
    stream.publish("settings_changed")
    assert (await reader.next())["event"] == "settings_changed"
    with pytest.raises(ValueError, match="tool_strat"):
        stream.subscribe(kinds=["tool_strat"])
    assert {kind.value for kind in EventKind} <= kinds()


async def test_a_slow_reader_gets_the_number_of_missed_events_and_the_state(read):
    under_way = []
    stream = EventStream(calls=lambda: under_way)
    reader, quick = await read(stream, size=10), await read(stream, size=1000)
    await reader.next()
    await quick.next()
    for number in range(100):
        stream(started(name=f"tool{number}"))
    last = reader.heard[0]["sequence"] + 100
    missed, state = await reader.next(), await reader.next()
    assert (missed["event"], missed["count"], missed["sequence"]) == ("missed", 100, last)
    assert (state["event"], state["sequence"]) == ("state", last)
    stream(started(name="after"))
    assert (await reader.next())["tool"] == "after"
    for number in range(100):
        assert (await quick.next())["tool"] == f"tool{number}"


async def test_an_event_between_the_two_messages_to_a_slow_reader_follows_them(read):
    stream = EventStream()
    reader = await read(stream, size=1)
    await reader.next()
    for name in ("a", "b"):
        stream(started(name=name))
    assert (await reader.next())["count"] == 2
    stream(started(name="c"))
    state, after = await reader.next(), await reader.next()
    assert (state["event"], after["tool"]) == ("state", "c")
    assert after["sequence"] == state["sequence"] + 1


async def test_a_reader_that_comes_back_hears_what_it_has_missed(read):
    stream = EventStream(remembered=3)
    first = await read(stream)
    begin = (await first.next())["sequence"]
    for number in range(5):
        stream(started(name=f"tool{number}"))
    back = await read(stream, after=str(begin + 2))
    assert [(await back.next())["tool"] for _ in range(3)] == ["tool2", "tool3", "tool4"]
    up_to_date = await read(stream, after=begin + 5)
    stream(started(name="new"))
    assert (await up_to_date.next())["tool"] == "new"


@pytest.mark.parametrize("after", [0, 1, "x", "", "-3", "²", 10**18])
async def test_a_reader_that_was_away_too_long_gets_the_state(read, after):
    stream = EventStream(remembered=3)
    first = await read(stream)
    await first.next()
    for _ in range(5):
        stream(started())
    back = await read(stream, after=after)
    assert (await back.next())["event"] == "state"
    stream(started(name="new"))
    assert (await back.next())["tool"] == "new"


async def test_numbers_of_an_earlier_process_are_not_taken_for_ours(read):
    earlier = EventStream()
    reader = await read(earlier)
    await reader.next()
    earlier(started())
    number = (await reader.next())["sequence"]
    back = await read(EventStream(), after=number)
    assert (await back.next())["event"] == "state"


async def test_nothing_is_remembered_before_somebody_reads_and_no_session_is_kept_alive():
    stream, session = EventStream(), ToolSession("s")
    stream(started(session=session))
    assert not stream._remembered
    del session
    assert not stream._sessions


async def test_who_leaves_is_forgotten():
    stream = EventStream()
    async for _ in stream.subscribe():
        break
    events = stream.subscribe()
    await anext(events)
    await events.aclose()
    async with asyncio.timeout(10):
        while stream._subscriptions:
            await asyncio.sleep(0)


async def test_what_a_result_holds_is_not_remembered(read):
    async def large() -> str:
        return "x" * 100_000

    async with AdvancedToolProcessor([large]) as tools:
        reader = await read(tools.events)
        await reader.next()
        await tools.execute("large")
        await reader.until("tool_complete")
        assert len(json.dumps(list(tools.events._remembered))) < 2000


def test_an_event_is_written_as_server_sent_events_are():
    event = {"sequence": 5, "event": "tool_progress", "message": "one\r\ntwo\u2028é"}
    text = to_sse(event)
    number, kind, data, end, rest = text.split("\n")
    assert (number, kind, end, rest) == ("id: 5", "event: tool_progress", "", "")
    assert "\r" not in text
    assert json.loads(data.removeprefix("data: ")) == event
