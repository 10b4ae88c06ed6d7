"""A question to a person, and the answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from leonidas_tools.approvals.lexicon import Lexicon, Meaning, lexicon
from leonidas_tools.results.texts import AS_IT_IS, Wording

Scope: TypeAlias = Literal["session", "user", "file"]
"""Place of an "always": the session, the user's preferences, or the settings file."""
_SCOPES = ("session", "user", "file")


class Answer(StrEnum):
    """The kinds of answers to a question."""

    APPROVE = "approve"
    DENY = "deny"
    EDIT = "edit"
    FILL = "fill"
    ALWAYS = "always"


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRequest:
    """A call that waits for a person's approval.

    Args:
        id: The id of the question.
        tool: The tool's own name.
        title: The question, as a sentence that can be spoken.
        details: The validated arguments of the call, with secrets masked.
        hash: Identifies the call to approve by the tool, its definition and these arguments.
        created: Time at which the question was asked, in seconds since the epoch.
        deadline: Time at which the question expires, in seconds since the epoch.
        on_expiry: Effect of the expiry on the call: `cancel` or `proceed`.
        session: The id of the session.
        user: The user of the session.
        call_id: The id of the call, if it has one.
        rule: The name of the rule that asks.
        schema: The JSON Schema of the answer, if the question needs more than yes or no.
        problem: The reason why the previous answer was invalid, if it was.
        words: The texts of the settings, for a channel that shows some of them.
        lexicon: The words by which an answer is judged.
    """

    id: str
    tool: str
    title: str
    details: Mapping[str, Any] = field(repr=False)
    hash: str
    created: float
    deadline: float
    on_expiry: str = "cancel"
    session: str
    user: str | None = None
    call_id: str | None = None
    rule: str
    schema: Mapping[str, Any] | None = None
    problem: str | None = None
    words: Wording = field(default=AS_IT_IS, repr=False, compare=False)
    lexicon: Lexicon = field(default_factory=lexicon, repr=False, compare=False)

    def judge(self, text: str, question: str) -> Meaning:
        """Judge an answer to the question about these details."""
        return self.lexicon.judge(text, question, list(_values(self.details)))

    def to_json(self) -> dict[str, Any]:
        """Return the request as plain JSON, without the hash: it would reveal short secrets."""
        hidden = ("hash", "words", "lexicon")
        shown = (each.name for each in fields(self) if each.name not in hidden)
        body: dict[str, Any] = {name: getattr(self, name) for name in shown}
        for key in ("schema", "problem"):
            if body[key] is None:
                del body[key]
        return body


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A person's answer.

    Args:
        answer: The kind of answer.
        reason: Why the person refuses; the model reads it.
        arguments: For `edit`, all arguments to run the tool with; a value that equals the masked
            one that was shown keeps the original value. For `fill`, the requested values by
            name.
        scope: Where "always" is stored: in the session, in the user's preferences, or in the
            settings file.

    Example:
        >>> Decision.deny("too much").to_json()
        {'answer': 'deny', 'reason': 'too much'}
        >>> Decision.from_json({"answer": "edit", "arguments": {"amount": 5}}).arguments
        {'amount': 5}
    """

    answer: Answer
    reason: str | None = None
    arguments: Mapping[str, Any] | None = field(default=None, repr=False)
    scope: Scope = "session"

    def __post_init__(self) -> None:
        takes = self.answer in (Answer.EDIT, Answer.FILL)
        given = self.arguments is not None
        if (given and not isinstance(self.arguments, Mapping)) or given != takes:
            raise ValueError("arguments go with the answers 'edit' and 'fill', as a mapping")

    @classmethod
    def approve(cls) -> Decision:
        """Approve the call once."""
        return cls(answer=Answer.APPROVE)

    @classmethod
    def deny(cls, reason: str | None = None) -> Decision:
        """Deny the call."""
        return cls(answer=Answer.DENY, reason=reason)

    @classmethod
    def edit(cls, arguments: Mapping[str, Any]) -> Decision:
        """Approve the call with these arguments instead of its own."""
        return cls(answer=Answer.EDIT, arguments=dict(arguments))

    @classmethod
    def fill(cls, answers: Mapping[str, Any]) -> Decision:
        """Answer with the requested values, as described by the request's schema."""
        return cls(answer=Answer.FILL, arguments=dict(answers))

    @classmethod
    def always(cls, scope: Scope = "session") -> Decision:
        """Approve the call, and do not ask this question again."""
        return cls(answer=Answer.ALWAYS, scope=scope)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Decision:
        """Return the decision from the data that `to_json` returns.

        Raises:
            ValueError: The data is not a decision.
        """
        known = ("answer", "reason", "arguments", "scope")
        if data.keys() - known or data.get("scope", "session") not in _SCOPES:
            raise ValueError(f"a decision has {', '.join(known)}")
        return cls(**{**data, "answer": Answer(str(data.get("answer")))})

    def to_json(self) -> dict[str, Any]:
        """Return the decision as plain JSON."""
        body: dict[str, Any] = {"answer": self.answer.value}
        if self.reason is not None:
            body["reason"] = self.reason
        if self.arguments is not None:
            body["arguments"] = dict(self.arguments)
        if self.answer is Answer.ALWAYS:
            body["scope"] = self.scope
        return body


def _values(details: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of a question as they are shown in it."""
    for value in details.values():
        for each in value if isinstance(value, list | tuple) else [value]:
            yield (
                each if isinstance(each, str) else json.dumps(each, ensure_ascii=False, default=str)
            )


Channel: TypeAlias = Callable[[ApprovalRequest], Awaitable[Decision | None]]
"""Asks a person and returns the answer, or `None` if `Approvals.decide` will deliver it later.

The call waits until the channel returns. After `None` its result is `pending_approval`.
"""
