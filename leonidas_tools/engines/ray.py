"""Run tools as tasks of a Ray cluster, through a driver process that is connected to it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import pickle
import queue
import subprocess
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.results.texts import say
from leonidas_tools.workers.jobs import in_own_thread
from leonidas_tools.workers.outcome import error_of, result_of
from leonidas_tools.workers.portable import unsendable
from leonidas_tools.workers.processes import kill_group, start_program

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from leonidas_tools.calls.call import ToolResult
    from leonidas_tools.engines.base import EngineCall, RayConnection

_PROGRAM = "leonidas_tools.engines.ray_driver"
_AGAIN_SECONDS = 5.0
"""Seconds to wait before the next connection attempt to an unavailable cluster."""
_MAX_READ = 256 * 1024 * 1024


class TaskLostError(Exception):
    """Raised when a task ends without an outcome: its process, machine or driver has died."""


class RayEngine:
    """Runs each call as a task of a Ray cluster; the first call connects."""

    def __init__(self, place: RayConnection) -> None:
        self.place = place
        self._driver: _DriverProcess | None = None
        self._away_until = 0.0
        self._why = ""

    def prepare(self) -> None:
        """Connect in the background."""
        with contextlib.suppress(ToolError):  # the first call raises it
            self._start_driver()

    async def run(self, work: EngineCall) -> ToolResult:
        """Run a call in the cluster; kill its process there on cancellation.

        Raises:
            BaseException: The tool raised this exception.
            ToolError: The call has not begun, or its outcome is unknown.
        """
        try:
            return await self._run(work)
        except TaskLostError:
            raise _lost_error(work) from None

    async def outcome(self, work: EngineCall) -> ToolResult:
        """Raise an error: a task ends with its submitting process, so its outcome is unknown."""
        raise _lost_error(work)

    async def _run(self, work: EngineCall) -> ToolResult:
        code, tool = work.code, work.call.name
        target = code.target()
        args, kwargs = code.bind(work.call)
        try:
            pickled = pickle.dumps((args, kwargs))
        except Exception as error:  # noqa: BLE001 - types of the tool may do anything
            raise unsendable(type(error).__name__) from None
        task = (
            *(tuple(target), pickled, tool, work.limits.max_bytes * 2, code.context),
            *(dict(work.parameters), code.collect),
        )
        tell, needs = work.progress, tuple(sorted(code.resources.items()))
        driver = await self._connect()
        async with driver.call(task, tell is not None, needs) as answers:
            while True:
                kind, *what = await answers.get()
                if kind == "progress" and tell is not None:
                    tell(what[0])
                elif kind == "returned":
                    return result_of(what[0])
                elif kind == "raised":
                    raise error_of(what[0], place="on Ray")
                elif kind == "unloadable":
                    why = " at ".join(str(each) for each in what if each)
                    problem = say("not_portable_import", error=why)
                    message = say("not_portable", problem=problem)
                    raise ToolError(message, reason_code="not_portable")
                elif kind in ("lost", "over", "ended"):
                    raise TaskLostError(str(what[0]) if what else "the driver has ended")

    async def aclose(self) -> None:
        """Kill the driver, which ends its tasks; a later call starts a new driver."""
        driver, self._driver = self._driver, None
        if driver is not None:
            await in_own_thread(driver.end)

    async def _connect(self) -> _DriverProcess:
        driver = self._start_driver()
        why = await driver.wait_for_connection(self.place.connect_seconds)
        if why is None:
            return driver
        if why != _SLOW:  # a slow connection may still succeed
            self._away_until = time.monotonic() + _AGAIN_SECONDS
            self._why = why
            if self._driver is driver:
                self._driver = None
        raise _away(why)

    def _start_driver(self) -> _DriverProcess:
        if self._driver is None or self._driver.has_ended:
            address = self.place.address or os.environ.get("RAY_ADDRESS")
            if not address:
                raise _away(say("ray_no_address"))
            if time.monotonic() < self._away_until:
                raise _away(self._why)
            self._driver = _DriverProcess(address)
        return self._driver


_SLOW = "it takes long to connect"


def _away(why: str) -> RetryableError:
    """Return the error of a call that has not begun, so a retry is safe."""
    return RetryableError(
        say("ray_away", problem=why), status="unavailable", reason_code="ray_away"
    )


def _lost_error(work: EngineCall) -> ToolError:
    """Return the error of a call whose task has ended without an outcome."""
    tool = work.call.name
    if work.limits.once:
        message = say("ray_lost_unknown", tool=tool)
        return ToolError(message, status="unknown_outcome", reason_code="ray_lost")
    message = say("ray_lost", tool=tool)
    return ToolError(message, status="unavailable", retryable=True, reason_code="ray_lost")


@dataclass(slots=True)
class _Call:
    """A call, and the queue of its answers on an event loop."""

    loop: asyncio.AbstractEventLoop
    answers: asyncio.Queue[list[Any]] = field(default_factory=asyncio.Queue)

    def put(self, answer: list[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self.answers.put_nowait, answer)


class _DriverProcess:
    """The driver process; one thread reads its answers, and one writes requests to it."""

    def __init__(self, address: str) -> None:
        self._process, self._connection = start_program(
            _PROGRAM,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
        )
        weakref.finalize(self, kill_group, self._process)
        self._numbers = itertools.count(1)
        self._calls = dict[int, _Call]()
        self._lock = threading.Lock()
        self._unsent = queue.SimpleQueue[Any]()
        self._known = threading.Event()
        self._why: str | None = None
        self.has_ended = False
        """Whether the process has ended, so it accepts no more calls."""
        reading = (weakref.ref(self), self._process, self._connection, self._unsent)
        for target, given in ((_read, reading), (_write, (self._connection, self._unsent))):
            threading.Thread(target=target, args=given, name="leonidas-ray", daemon=True).start()
        self._send(("connect", 0, address))

    async def wait_for_connection(self, seconds: float) -> str | None:
        """Return why the connection failed within `seconds`; `None` if it succeeded."""
        if not self._known.is_set() and not await in_own_thread(self._known.wait, seconds):
            return _SLOW
        return self._why

    @contextlib.asynccontextmanager
    async def call(self, *what: Any) -> Any:
        """Send a call, and yield the queue of its answers; cancel the call on cancellation."""
        number, call = next(self._numbers), _Call(asyncio.get_running_loop())
        with self._lock:
            if self.has_ended:
                raise TaskLostError("the driver has ended")
            self._calls[number] = call
        try:
            self._send(("call", number, *what))
            yield call.answers
        except asyncio.CancelledError:
            self._send(("cancel", number))
            raise
        finally:
            with self._lock:
                self._calls.pop(number, None)

    def _send(self, request: Any) -> None:
        self._unsent.put(request)

    def end(self) -> None:
        """Kill the process, and wait for its end."""
        kill_group(self._process)
        self._process.wait()

    def take(self, answer: list[Any]) -> None:
        """Pass an answer of the process to its call."""
        *what, number = answer
        if number == 0:
            self._why = None if what[0] == "connected" else str(what[1])
            self._known.set()
            return
        with self._lock:
            call = self._calls.get(number)
        if call is not None:
            call.put(what)

    def report_end(self) -> None:
        """Report the end of the process to all calls."""
        with self._lock:
            self.has_ended = True
            calls = list(self._calls.values())
        if not self._known.is_set():
            self._why = say("ray_driver_ended")
            self._known.set()
        for call in calls:
            call.put(["ended"])


def _write(pipe: Connection, requests: queue.SimpleQueue[Any]) -> None:
    """Write requests to a driver until `None`; a driver that is stuck blocks the pipe."""
    while (request := requests.get()) is not None:
        with contextlib.suppress(OSError, ValueError):  # the reader reports the end of the driver
            pipe.send(request)


def _read(
    driver: weakref.ref[_DriverProcess],
    process: subprocess.Popen[bytes],
    pipe: Connection,
    requests: queue.SimpleQueue[Any],
) -> None:
    """Read the answers of a driver until it ends or violates the protocol."""
    with contextlib.suppress(EOFError, OSError, RecursionError, ValueError):
        while True:
            answer = json.loads(pipe.recv_bytes(_MAX_READ))
            taking = driver()
            if taking is None:
                break
            taking.take(answer)
            del taking
    kill_group(process)  # after a violation, it would block on the pipe that nothing reads
    process.wait()
    requests.put(None)
    pipe.close()
    taking = driver()
    if taking is not None:
        taking.report_end()
