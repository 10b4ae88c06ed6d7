"""The record of an agent's run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from leonidas_tools.agent.models.model import EndReason, Message, ModelCall, Usage
from leonidas_tools.calls.records import record
from leonidas_tools.redaction import KnownSecrets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.calls.call import ToolResult
    from leonidas_tools.runtime.declared import Declaration


class AgentStatus(StrEnum):
    """Status of a finished run.

    `complete`: the model gave a final answer. `stopped`: the model refused, or the reflector
    stopped the run. `limit`: a limit of the run is reached. `failed`: the model cannot be reached,
    or its answers cannot be parsed.
    """

    COMPLETE = "complete"
    STOPPED = "stopped"
    LIMIT = "limit"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """The corrected code of a failed call, and its result."""

    call_id: str
    code: str
    result: ToolResult
    usage: Usage = field(default_factory=Usage)


@record
class Turn:
    """One iteration: an answer of the model, and the results of its calls.

    Args:
        number: The number of the turn in the run, from 1.
        thought: The thought of the model.
        text: The whole text of the model.
        calls: The calls of the model.
        results: The results, in the order of the calls.
        problems: Parts that could not be parsed, as messages for the model.
        corrections: Attempts of the reflector to correct code that failed.
        decision: The decision of the reflector, if any.
        usage: The token usage.
        end: Why the model's answer ended.
        seconds: The duration in seconds, including the calls.
    """

    number: int
    thought: str = ""
    text: str = ""
    calls: Sequence[ModelCall] = ()
    results: Sequence[ToolResult] = ()
    problems: Sequence[str] = ()
    corrections: Sequence[Correction] = ()
    decision: str | None = None
    usage: Usage = field(default_factory=Usage)
    end: EndReason = EndReason.STOP
    seconds: float = 0.0

    @property
    def steps(self) -> Sequence[str]:
        """Return the name of each call with the status of its result."""
        pairs = zip(self.calls, self.results, strict=True)
        return [f"{call.name}: {result.status.value}" for call, result in pairs]

    def to_json(self) -> dict[str, Any]:
        """Return the turn as plain JSON, with arguments and results."""
        return {
            "number": self.number,
            "thought": self.thought,
            "text": self.text,
            "calls": [
                {"id": call.id, "name": call.name, "arguments": call.arguments}
                for call in self.calls
            ],
            "results": [result.to_response() for result in self.results],
            "problems": list(self.problems),
            "corrections": [
                {"id": each.call_id, "code": each.code, "result": each.result.to_response()}
                for each in self.corrections
            ],
            "decision": self.decision,
            "usage": usage_json(self.usage),
            "end": self.end.value,
            "seconds": round(self.seconds, 6),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentResult:
    """The result of a run.

    Args:
        status: How the run ended.
        answer: The final answer, or `None`.
        reason: The reason code of the end, if any.
        message: The reason as a sentence.
        turns: The turns.
        usage: The token usage of the whole run.
        seconds: The duration of the run in seconds.
        messages: The whole conversation with the model.
        tools: The tools of the agent.
        by_text: Whether the tools were described in the prompt, and called by text.
        secrets: Values of secret arguments in the calls of this agent and of agents below it.
    """

    status: AgentStatus
    answer: str | None = None
    reason: str | None = None
    message: str | None = None
    turns: Sequence[Turn] = ()
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    messages: Sequence[Message] = field(default=(), repr=False)
    tools: Sequence[Declaration] = field(default=(), repr=False)
    by_text: bool = False
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def ok(self) -> bool:
        """Return whether the run has a final answer."""
        return self.status is AgentStatus.COMPLETE

    @property
    def masked_answer(self) -> str | None:
        """Return the answer with the secrets masked, for enclosing agents."""
        if self.answer is None or not self.secrets:
            return self.answer
        return KnownSecrets(self.secrets).text(self.answer)

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON, with the turns."""
        body: dict[str, Any] = {"status": self.status.value, "answer": self.answer}
        if self.reason is not None:
            body |= {"reason": self.reason, "message": self.message}
        return body | {
            "turns": [turn.to_json() for turn in self.turns],
            "usage": usage_json(self.usage),
            "seconds": round(self.seconds, 6),
        }


def usage_json(usage: Usage) -> dict[str, Any]:
    """Return the token usage as plain JSON."""
    body = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return body | ({"is_estimated": True} if usage.is_estimated else {})
