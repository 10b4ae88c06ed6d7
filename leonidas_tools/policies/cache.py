"""A read that was made before need not be made again; one under way is shared."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import ref

from cachetools import LRUCache

from leonidas_tools.approvals.request import hash_of
from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.cutting import length
from leonidas_tools.invocation import Invocation, current
from leonidas_tools.plain import snapshot
from leonidas_tools.records import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.events import ToolEvent

Key: TypeAlias = tuple[Hashable, ...]
"""A tool's name, a user or a session, and what stands for the tool and for the arguments."""

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


@record
class _Entry:
    """A result that may be used again: of another's, a copy of what can be changed."""

    arguments: Mapping[str, Any]
    result: ToolResult
    body: Any
    size: int
    at: float

    def again(self, said: str | None = None) -> ToolResult:
        """The result once more; it shares nothing with what others were given."""
        message = self.result.message
        if said is not None:
            message = f"{message} {said}" if message else said
        return replace(self.result, result=snapshot(self.body), message=message, cached=True)


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
        if tool not in self._counts:
            self._counts[tool] = Counter()
        self._counts[tool][what] += 1

    def keep(self, key: Key, entry: _Entry) -> None:
        """Keeps a result, if it is not longer than all may be together."""
        if entry.size > self._entries.maxsize:
            self._entries.pop(key, None)
            return
        self._entries[key] = entry
        while len(self._entries) > self.max_entries:
            self._entries.popitem()

    def flight(self, key: Key) -> _Flight | None:
        """The call under way for this key."""
        return self._flights.get(key)

    def begin(self, key: Key, call: ToolCall) -> _Flight:
        """The call that others who make it meanwhile can wait for."""
        flight = self._flights[key] = _Flight(call.arguments, current())
        return flight

    def land(self, key: Key, flight: _Flight, result: ToolResult | None) -> bool:
        """The call has ended; says whether its result may be kept: it was not invalidated."""
        flight.land(result)
        if self._flights.get(key) is not flight:
            return False
        del self._flights[key]
        return True


class _Flight:
    """One call under way that several may wait for.

    Args:
        arguments: Those of the call.
        maker: Who runs it.
    """

    __slots__ = ("_ended", "_maker", "_waiting", "arguments")

    def __init__(self, arguments: Mapping[str, Any], maker: Invocation) -> None:
        self.arguments = arguments
        self._maker = maker
        self._ended: asyncio.Future[ToolResult | None] | None = None
        self._waiting: list[Invocation] = []

    async def result(self) -> ToolResult | None:
        """How it ends, for who waits for it; `None` where its maker was stopped."""
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
            self._maker.sinks = (*self._maker.sinks, self._tell)
        waiting = current()
        self._waiting.append(waiting)
        try:
            return await asyncio.shield(self._ended)
        finally:
            self._waiting.remove(waiting)

    def land(self, result: ToolResult | None) -> None:
        """Gives the result to all who wait."""
        if self._ended is not None:
            self._ended.set_result(result)

    def _tell(self, event: ToolEvent) -> None:
        """What happens on the way happens to all who wait."""
        if not event.ends_call:
            for invocation in self._waiting:
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
        per_session: Whether results are good in their own session only: they may have a handle
            that no other session can read by.
    """

    cache: ResultCache
    seconds: float
    stale_seconds: float = 0.0
    fingerprint: str = ""
    per_session: bool = False

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Answers the call, and runs it only where nothing is known."""
        whose = ref(call.session) if self.per_session else user_of(call.session)
        key = (call.name, whose, self.fingerprint, _standing_for(call.arguments))
        known = self.cache.find(key)
        now = asyncio.get_running_loop().time()
        if known is not None and now < known.at + self.seconds:
            self.cache.count(call.name, "hit")
            return known.again()
        result = await self._shared(key, call, run)
        if result.status in _FAILURES:
            # What was known may have been invalidated while the call ran.
            return self._or_stale(call, result, self.cache.find(key))
        return result

    async def _shared(self, key: Key, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call, unless it is under way: then its result is this one's too."""
        # A call that another makes does not wait: it could wait for what its maker holds.
        while current().outer is None and (flight := self.cache.flight(key)) is not None:
            result = await flight.result()
            # Else its maker was stopped, or it was meant for another session.
            if result is not None and result.status not in _NOT_OF_THE_TOOL:
                self.cache.count(call.name, "shared")
                return replace(result, result=snapshot(result.result), cached=result.ok)
        self.cache.count(call.name, "miss")
        return await self._made(key, call, run)

    async def _made(self, key: Key, call: ToolCall, run: Run) -> ToolResult:
        flight, result = self.cache.begin(key, call), None
        try:
            result = await run(call)
        finally:
            may_keep = self.cache.land(key, flight, result)
        if may_keep and result.ok and not result.media:
            self._keep(key, call, result)
        return result

    def _keep(self, key: Key, call: ToolCall, result: ToolResult) -> None:
        entry = _Entry(
            arguments=call.arguments,
            result=result,
            body=snapshot(result.result),
            size=length([result.result, result.message]),
            at=asyncio.get_running_loop().time(),
        )
        self.cache.keep(key, entry)

    def _or_stale(self, call: ToolCall, result: ToolResult, known: _Entry | None) -> ToolResult:
        """What was known before, where the tool fails and that is not too old."""
        if known is None:
            return result
        age = asyncio.get_running_loop().time() - known.at
        if age >= self.seconds + self.stale_seconds:
            return result
        self.cache.count(call.name, "stale")
        return known.again(
            f"The tool {call.name!r} fails now: this is what it said {age:.0f} seconds ago."
        )


def _standing_for(arguments: Mapping[str, Any]) -> Hashable:
    """The same for the same arguments, and for no others."""
    if all(type(value) is str for value in arguments.values()):
        return frozenset(arguments.items())
    return hash_of("", "", arguments)  # to Python 1, 1.0 and True are equal


def _entries(max_bytes: int) -> LRUCache[Key, _Entry]:
    return LRUCache(maxsize=max_bytes, getsizeof=lambda entry: entry.size)


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    names = {"hits": "hit", "misses": "miss", "shared": "shared", "stale": "stale"}
    return {name: counts.get(key, 0) for name, key in names.items()}
