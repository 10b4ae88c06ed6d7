"""Worker processes for `cpu_bound` tools: each runs one call at a time and can be killed.

A process starts with its own entry point, so the main script does not run again in it, unless that
script defines a tool. Requests are pickles; answers are JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections import deque
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.results.texts import say
from leonidas_tools.workers.jobs import in_own_thread
from leonidas_tools.workers.outcome import error_of, result_of
from leonidas_tools.workers.portable import Target, target_of, unsendable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from leonidas_tools.calls.call import ToolResult

_START_SECONDS = 60.0
_SPARE_BYTES = 4 * 1024 * 1024
_PROGRAM = "leonidas_tools.workers.worker_process"

CallFunction: TypeAlias = "Callable[[Any, Any, str, int], Awaitable[ToolResult]]"
leased: ContextVar[CallFunction] = ContextVar("leonidas_tools_lease")
"""Calls the tool of the attempt in this task, in the process that is reserved for it."""


class ProcessDiedError(Exception):
    """Raised when a worker process ends during a call, or violates the protocol."""


class _NoAnswerError(ProcessDiedError):
    """Raised when a process ends without an answer to a request, so the call has not begun."""


def start_program(module: str, **options: Any) -> tuple[subprocess.Popen[bytes], Any]:
    """Start `main` of a module in another process, and return it with the connection to it."""
    ours, theirs = connection.Pipe()
    # The path is set before any import, because `-c` puts the working directory first.
    source = f"import sys; sys.path[:] = sys.argv[2:]; from {module} import main; main()"
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, with our own entry point
            [sys.executable, "-c", source, str(theirs.fileno()), *map(str, sys.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # a group to kill, which Ctrl-C does not signal
            **options,
        )
    return process, ours


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that has not been reaped, and its children."""
    if process.returncode is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


# --- one process -----------------------------------------------------------------------------


class WorkerProcess:
    """One worker process; it starts with the first function, and its steps block in threads."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False
        self._lock = threading.Lock()
        self._loaded: set[Target] = set()

    @property
    def is_over(self) -> bool:
        """Return whether `kill` was called or the process has ended."""
        if self._is_killed or self._process is None:
            return self._is_killed
        return self._end in connection.wait([self._end], 0)

    def has_loaded(self, target: Target) -> bool:
        """Return whether the process has loaded the function."""
        return target in self._loaded

    def load(self, *targets: Target) -> None:
        """Start the process if needed, and load functions into it."""
        with self._lock:
            if self._process is None:
                self._start()
            for target in targets:
                if target not in self._loaded:
                    self._load(target)

    async def call(
        self, target: Target, args: Any, kwargs: Any, tool: str, max_bytes: int
    ) -> ToolResult:
        """Call a loaded function, whose result takes `max_bytes`; kill it on cancellation."""
        try:
            return await in_own_thread(self._call, target, args, kwargs, tool, max_bytes)
        except (asyncio.CancelledError, ProcessDiedError):
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the process and its children without waiting for their end."""
        if not self._is_killed and self._process is not None:
            kill_group(self._process)
        self._is_killed = True

    def close(self) -> None:
        """Kill the process, and wait for its end."""
        self.kill()
        with self._lock:
            if self._process is not None:
                self._finalize()

    def _start(self) -> None:
        self._process, self._connection = start_program(_PROGRAM)
        self._end = os.pidfd_open(self._process.pid)
        # Also when the program ends.
        self._finalize = weakref.finalize(self, _end, self._process, self._connection, self._end)
        if self._is_killed:
            kill_group(self._process)

    def _load(self, target: Target) -> None:
        self._send("load", target)
        kind, *why = self._receive(_SPARE_BYTES)
        if kind != "loaded":
            problem = say("not_portable_import", error=" at ".join(filter(None, why)))
            raise ToolError(say("not_portable", problem=problem), reason_code="not_portable")
        self._loaded.add(target)

    def _call(self, target: Target, *what: Any) -> ToolResult:
        args, kwargs, tool, max_bytes = what
        try:
            pickled = pickle.dumps((args, kwargs))
        except Exception as error:  # noqa: BLE001 - types of the tool may do anything
            raise unsendable(type(error).__name__) from None
        with self._lock:
            try:
                self._send("call", target, pickled, tool, max_bytes)
                kind, *why = self._receive(_SPARE_BYTES)
            except _NoAnswerError:
                message = say("worker_died_early")
                raise RetryableError(
                    message, status="unavailable", reason_code="worker_died"
                ) from None
            if kind == "refused":
                raise unsendable(str(why))
            kind, fields, is_unchanged = self._receive(max_bytes * 2 + _SPARE_BYTES)
        if not is_unchanged:
            self.kill()
        if kind == "returned":
            return result_of(fields)
        raise error_of(fields)

    def _send(self, kind: str, target: Target, *what: Any) -> None:
        try:
            self._connection.send((kind, tuple(target), *what))
        except OSError:
            raise _NoAnswerError from None

    def _receive(self, max_bytes: int) -> list[Any]:
        """Return the next answer, unless the process ends, whose children may hold the pipe."""
        connection.wait([self._connection, self._end])
        if not self._connection.poll():
            raise _NoAnswerError
        try:
            return json.loads(self._connection.recv_bytes(max_bytes))  # type: ignore[no-any-return]
        except (EOFError, ConnectionResetError):  # it has ended before it read the request
            raise _NoAnswerError from None
        except (OSError, RecursionError, ValueError):
            raise ProcessDiedError from None


def _end(process: subprocess.Popen[bytes], pipe: connection.Connection, end: int) -> None:
    kill_group(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
    pipe.close()
    os.close(end)


# --- the pool --------------------------------------------------------------------------------


class Processes:
    """A pool of worker processes, each reserved for one attempt at a time.

    Args:
        most: Most attempts that have a process at once; by default the number of cores.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._reserved = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def prepare(self, functions: Iterable[Callable[..., Any]]) -> None:
        """Start one process in the background and load these functions into it."""
        if self._all:
            return
        targets = []
        for function in functions:
            with contextlib.suppress(ToolError):  # the first call reports it
                targets.append(target_of(function))
        if targets:
            process = self._new()
            self._idle.append(process)
            _in_background(process.load, *targets)

    @asynccontextmanager
    async def lease(self, target: Target) -> AsyncIterator[None]:
        """Reserve a process that has loaded the function, and set `leased` to its calls."""
        if any(f"from {_PROGRAM} import" in argument for argument in sys.orig_argv):
            raise ToolError(say("inside_worker"), reason_code="inside_worker")
        await self._enter()
        process = None
        try:
            process = await self._ready(target)
            before = leased.set(partial(process.call, target))
            try:
                yield
            finally:
                leased.reset(before)
        finally:
            self._leave(process)

    async def close(self) -> None:
        """Kill all processes; a later call starts new ones."""
        ending = tuple(self._all)
        self._all.clear()
        self._idle.clear()
        for process in ending:
            process.kill()
        for process in ending:
            await in_own_thread(process.close)

    async def _ready(self, target: Target) -> WorkerProcess:
        """Return a process that has loaded the target: an idle one, or a new one."""
        process = self._take_idle(target)
        if process is not None:
            with contextlib.suppress(ProcessDiedError, TimeoutError):
                return await self._load_into(process, target)
        try:
            return await self._load_into(self._new(), target)
        except ProcessDiedError:
            raise _not_started(say("no_worker_ended")) from None
        except TimeoutError:
            raise _not_started(say("no_worker_slow", seconds=f"{_START_SECONDS:g}")) from None
        except OSError as error:
            raise _not_started(type(error).__name__) from error

    async def _load_into(self, process: WorkerProcess, target: Target) -> WorkerProcess:
        try:
            if not process.has_loaded(target):
                async with asyncio.timeout(_START_SECONDS):
                    await in_own_thread(process.load, target)
        except BaseException:
            self._drop(process)
            raise
        return process

    def _take_idle(self, target: Target) -> WorkerProcess | None:
        """Take an idle process, preferably one that has the target; drop ended processes."""
        for process in [process for process in self._idle if process.is_over]:
            self._idle.remove(process)
            self._drop(process)
        if not self._idle:
            return None
        found = next((p for p in self._idle if p.has_loaded(target)), self._idle[-1])
        self._idle.remove(found)
        return found

    def _new(self) -> WorkerProcess:
        process = WorkerProcess()
        self._all.add(process)
        return process

    def _drop(self, process: WorkerProcess) -> None:
        process.kill()
        self._all.discard(process)
        _in_background(process.close)

    async def _enter(self) -> None:
        """Wait for a free slot, first come, first served."""
        if self._reserved < (self.most or os.cpu_count() or 1):
            self._reserved += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._leave(None)
            raise

    def _leave(self, process: WorkerProcess | None) -> None:
        if process is not None and process in self._all:
            if process.is_over:
                self._drop(process)
            else:
                self._idle.append(process)
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)  # hands the slot over
                return
        self._reserved -= 1


def _in_background(step: Callable[..., None], *args: Any) -> None:
    """Run a step of a process in a thread; a later call reports its errors."""

    def run() -> None:
        with contextlib.suppress(Exception):
            step(*args)

    threading.Thread(target=run, name="leonidas-process", daemon=True).start()


def _not_started(why: str) -> ToolError:
    return ToolError(
        say("no_worker", problem=why),
        status="unavailable",
        retryable=True,
        reason_code="no_worker",
    )
