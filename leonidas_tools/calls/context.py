"""`ToolContext`, with which a running tool reads its call and reports progress."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls.events import EventKind, Sink, ToolEvent
from leonidas_tools.errors import ToolCancelledError
from leonidas_tools.redaction import MASK
from leonidas_tools.results.plain import ForeignTypeError, NotPlainError, plain
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from leonidas_tools.calls.call import ToolCall, ToolSession
    from leonidas_tools.redaction import Masking

_MAX_BYTES = 4096
_MAX_EVENT_LENGTH = 65_536
_MAX_KEYS = 16
_MAX_WAITING = 64
_MAX_WAIT_SECONDS = 1.0

UndoStep: TypeAlias = Callable[[], Any]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running event loop of this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def is_foreign(value: Any) -> bool:
    """Return whether converting a value for progress runs its own code, which may block."""
    try:
        plain(value, _MAX_BYTES, foreign=False)
    except ForeignTypeError:
        return True
    except NotPlainError:
        return False
    return False


def _to_plain_json(
    data: Mapping[str, Any],
    mask: Masking | None,
    max_bytes: int = _MAX_BYTES,
    *,
    on_loop: bool,
) -> dict[str, Any]:
    """Return the data as short, plain JSON; mask secrets before truncation.

    On the event loop, all of it is masked if the search for secrets would block.
    """
    if on_loop and mask is not None and mask.is_slow:
        return {MASK: MASK} if data else {}
    shown: dict[str, Any] = {}
    for key, value in itertools.islice(data.items(), _MAX_KEYS):
        with contextlib.suppress(NotPlainError):
            try:
                # Together with its key, which may name a secret, or contain one.
                named, _ = plain({key: value}, max_bytes, mask=mask, foreign=not on_loop)
            except ForeignTypeError:
                named = {key: f"<{type(value).__name__}>"}
            shown |= named
    return shown


class ToolContext:
    """The context of a call, for a tool with a parameter annotated `ToolContext`.

    The model never sees the parameter. It is safe to use from the thread of a sync tool.

    Args:
        call: The running call.
        sink: Receives the events.
        mask: Masks secrets in the events.

    Example:
        >>> async def book(city: str, ctx: ToolContext) -> str:
        ...     ctx.progress("Asking the airline", fraction=0.5)
        ...     return f"booked for {ctx.session.id}"
    """

    __slots__ = ("_loop", "_mask", "_room", "_sink", "_undo", "call", "cancelled")

    def __init__(
        self, call: ToolCall, sink: Sink | None = None, mask: Masking | None = None
    ) -> None:
        self.call = call
        self.cancelled = False
        """True once the call was stopped or has timed out; a loop should check it. A cancelled call
        that is to finish (`on_cancel`) is not stopped."""
        self._sink = sink
        self._mask = mask
        self._loop = _running_loop()
        self._room: threading.Semaphore | None = None
        self._undo: list[UndoStep] = []

    @property
    def session(self) -> ToolSession:
        """Return the session of the call."""
        return self.call.session

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return the tool's `custom_parameters` from the settings."""
        settings = self.call.settings
        return settings.custom_parameters if settings is not None else {}

    def progress(
        self, message: str | None = None, fraction: float | None = None, **data: Any
    ) -> None:
        """Report the progress of the tool.

        Args:
            message: A sentence for a person.
            fraction: The part that is done, from 0 to 1.
            data: Further details, without values that have no JSON form. On the event loop, a value
                whose conversion runs its own code (a model, dataclass or NumPy number) is shown as
                the name of its type.
        """
        if message is not None:
            data["message"] = message
        if fraction is not None:
            data["fraction"] = fraction
        self._emit(EventKind.PROGRESS, _to_plain_json(data, self._mask, on_loop=self._is_on_loop()))

    def emit(self, kind: EventKind, data: Mapping[str, Any]) -> None:
        """Emit an event of this call, from any thread."""
        on_loop = self._is_on_loop()
        self._emit(kind, _to_plain_json(data, self._mask, _MAX_EVENT_LENGTH, on_loop=on_loop))

    def _emit(self, kind: EventKind, data: Mapping[str, Any]) -> None:
        if self._sink is None:
            return
        event = ToolEvent(kind=kind, call=self.call, data=data)
        if self._loop is None or _running_loop() is self._loop:
            self._sink(event)
        else:
            self._send(event, self._loop)

    def _is_on_loop(self) -> bool:
        return self._loop is not None and _running_loop() is self._loop

    def _send(self, event: ToolEvent, loop: asyncio.AbstractEventLoop) -> None:
        """Send an event from a thread; wait if the thread is faster than the event loop."""
        if self._room is None:
            self._room = threading.Semaphore(_MAX_WAITING)
        room, sink = self._room, self._sink
        assert sink is not None
        if not room.acquire(timeout=_MAX_WAIT_SECONDS):
            return  # the event loop is blocked: no subscriber could receive it

        def arrive() -> None:
            room.release()
            sink(event)

        loop.call_soon_threadsafe(arrive)

    def undo(self, step: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        """Register a step that undoes the tool's last action.

        The steps run in reverse order if the call does not complete.

        Args:
            step: A function, sync or async.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
        """
        self._undo.append(lambda: step(*args, **kwargs))

    def take_undo_steps(self) -> list[UndoStep]:
        """Return the registered steps, last first, and clear them."""
        steps, self._undo = self._undo[::-1], []
        return steps

    def raise_if_cancelled(self) -> None:
        """Raise `ToolCancelledError` if the call was stopped or has timed out."""
        if self.cancelled:
            raise ToolCancelledError(say("cancelled_tool"))
