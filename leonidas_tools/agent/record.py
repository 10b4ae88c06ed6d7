"""The record of an agent's run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from leonidas_tools.agent.models.model import EndReason, Usage
from leonidas_tools.calls.records import record
from leonidas_tools.redaction import KnownSecrets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.agent.models.model import Message, ModelCall
    from leonidas_tools.agent.reflector import Correction
    from leonidas_tools.calls.call import ToolResult
    from leonidas_tools.runtime.declared import Declaration


class AgentStatus(StrEnum):
    """End of a run.

    `complete`: there is a final answer. `stopped`: the model has refused, or the reflector has
    stopped it. `limit`: the iterations or the token limit is reached. `failed`: the model cannot be
    reached, or does not write anything that can be read.
    """

    COMPLETE = "complete"
    STOPPED = "stopped"
    LIMIT = "limit"
    FAILED = "failed"


@record
class Turn:
    """One iteration: what the model has said, and what came of it.

    Args:
        number: Its place in the run, from 1.
        thought: What the model thinks.
        text: All that it has written.
        calls: The calls it makes.
        results: Their results, in the order of the calls.
        problems: What could not be read, in words for the model.
        corrections: Code that failed, as the reflector has corrected it.
        decision: What the reflector has decided, where there is one.
        usage: The tokens it has taken.
        end: Why the model's answer has ended.
        seconds: How long it took, with its calls.
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
    """A run, ended.

    Args:
        status: How it has ended.
        answer: The final answer; `None` if there is none.
        reason: Why there is none, a word for programs.
        message: The same as a sentence.
        turns: The iterations.
        usage: The tokens of all of them.
        seconds: How long the run took.
        messages: The whole conversation with the model.
        tools: The tools it had.
        by_text: Whether the model was told of its tools in words, and called them by text.
        secrets: Texts that its calls, and those of agents below it, have passed as arguments
            which are declared secret.
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
        """Return whether there is a final answer."""
        return self.status is AgentStatus.COMPLETE

    @property
    def masked_answer(self) -> str | None:
        """Return the answer without the secrets, for those above this agent."""
        if self.answer is None or not self.secrets:
            return self.answer
        return KnownSecrets(self.secrets).text(self.answer)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON, with arguments and results."""
        body: dict[str, Any] = {"status": self.status.value, "answer": self.answer}
        if self.reason is not None:
            body |= {"reason": self.reason, "message": self.message}
        return body | {
            "turns": [turn.to_json() for turn in self.turns],
            "usage": usage_json(self.usage),
            "seconds": round(self.seconds, 6),
        }


def usage_json(usage: Usage) -> dict[str, Any]:
    """Return the tokens as plain JSON."""
    body = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return body | ({"is_estimated": True} if usage.is_estimated else {})
