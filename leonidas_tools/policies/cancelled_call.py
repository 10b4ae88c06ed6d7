"""Answer a call with the result of an equal one that was cancelled when its effect had begun.

After a barge-in, the server gets no answer to a call that it has cancelled. A side effect that must
not happen twice may still finish, and the model, which does not know, may make the call again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from leonidas_tools.calls.call import CANCELLED_CALL
from leonidas_tools.calls.invocation import current
from leonidas_tools.calls.once_calls import OnceCalls
from leonidas_tools.results.texts import join, say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from leonidas_tools.calls.call import Run, ToolCall, ToolResult
    from leonidas_tools.calls.once_calls import OnceCall
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class ReuseCancelled:
    """Gives a call the result of an equal call that was cancelled, once; then calls run again."""

    leaves_results = True

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:
        """Run the call, unless an equal one was cancelled when its effect had begun."""
        calls = call.session.find(OnceCalls)
        cancelled = None if calls is None else calls.take_cancelled(call)
        if calls is None or cancelled is None:
            return run(call)
        return _result_of(cancelled, calls, call, run)


async def _result_of(cancelled: OnceCall, calls: OnceCalls, call: ToolCall, run: Run) -> ToolResult:
    earlier: OnceCall | None = cancelled
    while earlier is not None:
        try:
            result = await earlier.outcome()
        except BaseException:
            calls.put_back(earlier)
            raise
        if result is not None:
            current().begun = True  # if this call is cancelled too, the next one takes its result
            return _with_note(result)
        earlier = calls.take_cancelled(call)
    return await run(call)


def _with_note(result: ToolResult) -> ToolResult:
    if result.reason_code == CANCELLED_CALL:
        return result
    message = join(result.message, say("cancelled_call"))
    return replace(result, message=message, reason_code=CANCELLED_CALL)


def for_tool(options: EffectiveOptions, _: Shared) -> Iterator[ReuseCancelled]:
    """Yield the policy of a tool whose effect must not happen twice."""
    if options.is_once:
        yield ReuseCancelled()
