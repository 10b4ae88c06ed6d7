"""Retry transient failures if that is safe."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from leonidas_tools.calls.call import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.invocation import current
from leonidas_tools.engines.engines import is_durable
from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.results.texts import join, say
from leonidas_tools.tools.metadata import OPTIONS

USUAL_RETRIES = 2
"""Number of retries if neither the settings nor the tool set one."""

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions

_OK = ResultStatus.OK
# Errors in the code of a tool, which occur on a retry too.
_PERMANENT = (
    TypeError,
    AttributeError,
    NameError,
    NotImplementedError,  # caught here: a tool raises it for a case that it does not support
    ImportError,
    SyntaxError,
)


def may_repeat(result: ToolResult, *, once: bool) -> bool:
    """Return whether the same work may be repeated after this result."""
    if result.status not in (ResultStatus.FAILED, ResultStatus.UNAVAILABLE, ResultStatus.TIMEOUT):
        return False
    if once:
        return isinstance(result.error, RetryableError) and result.retryable
    if isinstance(result.error, ToolError) or result.error is None:
        return result.retryable
    return isinstance(result.error, Exception) and not isinstance(result.error, _PERMANENT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """Retries with exponential backoff and jitter.

    Args:
        attempts: Maximum number of retries.
        delay_seconds: Maximum wait before the first retry, in seconds.
        backoff: Factor by which each next wait may be longer.
        longest_delay_seconds: Maximum of any wait, in seconds.
        kinds: The statuses to retry; `None` to decide by the other arguments.
        once: Whether the effect must not happen twice.
        timeouts: Whether to retry timeouts too, which multiplies the silence.
    """

    attempts: int
    delay_seconds: float = OPTIONS["retry_delay_seconds"].default
    once: bool = False
    timeouts: bool = False
    backoff: float = OPTIONS["retry_backoff"].default
    longest_delay_seconds: float = OPTIONS["retry_longest_delay_seconds"].default
    kinds: Collection[str] | None = None

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call until it succeeds or a retry cannot help."""
        result = await run(call)
        if result.status is _OK:
            return result
        for attempt in range(1, self.attempts + 1):
            if not self._helps(result) or not current().is_open:
                return result
            delay = self._delay(attempt)
            current().emit(
                EventKind.RETRY,
                attempt=attempt,
                of=self.attempts,
                delay_seconds=round(delay, 3),
                error=result.status.value,
            )
            await asyncio.sleep(delay)
            result = await run(call)
        return self._add_attempts(result)

    def _helps(self, result: ToolResult) -> bool:
        if self.kinds is not None:
            if result.status not in self.kinds:
                return False
        elif result.status is ResultStatus.TIMEOUT and not self.timeouts:
            return False
        return may_repeat(result, once=self.once)

    def _delay(self, attempt: int) -> float:
        longest = min(
            self.delay_seconds * self.backoff ** (attempt - 1), self.longest_delay_seconds
        )
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing

    def _add_attempts(self, result: ToolResult) -> ToolResult:
        if not self.attempts or not self._helps(result) or result.message is None:
            return result
        tried = say("tried", count=self.attempts + 1)
        return replace(result, message=join(result.message, tried))


def for_tool(options: EffectiveOptions, _: Shared) -> Iterator[Retry]:
    """Yield the retries of a tool's attempts."""
    if options.retry_attempts and not is_durable(options.runs_on):  # else the engine retries
        yield Retry(
            attempts=options.retry_attempts,
            delay_seconds=options.retry_delay_seconds,
            once=options.is_once,
            timeouts=options.retries_timeouts,
            backoff=options.retry_backoff,
            longest_delay_seconds=options.retry_longest_delay_seconds,
            kinds=options.retry_on,
        )
