"""A sub-agent: an agent that works for a call of another model, within limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field

from leonidas_tools.agent.models.model import Budget, Model
from leonidas_tools.agent.react import ReActAgent, Step, TurnEnded, enclose, enclosing_work
from leonidas_tools.agent.record import AgentResult, AgentStatus, Turn
from leonidas_tools.calls.call import ResultStatus, ToolCall, ToolResult
from leonidas_tools.calls.invocation import current
from leonidas_tools.errors import ToolError
from leonidas_tools.results.texts import say
from leonidas_tools.runtime.runtime import ToolRuntime, runtime_of
from leonidas_tools.toolboxes import action, speech
from leonidas_tools.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from leonidas_tools.calls.context import ToolContext

OF_THE_VOICE = frozenset(each.name for each in (*action.TOOLS, *speech.TOOLS))
"""Tools about the conversation itself, which a sub-agent does not have."""
_GRACE_SECONDS = 10.0
_MAX_STEPS = 50
_STATUSES = {
    AgentStatus.STOPPED: ResultStatus.FAILED,
    AgentStatus.LIMIT: ResultStatus.LIMITED,
    AgentStatus.FAILED: ResultStatus.UNAVAILABLE,
}

Task: TypeAlias = Annotated[str, Field(min_length=1, max_length=10_000)]
OpensModel: TypeAlias = Callable[[], AbstractAsyncContextManager[Model]]


def sub_agent_tool(
    function: Callable[..., Any], *, max_seconds: float, **options: Any
) -> Tool[..., Any]:
    """Return the tool whose calls a sub-agent does."""
    return Tool(
        function,
        category="action",
        effect="once",
        lane="off",  # several at once
        timeout_seconds=max_seconds + _GRACE_SECONDS,
        deadline_seconds="off",
        retry_attempts="off",
        on_cancel="stop",
        filler_after_seconds="off",
        tags=["agent"],
        **options,
    )


def runtime_around(kind: str) -> ToolRuntime:
    """Return the runtime of the running call, whose tools the sub-agent uses.

    Raises:
        ToolError: The call runs without a runtime.
    """
    runtime = runtime_of(current().host)
    if runtime is None:
        raise ToolError(say(f"no_{kind}"), reason_code="no_runtime")
    return runtime


def nesting(names: Container[str]) -> int:
    """Return the number of nested calls of these tools, including the current one."""
    depth, here = 1, current().outer
    while here is not None:
        depth += here.call.name in names
        here = here.outer
    return depth


def budget_within(max_tokens: int | None, max_calls: int) -> Budget:
    """Return a budget within that of the enclosing work, if there is one."""
    work = enclosing_work.get()
    return Budget(max_tokens, max_calls=max_calls, outer=None if work is None else work.budget)


@dataclass(frozen=True, kw_only=True)
class SubAgent:
    """An agent for a task of one call.

    Args:
        kind: What it is, which chooses the texts about it.
        model: The model, or a function that opens one.
        make: Returns the agent with the model.
        max_seconds: The timeout of the task in seconds, including the wait for approvals.
        budget: The tokens and calls of the agent and those below.
        secrets: Collects the secret arguments of the calls.
    """

    kind: Literal["delegation", "fragment"]
    model: Model | OpensModel
    make: Callable[[Model], ReActAgent]
    max_seconds: float
    budget: Budget
    secrets: set[str]

    async def run(
        self, task: str, ctx: ToolContext, *, on_step: Callable[[Step], None]
    ) -> ToolResult:
        """Run a task to its end or timeout, in the session of a call, and return its result."""
        runtime = runtime_around(self.kind)
        turns: list[Turn] = []

        def follow(step: Step) -> None:
            if isinstance(step, TurnEnded):
                turns.append(step.turn)
            on_step(step)

        def ask(call: ToolCall, pending: ToolResult) -> None:
            if not runtime.notices.tell(call, pending):
                ctx.progress(**pending.to_response())

        work = enclosing_work.get()
        on_question = work.on_question if work is not None and work.on_question else ask
        try:
            async with asyncio.timeout(self.max_seconds) as limit, self._open_model() as model:
                with enclose(self.secrets, budget=self.budget, on_question=on_question):
                    result = await self.make(model).run(
                        task,
                        session=ctx.session,
                        on_step=follow,
                        on_question=on_question,
                        within=self.budget,
                    )
        except TimeoutError:
            if not limit.expired():
                raise
            return ToolResult(
                status=ResultStatus.TIMEOUT,
                result=_summarize_steps(turns),
                message=say(f"{self.kind}_late", seconds=f"{self.max_seconds:g}"),
                reason_code="max_seconds",
            )
        return self._result(result)

    def _open_model(self) -> AbstractAsyncContextManager[Model]:
        return self.model() if callable(self.model) else nullcontext(self.model)

    def _result(self, result: AgentResult) -> ToolResult:
        """Return the result of a run for the model that called the sub-agent."""
        body = _summarize_steps(result.turns)
        if result.answer is not None:
            body = {"answer": result.masked_answer, **body}
        if result.ok:
            return ToolResult(result=body)
        return ToolResult(
            status=_STATUSES[result.status],
            result=body,
            message=say(f"{self.kind}_ended", reason=result.message or result.status.value),
            reason_code=result.reason,
        )


def _summarize_steps(turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the latest calls of the turns, at most 50, with their statuses."""
    return {"steps": [step for turn in turns for step in turn.steps][-_MAX_STEPS:]}
