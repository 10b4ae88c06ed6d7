"""The program of a worker process: run one call of a `cpu_bound` tool after another."""

from __future__ import annotations

import builtins
import contextlib
import gc
import itertools
import os
import pickle
import queue
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from json import dumps
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leonidas_tools.redaction.failures import raised_at
from leonidas_tools.workers.outcome import failure_of, fields_of
from leonidas_tools.workers.portable import find_function

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_ITEMS = 100_000
"""Maximum items read from an iterator, which may never end; a result would be cut anyway."""


def main() -> None:
    """Serve requests until the parent closes its pipe or dies, which also ends a running call."""
    channel = Channel()
    process_id = os.getpid()
    functions: dict[Any, Callable[..., Any]] = {}
    while True:
        kind, target, *what = channel.receive()
        if kind == "load":
            answer = _load(functions, target)
        else:
            answer = _call(functions[target], channel, *what)
        if os.getpid() != process_id:  # a tool has forked, and this is the child
            os._exit(0)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # a tool may have closed or replaced it
                stream.flush()
        channel.send(answer)


class Channel:
    """The connection to the parent, whose number is the first argument of this program."""

    def __init__(self) -> None:
        number = int(sys.argv[1])
        os.set_inheritable(number, False)
        with contextlib.suppress(OSError):  # nothing prints where there is no stderr
            os.dup2(2, 1)
        self._connection = Connection(number)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def receive(self) -> Any:
        """Return the next request."""
        return self._requests.get()

    def send(self, message: list[Any]) -> None:
        """Send an answer as JSON."""
        self._connection.send_bytes(dumps(message, separators=(",", ":")).encode())

    def _read(self) -> None:
        """Read in a thread, to detect the death of the parent while a tool runs."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._requests.put(self._connection.recv())
        os.killpg(0, signal.SIGKILL)  # with the processes that the tool has started


def _load(functions: dict[Any, Callable[..., Any]], target: Any) -> list[Any]:
    try:
        functions[target] = find_function(*target)
    except BaseException as error:  # noqa: BLE001 - the edge: importing runs the tool's own module
        return ["unloadable", type(error).__name__, raised_at(error)]
    return ["loaded"]


def _call(
    function: Callable[..., Any], channel: Channel, pickled: bytes, tool: str, max_bytes: int
) -> list[Any]:
    """Report the start of the call to the parent, and call the function."""
    try:
        args, kwargs = pickle.loads(pickled)  # noqa: S301 - from the parent
    except BaseException as error:  # noqa: BLE001 - the edge: types of the tool may do anything
        return ["refused", type(error).__name__]
    before = _state()
    channel.send(["begun"])
    try:
        value = function(*args, **kwargs)
        if isinstance(value, Iterator):  # read here, so that its error fails the call
            value = list(itertools.islice(value, _MAX_ITEMS))
        fields = fields_of(value, max_bytes, tool)
    except BaseException as error:  # noqa: BLE001 - the edge: a tool may raise anything
        return ["raised", failure_of(error, tool), _is_unchanged(before)]
    return ["returned", fields, _is_unchanged(before)]


def _is_unchanged(before: Any) -> bool:
    """Return whether the process is unchanged; a changed one runs no other call."""
    try:
        return bool(_state() == before)
    except Exception:  # noqa: BLE001 - in doubt the process counts as changed
        return False


def _state() -> Any:
    """Return the process state that a call could change and that a later call relies on."""
    return (
        (sys.getrecursionlimit(), sys.gettrace(), sys.getprofile(), sys.excepthook),
        (sys.stdout, sys.stderr, list(sys.path), gc.isenabled(), Path.cwd()),
        dict(os.environ),
        dict(vars(builtins)),
        [signal.getsignal(number) for number in signal.valid_signals()],
        [signal.getitimer(kind) for kind in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL)],
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        [resource.getrlimit(kind) for kind in _LIMITS],
        set(threading.enumerate()),
    )


_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
