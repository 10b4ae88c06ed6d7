"""Answer a call with the result of an equal one, whose effect must not happen twice.

After a barge-in, the server gets no answer to a call that it has cancelled. A side effect that must
not happen twice may still finish, and the model, which does not know, may make the call again.

Models of Gemini 2.5 make a call twice in one turn, with another id and before they have the first
result; Google's advice is "client-side filtering for duplicate function calls"
(https://github.com/pipecat-ai/pipecat/issues/4118).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from leonidas_tools.calls.call import CANCELLED_CALL, DUPLICATE_CALL
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
class ReuseResult:
    """Gives a call the result of an equal call that was cancelled, or that still runs.

    The result of a cancelled call is given once; then calls run again.
    """

    runs_duplicates: bool
    leaves_results = True

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:
        """Run the call, unless an equal one was cancelled when its effect had begun."""
        calls = call.session.find(OnceCalls)
        if calls is None:
            return run(call)
        if (cancelled := calls.take_cancelled(call)) is not None:
            return _result_of(cancelled, calls, call, run)
        twin = None if self.runs_duplicates else calls.twin_of(call)
        return run(call) if twin is None else _result_of_twin(twin, calls, call, run)


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
            return _add_note(result, CANCELLED_CALL)
        earlier = calls.take_cancelled(call)
    return await run(call)


async def _result_of_twin(twin: OnceCall, calls: OnceCalls, call: ToolCall, run: Run) -> ToolResult:
    result = await twin.outcome()
    if result is None:  # nothing has happened
        return await run(call)
    calls.note_read(twin)
    current().begun = True
    return _add_note(result, DUPLICATE_CALL)


def _add_note(result: ToolResult, code: str) -> ToolResult:
    if result.reason_code == code:
        return result
    return replace(result, message=join(result.message, say(code)), reason_code=code)


def for_tool(options: EffectiveOptions, _: Shared) -> Iterator[ReuseResult]:
    """Yield the policy of a tool whose effect must not happen twice."""
    if options.is_once:
        yield ReuseResult(runs_duplicates=bool(options.polling))
