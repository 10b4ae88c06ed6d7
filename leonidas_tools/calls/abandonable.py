"""Tasks that can be abandoned, because a tool may ignore every cancellation.

`asyncio.run` cancels all tasks at its end and waits for them. A task that ignores cancellation
would keep the program from ending, although its call was answered long ago.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
from contextvars import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GRACE_SECONDS = 2.0


class AbandonableTask(asyncio.Task[None]):
    """A task that can report itself as done while its coroutine is running.

    This happens two seconds after a cancellation that the coroutine ignores.
    """

    abandoned = False
    """True if the task reports itself as done regardless of its coroutine."""

    _watchers: list[tuple[Callable[..., Any], Context | None]] | None = None

    @property
    def has_ended(self) -> bool:
        """Return whether the coroutine has ended."""
        return super().done()

    def abandon(self) -> None:
        """Report the task as done from now on."""
        if self.abandoned or super().done():
            return
        self.abandoned = True
        detach(self)
        watchers, self._watchers = self._watchers or [], None
        for watcher, context in watchers:
            super().remove_done_callback(watcher)
            self.get_loop().call_soon(watcher, self, context=context)

    def done(self) -> bool:
        """Return whether the task was abandoned or its coroutine has ended."""
        return self.abandoned or super().done()

    def cancelled(self) -> bool:
        """Return whether the task was cancelled; an abandoned task counts as cancelled."""
        return super().cancelled() if super().done() else self.abandoned

    def result(self) -> None:
        """Return `None`; raise the coroutine's exception, or `CancelledError` if abandoned."""
        if self.abandoned and not super().done():
            raise asyncio.CancelledError
        return super().result()

    def exception(self) -> BaseException | None:
        """Return the coroutine's exception; raise `CancelledError` if the task was abandoned."""
        if self.abandoned and not super().done():
            raise asyncio.CancelledError
        return super().exception()

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the coroutine, and abandon the task if it ignores that."""
        asked = super().cancel(msg)
        if asked and not self.abandoned:
            # In an empty context: the timer would otherwise keep the caller's context in memory.
            loop = self.get_loop()
            loop.call_later(_GRACE_SECONDS, self._abandon_if_ignored, context=Context())
        return asked

    def _abandon_if_ignored(self) -> None:
        if self.cancelling():
            self.abandon()

    def add_done_callback(
        self, fn: Callable[[Any], object], /, *, context: Context | None = None
    ) -> None:
        """Call a function when the task is done or abandoned."""
        if self.abandoned:
            self.get_loop().call_soon(fn, self, context=context)
            return
        if self._watchers is None:
            self._watchers = []
        self._watchers.append((fn, context))
        super().add_done_callback(fn, context=context)

    def remove_done_callback(self, fn: Callable[[Any], object], /) -> int:
        """Remove a callback, and return the number of removed callbacks."""
        self._watchers = [known for known in self._watchers or () if known[0] != fn]
        return super().remove_done_callback(fn)


def detach(task: asyncio.Task[Any]) -> None:
    """Let the event loop close without waiting for a task, and without a warning."""
    asyncio._unregister_task(task)  # noqa: SLF001 - documented for custom task classes
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - as `gather` does
    with contextlib.suppress(ImportError):
        _keep_for_ever(task)
    # The loop would close the async generators of the task, which raises while they run.
    generators = getattr(task.get_loop(), "_asyncgens", None)
    if generators is not None:
        generators.difference_update([a for a in _walk_awaits(task) if inspect.isasyncgen(a)])


def _keep_for_ever(task: asyncio.Task[Any]) -> None:
    """Keep a task alive until it ends: garbage collection would throw into its coroutine."""
    import ctypes

    kept = ctypes.py_object(task)
    ctypes.pythonapi.Py_IncRef(kept)
    asyncio.Task.add_done_callback(task, _release)


def _release(task: asyncio.Task[Any]) -> None:
    import ctypes

    ctypes.pythonapi.Py_DecRef(ctypes.py_object(task))


def _walk_awaits(task: asyncio.Task[Any]) -> Iterator[Any]:
    """Yield the coroutines and generators that a task is suspended in, the outermost first."""
    inner: Any = task.get_coro()
    seen: set[int] = set()
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        yield inner
        for name in ("cr_await", "ag_await", "gi_yieldfrom"):
            if hasattr(inner, name):
                inner = getattr(inner, name)
                break
        else:  # the wrapper of an async generator's step has no attribute for the generator
            inner = next(filter(_can_wait, gc.get_referents(inner)), None)


def _can_wait(thing: object) -> bool:
    return inspect.isasyncgen(thing) or inspect.iscoroutine(thing) or inspect.isgenerator(thing)


def context_of(task: asyncio.Task[Any]) -> Context:
    """Return the context that a task runs in."""
    if hasattr(task, "get_context"):  # from Python 3.12
        return task.get_context()  # type: ignore[no-any-return]  # untyped before Python 3.12
    found = (thing for thing in gc.get_referents(task) if isinstance(thing, Context))
    return next(found, Context())
