"""Time that a test moves on, for the client's loop and for the server's."""

import asyncio
import threading
import time
from concurrent.futures import Future

import pytest
from google.genai import types

from leonidas_tools.simulator import (
    ElasticEventLoop,
    FunctionCall,
    GoAway,
    LiveSimulator,
    Outcome,
    Pause,
    Scenario,
    TurnComplete,
    WaitForClose,
    elastic_loop,
)


def run(main):
    """Runs a coroutine on an elastic loop."""
    with asyncio.Runner(loop_factory=ElasticEventLoop) as runner:
        return runner.run(main)


def test_timers_come_due_in_order_and_one_after_another():
    async def main():
        loop = asyncio.get_running_loop()
        began, log = loop.time(), []

        async def sleep(name, *pauses):
            for pause in pauses:
                await asyncio.sleep(pause)
                log.append((name, round(loop.time() - began)))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(sleep("a", 600, 600, 600))
            tasks.create_task(sleep("b", 900, 1800))
            loop.advance(2700)
        return log

    assert run(main()) == [("a", 600), ("b", 900), ("a", 1200), ("a", 1800), ("b", 2700)]


def test_the_future_is_done_when_what_was_due_is_done():
    async def main():
        loop, log = asyncio.get_running_loop(), []

        async def wait():
            await asyncio.sleep(10)
            await asyncio.sleep(0)
            log.append("ten seconds")
            await asyncio.sleep(10)
            log.append("twenty seconds")

        task = asyncio.create_task(wait())
        before = loop.time()
        await asyncio.wrap_future(loop.advance(12))
        passed = loop.time() - before
        assert log == ["ten seconds"]
        task.cancel()
        return passed

    assert run(main()) >= 12


def test_time_is_advanced_from_another_thread():
    async def main():
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=lambda: loop.advance(3600).result(30))
        thread.start()
        await asyncio.sleep(3600)
        await asyncio.to_thread(thread.join)
        return "over"

    assert run(main()) == "over"


def test_several_advances_add_up():
    async def main():
        loop = asyncio.get_running_loop()
        before = loop.time()
        futures = [loop.advance(seconds) for seconds in (1800, 1800, 0)]
        await asyncio.sleep(3600)
        for future in futures:
            await asyncio.wrap_future(future)
        return loop.time() - before

    assert run(main()) >= 3600


def test_a_timeout_fires_as_early_as_its_time_comes():
    async def main():
        asyncio.get_running_loop().advance(30)
        async with asyncio.timeout(30):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run(main())


def test_what_can_be_read_goes_before_what_is_due():
    async def main():
        log = []

        async def serve(reader, writer):
            log.append(await reader.readline())
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\n")
        await reader.read()
        asyncio.get_running_loop().advance(60)
        await asyncio.sleep(60)
        log.append("a minute")
        writer.close()
        server.close()
        return log

    assert run(main()) == [b"hello\n", "a minute"]


def test_a_peer_that_is_busy_does_not_look_like_one_that_is_silent():
    async def main():
        loop, running = asyncio.get_running_loop(), Future()
        thread = threading.Thread(target=run, args=(peer(running),))
        thread.start()
        other, ended = await asyncio.wrap_future(running)
        loop.keep_pace_with(other)
        heard, begun = asyncio.Event(), threading.Event()

        def work():
            begun.set()
            sum(range(3_000_000))
            loop.call_soon_threadsafe(heard.set)

        for _ in range(10):
            begun.clear()
            heard.clear()
            other.call_soon_threadsafe(work)
            begun.wait()
            loop.advance(60)
            async with asyncio.timeout(30):
                await heard.wait()
            await asyncio.sleep(60)
        other.call_soon_threadsafe(ended.set)
        await asyncio.to_thread(thread.join)
        await asyncio.wrap_future(loop.advance(60))  # one that is gone is not waited for

    async def peer(running):
        ended = asyncio.Event()
        running.set_result((asyncio.get_running_loop(), ended))
        await ended.wait()

    run(main())


def test_what_a_peer_sends_just_before_it_is_idle_comes_before_skipped_time():
    class SendsAndIsIdle:
        closed = False

        @property
        def is_busy(self):
            loop.call_soon_threadsafe(heard.set)
            return False

    async def main():
        nonlocal loop
        loop = asyncio.get_running_loop()
        loop._waiting.add_peer(SendsAndIsIdle())
        loop.advance(60)
        async with asyncio.timeout(30):
            await heard.wait()

    loop, heard = None, asyncio.Event()
    run(main())


@pytest.mark.parametrize("waits", ["between runs", "in its loop"])
def test_time_passes_though_a_peer_waits_for_that_and_does_nothing_else(waits, monkeypatch):
    monkeypatch.setattr(elastic_loop, "_MAX_BUSY_SECONDS", 0.1 if "loop" in waits else 1000)
    running = Future()

    async def peer():
        ended = asyncio.Event()
        running.set_result((asyncio.get_running_loop(), ended))
        await ended.wait()

    async def meet(other):
        asyncio.get_running_loop().keep_pace_with(other)
        if waits == "in its loop":
            other.advance(60).result(30)

    thread = threading.Thread(target=run, args=(peer(),))
    thread.start()
    other, ended = running.result()
    try:
        with asyncio.Runner(loop_factory=ElasticEventLoop) as runner:
            runner.run(meet(other))
            other.advance(60).result(30)
    finally:
        other.call_soon_threadsafe(ended.set)
        thread.join()


def test_time_does_not_run_backwards_and_a_closed_loop_completes_what_waits():
    loop = ElasticEventLoop()
    for seconds in (-1, float("nan")):
        with pytest.raises(ValueError, match="backwards"):
            loop.advance(seconds)
    future = loop.advance(10)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    future.result(0)


def test_time_that_is_not_advanced_is_real():
    async def main():
        loop = asyncio.get_running_loop()
        return loop.time()

    before = time.monotonic()
    assert before <= run(main()) <= time.monotonic()


async def test_waiting_for_the_client_takes_real_time_at_any_server_time(connect, reply):
    async def scenario(session):
        await session.send_calls(call)
        await session.wait_for_answers(within_seconds=30)

    call = FunctionCall("f", id="c1")
    async with LiveSimulator(scenario) as simulator, connect(simulator, "f") as session:
        await anext(session.receive())
        await asyncio.wrap_future(simulator.advance(3600))
        await reply(session, types.FunctionCall(id="c1", name="f"))
        assert await simulator.finished() == Outcome(connection=1, status="played")


def test_an_hour_with_a_go_away_every_ten_minutes_passes_in_a_moment(connect):
    steps = [TurnComplete(), Pause(590), GoAway(10, close=True), WaitForClose()]
    scenario = Scenario(connections=[steps] * 6)

    async def client(simulator):
        """Leaves five seconds after each goAway, and comes back with its last handle."""
        loop, handle, days = asyncio.get_running_loop(), None, []
        for _ in range(6):
            config = {
                "session_resumption": types.SessionResumptionConfig(handle=handle),
                "context_window_compression": {"sliding_window": {}},
            }
            async with connect(simulator, **config) as session:
                away = None
                while away is None:
                    async for message in session.receive():
                        if update := message.session_resumption_update:
                            handle = update.new_handle
                            simulator.advance(590)
                        away = away or message.go_away
                        if away:
                            break
                days.append(away.time_left)
                await asyncio.wrap_future(simulator.advance(5))
                loop.advance(5)
                await asyncio.sleep(5)
        return days

    async def main():
        async with LiveSimulator(scenario, generation="2.5") as simulator:
            assert await client(simulator) == ["10s"] * 6
            assert (await simulator.finished()).ok
            return simulator

    simulator = run(main())
    assert [each.resumed_from for each in simulator.connections] == [None, 1, 2, 3, 4, 5]
    assert {each.session for each in simulator.connections} == {1}
    assert simulator.violations == ()


@pytest.mark.slow
async def test_a_long_speech_is_spoken_chunk_by_chunk_to_a_slow_listener(connect):
    async def scenario(session):
        await session.say("a story", audio_seconds=300, paced=True)
        await session.turn_complete()

    async def advance(simulator):
        while True:  # what is lent while a listener takes its time is gone
            await asyncio.wrap_future(simulator.advance(300))

    async with LiveSimulator(scenario) as simulator, connect(simulator) as session:
        first = await anext(session.receive())
        advancing = asyncio.create_task(advance(simulator))
        heard = [message.data async for message in session.receive() if message.data]
        assert (await simulator.finished()).ok
        advancing.cancel()
    assert first.server_content.output_transcription.text == "a"
    assert len(heard) == 3000
