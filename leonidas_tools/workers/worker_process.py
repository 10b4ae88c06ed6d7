"""The program of a worker process: run one call of a `cpu_bound` tool after another.

The parent sends pickles that it created itself. The worker responds in JSON, so the parent never
unpickles a result or an exception of a tool. The parent's script does not run again in the worker,
unless it defines a tool.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import gc
import importlib
import importlib.util
import itertools
import os
import pickle
import queue
import runpy
import signal
import struct
import sys
import threading
from collections.abc import Iterator
from functools import partial
from json import dumps
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.call import ToolResult
from leonidas_tools.calls.sendable import sendable
from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.files.modules import find_in_folders
from leonidas_tools.redaction.failures import raised_at
from leonidas_tools.results.texts import to_json

if TYPE_CHECKING:
    from collections.abc import Callable

_HEADER = struct.Struct(">I")
_MAX_ITEMS = 100_000
"""Maximum items read from an iterator, which may never end; a result would be cut anyway."""


def serve() -> None:
    """Serve requests until the parent closes its pipe or dies, which also ends a running call."""
    channel = Channel()
    process_id = os.getpid()
    functions: dict[Any, Callable[..., Any]] = {}
    channel.send([0])
    while True:
        kind, number, target, *what = channel.receive()
        if kind == "load":
            answer = _load(functions, target, *what)
        else:
            begin = partial(channel.send, ["begun", number])
            answer = _call(functions[target], begin, *what)
        if os.getpid() != process_id:  # a tool has forked, and this is the child
            os._exit(0)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # a tool may have closed or replaced it
                stream.flush()
        channel.send([*answer, number])


class Channel:
    """The two pipes to the parent, separate from the standard streams, which tools use."""

    def __init__(self) -> None:
        self._inbox, self._outbox = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)  # the output of tools must not mix with the answers to the parent
        except OSError:
            os.dup2(nothing, 1)
        os.close(nothing)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def receive(self) -> Any:
        """Return the next request."""
        return self._requests.get()

    def send(self, message: Any) -> None:
        """Send an answer."""
        body = dumps(message, separators=(",", ":")).encode()
        unsent = memoryview(_HEADER.pack(len(body)) + body)
        while unsent:
            unsent = unsent[os.write(self._outbox, unsent) :]

    def _read(self) -> None:
        """Read in a thread, to detect the death of the parent while a tool runs."""
        with open(self._inbox, "rb") as inbox:  # noqa: PTH123 - a descriptor, not a path
            while header := inbox.read(_HEADER.size):
                self._requests.put(pickle.loads(inbox.read(*_HEADER.unpack(header))))  # noqa: S301 - from the parent
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with the processes that the tool has started
        os._exit(0)


# --- loading ---------------------------------------------------------------------------------


def _load(functions: dict[Any, Any], target: Any, main: Any) -> list[Any]:
    try:
        if main is not None:
            load_main(*main)
        functions[target] = find_function(*target)
    except BaseException as error:  # noqa: BLE001 - the edge: importing runs the tool's own module
        return ["unloadable", type(error).__name__, raised_at(error)]
    return ["loaded"]


def load_main(kind: str, name: str, arguments: list[str]) -> None:
    """Import the script of the parent under another name, as `multiprocessing` does."""
    if "__mp_main__" in sys.modules:
        return
    sys.argv[:] = arguments
    module = ModuleType("__mp_main__")
    run = runpy.run_module if kind == "module" else runpy.run_path
    module.__dict__.update(run(name, run_name="__mp_main__"))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


def find_function(
    pickled: bytes | None, module: str, name: str, is_tool: bool, folders: Any = ()
) -> Any:
    """Return the function of a target."""
    find_in_folders(map(tuple, folders))
    if pickled is not None:
        return pickle.loads(pickled)  # noqa: S301 - from the parent
    found: Any = importlib.import_module(module)
    for step in name.split("."):
        found = getattr(found, step)
    return found.function if is_tool else found


# --- calling ---------------------------------------------------------------------------------


def _call(
    function: Callable[..., Any],
    begin: Callable[[], None],
    pickled: bytes,
    tool: str,
    max_bytes: int,
) -> list[Any]:
    """Call `begin`, which reports the start of the call to the parent, and then the function."""
    try:
        args, kwargs = pickle.loads(pickled)  # noqa: S301 - from the parent
    except BaseException as error:  # noqa: BLE001 - the edge: types of the tool may do anything
        return ["refused", type(error).__name__]
    before = _state()
    begin()
    try:
        value = function(*args, **kwargs)
        if isinstance(value, Iterator):  # read here, so that its error fails the call
            value = list(itertools.islice(value, _MAX_ITEMS))
        fields = fields_of(value, max_bytes, tool)
    except BaseException as error:  # noqa: BLE001 - the edge: a tool may raise anything
        return ["raised", failure_of(error, tool), _is_unchanged(before)]
    return ["returned", fields, _is_unchanged(before)]


def fields_of(value: Any, max_bytes: int, tool: str) -> dict[str, Any]:
    """Return the fields of a tool's result as JSON, with the value cut to `max_bytes`."""
    if isinstance(value, Exception):
        raise value
    shown = sendable(value, max_bytes, tool=tool, reports_cut=False)  # its reader cuts it again
    return {
        "status": shown.status.value,
        "result": shown.result,
        "message": to_json(shown.message),
        "retryable": shown.retryable,
        "retry_hint": to_json(shown.retry_hint),
        "reason_code": shown.reason_code,
        "valid_options": shown.valid_options,
        "speech": shown.speech,
        "media": [[m.mime_type, base64.b64encode(m.data).decode()] for m in shown.media],
    }


def failure_of(error: BaseException, tool: str) -> dict[str, Any]:
    """Return the type and origin of an error; its text only if it is meant for the model."""
    try:
        return _failure(error, tool)
    except BaseException:  # noqa: BLE001 - reading an exception of a tool may raise too
        return {"kind": "Exception", "bases": []}


def _failure(error: BaseException, tool: str) -> dict[str, Any]:
    known = vars(builtins)
    failure: dict[str, Any] = {
        "kind": type(error).__name__,
        "bases": [k.__name__ for k in type(error).__mro__ if known.get(k.__name__) is k],
        "place": raised_at(error),
    }
    if isinstance(error, ToolError):
        failure["says"] = fields_of(ToolResult.from_error(error), 0, tool)
        failure["safe"] = isinstance(error, RetryableError)
    return failure


# --- whether a call has changed the process ----------------------------------------------------


def _is_unchanged(before: Any) -> bool:
    """Return whether the process is unchanged; a changed one runs no other call."""
    try:
        return bool(_state() == before)
    except Exception:  # noqa: BLE001 - in doubt the process counts as changed
        return False


def _state() -> Any:
    """Return the process state that a call could change and that a later call relies on."""
    return (
        sys.getrecursionlimit(),
        sys.gettrace(),
        sys.getprofile(),
        sys.excepthook,
        sys.stdout,
        sys.stderr,
        list(sys.path),
        gc.isenabled(),
        Path.cwd(),
        dict(os.environ),
        dict(vars(builtins)),
        _signals(),
        _limits(),
        set(threading.enumerate()),
    )


def _signals() -> list[Any]:
    timers: list[Any] = [signal.getsignal(number) for number in signal.valid_signals()]
    if hasattr(signal, "getitimer"):
        timers += [signal.getitimer(kind) for kind in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL)]
        timers.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    return timers


def _limits() -> list[Any]:
    try:
        import resource
    except ImportError:
        return []
    kinds = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return [resource.getrlimit(getattr(resource, name)) for name in kinds]
