"""A model that says what the test says, a stage behind it, and a listener."""

from __future__ import annotations

import asyncio
import contextlib

from genai_processors import processor

from tests.live.speech.sounds import sound_of
from tests.tasks import other_tasks


class Listening:
    """What comes out of a stage while a test puts parts in."""

    def __init__(self, stage):
        self.heard = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self._stage = stage
        self._input = asyncio.Queue()
        self._changed = asyncio.Condition()
        self._task = None

    async def __aenter__(self):
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, kind, error, traceback):
        if kind is not None:
            self._task.cancel()
        else:
            self.end()
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.timeout(15):
                await asyncio.wait([self._task])
        if kind is None:
            self._task.result()
            assert other_tasks() == set()

    def say(self, *parts):
        for part in parts:
            self._input.put_nowait(part)

    def end(self):
        self._input.put_nowait(None)

    async def until(self, met):
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: met(self.heard))

    async def until_heard(self, part):
        await self.until(lambda heard: part in heard)

    async def until_samples(self, count):
        await self.until(lambda heard: len(sound_of(heard)) >= count)

    async def _source(self):
        while (part := await self._input.get()) is not None:
            yield part

    async def _run(self):
        async with processor.context():
            async for part in self._stage(self._source()):
                self.heard.append(part)
                async with self._changed:
                    self._changed.notify_all()
                await self.may_go_on.wait()


async def all_heard(stage, parts):
    """What comes out of a stage that is given parts at once."""

    async def source():
        for part in parts:
            yield part

    async with asyncio.timeout(30):
        return [part async for part in stage(source())]
