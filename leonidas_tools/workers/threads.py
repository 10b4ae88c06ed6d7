"""Threads and processes for tools that are not coroutines.

All users of `asyncio.to_thread` share one small pool, and the interpreter waits for its threads at
exit. A tool that hangs would block other tools, and the exit of the program. The threads here are
daemons, and a thread that is stuck in an abandoned call is replaced.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from leonidas_tools.workers.jobs import CarriedError, Job
from leonidas_tools.workers.processes import Processes

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_IDLE_SECONDS = 2.0
_SPARE = 4


class Workers:
    """A bounded pool of threads, and one of processes.

    By default, the number of processes is the number of cores.
    """

    def __init__(self, *, threads: int = 40, processes: int | None = None) -> None:
        self.threads = threads
        self.processes = Processes(processes)
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        self._alive = 0
        self._abandoned = 0
        self._closed = False

    @property
    def abandoned(self) -> int:
        """Return how many threads are stuck in abandoned calls."""
        return self._abandoned

    async def in_thread(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Run a function in a thread, with the caller's context variables.

        Cancellation stops the wait, but not the thread. An exception of the function, even
        `SystemExit`, is raised here.
        """
        loop = asyncio.get_running_loop()
        run = functools.partial(contextvars.copy_context().run, function, *args, **kwargs)
        job = Job(run, loop)
        if self._submit(job):
            self._start_thread()
        try:
            return await job.future  # type: ignore[no-any-return]  # what `function` returns
        except asyncio.CancelledError:
            self._give_up(job)
            raise
        except CarriedError as carried:
            raise carried.error from None

    async def close(self) -> None:
        """Stop idle threads and the processes; a later call starts new ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        await self.processes.close()

    def _submit(self, job: Job) -> bool:
        """Queue a job; return whether to start a thread for it."""
        with self._changed:
            self._closed = False
            self._jobs.append(job)
            self._changed.notify()
            return self._one_more()

    def _give_up(self, job: Job) -> None:
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
            elif not job.done:
                job.abandoned = True
                self._abandoned += 1
            replace = self._one_more()  # for the queued jobs, which the stuck thread cannot run
        if replace:
            self._start_thread()

    def _one_more(self) -> bool:
        """Return whether to start another thread; if so, count it as alive."""
        room = self.threads + min(self._abandoned, self.threads * _SPARE)
        if self._idle >= len(self._jobs) or self._alive >= room:
            return False
        self._alive += 1
        return True

    def _start_thread(self) -> None:
        threading.Thread(target=self._work, name="leonidas-tool", daemon=True).start()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run()
            with self._changed:
                job.done = True
                if job.abandoned:
                    self._abandoned -= 1

    def _next(self) -> Job | None:
        with self._changed:
            self._idle += 1
            waited = True
            while not self._jobs and waited and not self._closed:
                waited = self._changed.wait(_IDLE_SECONDS)
            self._idle -= 1
            if self._jobs:
                return self._jobs.popleft()
            self._alive -= 1  # under the same lock, or a new job would rely on this thread
            return None
