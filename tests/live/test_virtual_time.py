"""The loop of sessions in virtual time: it waits for nothing but threads."""

import asyncio
import functools
import threading

import pytest

from tests.live.generated.virtual import StuckError, VirtualEventLoop


def virtually(main):
    with asyncio.Runner(loop_factory=VirtualEventLoop) as runner:
        return runner.run(main)


def test_an_hour_passes_at_once_and_in_order():
    async def main():
        woken = []

        async def wake(after_seconds):
            await asyncio.sleep(after_seconds)
            woken.append((after_seconds, asyncio.get_running_loop().time()))

        await asyncio.gather(wake(3600), wake(60), wake(0.5))
        return woken

    assert virtually(main()) == [(0.5, 0.5), (60, 60), (3600, 3600)]


def test_no_time_passes_while_a_thread_is_busy():
    async def main():
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        loop.wait_for(lambda: not answer.done())
        timer = loop.call_later(1, answer.set_exception, TimeoutError())
        answers = functools.partial(loop.call_soon_threadsafe, answer.set_result, "there")
        threading.Thread(target=answers).start()
        assert await answer == "there"
        timer.cancel()
        return loop.time()

    assert virtually(main()) == 0


def test_what_can_never_end_is_an_error():
    async def main():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(StuckError, match="nothing will happen any more"):
        virtually(main())
