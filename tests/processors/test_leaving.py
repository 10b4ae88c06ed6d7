"""Whoever reads a stream may leave it at any time, also outside `processor.context()`."""

import asyncio
import gc

import pytest
from genai_processors import processor

from leonidas_tools import (
    AdvancedToolProcessor,
    ConfigurationProcessor,
    GeminiLiveProcessor,
    LiveToolSession,
    MonitoringProcessor,
    PythonFunctionProcessor,
    SpeechOutputProcessor,
    ToolRegistry,
    ToolRegistryProcessor,
)
from leonidas_tools.simulator import LiveSimulator, Say, Scenario, WaitForClose
from tests.promises.faults.play import audio, call
from tests.tasks import other_tasks

LEAVING = ["cancel", "break", "aclose", "raise", "cancel from outside"]


async def wait() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


class EndlessModel(processor.Processor):
    """A model that makes a call, says something and never ends."""

    async def call(self, content):
        yield call("wait", id="1")
        yield audio(1)
        async for part in content:
            yield part


def ready_made():
    return AdvancedToolProcessor(tools=[wait])


def live_session():
    return LiveToolSession(EndlessModel(), ready_made())


def made_by_hand():
    return (
        ToolRegistryProcessor(ToolRegistry([wait]))
        + ConfigurationProcessor()
        + PythonFunctionProcessor()
        + MonitoringProcessor()
    )


def longer_chain():
    @processor.processor_function
    async def passing(content):
        async for part in content:
            yield part

    return ready_made() + passing + SpeechOutputProcessor()


def category_alone():
    return PythonFunctionProcessor([wait]).to_processor()


async def endless(closed):
    try:
        yield call("wait", id="1")
        yield audio(1)
        await asyncio.Event().wait()
    finally:
        closed.set()


async def read_and_leave(chain, source, leaving, reached):
    iterator = aiter(chain(source))
    async for part in iterator:
        if part.part.inline_data is None and not part.part.text:
            continue
        reached.set()
        if leaving == "raise":
            raise LookupError
        if leaving == "cancel":
            asyncio.current_task().cancel()
        if leaving.startswith("cancel"):
            await asyncio.Event().wait()
        if leaving == "aclose":
            await iterator.aclose()
        break


async def leaves(chain, leaving, source):
    """Read, leave, and see that nothing is left that runs."""
    before, reached = other_tasks(), asyncio.Event()
    task = asyncio.create_task(read_and_leave(chain, source, leaving, reached))
    async with asyncio.timeout(20):
        while not (reached.is_set() or task.done()):
            await asyncio.sleep(0.01)
        if leaving == "cancel from outside":
            task.cancel()
        await asyncio.wait([task])
    if leaving == "raise":
        assert isinstance(task.exception(), LookupError)
    elif leaving.startswith("cancel"):
        assert task.cancelled()
    else:
        task.result()
    del task
    async with asyncio.timeout(20):
        while other_tasks() - before:
            gc.collect()
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("leaving", LEAVING)
@pytest.mark.parametrize(
    "make",
    [ready_made, live_session, made_by_hand, longer_chain, category_alone, SpeechOutputProcessor],
)
async def test_leaving_ends_the_stream(make, leaving):
    closed = asyncio.Event()
    await leaves(make(), leaving, endless(closed))
    async with asyncio.timeout(20):
        await closed.wait()


@pytest.mark.parametrize("leaving", LEAVING)
@pytest.mark.parametrize("with_tools", [False, True])
async def test_leaving_ends_a_connection(leaving, with_tools):
    async with LiveSimulator(
        Scenario([Say("Hello."), WaitForClose()]), generation="3.8-live"
    ) as gemini:
        live = GeminiLiveProcessor(
            "gemini-3.8-live", api_key="none", http_options=gemini.http_options()
        )
        agent = LiveToolSession(live, AdvancedToolProcessor()) if with_tools else live
        await leaves(agent, leaving, endless_microphone())


async def endless_microphone():
    yield audio(1)
    await asyncio.Event().wait()
