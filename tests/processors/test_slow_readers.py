"""Progress that comes faster than it is read: bounded, in order, and no answer is lost."""

import asyncio
import contextlib
import itertools
import json
from collections import Counter

import pytest
from genai_processors import processor, streams
from genai_processors.content_api import ProcessorPart
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools import AdvancedToolProcessor, ToolContext, tool
from leonidas_tools.calls.queues import MAX_OF_EACH, MAX_REPLACEABLE, BoundedQueue
from leonidas_tools.live.model_input import ModelInputQueue
from leonidas_tools.live.part_queue import PartQueue
from leonidas_tools.processors.answers import progress_part
from tests.promises.faults.play import call

MANY = 5_000


class Told:
    """How often the tools of a test have told of their progress; they end when told to."""

    def __init__(self):
        self.times = Counter()
        self.over = asyncio.Event()
        self.enough = asyncio.Event()

    def told(self, which="1"):
        self.times[which] += 1
        if sum(self.times.values()) >= MANY:
            self.enough.set()
        return self.times[which]


@pytest.fixture
async def told():
    return Told()


def endless_tools(told):
    @tool(effect="read", name="endless")
    async def yielding(which: str = "1"):
        while not told.over.is_set():
            yield told.told(which)
        yield "done"

    @tool(effect="read", name="endless")
    def yielding_in_a_thread(which: str = "1"):
        while not told.over.is_set():
            yield told.told(which)
        yield "done"

    @tool(effect="read", name="endless")
    async def telling(context: ToolContext, which: str = "1"):
        while not told.over.is_set():
            context.progress(value=told.told(which))
            await asyncio.sleep(0)
        return "done"

    return {"generator": yielding, "thread": yielding_in_a_thread, "context": telling}


async def parts_of(tools, told, *input_parts):
    """What a reader finds who takes one part, and all others after everything has ended."""
    found = []
    reading = aiter(tools(streams.stream_content(input_parts)))
    found.append(await anext(reading))
    calls = sum(part.function_call is not None for part in input_parts)
    async with asyncio.timeout(60):
        await told.enough.wait()
        happening = tools.events.subscribe(kinds={"tool_complete"})
        await anext(happening)  # how things are
        told.over.set()
        for _ in range(calls):
            await anext(happening)
    found += [part async for part in reading]
    return found


def events(parts, kind):
    texts = [part.text for part in parts if part.metadata.get("tool_event")]
    return [event for event in map(json.loads, texts) if event["event"] == kind]


def answers(parts):
    return [
        part.function_response.response["result"]
        for part in parts
        if part.function_response is not None
    ]


@pytest.mark.parametrize("around", [contextlib.nullcontext, processor.context])
@pytest.mark.parametrize("kind", ["generator", "thread", "context"])
async def test_of_endless_progress_a_slow_reader_finds_the_newest_few_and_the_answer(
    told, kind, around
):
    tools = AdvancedToolProcessor(tools=[endless_tools(told)[kind]], builtin_tools=False)
    async with around():
        parts = await parts_of(tools, told, call("endless", {}, id="1"), ProcessorPart("after"))
    progress = events(parts, "tool_progress")
    values = [event["value"] for event in progress]
    assert len(progress) <= MAX_OF_EACH
    assert values == sorted(set(values))
    assert len(progress) + sum(event.get("dropped", 0) for event in progress) == told.times["1"]
    assert answers(parts) == ["done"]
    assert len(events(parts, "tool_start")) == len(events(parts, "tool_complete")) == 1
    assert sum(part.part.text == "after" for part in parts) == 1
    last = [part for part in parts if part.function_response or part.metadata.get("tool_event")][-1]
    assert last.function_response is not None


async def test_many_endless_calls_share_the_room_and_each_is_answered(told):
    tools = AdvancedToolProcessor(tools=[endless_tools(told)["generator"]], builtin_tools=False)
    calls = [call("endless", {"which": str(n)}, id=str(n)) for n in range(200)]
    parts = await parts_of(tools, told, *calls)
    of_each = Counter(event["call_id"] for event in events(parts, "tool_progress"))
    assert sum(of_each.values()) <= 2 * MAX_REPLACEABLE
    assert set(of_each) == {str(n) for n in range(200)}
    assert answers(parts) == ["done"] * 200


async def test_progress_that_is_read_in_time_is_complete():
    @tool(effect="read")
    async def steps():
        for number in range(100):
            yield number

    tools = AdvancedToolProcessor(tools=[steps], builtin_tools=False)
    parts = [part async for part in tools(streams.stream_content([call("steps", {}, id="1")]))]
    progress = events(parts, "tool_progress")
    assert [event["value"] for event in progress] == list(range(99))
    assert not any("dropped" in event for event in progress)


async def test_an_endless_tool_that_times_out_is_answered_to_a_reader_who_has_not_read():
    @tool(effect="read", timeout_seconds=0.3)
    async def endless():
        for number in itertools.count():
            yield number

    tools = AdvancedToolProcessor(tools=[endless], builtin_tools=False)
    async with asyncio.timeout(30):
        reading = aiter(tools(streams.stream_content([call("endless", {}, id="1")])))
        found = [await anext(reading)]
        async for event in tools.events.subscribe():
            if event["event"] == "tool_failed":
                break
        found += [part async for part in reading]
    assert len(events(found, "tool_progress")) <= MAX_OF_EACH
    (answer,) = [part for part in found if part.function_response is not None]
    assert answer.function_response.response["status"] == "timeout"


# --- the queues of a live session ---------------------------------------------------------------


async def progress_parts(told_times):
    """Real status parts of a call's progress, with the interim answers made of them."""

    @tool(effect="read", scheduling={"progress": "silent"})
    async def steps():
        for number in range(told_times + 1):
            yield number

    tools = AdvancedToolProcessor(tools=[steps], builtin_tools=False)
    content = streams.stream_content([call("steps", {}, id="1")])
    return [
        part
        async for part in tools(content)
        if part.metadata.get("tool_event") and part.event.kind == "tool_progress"
    ]


async def test_a_listener_who_does_not_read_finds_the_newest_progress_and_all_the_speech():
    outbox = PartQueue()
    speech = [ProcessorPart(b"\0", mimetype="audio/pcm") for _ in range(100)]
    for told, spoken in zip(await progress_parts(100), speech, strict=True):
        outbox.put(told)
        outbox.put(spoken)
    outbox.close()
    parts = [part async for part in outbox.parts()]
    progress = events(parts, "tool_progress")
    assert [event["value"] for event in progress] == list(range(100 - MAX_OF_EACH, 100))
    assert progress[0]["dropped"] == 100 - MAX_OF_EACH
    assert [part for part in parts if part.part.inline_data is not None] == speech


async def test_a_model_that_does_not_read_is_given_the_newest_interim_answers_and_the_last():
    inbox = ModelInputQueue(0.0)
    inbox.asked("1")
    for told in await progress_parts(100):
        interim = progress_part(told.event)
        assert interim is not None
        inbox.put_answer("1", interim)
    final = ProcessorPart.from_function_response(
        name="steps", response={"result": 1}, function_call_id="1"
    )
    inbox.put_answer("1", final)
    inbox.end_input()
    parts = [part async for part in inbox.parts()]
    said = [part.function_response.response for part in parts]
    assert len(parts) == MAX_OF_EACH + 1
    assert parts[-1] is final
    assert said[0] == {
        "status": "running", "result": 100 - MAX_OF_EACH, "dropped": 100 - MAX_OF_EACH
    }  # fmt: skip
    assert [each["result"] for each in said[:-1]] == list(range(100 - MAX_OF_EACH, 100))


# --- the queue itself ---------------------------------------------------------------------------


@given(st.lists(st.one_of(st.none(), st.sampled_from("abc"), st.just("read"), st.just("remove"))))
def test_nothing_but_the_oldest_of_a_source_is_dropped_and_the_order_stays(steps):
    queue = BoundedQueue(mark=lambda item, dropped: (*item[:2], dropped))
    put, removed = [], set()
    found = []
    for number, step in enumerate(steps):
        if step == "read":
            if queue:
                found.append(queue.popleft())
        elif step == "remove":
            queue.remove(lambda item: item[0] == "a", newest=None if number % 2 else 100)
            removed |= {item[1] for item in put if item[0] == "a"}
        else:
            put.append((step, number))
            if step is None:
                queue.put((step, number, 0))
            else:
                queue.put((step, number, 0), step)
    while queue:
        found.append(queue.popleft())
    numbers = [number for _, number, _ in found]
    assert numbers == sorted(numbers)
    assert [item[:2] for item in found if item[0] is None] == [p for p in put if p[0] is None]
    for source in "bc":
        of_source = [item for item in found if item[0] == source]
        wanted = [item for item in put if item[0] == source]
        assert len(of_source) + sum(item[2] for item in of_source) == len(wanted)
        assert [item[:2] for item in of_source][-1:] == wanted[-1:]


def test_an_unread_queue_keeps_no_room_for_dropped_items():
    queue = BoundedQueue()
    queue.put("first")
    for number in range(100_000):
        queue.put(number, number % 3)
    assert len(queue) == 1 + 3 * MAX_OF_EACH
    assert len(queue._items) <= 4 * MAX_OF_EACH + 200


@given(st.lists(st.one_of(st.integers(0, 9), st.just("read"), st.just("put back"))))
def test_the_oldest_items_make_room_for_the_newest(steps):
    def drop_oldest(full):
        assert full.remove_oldest(lambda item: item[1] > 0)

    queue = BoundedQueue(size_of=lambda item: item[1], max_bytes=20, on_full=drop_oldest)
    waiting, taken = [], None
    for number, step in enumerate(steps):
        if step == "read":
            if waiting:
                taken = waiting.pop(0)
                assert queue.popleft() == taken
        elif step == "put back":
            if taken is not None:
                waiting.insert(0, taken)
                queue.put_back(taken)
                taken = None
        else:
            while step and sum(size for _, size in waiting) + step > 20:
                waiting.remove(next(item for item in waiting if item[1]))
            waiting.append((number, step))
            queue.put((number, step))
        assert len(queue) == len(waiting)
    assert [queue.popleft() for _ in range(len(queue))] == waiting


def test_a_full_queue_may_refuse_an_item():
    def refuse(_):
        raise OverflowError

    queue = BoundedQueue(size_of=len, max_bytes=3, on_full=refuse)
    queue.put("ab")
    with pytest.raises(OverflowError):
        queue.put("cd")
    assert (queue.popleft(), len(queue)) == ("ab", 0)


async def test_a_closed_queue_wakes_its_reader():
    queue = BoundedQueue()
    reading = asyncio.create_task(queue.wait())
    await asyncio.sleep(0)
    assert queue.is_drained
    queue.close()
    await reading
    assert (len(queue), queue.is_closed) == (0, True)
