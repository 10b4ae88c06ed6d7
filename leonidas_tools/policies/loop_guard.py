"""Repeated-call detection: warn the model of a loop, then refuse the call."""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.call import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.calls.invocation import current
from leonidas_tools.calls.turns import Turns
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import join, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions

logger = visible_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopLimits:
    """The numbers of repeats that cause a warning and a refusal."""

    warn_at: int = 3  # the repeat at which the model is warned; 0 for never
    refuse_at: int = 5  # the repeat at which the call is refused; 0 for never
    longest_cycle: int = 5  # maximum number of calls in a repeated cycle

    @property
    def are_off(self) -> bool:
        """Return whether no repeat is ever warned of or refused."""
        return self.warn_at <= 0 and self.refuse_at <= 0


_NOTHING: Mapping[int, ToolResult | None] = {}


class _MadeCall:
    """A call of a session, and its result."""

    # Class attributes for values that few calls change: one object is created for every call.
    arguments: Mapping[str, Any] | None
    result: ToolResult | None = None
    ended_at = math.inf
    like: Mapping[int, ToolResult | None] = _NOTHING
    """Results of earlier equal calls, by distance; after the end, `None` for each equal result."""
    repeats = 1
    """The number of equal calls in a row with this one, if it ends as they did."""
    repeated: ToolResult | None = None
    """The result that this call then repeats."""

    def __init__(self, call: ToolCall) -> None:
        self.name = call.name
        self.arguments = call.arguments
        self.settings = call.settings

    def end(self, result: ToolResult | None) -> bool:
        """Record the result, and return whether it is the same again."""
        self.result = result
        self.ended_at = perf_counter()
        if not self.like:
            return False
        self.like = {back: None for back, old in self.like.items() if _same(result, old)}
        same, self.repeated = _same(result, self.repeated), None
        return same

    def fade(self) -> None:
        """Drop all but the distances of equal calls: this call is too old to be compared with."""
        self.arguments = self.result = None


class LoopHistory:
    """The last calls of a session since the user has spoken, for the detection of loops.

    Example:
        >>> from leonidas_tools.calls.call import ToolSession
        >>> session = ToolSession("kitchen")
        >>> session.get(LoopHistory).limits = LoopLimits(warn_at=0, refuse_at=0)  # in this session
    """

    __slots__ = ("_faded", "_recent", "_turn", "_turns", "limits")

    def __init__(self) -> None:
        self.limits: LoopLimits | None = None
        """The limits of this session, instead of those of the settings."""
        self._recent: deque[_MadeCall] = deque()
        """The newest first, at most as many as a cycle may contain."""
        self._faded: deque[_MadeCall] = deque()
        self._turn = 0
        self._turns: Turns | None = None

    def forget(self) -> None:
        """Clear the history, so that repeats are counted from the beginning."""
        self._recent.clear()
        self._faded.clear()

    def begin(self, call: ToolCall, limits: LoopLimits, made_at: float) -> _MadeCall:
        """Record a call that starts, and the number of repeats if it ends as the others did."""
        turns = self._turns
        if turns is None:
            turns = self._turns = call.session.get(Turns)
        if turns.number != self._turn:
            self._turn = turns.number
            self.forget()
        recent, step = self._recent, _MadeCall(call)
        found = self._made_before(call, made_at)
        if found:
            self._note_alike(step, found, max(limits.refuse_at, limits.warn_at))
        recent.appendleft(step)
        if len(recent) > limits.longest_cycle:
            oldest = recent.pop()
            if oldest.like or self._faded:
                self._fade(oldest, max(limits.refuse_at, limits.warn_at) * limits.longest_cycle)
        return step

    def _made_before(self, call: ToolCall, made_at: float) -> list[_MadeCall]:
        """Return the recent calls that equal this one and had ended at `made_at`."""
        name, arguments, settings = call.name, call.arguments, call.settings
        found: list[_MadeCall] = []
        try:
            # Arguments are compared directly: most differ at once, and a hash costs more.
            for old in self._recent:
                if old.name != name or old.settings is not settings:
                    continue  # after an edit of the settings the same call is another one
                if old.arguments == arguments and old.ended_at <= made_at:
                    found.append(old)
        except Exception:  # noqa: BLE001 - arguments may be anything if no model sent them
            return []
        return found

    def _note_alike(self, step: _MadeCall, found: list[_MadeCall], most: int) -> None:
        """Record the earlier calls equal to this one; the longest run of repeats counts."""
        like: dict[int, ToolResult | None] = {}
        step.like = like
        for back, older in enumerate(self._recent, start=1):
            if older in found:
                like[back] = older.result
                repeats = (self._running(back, most * back) + 1) // back + 1
                if repeats > step.repeats:
                    step.repeats, step.repeated = repeats, older.result

    def _running(self, back: int, most: int) -> int:
        """Return how many calls in a row equalled the call `back` places before them."""
        steps = itertools.islice(itertools.chain(self._recent, self._faded), most)
        return sum(1 for _ in itertools.takewhile(lambda step: back in step.like, steps))

    def _fade(self, step: _MadeCall, most: int) -> None:
        """Drop a call's details; no run of repeats continues past a unique call."""
        if not step.like:
            self._faded.clear()
            return
        step.fade()
        self._faded.appendleft(step)
        if len(self._faded) > most:
            self._faded.pop()


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopGuard:
    """Warns of a call, or a cycle of calls, that keeps returning the same result; then refuses it.

    A call whose results change is no loop. Only the repeated call is refused.
    """

    limits: LoopLimits  # unless the session has its own limits
    exempt: bool = False  # for polling: never warned or refused, but it still breaks other loops

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call, unless it has been repeated too often."""
        history = call.session.get(LoopHistory)
        limits = history.limits or self.limits
        if limits.are_off or call.by_program:
            return await run(call)
        step = history.begin(call, limits, current().started)
        if step.repeats >= limits.refuse_at > 0 and not self.exempt:
            return _refused(call, step)
        try:
            result = await run(call)
        except BaseException:
            step.like = _NOTHING
            raise
        if step.end(result) and step.repeats >= limits.warn_at > 0 and not self.exempt:
            return _warned(call, step, result)
        return result

    def judge(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return the result of a call that did not start, or its refusal as a loop."""
        history = call.session.get(LoopHistory)
        limits = history.limits or self.limits
        if limits.are_off or call.by_program:
            return result
        step = history.begin(call, limits, perf_counter())
        if step.repeats >= limits.refuse_at > 0:
            return _refused(call, step)
        if step.end(result) and step.repeats >= limits.warn_at > 0:
            return _warned(call, step, result)
        return result


def _warned(call: ToolCall, step: _MadeCall, result: ToolResult) -> ToolResult:
    """Return the result with a warning to the model."""
    logger.warning("%s: repeated call of %r (%d times)", call.trace_id, call.name, step.repeats)
    message = say("loop_warning", count=step.repeats)
    return replace(result, message=join(result.message, message))


def _refused(call: ToolCall, step: _MadeCall) -> ToolResult:
    step.end(step.repeated)  # a refused call continues the loop
    logger.warning("%s: the call of %r is refused as a loop", call.trace_id, call.name)
    return ToolResult(
        status=ResultStatus.LOOP,
        message=say("loop", tool=call.name, count=step.repeats - 1),
        reason_code="loop",
    )


def _same(one: ToolResult | None, other: ToolResult | None) -> bool:
    if one is other or one is None or other is None:
        return one is other
    return (
        one.status is other.status
        and one.message == other.message
        and bool(_timeless(one.result) == _timeless(other.result))
        and one.media == other.media
    )


def _timeless(result: Any) -> Any:
    """Return the result without its timestamp, which alone does not make a result new."""
    if isinstance(result, dict) and len(result) > 1 and "timestamp" in result:
        return {key: value for key, value in result.items() if key != "timestamp"}
    return result


def for_session(shared: Shared) -> LoopGuard | None:
    """Return the guard of a session's calls; `None` if the settings disable it."""
    loop = shared.policies.loop
    if not (loop.warn_at or loop.refuse_at):
        return None
    limits = LoopLimits(
        warn_at=loop.warn_at, refuse_at=loop.refuse_at, longest_cycle=loop.longest_cycle
    )
    return LoopGuard(limits=limits)


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[LoopGuard]:
    """Yield the guard of a tool's calls."""
    guard = for_session(shared)
    if guard is not None:
        yield LoopGuard(limits=guard.limits, exempt=True) if options.polling else guard
