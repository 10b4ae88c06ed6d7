"""A read that was made before need not be made again; one under way is shared."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import ref

from leonidas_tools.approvals.request import hash_of
from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.invocation import current
from leonidas_tools.result_cache import KeptResult, Key, ResultCache, copy_of
from leonidas_tools.texts import say

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

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
class Cache:
    """Answers a call as the same call was answered a moment ago.

    Only what worked is kept, without pictures and sounds, for each user apart; a session of no user
    has its own. A write does not invalidate what was read before: whoever caches a read says how
    old it may be.

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
        cache, name = self.cache, call.name
        user = None if self.per_session else user_of(call.session)
        whose = ref(call.session) if user is None else user
        key = (name, whose, self.fingerprint, _standing_for(call.arguments))
        known = cache.find(key)
        if known is not None and asyncio.get_running_loop().time() < known.at + self.seconds:
            cache.count(name, "hit")
            return known.again()
        result = await self._shared(key, call) if cache.flight(key) is not None else None
        if result is None:
            cache.count(name, "miss")
            flight = cache.begin(key, call)
            try:
                result = await run(call)
            finally:
                may_keep = cache.land(key, flight, result)
            if may_keep and result.ok and not result.media:
                self._keep(key, call, result)
        if not result.ok and result.status in _FAILURES:
            # What was known may have been invalidated while the call ran.
            return self._or_stale(call, result, cache.find(key))
        return result

    async def _shared(self, key: Key, call: ToolCall) -> ToolResult | None:
        """The result of the same call under way; `None` where this one is to be made."""
        # A call that another makes does not wait, nor one that others may wait for, as when it
        # stands in for another tool: each could wait for the other.
        waiting = current()
        if waiting.outer is not None or self.cache.is_waited_for(waiting):
            return None
        while (flight := self.cache.flight(key)) is not None:
            result = await flight.result()
            # Else its maker was stopped, or it was meant for another session.
            if result is not None and result.status not in _NOT_OF_THE_TOOL:
                self.cache.count(call.name, "shared")
                return replace(copy_of(result), cached=result.ok)
        return None

    def _keep(self, key: Key, call: ToolCall, result: ToolResult) -> None:
        size = current().length_of(result.result) + len(result.message or "")
        now = asyncio.get_running_loop().time()
        self.cache.keep(key, KeptResult.of(result, call.arguments, size, now))

    def _or_stale(self, call: ToolCall, result: ToolResult, known: KeptResult | None) -> ToolResult:
        """What was known before, where the tool fails and that is not too old."""
        if known is None:
            return result
        age = asyncio.get_running_loop().time() - known.at
        if age >= self.seconds + self.stale_seconds:
            return result
        self.cache.count(call.name, "stale")
        return known.again(say("stale_result", tool=call.name, seconds=f"{age:.0f}"))


def _standing_for(arguments: Mapping[str, Any]) -> Hashable:
    """The same for the same arguments, and for no others."""
    for value in arguments.values():
        if type(value) is not str:
            return hash_of("", "", arguments)  # to Python 1, 1.0 and True are equal
    return frozenset(arguments.items())
