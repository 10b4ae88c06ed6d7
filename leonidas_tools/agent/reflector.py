"""Decide after each turn of an agent whether to continue, retry, stop, or complete."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from leonidas_tools.agent.malformed_json import code_in
from leonidas_tools.agent.models.model import (
    EndReason,
    Message,
    Model,
    ModelCall,
    ModelParameters,
    answer,
)
from leonidas_tools.agent.record import Correction, Turn
from leonidas_tools.calls.call import ResultStatus, ToolResult
from leonidas_tools.results.texts import AS_IT_IS, Wording, say
from leonidas_tools.session.tasks import Task, TaskStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence


_EXACT = 0.2
_OTHER_IDEAS = 0.9
_MAX_OUTPUT_TOKENS = 8_192


class ReflectorDecision(StrEnum):
    """The next step after a turn."""

    CONTINUE = "continue"
    RETRY = "retry"
    STOP = "stop"
    COMPLETE = "complete"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reflection:
    """The decision of the reflector about a turn.

    Args:
        decision: The next step.
        reason: The reason code.
        advice: A message for the model; `None` for no message.
        parameters: The model parameters to change, by name.
    """

    decision: ReflectorDecision = ReflectorDecision.CONTINUE
    reason: str = ""
    advice: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Reflector:
    """Decides by rules, which costs no tokens, except to correct code.

    A subclass may override `reflect`.

    Args:
        model: The model that corrects failed code; without it, the agent's model must do so.
        code_tools: The tools that run code, with the argument `code`.
        max_corrections: The maximum number of corrections of the code of one call.
        max_failures: The number of turns in a row without success after which the run stops.
    """

    model: Model | None = None
    _: KW_ONLY
    code_tools: Collection[str] = ("execute_code",)
    max_corrections: int = 2
    max_failures: int = 3

    def reflect(
        self, turns: Sequence[Turn], parameters: ModelParameters, tasks: Sequence[Task] = ()
    ) -> Reflection:
        """Return the decision about the last turn, which has no final answer.

        Args:
            turns: The turns so far.
            parameters: The current parameters of the model.
            tasks: The tasks of the plan.
        """
        last = turns[-1]
        if last.problems:
            return _unreadable(last, parameters)
        if _every(last, ResultStatus.LOOP):
            return self._looping(turns)
        if len(turns) > 1 and all(_every(turn, ResultStatus.DENIED) for turn in turns[-2:]):
            return Reflection(decision=ReflectorDecision.STOP, reason="denied")
        return self._by_success(turns, tasks)

    def _looping(self, turns: Sequence[Turn]) -> Reflection:
        if len(turns) > 1 and _every(turns[-2], ResultStatus.LOOP):
            return Reflection(decision=ReflectorDecision.STOP, reason="loop")
        return Reflection(
            decision=ReflectorDecision.RETRY,
            reason="loop",
            advice=say("agent_other_way"),
            parameters={"temperature": _OTHER_IDEAS},
        )

    def _by_success(self, turns: Sequence[Turn], tasks: Sequence[Task]) -> Reflection:
        recent = turns[-self.max_failures :]
        failing = [turn for turn in recent if not any(result.ok for result in turn.results)]
        if len(failing) == self.max_failures:
            return Reflection(decision=ReflectorDecision.STOP, reason="failing")
        if any(not result.ok and result.retryable for result in turns[-1].results):
            return Reflection(decision=ReflectorDecision.RETRY, reason="retryable")
        if tasks and all(task.status is TaskStatus.COMPLETED for task in tasks):
            advice = say("agent_tasks_done")
            return Reflection(
                decision=ReflectorDecision.COMPLETE, reason="tasks_done", advice=advice
            )
        return Reflection()

    async def correct(
        self,
        call: ModelCall,
        arguments: Mapping[str, Any],
        result: ToolResult,
        run: Callable[[Mapping[str, Any]], Awaitable[ToolResult]],
        *,
        wording: Wording = AS_IT_IS,
    ) -> Sequence[Correction]:
        """Correct failed code, run it again, and return the attempts.

        Args:
            call: The call.
            arguments: The arguments of the call.
            result: The failed result of the call.
            run: Runs the call again with other arguments.
            wording: The texts of the settings.

        Raises:
            ModelError: The model does not answer.
        """
        made = list[Correction]()
        if self.model is None or call.name not in self.code_tools:
            return made
        code = arguments.get("code")
        while (
            isinstance(code, str)
            and result.status is ResultStatus.FAILED
            and len(made) < self.max_corrections
        ):
            prompt = wording.text("agent_code_ask", code=code, error=result.message or "it failed")
            said = await answer(self.model, [Message.user(prompt)])
            corrected = code_in(said.text)
            if not corrected or corrected == code:
                break
            code = corrected
            result = await run({**arguments, "code": code})
            made.append(Correction(call_id=call.id, code=code, result=result, usage=said.usage))
        return made


def _every(turn: Turn, status: ResultStatus) -> bool:
    return bool(turn.results) and all(result.status is status for result in turn.results)


def _unreadable(turn: Turn, parameters: ModelParameters) -> Reflection:
    """Return a retry: with a larger output limit if the answer was cut, else less randomly."""
    changes: dict[str, Any] = {"temperature": _EXACT}
    most = parameters.max_output_tokens
    if turn.end is EndReason.LENGTH and most is not None:
        changes = {"max_output_tokens": min(2 * most, _MAX_OUTPUT_TOKENS)}
    return Reflection(decision=ReflectorDecision.RETRY, reason="unreadable", parameters=changes)
