"""A read that was made before need not be made again; one under way is shared."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from cachetools import LRUCache

from leonidas_tools.approvals.request import hash_of
from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.cutting import length
from leonidas_tools.events import EventKind
from leonidas_tools.invocation import Invocation, OnEnd, current
from leonidas_tools.plain import snapshot

if TYPE_CHECKING:
    from leonidas_tools.events import ToolEvent

Key: TypeAlias = tuple[str, str | None, str]
"""A tool's name, a user, and what stands for the tool and the arguments."""

Keep: TypeAlias = Callable[[ToolResult], None]

_FAILURES = frozenset({ResultStatus.FAILED, ResultStatus.TIMEOUT, ResultStatus.UNAVAILABLE})
_NOT_OF_THE_TOOL = frozenset(
    {
        ResultStatus.DENIED,
        ResultStatus.PENDING_APPROVAL,
        ResultStatus.LIMITED,
        ResultStatus.LOOP,
        ResultStatus.CANCELLED,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """A result that may be used again."""

    arguments: Mapping[str, Any]
    result: ToolResult
    size: int
    at: float
    fresh_until: float
    stale_until: float

    def again(self, said: str | None = None) -> ToolResult:
        """The result once more; it shares nothing with what others were given."""
        body = snapshot(self.result.result)
        message = self.result.message
        if said is not None:
            message = f"{message} {said}" if message else said
        return replace(self.result, result=body, message=message, cached=True)


class ResultCache:
    """Results of reads, bounded in number and in size; those longest unused go first.

    Args:
        max_entries: How many are kept.
        max_bytes: How long they may be together, as JSON.
    """

    def __init__(self, *, max_entries: int = 1000, max_bytes: int = 10_000_000) -> None:
        self.max_entries = max_entries
        self._entries = _entries(max_bytes)
        self._flights: dict[Key, _Flight] = {}
        self._counts: dict[str, Counter[str]] = {}

    def resize(self, *, max_entries: int, max_bytes: int) -> None:
        """Keeps so much from now on."""
        self.max_entries = max_entries
        before, self._entries = self._entries, _entries(max_bytes)
        for key, entry in list(before.items()):
            self.keep(key, entry)

    def invalidate(
        self, tool: str | None = None, arguments: Mapping[str, Any] | None = None
    ) -> int:
        """Forgets results, so that the next such call runs.

        Args:
            tool: Only those of this tool.
            arguments: Only those of calls that had these arguments, and maybe others.

        Returns:
            How many were forgotten.
        """

        def meant(key: Key, of: Mapping[str, Any]) -> bool:
            return tool in (None, key[0]) and all(
                name in of and of[name] == value for name, value in (arguments or {}).items()
            )

        old = [key for key, entry in self._entries.items() if meant(key, entry.arguments)]
        for key in old:
            del self._entries[key]
        for key, flight in list(self._flights.items()):
            if meant(key, flight.arguments):
                del self._flights[key]
        return len(old)

    @property
    def stats(self) -> dict[str, Any]:
        """How much it holds, and how often it has helped, as plain JSON."""
        total: Counter[str] = Counter()
        for counts in self._counts.values():
            total.update(counts)
        return {
            "entries": len(self._entries),
            "bytes": int(self._entries.currsize),
            **_counted(total),
            "tools": {name: _counted(counts) for name, counts in self._counts.items()},
        }

    def find(self, key: Key) -> _Entry | None:
        """What is known of a call, be it fresh or not."""
        return self._entries.get(key)

    def count(self, tool: str, what: str) -> None:
        """Counts a `hit`, a `miss`, a call that was `shared`, or a `stale` result."""
        self._counts.setdefault(tool, Counter())[what] += 1

    def keep(self, key: Key, entry: _Entry) -> None:
        """Keeps a result, if it is not longer than all may be together."""
        if entry.size > self._entries.maxsize:
            self._entries.pop(key, None)
            return
        self._entries[key] = entry
        while len(self._entries) > self.max_entries:
            self._entries.popitem()

    def flight(self, key: Key, call: ToolCall, run: Run, keep: Keep) -> tuple[_Flight, bool]:
        """The call under way for this key, and whether it begins here."""
        known = self._flights.get(key)
        if known is not None:
            return known, False
        flight = self._flights[key] = _Flight(call.arguments)

        def landed(_: Invocation, result: ToolResult) -> None:
            if self._flights.get(key) is flight:  # else it was invalidated, or nobody waits
                del self._flights[key]
                keep(result)
            flight.land(result)

        flight.begin(call, run, landed)
        return flight, True

    def leave(self, key: Key, flight: _Flight) -> None:
        """A waiter has what it wants, or wants it no more; the last one stops the call."""
        flight.waiting.remove(current())
        if not flight.waiting and not flight.ended.done():
            if self._flights.get(key) is flight:
                del self._flights[key]
            flight.stop()


class _Flight:
    """One call under way that several wait for."""

    __slots__ = ("_invocation", "arguments", "ended", "waiting")

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = arguments
        self.ended: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self.waiting: list[Invocation] = []
        self._invocation: Invocation | None = None

    def begin(self, call: ToolCall, run: Run, landed: OnEnd) -> None:
        """Runs the call in a task of its own: none of those who wait must take it along."""
        self._invocation = Invocation(call, run, landed, (self._tell,))
        self._invocation.start(current().owner)

    def stop(self) -> None:
        """Nobody waits any more."""
        if self._invocation is not None:
            self._invocation.cancel()

    def land(self, result: ToolResult) -> None:
        """Gives the result to all who wait."""
        self._invocation = None
        if not self.ended.done():
            self.ended.set_result(result)

    def _tell(self, event: ToolEvent) -> None:
        """What happens on the way happens to all who wait."""
        if event.kind is not EventKind.START and not event.ends_call:
            for invocation in self.waiting:
                invocation.emit(event.kind, **event.data)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """Answers a call as the same call was answered a moment ago.

    Only what worked is kept, without pictures and sounds, for each user apart. A write does not
    invalidate what was read before: whoever caches a read says how old it may be.

    Args:
        cache: Where results are kept.
        seconds: How long a result may be used again.
        stale_seconds: How long beyond that it may stand in when the tool fails.
        fingerprint: Stands for the tool, its schema, its version and its parameters.
    """

    cache: ResultCache
    seconds: float
    stale_seconds: float = 0.0
    fingerprint: str = ""

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Answers the call, and runs it only where nothing is known."""
        session = call.session
        user = user_of(session)
        key = (call.name, user, hash_of(call.name, self.fingerprint, call.arguments))
        known = self.cache.find(key)
        now = asyncio.get_running_loop().time()
        if known is not None and now < known.fresh_until:
            self.cache.count(call.name, "hit")
            return known.again()
        if current().outer is None:
            result = await self._shared(key, call, run)
        else:  # to wait for another's call could be to wait for what this one's maker holds
            result = await run(call)
            self._keep(key, call, result)
        return self._or_stale(call, result, known)

    async def _shared(self, key: Key, call: ToolCall, run: Run) -> ToolResult:
        while True:
            flight, begun = self.cache.flight(key, call, run, partial(self._keep, key, call))
            self.cache.count(call.name, "miss" if begun else "shared")
            flight.waiting.append(current())
            try:
                result = await asyncio.shield(flight.ended)
            finally:
                self.cache.leave(key, flight)
            if begun:
                return result
            if result.status not in _NOT_OF_THE_TOOL:  # else it was meant for another session
                return replace(result, result=snapshot(result.result), cached=result.ok)

    def _keep(self, key: Key, call: ToolCall, result: ToolResult) -> None:
        if not result.ok or result.media:
            return
        size = length(result.result) + length(result.message)
        kept = replace(result, result=snapshot(result.result), error=None)
        now = asyncio.get_running_loop().time()
        entry = _Entry(
            arguments=call.arguments,
            result=kept,
            size=size,
            at=now,
            fresh_until=now + self.seconds,
            stale_until=now + self.seconds + self.stale_seconds,
        )
        self.cache.keep(key, entry)

    def _or_stale(self, call: ToolCall, result: ToolResult, known: _Entry | None) -> ToolResult:
        """What was known before, where the tool fails and that is not too old."""
        now = asyncio.get_running_loop().time()
        if result.status not in _FAILURES or known is None or now >= known.stale_until:
            return result
        self.cache.count(call.name, "stale")
        age = now - known.at
        return known.again(
            f"The tool {call.name!r} fails now: this is what it said {age:.0f} seconds ago."
        )


def _entries(max_bytes: int) -> LRUCache[Key, _Entry]:
    return LRUCache(maxsize=max_bytes, getsizeof=lambda entry: entry.size)


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    names = {"hits": "hit", "misses": "miss", "shared": "shared", "stale": "stale"}
    return {name: counts.get(key, 0) for name, key in names.items()}
