"""The program that is connected to a Ray cluster, and the task that runs a tool there.

It is a separate process, because a Ray driver ends its process when it has lost the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
import inspect
import json
import logging
import os
import pickle
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from leonidas_tools.redaction.failures import raised_at
from leonidas_tools.workers.outcome import failure_of, fields_of
from leonidas_tools.workers.portable import find_function
from leonidas_tools.workers.worker_process import Channel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_MAX_PROGRESS_BYTES = 1 << 20
_MAX_WAITING = 64
"""Progress reports that wait in the cluster, and as many objects that wait for the driver."""
_MAX_WAIT_SECONDS = 1.0
"""Seconds that a tool is held up if it reports faster than its reports are read."""
_NODE_SECONDS = 5.0
"""Seconds between looks whether the node of the driver is alive."""
_LOOKS = 2
"""Looks without the node: nodes register again at a cluster that has restored its state."""


class RayTask(NamedTuple):
    """A call of a tool's function, in the form that is sent to the cluster."""

    target: Any
    pickled: bytes
    tool: str
    max_bytes: int  # size limit of the result's JSON, in bytes
    context: str | None  # name of the parameter for the context
    parameters: Mapping[str, Any]  # the `custom_parameters` of the tool
    collect: bool  # whether the result of a generator is the list of all its values


class RemoteContext:
    """The `ToolContext` of a tool on another machine."""

    cancelled = False
    """Always false: cancellation kills the task."""

    def __init__(
        self, parameters: Mapping[str, Any], tell: Callable[[dict[str, Any]], None]
    ) -> None:
        self.parameters = parameters
        self._tell = tell

    def progress(
        self, message: str | None = None, fraction: float | None = None, **data: Any
    ) -> None:
        """Report the progress of the tool."""
        said = {"message": message, "fraction": fraction}
        self._tell({**data, **{key: value for key, value in said.items() if value is not None}})

    def raise_if_cancelled(self) -> None:
        """Do nothing: cancellation kills the task."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"A tool that runs on Ray has no ctx.{name}, only progress and parameters: set "
            f"runs_on='here' to use the others"
        )


# --- in the cluster --------------------------------------------------------------------------


def run(work: RayTask) -> bytes:
    """Run a tool to its end, and return its outcome as JSON."""
    return _last(_messages(work))


def run_telling(work: RayTask) -> Iterator[bytes]:
    """Run a tool; yield its progress reports, except any over 1 MiB, and then its outcome.

    A tool that reports faster than its reports are read is slowed down, and then loses reports.
    """
    said = queue.Queue[bytes | None](_MAX_WAITING)

    def tell(data: dict[str, Any]) -> None:
        message = _json(["progress", data])
        if len(message) <= _MAX_PROGRESS_BYTES:
            with contextlib.suppress(queue.Full):
                said.put(message, timeout=_MAX_WAIT_SECONDS)

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
        function = find_function(*work.target)
        args, kwargs = pickle.loads(work.pickled)  # noqa: S301 - from the session
    except BaseException as error:  # noqa: BLE001 - the edge: importing runs the tool's own module
        yield _json(["unloadable", type(error).__name__, raised_at(error)])
        return
    if work.context is not None:
        kwargs[work.context] = RemoteContext(work.parameters, tell or (lambda _: None))
    try:
        value = function(*args, **kwargs)
        if inspect.isasyncgen(value):
            value = asyncio.run(_drain_async(value, work.collect, tell))
        elif inspect.isgenerator(value):
            value = _drain(value, work.collect, tell)
        elif inspect.isawaitable(value):
            value = asyncio.run(_await_value(value))
        outcome = ["returned", fields_of(value, work.max_bytes, work.tool)]
    except BaseException as error:  # noqa: BLE001 - the edge: a tool may raise anything
        outcome = ["raised", failure_of(error, work.tool)]
    yield _json(outcome)


async def _await_value(value: Any) -> Any:
    return await value


def _drain(values: Any, collect: bool, tell: Callable[[dict[str, Any]], None] | None) -> Any:
    kept = list[Any]()
    for value in values:
        _keep(value, kept, collect, tell)
    return kept if collect else (kept[-1] if kept else None)


async def _drain_async(
    values: Any, collect: bool, tell: Callable[[dict[str, Any]], None] | None
) -> Any:
    kept = list[Any]()
    async for value in values:
        _keep(value, kept, collect, tell)
    return kept if collect else (kept[-1] if kept else None)


def _keep(
    value: Any, kept: list[Any], collect: bool, tell: Callable[[dict[str, Any]], None] | None
) -> None:
    """Keep the next value of a generator, and report the previous value as progress."""
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
    """Add the session's import path, which exists at least on the same machine."""
    sys.path.extend(each for each in path if each not in sys.path)


# --- the driver ------------------------------------------------------------------------------


def main() -> None:
    """Connect to the cluster, and run the parent's calls until the parent closes its pipe."""
    channel = Channel()
    _, _, address = channel.receive()
    try:
        import ray

        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        driver = _Driver(channel, ray)
    except BaseException as error:  # noqa: BLE001 - the edge: Ray may raise anything
        channel.send(["away", type(error).__name__, 0])
        return
    threading.Thread(target=_end_with_node, args=(ray,), daemon=True).start()
    channel.send(["connected", importlib.metadata.version("ray"), 0])
    asyncio.run(driver.serve())


def _end_with_node(ray: Any) -> None:
    """End this process when its node is gone; the parent then connects again."""
    wait_for_end_of_node(ray, functools.partial(time.sleep, _NODE_SECONDS))
    os._exit(1)


def wait_for_end_of_node(ray: Any, pause: Callable[[], None]) -> None:
    """Return when the node of this process has left the cluster, such as by a restart.

    Ray itself ends a driver only if no cluster responds: after a restart, each call waits.
    """
    node, was_there, missing = ray.get_runtime_context().get_node_id(), False, 0
    while missing < _LOOKS:
        with contextlib.suppress(Exception):
            is_there = any(each["NodeID"] == node and each["Alive"] for each in ray.nodes())
            was_there |= is_there
            missing = missing + 1 if was_there and not is_there else 0
        pause()


def _needs(amounts: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    """Return resources as options of a Ray task; a resource without an own option is custom."""
    known: dict[str, Any] = {name: amount for name, amount in amounts if name in _OF_RAY}
    custom = {name: amount for name, amount in amounts if name not in _OF_RAY}
    return {**known, "resources": custom} if custom else known


_OF_RAY = frozenset({"num_cpus", "num_gpus", "memory"})


class _Driver:
    """Runs calls as Ray tasks, and sends their progress and outcomes to the parent."""

    def __init__(self, channel: Channel, ray: Any) -> None:
        self._channel = channel
        self._ray = ray
        options = {"max_retries": 0}  # the session decides on retries, by the effect of the tool
        streaming = {
            "num_returns": "streaming",
            "_generator_backpressure_num_objects": _MAX_WAITING,
        }
        path = list(sys.path)

        def task(work: RayTask) -> bytes:
            _extend_path(path)
            return run(work)

        def telling_task(work: RayTask) -> Iterator[bytes]:
            _extend_path(path)
            yield from run_telling(work)

        # Cached, because Ray sends each new remote function to the cluster.
        self._task = functools.cache(
            lambda telling, needs: (
                ray.remote(**streaming, **options, **_needs(needs))(telling_task)
                if telling
                else ray.remote(**options, **_needs(needs))(task)
            )
        )
        self._wanted = set[int]()
        self._running: dict[int, Any] = {}
        self._tasks = set[asyncio.Task[None]]()

    async def serve(self) -> None:
        """Process requests; the channel ends this process when its parent ends."""
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
        except Exception as error:  # noqa: BLE001 - the edge: Ray may raise anything
            self._channel.send(["lost", type(error).__name__, number])
        else:
            self._channel.send(["over", number])
        finally:
            self._wanted.discard(number)
            self._running.pop(number, None)

    def _tell(self, number: int, message: bytes) -> None:
        self._channel.send([*json.loads(message), number])
