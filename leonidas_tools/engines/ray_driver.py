"""The program that is connected to a Ray cluster, and the task that runs a tool there.

It is a process of its own, since a Ray driver ends its process when it has lost the cluster.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import inspect
import json
import logging
import pickle
import queue
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from leonidas_tools.redaction.failures import raised_at
from leonidas_tools.workers.worker_process import (
    Channel,
    failure_of,
    fields_of,
    found,
    load_main,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_LONGEST_PROGRESS_BYTES = 1 << 20


class RayTask(NamedTuple):
    """A call of a tool's function, as it is sent to the cluster."""

    target: Any
    pickled: bytes
    tool: str
    room: int  # for the JSON of the result
    context: str | None  # the parameter that takes a context
    parameters: Mapping[str, Any]  # what the context has of the settings
    collect: bool
    main: Any  # the main script, where the function is defined in it


class RemoteContext:
    """The `ToolContext` of a tool on another machine."""

    cancelled = False
    """A task that is cancelled is ended, and sees nothing of it."""

    def __init__(
        self, parameters: Mapping[str, Any], tell: Callable[[dict[str, Any]], None]
    ) -> None:
        self.parameters = parameters
        self._tell = tell

    def progress(
        self, message: str | None = None, fraction: float | None = None, **data: Any
    ) -> None:
        """Report how far the tool is."""
        said = {"message": message, "fraction": fraction}
        self._tell({**data, **{key: value for key, value in said.items() if value is not None}})

    def raise_if_cancelled(self) -> None:
        """Do nothing: a task that is cancelled is ended."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"A tool that runs on Ray has no ctx.{name}: there are progress and parameters. Run "
            f"it with runs_on='here' for the others"
        )


# --- in the cluster --------------------------------------------------------------------------


def run(work: RayTask) -> bytes:
    """Run a tool to its end, and return its outcome as JSON."""
    return _last(_messages(work))


def run_telling(work: RayTask) -> Iterator[bytes]:
    """Run a tool; yield its progress but for what is too long to show, and then its outcome."""
    said = queue.SimpleQueue[bytes | None]()

    def tell(data: dict[str, Any]) -> None:
        message = _json(["progress", data])
        if len(message) <= _LONGEST_PROGRESS_BYTES:
            said.put(message)

    def play() -> None:
        try:
            for message in _messages(work, tell):
                said.put(message)
        finally:
            said.put(None)

    threading.Thread(target=play, daemon=True).start()
    while (message := said.get()) is not None:
        yield message


def _messages(
    work: RayTask, tell: Callable[[dict[str, Any]], None] | None = None
) -> Iterator[bytes]:
    try:
        if work.main is not None:
            load_main(*work.main)
        function = found(*work.target)
        args, kwargs = pickle.loads(work.pickled)  # noqa: S301 - from the session
    except BaseException as error:  # noqa: BLE001 - the edge: importing runs the tool's own module
        yield _json(["unloadable", type(error).__name__, raised_at(error)])
        return
    if work.context is not None:
        kwargs[work.context] = RemoteContext(work.parameters, tell or (lambda _: None))
    try:
        value = function(*args, **kwargs)
        if inspect.isasyncgen(value):
            value = asyncio.run(_drained_async(value, work.collect, tell))
        elif inspect.isgenerator(value):
            value = _drained(value, work.collect, tell)
        elif inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        outcome = ["returned", fields_of(value, work.room, work.tool)]
    except BaseException as error:  # noqa: BLE001 - the edge: a tool may raise anything
        outcome = ["raised", failure_of(error, work.tool)]
    yield _json(outcome)


async def _awaited(value: Any) -> Any:
    return await value


def _drained(values: Any, collect: bool, tell: Callable[[dict[str, Any]], None] | None) -> Any:
    kept = list[Any]()
    for value in values:
        _keep(value, kept, collect, tell)
    return kept if collect else (kept[-1] if kept else None)


async def _drained_async(
    values: Any, collect: bool, tell: Callable[[dict[str, Any]], None] | None
) -> Any:
    kept = list[Any]()
    async for value in values:
        _keep(value, kept, collect, tell)
    return kept if collect else (kept[-1] if kept else None)


def _keep(
    value: Any, kept: list[Any], collect: bool, tell: Callable[[dict[str, Any]], None] | None
) -> None:
    """Keep the next value of a generator; the one before was progress."""
    if kept and tell is not None:
        before = kept[-1]
        tell({"message" if isinstance(before, str) else "value": before})
    if not collect:
        kept.clear()
    kept.append(value)


def _last(messages: Iterator[bytes]) -> bytes:
    *_, last = messages
    return last


def _json(message: list[Any]) -> bytes:
    return json.dumps(message, separators=(",", ":"), default=repr).encode()


def _extend_path(path: list[str]) -> None:
    """Find modules where the session finds them, on the same machine at least."""
    sys.path.extend(each for each in path if each not in sys.path)


# --- the driver ------------------------------------------------------------------------------


def main() -> None:
    """Connect to the cluster, and run what the parent asks for until it closes its pipe."""
    channel = Channel()
    _, _, address = channel.receive()
    try:
        import ray

        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        driver = _Driver(channel, ray)
    except BaseException as error:  # noqa: BLE001 - the edge: whatever keeps Ray from starting
        channel.send(["away", type(error).__name__, 0])
        return
    channel.send(["connected", importlib.metadata.version("ray"), 0])
    asyncio.run(driver.serve())


def _needs(amounts: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    """Return resources in the words of Ray: what it does not know by name is custom."""
    known: dict[str, Any] = {name: amount for name, amount in amounts if name in _OF_RAY}
    custom = {name: amount for name, amount in amounts if name not in _OF_RAY}
    return {**known, "resources": custom} if custom else known


_OF_RAY = frozenset({"num_cpus", "num_gpus", "memory"})


class _Driver:
    """Runs calls as Ray tasks, and tells the parent what comes of them."""

    def __init__(self, channel: Channel, ray: Any) -> None:
        self._channel = channel
        self._ray = ray
        options = {"max_retries": 0}  # retries are the session's to decide, by the effect
        path = list(sys.path)

        def task(work: RayTask) -> bytes:
            _extend_path(path)
            return run(work)

        def telling_task(work: RayTask) -> Iterator[bytes]:
            _extend_path(path)
            yield from run_telling(work)

        # Made once, for Ray sends a function to the cluster each time that it is made.
        self._task = functools.cache(
            lambda telling, needs: (
                ray.remote(num_returns="streaming", **options, **_needs(needs))(telling_task)
                if telling
                else ray.remote(**options, **_needs(needs))(task)
            )
        )
        self._wanted = set[int]()
        self._running: dict[int, Any] = {}
        self._tasks = set[asyncio.Task[None]]()

    async def serve(self) -> None:
        """Take requests until the channel ends the process with its parent."""
        loop = asyncio.get_running_loop()
        requests = asyncio.Queue[Any]()

        def read() -> None:
            while True:
                loop.call_soon_threadsafe(requests.put_nowait, self._channel.receive())

        threading.Thread(target=read, daemon=True).start()
        while True:
            kind, number, *what = await requests.get()
            if kind == "call":
                self._wanted.add(number)
                task = asyncio.create_task(self._play(number, *what))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                continue
            self._wanted.discard(number)
            if number in self._running:
                self._ray.cancel(self._running.pop(number), force=True)

    async def _play(self, number: int, work: tuple[Any, ...], telling: bool, needs: Any) -> None:
        if number not in self._wanted:  # cancelled before it could begin
            return
        try:
            running = self._task(telling, needs).remote(RayTask(*work))
            self._running[number] = running
            if telling:
                async for each in running:
                    self._tell(number, await each)
            else:
                self._tell(number, await running)
        except Exception as error:  # noqa: BLE001 - the edge: whatever Ray says
            self._channel.send(["lost", type(error).__name__, number])
        else:
            self._channel.send(["over", number])
        finally:
            self._wanted.discard(number)
            self._running.pop(number, None)

    def _tell(self, number: int, message: bytes) -> None:
        self._channel.send([*json.loads(message), number])
