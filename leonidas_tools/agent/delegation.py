"""`Delegation`: the voice model delegates a task to an agent, and continues the conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable  # noqa: TC003 - the annotations of the tools are read
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Field

from leonidas_tools.agent.models.model import DEFAULT_PARAMETERS, Model, ModelParameters
from leonidas_tools.agent.react import CallsMade, CollectedSecrets, ReActAgent, TurnEnded
from leonidas_tools.agent.record import AgentStatus
from leonidas_tools.calls.call import ResultStatus, ToolCall, ToolResult
from leonidas_tools.calls.context import ToolContext  # noqa: TC001 - read with the annotations
from leonidas_tools.calls.invocation import current
from leonidas_tools.errors import ToolError
from leonidas_tools.redaction import KnownSecrets
from leonidas_tools.results.texts import say
from leonidas_tools.runtime.runtime import ToolRuntime, runtime_of
from leonidas_tools.toolboxes import action, speech
from leonidas_tools.tools.metadata import Scheduling, ToolScheduling
from leonidas_tools.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.agent.react import Step
    from leonidas_tools.agent.record import AgentResult, Turn
    from leonidas_tools.agent.short_term import ShortTermMemory
    from leonidas_tools.agent.tool_choice import ToolChoice
    from leonidas_tools.tools.registry import AnyTool

DELEGATE, STOP = "delegate", "stop_delegated"

OF_THE_VOICE = frozenset(each.name for each in (*action.TOOLS, *speech.TOOLS))
"""Tools about the conversation itself, which a background agent does not have."""
_GRACE_SECONDS = 10.0
_MAX_STEPS_TOLD = 50
ENDED_AS = {
    AgentStatus.STOPPED: ResultStatus.FAILED,
    AgentStatus.LIMIT: ResultStatus.LIMITED,
    AgentStatus.FAILED: ResultStatus.UNAVAILABLE,
}
_INSTRUCTIONS = (
    "You work on a task for a voice assistant that talks with the user in the meantime. You "
    "cannot ask the user yourself. When there is progress worth reporting, write one short "
    "sentence about it along with your calls. End with an answer of a few sentences that can be "
    "spoken."
)

Task: TypeAlias = Annotated[str, Field(min_length=1, max_length=10_000)]
OpensModel: TypeAlias = "Callable[[], AbstractAsyncContextManager[Model]]"


@dataclass(frozen=True, kw_only=True, slots=True)
class DelegationLimits:
    """The limits of delegated work.

    Raises:
        ValueError: A limit is too small.
    """

    max_at_once: int = 3
    max_depth: int = 1  # with 1, the agent cannot delegate
    max_seconds: float = 600.0  # including the wait for approvals
    max_iterations: int = 20
    max_calls: int = 60
    max_tokens: int = 100_000
    progress_seconds: float = 10.0  # minimum seconds between two progress reports

    def __post_init__(self) -> None:
        counts = (self.max_at_once, self.max_depth, self.max_iterations)
        if min(*counts, self.max_calls, self.max_tokens) < 1:
            raise ValueError(f"the bounds of a delegation must be 1 or more: {self!r}")
        if self.max_seconds <= 0 or self.progress_seconds < 0:
            raise ValueError(f"the times of a delegation must be above 0: {self!r}")


class Delegation:
    """The tools `delegate` and `stop_delegated`: an agent works while the conversation continues.

    The agent uses the tools of the runtime that runs `delegate`, in the session of the call: under
    the same policies, for the same user, with the same approvals. The voice model asks the user
    the questions of the agent's calls. Cancelling the call of `delegate` stops the agent and all
    its calls; a barge-in alone does not.

    Args:
        model: The model of the agent, or a function that opens one for each task.
        max_at_once: The maximum number of delegations of a session that run at once.
        max_depth: The maximum depth of nested delegations; with 1, the agent cannot delegate.
        max_seconds: The timeout of a delegation in seconds, including the wait for approvals.
        max_iterations: The maximum number of turns of the model.
        max_calls: The maximum number of tool calls.
        max_tokens: The maximum number of tokens of all turns.
        progress_seconds: The minimum number of seconds between two progress reports.
        instructions: Instructions for the model, added to those about how to report.
        parameters: The parameters of the model.
        tool_choice: Chooses the tools relevant to a task, from very many tools.
        short_term: Limits the messages of a long run that the model sees.

    Raises:
        ValueError: A limit is too small.

    Example:
        >>> from leonidas_tools import ToolRuntime
        >>> from leonidas_tools.agent.models import ScriptedModel
        >>> model = ScriptedModel(["Booked for noon."])
        >>> tools = ToolRuntime(Delegation(model).tools, builtin_tools=False)
        >>> asyncio.run(tools.execute("delegate", {"task": "Book a table."})).result["answer"]
        'Booked for noon.'
    """

    def __init__(  # noqa: PLR0913 - optional arguments
        self,
        model: Model | OpensModel,
        *,
        max_at_once: int = 3,
        max_depth: int = 1,
        max_seconds: float = 600.0,
        max_iterations: int = 20,
        max_calls: int = 60,
        max_tokens: int = 100_000,
        progress_seconds: float = 10.0,
        instructions: str = "",
        parameters: ModelParameters = DEFAULT_PARAMETERS,
        tool_choice: ToolChoice | None = None,
        short_term: ShortTermMemory | None = None,
    ) -> None:
        self.limits = DelegationLimits(
            max_at_once=max_at_once,
            max_depth=max_depth,
            max_seconds=max_seconds,
            max_iterations=max_iterations,
            max_calls=max_calls,
            max_tokens=max_tokens,
            progress_seconds=progress_seconds,
        )
        self._model = model
        self._instructions = f"{_INSTRUCTIONS}\n\n{instructions}" if instructions else _INSTRUCTIONS
        self._parameters = parameters
        self._tool_choice = tool_choice
        self._short_term = short_term
        self.tools: tuple[Tool[..., Any], ...] = (
            Tool(
                self._delegate,
                name=DELEGATE,
                category="action",
                effect="once",
                lane="off",  # several at once
                behavior="NON_BLOCKING",
                scheduling=Scheduling(
                    ok=ToolScheduling.WHEN_IDLE,
                    error=ToolScheduling.WHEN_IDLE,
                    late=ToolScheduling.WHEN_IDLE,
                    progress=ToolScheduling.WHEN_IDLE,
                ),
                timeout_seconds=max_seconds + _GRACE_SECONDS,
                deadline_seconds="off",
                retry_attempts="off",
                on_cancel="stop",
                filler_after_seconds="off",
                tags=["agent"],
            ),
            Tool(
                self._stop_delegated,
                name=STOP,
                category="action",
                effect="idempotent",
                lane="off",
                tags=["agent"],
            ),
        )
        """The tools to add to a runtime or a processor."""

    async def _delegate(  # noqa: D417 - models read it; `ctx` is not an argument
        self, task: Task, ctx: ToolContext
    ) -> ToolResult:
        """Delegate a task of several steps to an agent that works on it in the background.

        Continue the conversation in the meantime: the answer arrives by itself, maybe minutes
        later. Do not call it again for the same task. If the agent's own calls need an answer, you
        receive a question with an id: ask the user and answer it as any other.

        Args:
            task: What to do, complete and self-contained: the agent does not know the conversation.
        """
        invocation = current()
        runtime = runtime_of(invocation.host)
        if runtime is None:
            raise ToolError(say("no_delegation"), reason_code="no_runtime")
        depth = _depth()
        if depth > self.limits.max_depth:
            raise ToolError(say("delegation_too_deep"), status="limited", reason_code="max_depth")
        running = ctx.session.get(_Running)
        if len(running.tasks) >= (most := self.limits.max_at_once):
            message = say("too_many_delegations", most=most)
            raise ToolError(message, status="limited", retryable=True, reason_code="max_at_once")
        running.tasks[ctx.call.trace_id] = task
        try:
            work = _DelegatedWork(self, runtime, ctx, deepest=depth >= self.limits.max_depth)
            return await work.run(task)
        finally:
            running.tasks.pop(ctx.call.trace_id, None)

    async def _stop_delegated(  # noqa: D417 - models read it; `ctx` is not an argument
        self, ctx: ToolContext, task: str = ""
    ) -> ToolResult:
        """Stop delegated tasks and their calls, because the user does not want them.

        Args:
            task: Words of the task to stop, if several run; empty stops all.
        """
        running, runtime = ctx.session.get(_Running), runtime_of(current().host)
        wanted = task.casefold().strip()
        found = {key: text for key, text in running.tasks.items() if wanted in text.casefold()}
        if not found or runtime is None:
            options = list(running.tasks.values()) or None
            return ToolResult.not_found(say("nothing_delegated"), valid_options=options)
        for trace_id in found:
            runtime.cancel(trace_id, session=ctx.session)
        return ToolResult(result={"stopped": list(found.values())})

    def open_model(self) -> AbstractAsyncContextManager[Model]:
        """Return a context manager of the model for one task."""
        model = self._model
        return model() if callable(model) else nullcontext(model)

    def agent(self, model: Model, runtime: ToolRuntime, *, deepest: bool) -> ReActAgent:
        """Return the agent for one task.

        Args:
            model: The model of the agent.
            runtime: The runtime with the tools of the agent.
            deepest: Whether the agent cannot delegate.
        """
        withheld = OF_THE_VOICE | {DELEGATE, STOP} if deepest else OF_THE_VOICE

        def may_use(tool: AnyTool) -> bool:
            return tool.name not in withheld

        return ReActAgent(
            model,
            runtime,
            max_iterations=self.limits.max_iterations,
            max_tokens=self.limits.max_tokens,
            max_calls=self.limits.max_calls,
            instructions=self._instructions,
            parameters=self._parameters,
            may_use=may_use,
            tool_choice=self._tool_choice,
            short_term=self._short_term,
        )


class _Running:
    """The delegated tasks of a session that are running, by the trace id of their call."""

    def __init__(self) -> None:
        self.tasks: dict[str, str] = {}


class _DelegatedWork:
    """One delegated task."""

    def __init__(
        self, delegation: Delegation, runtime: ToolRuntime, ctx: ToolContext, *, deepest: bool
    ) -> None:
        self._delegation = delegation
        self._runtime = runtime
        self._ctx = ctx
        self._deepest = deepest
        self._turns: list[Turn] = []
        self._secrets: set[str] = set()
        self._told_at: float | None = None

    async def run(self, task: str) -> ToolResult:
        """Run the task to its end, or until it times out."""
        limits = self._delegation.limits
        try:
            async with (
                asyncio.timeout(limits.max_seconds) as limit,
                self._delegation.open_model() as model,
            ):
                agent = self._delegation.agent(model, self._runtime, deepest=self._deepest)
                with CollectedSecrets(self._secrets):
                    result = await agent.run(
                        task,
                        session=self._ctx.session,
                        on_step=self._follow,
                        on_question=self._ask,
                    )
        except TimeoutError:
            if not limit.expired():
                raise
            message = say("delegation_late", seconds=f"{limits.max_seconds:g}")
            return ToolResult(
                status=ResultStatus.TIMEOUT,
                result=summarize_steps(self._turns),
                message=message,
                reason_code="max_seconds",
            )
        return _result(result)

    def _follow(self, step: Step) -> None:
        """Record a turn, and report text that accompanies calls as progress at intervals."""
        if isinstance(step, TurnEnded):
            self._turns.append(step.turn)
        if not isinstance(step, CallsMade) or not step.text:
            return
        now = asyncio.get_running_loop().time()
        least = self._delegation.limits.progress_seconds
        if self._told_at is None or now >= self._told_at + least:
            self._told_at = now
            self._ctx.progress(KnownSecrets(self._secrets).text(step.text))

    def _ask(self, call: ToolCall, pending: ToolResult) -> None:
        """Send a question of the agent's call to the voice model, which asks the user."""
        if not self._runtime.notices.tell(call, pending):
            self._ctx.progress(**pending.to_response())


def _depth() -> int:
    """Return the number of nested delegations, including the current one."""
    depth, here = 1, current().outer
    while here is not None:
        depth += here.call.name == DELEGATE
        here = here.outer
    return depth


def _result(result: AgentResult) -> ToolResult:
    """Return the result of a run for the voice model."""
    body = summarize_steps(result.turns)
    if result.ok:
        return ToolResult(result={"answer": result.masked_answer, **body})
    if result.answer:
        body = {"answer": result.masked_answer, **body}
    message = say("delegation_ended", reason=result.message or result.status.value)
    return ToolResult(
        status=ENDED_AS[result.status], result=body, message=message, reason_code=result.reason
    )


def summarize_steps(turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the latest calls of the turns, at most 50, with their statuses."""
    steps = [
        f"{call.name}: {result.status.value}"
        for turn in turns
        for call, result in zip(turn.calls, turn.results, strict=True)
    ]
    return {"steps": steps[-_MAX_STEPS_TOLD:]}
