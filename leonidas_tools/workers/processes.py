"""Worker processes for `cpu_bound` tools: each runs one call at a time and can be killed.

A process starts with its own entry point, not with the main script, unless that script defines a
tool. Requests are pickled here. Responses are JSON, so this process never unpickles data that a
tool has created.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import builtins
import contextlib
import functools
import json
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import weakref
from collections import deque
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from leonidas_tools.calls.call import Media, ToolResult
from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.files.modules import modules_in_folders
from leonidas_tools.results.texts import from_json, say
from leonidas_tools.workers.jobs import in_own_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

T = TypeVar("T")


# The path is set before any import, because `-c` puts the working directory first.
def entry(module: str, function: str) -> str:
    """Return the source of a program that sets `sys.path` to its arguments and calls a function."""
    return f"import sys; sys.path[:] = sys.argv[1:]; from {module} import {function}; {function}()"


_ENTRY = entry("leonidas_tools.workers.worker_process", "serve")
_START_SECONDS = 60.0
_POLL_SECONDS = 0.25
_SPARE_BYTES = 4 * 1024 * 1024
HEADER = struct.Struct(">I")

leased: ContextVar[Lease] = ContextVar("leonidas_tools_lease")
"""The process reserved for the attempt in this task."""


class ProcessDiedError(Exception):
    """Raised when a worker process ends during a call, or violates the protocol."""


class _NoAnswerError(ProcessDiedError):
    """Raised when a process ends without an answer to a request, so the call has not begun."""


# --- finding a function in another process ---------------------------------------------------


class Target(NamedTuple):
    """The way another process finds a function: a pickle, its name, or the name of its tool."""

    pickled: bytes | None
    module: str
    name: str
    is_tool: bool
    beside: tuple[tuple[str, str], ...]  # the toolboxes next to the settings, with their folders


def why_not_portable(function: Callable[..., Any]) -> str | None:
    """Return why another process cannot find a function, and the remedy; `None` if it may."""
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    name, module = named.__qualname__, getattr(named, "__module__", None)
    if "<lambda>" in name or "<locals>" in name:
        return say("not_portable_nested", name=name)
    return _main_problem() if module == "__main__" else None


def _main_problem() -> str | None:
    """Return why another process cannot import the main script; `None` if it can."""
    main = main_script()
    if main is None:
        return say("not_portable_notebook")
    kind, name, _ = main
    if kind == "module" or _has_guard(name):
        return None
    return say("not_portable_script", script=Path(name).name)


def main_script() -> tuple[str, str, list[str]] | None:
    """Return how another process imports the main script; `None` if it cannot."""
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return "module", name, sys.argv
    path = getattr(main, "__file__", None)
    if path is None or not os.path.isfile(path):  # noqa: PTH113 - a name such as `<stdin>` too
        return None
    return "path", os.path.abspath(path), sys.argv  # noqa: PTH100 - links stay as they are


def _has_guard(path: str) -> bool:
    try:
        script = ast.parse(Path(path).read_bytes())
    except (OSError, ValueError, SyntaxError):
        return False
    return any(
        isinstance(node, ast.Name) and node.id == "__name__"
        for statement in script.body
        if isinstance(statement, ast.If)
        for node in ast.walk(statement.test)
    )


def target_of(function: Callable[..., Any]) -> Target:
    """Return how another process finds a function.

    Raises:
        ToolError: No other process can find it.
    """
    problem = why_not_portable(function)
    if problem is None:
        module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
        found: Any = sys.modules.get(module or "")
        for step in name.split("."):
            found = getattr(found, step, None)
        if module is not None and (found is function or _is_tool_of(found, function)):
            return Target(None, module, name, found is not function, modules_in_folders())
        try:
            return Target(pickle.dumps(function), "", name, False, modules_in_folders())
        except Exception as error:  # noqa: BLE001 - types of the tool may do anything
            problem = say("not_portable_type", name=name, type=type(error).__name__)
    raise ToolError(say("not_portable", problem=problem), reason_code="not_portable")


def _is_tool_of(found: Any, function: Callable[..., Any]) -> bool:
    """Return whether `found`, which has the function's name, is the tool that decorates it."""
    return getattr(found, "function", None) is function


# --- one process -----------------------------------------------------------------------------


class WorkerProcess:
    """One worker process, started on first use; its blocking steps run in threads."""

    def __init__(self) -> None:
        self.is_spent = False
        """True once `kill` was called."""
        self._process: subprocess.Popen[bytes] | None = None
        self._state_lock = threading.Lock()
        self._step_lock = threading.Lock()
        self._loaded: set[Target] = set()
        self._number = 0

    @property
    def is_over(self) -> bool:
        """Return whether `kill` was called or the process has ended."""
        return self.is_spent or (self._process is not None and _has_ended(self._process))

    def has_loaded(self, target: Target) -> bool:
        """Return whether the process has loaded the function."""
        return target in self._loaded

    async def load(self, target: Target) -> None:
        """Start the process if needed, and load the function into it."""
        if not self.has_loaded(target):
            await self._in_thread(self._load, target)

    async def call(self, target: Target, *what: Any) -> ToolResult:
        """Call a loaded function; kill the process on cancellation."""
        return await self._in_thread(self._call, target, *what)

    def prepare(self, targets: Iterable[Target]) -> None:
        """Start the process and load functions in the background; a later call reports errors."""

        def run() -> None:
            for target in targets:
                with contextlib.suppress(Exception):
                    self._run_step(self._load, target)

        threading.Thread(target=run, name="leonidas-process", daemon=True).start()

    def kill(self) -> None:
        """Kill the process and its children without waiting for their end."""
        with self._state_lock:
            self.is_spent = True
            process = self._process
        if process is not None:
            signal_end(process)

    def dispose(self) -> None:
        """Kill the process, wait for its end, and close the pipes."""
        self.kill()
        with self._step_lock:
            if self._process is not None:
                _end(self._process)

    async def _in_thread(self, step: Callable[..., T], *args: Any) -> T:
        try:
            return await in_own_thread(self._run_step, step, *args)
        except asyncio.CancelledError:
            self.kill()
            raise

    def _run_step(self, step: Callable[..., T], *args: Any) -> T:
        try:
            return step(*args)
        except ProcessDiedError:
            self.kill()
            raise
        finally:
            if self.is_spent:
                self.dispose()

    def _load(self, target: Target) -> None:
        with self._step_lock:
            if self._process is None:
                self._start()
            if target in self._loaded:
                return
            in_main = target.module == "__main__" or b"__main__" in (target.pickled or b"")
            main = main_script() if in_main else None
            answer = self._request("load", tuple(target), main)
            if answer != ["loaded"]:
                why = " at ".join(str(said) for said in answer[1:] if said)
                raise ToolError(
                    say("not_portable", problem=say("not_portable_import", error=why)),
                    reason_code="not_portable",
                )
            self._loaded.add(target)

    def _start(self) -> None:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, with our own entry point
            [sys.executable, "-c", _ENTRY, *map(str, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=os.name == "posix",  # so that Ctrl-C signals only this process
        )
        weakref.finalize(self, _end, process)  # also when the program ends
        with self._state_lock:
            self._process = process
            is_spent = self.is_spent
        if is_spent:
            signal_end(process)
        self._receive(_SPARE_BYTES)

    def _call(
        self, target: Target, args: Any, kwargs: Any, tool: str, max_bytes: int
    ) -> ToolResult:
        try:
            pickled = pickle.dumps((args, kwargs))
        except Exception as error:  # noqa: BLE001 - types of the tool may do anything
            raise unsendable(type(error).__name__) from None
        with self._step_lock:
            try:
                begun = self._request("call", tuple(target), pickled, tool, max_bytes)
            except _NoAnswerError:
                raise RetryableError(
                    say("worker_died_early"),
                    status="unavailable",
                    reason_code="worker_died",
                ) from None
            if begun[:1] == ["refused"]:
                raise unsendable(str(begun[1:]))
            ended = self._receive(max_bytes * 2 + _SPARE_BYTES)
        try:
            kind, what, is_unchanged = ended
            if is_unchanged is not True:
                self.kill()
            if kind == "returned":
                return result_of(what)
            raised = error_of(what)
        except (AttributeError, KeyError, TypeError, ValueError) as odd:
            raise ProcessDiedError from odd
        raise raised

    def _request(self, kind: str, *what: Any) -> list[Any]:
        """Send a request and return the next answer."""
        self._number += 1
        body = pickle.dumps((kind, self._number, *what))
        assert self._process is not None
        assert self._process.stdin is not None
        unsent = memoryview(HEADER.pack(len(body)) + body)
        try:
            while unsent:
                unsent = unsent[self._process.stdin.write(unsent) or 0 :]
        except (OSError, ValueError):
            raise _NoAnswerError from None
        return self._receive(_SPARE_BYTES)

    def _receive(self, most_bytes: int) -> list[Any]:
        """Return the next answer without its number."""
        (length,) = HEADER.unpack(self._read(HEADER.size))
        if length > most_bytes:
            raise ProcessDiedError
        try:
            data = json.loads(self._read(length))
        except (ValueError, RecursionError, _NoAnswerError):
            raise ProcessDiedError from None
        if not isinstance(data, list) or data[-1:] != [self._number]:
            raise ProcessDiedError
        return data[:-1]

    def _read(self, size: int) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        read = bytearray()
        while len(read) < size:
            piece = b""
            if self._wait_readable(pipe):
                piece = os.read(pipe, min(size - len(read), 1 << 20))
            if not piece:
                raise ProcessDiedError if read else _NoAnswerError
            read += piece
        return bytes(read)

    def _wait_readable(self, pipe: int) -> bool:
        """Wait for data or the end of the process, whose children may keep the pipe open."""
        if not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        while not poll.poll(_POLL_SECONDS * 1000):
            if self.is_over:
                return bool(poll.poll(0))
        return True


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has ended, without reaping it: its id names the group to kill."""
    if process.returncode is not None or os.name != "posix":
        return process.poll() is not None
    try:
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, process.pid, flags) is not None
    except ChildProcessError:
        return True


def signal_end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its process group, which contains its children."""
    if process.returncode is not None:
        return
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()


def _end(process: subprocess.Popen[bytes]) -> None:
    signal_end(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def unsendable(kind: str) -> ToolError:
    """Return the error for arguments that cannot be pickled."""
    return ToolError(
        say("unsendable_arguments", type=kind),
        status="invalid_argument",
        reason_code="unsendable_arguments",
    )


def result_of(fields: dict[str, Any]) -> ToolResult:
    """Build a result from its JSON fields; the attempt checks their types."""
    media = [
        Media(mime_type=str(kind), data=base64.b64decode(data)) for kind, data in fields["media"]
    ]
    said = {name: from_json(fields[name]) for name in ("message", "retry_hint")}
    return ToolResult(**{**fields, **said, "media": tuple(media)})


def error_of(failure: dict[str, Any], *, place: str = "in a worker process") -> BaseException:
    """Rebuild the exception of a tool from its name and its builtin base classes."""
    says = failure.get("says")
    if says is not None:
        kind = RetryableError if failure.get("safe") is True else ToolError
        return kind(
            from_json(says["message"]) or "",
            status=str(says["status"]),
            retryable=says["retryable"] is True,
            retry_hint=from_json(says["retry_hint"]),
            reason_code=says["reason_code"],
            valid_options=says["valid_options"],
        )
    name = failure["kind"]
    name = name if isinstance(name, str) and name.isidentifier() else "Exception"
    shown = {"raised_at": f"{failure.get('place', '')}, {place}"}
    base = _base([getattr(builtins, known, None) for known in failure["bases"]])
    kind_there: type[BaseException] = type(name, (base,), shown)
    return kind_there()


def _base(kinds: list[Any]) -> type[BaseException]:
    """Return the first of these types that a coroutine can raise and that needs no arguments."""
    for kind in kinds:
        is_kind = isinstance(kind, type) and issubclass(kind, BaseException)
        if not is_kind or kind in (StopIteration, StopAsyncIteration, GeneratorExit):
            continue
        with contextlib.suppress(TypeError):
            kind()
            return cast("type[BaseException]", kind)
    return Exception


@dataclass(frozen=True, slots=True)
class Lease:
    """A process reserved for one attempt, and the function that it has loaded."""

    process: WorkerProcess
    target: Target

    async def call(self, args: Any, kwargs: Any, *, tool: str, max_bytes: int) -> ToolResult:
        """Call the function; kill the process on cancellation.

        `max_bytes` is the size limit of the result's JSON in bytes.
        """
        return await self.process.call(self.target, args, kwargs, tool, max_bytes)


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
        self._lent = 0
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
            process.prepare(targets)

    @asynccontextmanager
    async def lease(self, target: Target) -> AsyncIterator[None]:
        """Reserve a process that has loaded the function, and set `leased` to it."""
        if _ENTRY in sys.orig_argv:
            raise ToolError(
                say("inside_worker"),
                reason_code="inside_worker",
            )
        await self._enter()
        process = None
        try:
            process = await self._ready(target)
            before = leased.set(Lease(process, target))
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
        if ending:
            await in_own_thread(_dispose_all, ending)

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
            async with asyncio.timeout(_START_SECONDS):
                await process.load(target)
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
        threading.Thread(target=process.dispose, name="leonidas-process", daemon=True).start()

    async def _enter(self) -> None:
        """Wait for a free slot, first come, first served."""
        if self._lent < (self.most or os.cpu_count() or 1):
            self._lent += 1
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
        self._lent -= 1


def _dispose_all(processes: Iterable[WorkerProcess]) -> None:
    for process in processes:
        process.dispose()


def _not_started(why: str) -> ToolError:
    return ToolError(
        say("no_worker", problem=why),
        status="unavailable",
        retryable=True,
        reason_code="no_worker",
    )
