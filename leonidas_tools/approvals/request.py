"""A question to a person, and the answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from leonidas_tools.metadata import ToolMetadata

Scope: TypeAlias = Literal["session", "user", "file"]
"""How long an "always" holds: the session, the user's preferences, or the file."""
_SCOPES = ("session", "user", "file")


class Answer(StrEnum):
    """What a person may say to a question."""

    APPROVE = "approve"
    DENY = "deny"
    EDIT = "edit"
    FILL = "fill"
    ALWAYS = "always"


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRequest:
    """A call that waits for a person's word.

    Args:
        id: Its name.
        tool: The tool's own name.
        title: The question, as a sentence that can be spoken.
        details: The arguments, as the tool would get them; secrets are masked.
        hash: What is approved: the tool, its schema and these arguments, and nothing else.
        created: When it was asked, in seconds since the epoch.
        deadline: When the question closes, in seconds since the epoch.
        on_expiry: What becomes of the call then: `cancel` or `proceed`.
        session: The session's id.
        user: Who the session belongs to.
        call_id: The id of the call, where it has one.
        rule: The rule that asks.
        schema: The JSON Schema of the answer, where it is more than yes or no.
        problem: Why the last answer did not fit, where there was one.
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

    def to_json(self) -> dict[str, Any]:
        """The request as plain JSON, without the hash: short secrets can be guessed from it."""
        body = asdict(self)
        del body["hash"]
        unsaid = [key for key in ("schema", "problem") if body[key] is None]
        for key in unsaid:
            del body[key]
        return body


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A person's answer.

    Args:
        answer: What it is.
        reason: Why not; the model reads it.
        arguments: Other arguments to run the tool with, where one given as it was shown is as it
            was; or what was asked for, by name.
        scope: How long "always" holds: for the session, or for good, kept among the preferences
            of the user or saved in the file.

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

    @classmethod
    def approve(cls) -> Decision:
        """Yes, this once."""
        return cls(answer=Answer.APPROVE)

    @classmethod
    def deny(cls, reason: str | None = None) -> Decision:
        """No."""
        return cls(answer=Answer.DENY, reason=reason)

    @classmethod
    def edit(cls, arguments: Mapping[str, Any]) -> Decision:
        """Yes, but with other arguments, all of which are given here."""
        return cls(answer=Answer.EDIT, arguments=dict(arguments))

    @classmethod
    def fill(cls, answers: Mapping[str, Any]) -> Decision:
        """Yes, and this is what was asked for, as the request's schema has it."""
        return cls(answer=Answer.FILL, arguments=dict(answers))

    @classmethod
    def always(cls, scope: Scope = "session") -> Decision:
        """Yes, and do not ask this question again."""
        return cls(answer=Answer.ALWAYS, scope=scope)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Decision:
        """Reads what `to_json` writes.

        Raises:
            ValueError: It is no decision.
        """
        known = ("answer", "reason", "arguments", "scope")
        arguments = data.get("arguments")
        has_arguments = data.get("answer") in (Answer.EDIT, Answer.FILL)
        if data.keys() - known or data.get("scope", "session") not in _SCOPES:
            raise ValueError(f"a decision has {', '.join(known)}")
        if has_arguments != isinstance(arguments, Mapping):
            raise ValueError("arguments go with the answers 'edit' and 'fill', as a mapping")
        return cls(**{**data, "answer": Answer(str(data.get("answer")))})

    def to_json(self) -> dict[str, Any]:
        """The decision as plain JSON."""
        said: dict[str, Any] = {"answer": self.answer.value}
        if self.reason is not None:
            said["reason"] = self.reason
        if self.arguments is not None:
            said["arguments"] = dict(self.arguments)
        if self.answer is Answer.ALWAYS:
            said["scope"] = self.scope
        return said


Channel: TypeAlias = Callable[[ApprovalRequest], Awaitable[Decision | None]]
"""Asks a person and waits for the answer; `None` where it will come later, by `Approvals.decide`.

Until the channel returns, the call waits; then, without a decision, it is answered
`pending_approval`.
"""


def fingerprint_of(metadata: ToolMetadata) -> str:
    """Stands for what a tool says it is: name, description and schema."""
    return _digest([metadata.name, metadata.description, metadata.parameters])


def hash_of(tool: str, fingerprint: str, arguments: Mapping[str, Any]) -> str:
    """Stands for one call: the tool, what it says it is, and the arguments."""
    return _digest([tool, fingerprint, arguments])


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


# Made once: `json.dumps` makes an encoder for each call.
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode
