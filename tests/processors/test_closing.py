"""A stream that ends early leaves no task, no thread and no generator behind."""

import asyncio
import gc
import threading
import weakref

import pytest
from genai_processors import processor

from leonidas_tools import AdvancedToolProcessor, MonitoringProcessor, tool
from tests.processors.chains import hand_made, made_by_hand, ready_made, registry_of
from tests.promises.faults.play import Heard, Script, audio, call, tool_threads
from tests.tasks import other_tasks


class Door:
    """A tool that waits behind a door, and tells when it began, ended, or was stopped."""

    def __init__(self, effect):
        self.begun, self.open = asyncio.Event(), asyncio.Event()
        self.stopped, self.ended = asyncio.Event(), asyncio.Event()

        @tool(name="wait", effect=effect)
        async def wait() -> str:
            self.begun.set()
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            self.ended.set()
            return "done"

        self.tool = wait


async def until(event):
    async with asyncio.timeout(10):
        await event.wait()


async def hear(stream, heard):
    async with asyncio.timeout(10), processor.context():
        async for part in stream:
            heard.take(part)


async def nothing_is_left():
    async with asyncio.timeout(10):
        while other_tasks() or tool_threads():  # they end by themselves, or this times out
            gc.collect()  # a traceback may hold the reader's frame, and that the stream
            await asyncio.sleep(0.02)


def source_of(door, opened):
    """An input that never ends; it says when it was closed."""

    async def endless():
        try:
            yield call("wait", id="1")
            await door.begun.wait()
            yield audio(1)
            await asyncio.Event().wait()
        finally:
            opened.set()

    return endless()


async def read_and_leave(chain, source, leaving):
    """Reads up to the first audio and goes away in one of several ways."""
    async with processor.context():
        iterator = aiter(chain(source))
        async for part in iterator:
            if "frame" not in part.metadata:
                continue
            if leaving == "raise":
                raise LookupError
            if leaving == "cancel":
                asyncio.current_task().cancel()
                await asyncio.Event().wait()
            if leaving == "aclose":
                await iterator.aclose()
            break
        del iterator


@pytest.mark.parametrize(
    ("make", "leaving"),
    [
        (ready_made, "break"),
        (ready_made, "aclose"),
        (ready_made, "cancel"),
        (ready_made, "raise"),
        # A chain of upstream's goes on until its `processor.context()` is left, by design: there
        # `break` and `aclose` cannot be heard of.
        (made_by_hand, "cancel"),
        (made_by_hand, "raise"),
    ],
)
async def test_a_reader_that_leaves_closes_everything(make, leaving):
    door, closed = Door("read"), asyncio.Event()
    chain, monitor = make(door.tool)
    task = asyncio.create_task(read_and_leave(chain, source_of(door, closed), leaving))
    async with asyncio.timeout(10):
        await asyncio.wait([task])
    if leaving == "raise":
        assert isinstance(task.exception(), LookupError)
    elif leaving == "cancel":
        assert task.cancelled()
    else:
        task.result()
    del task
    await until(door.stopped)
    await until(closed)
    await nothing_is_left()
    assert monitor.ledger.in_flight == 0


async def test_an_input_that_fails_is_raised_after_what_came_before_it(chain_of):
    door = Door("read")

    async def failing():
        yield audio(1)
        yield call("wait", id="1")
        await door.begun.wait()
        yield audio(2)
        raise OSError("the line is dead")

    heard = Heard()
    with pytest.raises(OSError, match="the line is dead"):
        await hear(chain_of(door.tool)(failing()), heard)
    assert (heard.frames, heard.answers) == ([1, 2], [])
    await until(door.stopped)
    await nothing_is_left()


async def test_a_stream_that_was_never_read_leaves_nothing(chain_of):
    stream = chain_of()([audio(1)])
    del stream
    gc.collect()
    await nothing_is_left()


async def test_streams_that_have_ended_are_forgotten(chain_of):
    chain = chain_of()
    sources = weakref.WeakSet()

    class Source:
        def __init__(self):
            self.parts = [audio(1), call("add", {"a": 1, "b": 2}, id="1")]

        async def __aiter__(self):
            for part in self.parts:
                yield part

    for _ in range(3):
        async with processor.context():
            source = Source()
            sources.add(source)
            async for _ in chain(aiter(source)):
                pass
        del source
    gc.collect()
    assert len(sources) == 0
    await nothing_is_left()


async def test_a_running_side_effect_is_finished_while_the_tools_are_held():
    door = Door("once")
    tools = AdvancedToolProcessor(tools=[door.tool])
    async with tools:
        async with Script(tools) as script:
            script.say(call("wait", id="1"))
            await until(door.begun)
            await script.leave()
        assert not door.stopped.is_set()
        assert tools.monitor.ledger.in_flight == 1
        door.open.set()
        await until(door.ended)
    assert not door.stopped.is_set()
    assert tools.monitor.ledger.to_json() == {
        "seen": 1, "started": 1, "ended": 1, "cancelled": 1, "in_flight": 0, "protocol_errors": 0,
    }  # fmt: skip
    await nothing_is_left()


async def test_a_running_side_effect_is_ended_once_the_tools_are_released():
    door = Door("once")
    tools = AdvancedToolProcessor(tools=[door.tool])
    async with Script(tools) as script:
        script.say(call("wait", id="1"))
        await until(door.begun)
        await script.leave()
    await until(door.stopped)
    await nothing_is_left()
    assert tools.monitor.ledger.in_flight == 0


async def test_a_running_side_effect_is_ended_when_the_hand_made_chain_is_left():
    door, monitoring = Door("once"), MonitoringProcessor()
    async with Script(hand_made(registry_of(door.tool), monitoring=monitoring)) as script:
        script.say(call("wait", id="1"))
        await until(door.begun)
        await script.leave()
    await until(door.stopped)
    await nothing_is_left()
    assert monitoring.monitor.ledger.in_flight == 0


async def test_one_stream_that_is_left_does_not_harm_another():
    door = Door("read")

    @tool(effect="read", lane="other")
    async def quick() -> str:
        return "quick"

    tools = AdvancedToolProcessor(tools=[door.tool, quick])
    async with Script(tools) as staying, Script(tools) as leaving:
        staying.say(call("quick", id="0"))
        await staying.until_answered("0")
        leaving.say(call("wait", id="1"))
        await until(door.begun)
        await leaving.leave()
        await until(door.stopped)
        staying.say(call("quick", id="1"), audio(1))
        heard = await staying.until_answered("0", "1")
    assert [answer[0] for answer in heard.answers] == ["0", "1"]
    assert heard.frames == [1]
    await nothing_is_left()


async def test_threads_of_sync_tools_end_with_the_last_stream(chain_of):
    def where() -> str:
        return threading.current_thread().name

    async with Script(chain_of(where)) as script:
        script.say(call("where", id="1"))
        heard = await script.until_answered("1")
        assert heard.by_id["1"][0]["result"].startswith("leonidas")
        assert tool_threads()
    await nothing_is_left()
