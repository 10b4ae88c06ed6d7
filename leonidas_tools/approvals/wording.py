"""The sentences: what the user is asked, and what the model is told."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls import ResultStatus, ToolResult
from leonidas_tools.rules.conditions import steps_of, values_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.approvals.request import ApprovalRequest
    from leonidas_tools.rules.rule import Rule

_PLACE = re.compile(r"\{([^{}]+)\}")
_LONGEST_VALUE = 80
_MOST_ITEMS = 3
_COUNT = ".count"
_QUESTIONS = {
    "en": "Shall I do this: {what}?",
    "pt": "Posso fazer isto: {what}?",
    "zh": "要我这样做吗：{what}？",  # noqa: RUF001 - Chinese punctuation
}


def question(tool: str, arguments: Mapping[str, Any], rule: Rule, language: str) -> str:
    """What to ask, as a sentence that can be spoken.

    Args:
        tool: The tool's name.
        arguments: What it would be called with.
        rule: The rule that asks; its message goes before the usual sentence.
        language: The language of the usual sentence.

    Example:
        >>> from leonidas_tools.rules.rule import Decide, Rule
        >>> large = Rule(name="large", decide=Decide.ASK, message="Send {amount} euros to {to}?")
        >>> question("send_money", {"amount": 20, "to": "Ana"}, large, "en")
        'Send 20 euros to Ana?'
        >>> question("send_money", {"to": "Ana"}, Rule(name="r", decide=Decide.ASK), "en")
        'Shall I do this: send money, to Ana?'
    """
    if rule.message is not None:
        return filled(rule.message, arguments)
    what = [tool.replace("_", " "), *(f"{k} {_spoken(v)}" for k, v in arguments.items())]
    usual = _QUESTIONS.get(language.partition("-")[0].lower(), _QUESTIONS["en"])
    return usual.format(what=", ".join(what))


def filled(message: str, arguments: Mapping[str, Any]) -> str:
    """A message with what stands in the arguments; `{files.count}` is how many there are.

    Example:
        >>> filled("Delete {files.count} files?", {"files": ["a", "b"]})
        'Delete 2 files?'
    """
    return _PLACE.sub(lambda match: _at(match[1], arguments), message)


def places_in(message: str) -> list[str]:
    """The paths that a message has places for."""
    return _PLACE.findall(message)


def _at(path: str, arguments: Mapping[str, Any]) -> str:
    try:
        found = values_at(arguments, steps_of(path))
        if not found and path.endswith(_COUNT):
            found = [
                len(each) for each in values_at(arguments, steps_of(path.removesuffix(_COUNT)))
            ]
    except (ValueError, TypeError):
        found = []
    return ", ".join(map(_spoken, found)) or "?"


def _spoken(value: Any) -> str:
    if isinstance(value, list | tuple):
        named = ", ".join(map(_spoken, value[:_MOST_ITEMS]))
        more = len(value) - _MOST_ITEMS
        return f"{named} and {more} more" if more > 0 else named
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def pending(request: ApprovalRequest, *, by_voice: bool, again: str | None = None) -> ToolResult:
    """What a call is answered whose question is open.

    Args:
        request: The question.
        by_voice: Whether the model is to ask it.
        again: Why it is to be asked once more, as a reason code.
    """
    if not by_voice:
        return ToolResult(
            status=ResultStatus.PENDING_APPROVAL,
            result={"approval_id": request.id},
            message=(
                "Nothing was done yet: a person is being asked. Tell the user that it waits, and "
                "do not call the tool again; the result will be told to you."
            ),
            reason_code="asked_elsewhere",
        )
    if request.schema is not None:
        return _wanting(request, request.schema, again)
    why = {
        None: "Nothing was done yet: the user has to agree first.",
        "not_answered": "Nothing was done: the user has not answered yet.",
        "doubtful": "Nothing was done: the user's answer was neither a clear yes nor a clear no.",
    }[again]
    how = (
        "Ask the user just what is in 'ask', in the user's language, and say nothing else. Wait "
        "for the answer, then call confirm_action with this approval_id and what the user said."
    )
    return ToolResult(
        status=ResultStatus.PENDING_APPROVAL,
        result={"approval_id": request.id, "ask": request.title},
        message=f"{why} {how}",
        reason_code=again or "needs_approval",
    )


def _wanting(request: ApprovalRequest, schema: Mapping[str, Any], again: str | None) -> ToolResult:
    """What a call is answered that wants to know something before it goes on."""
    why = "The user has not answered yet." if again else "The call waits for the user's answer."
    how = (
        "Ask the user just what is in 'ask', in the user's language, and say nothing else. Wait "
        "for the answer, then call answer_question with this question_id and what the user said, "
        "by the names in 'answers'; or with declined, if the user does not want to answer. Never "
        "make up an answer, and do not call the tool again."
    )
    return ToolResult(
        status=ResultStatus.PENDING_APPROVAL,
        result={"question_id": request.id, "ask": request.title, "answers": schema},
        message=f"{why} {how}",
        reason_code=again or "needs_answer",
    )


def denied_by_rule(tool: str, arguments: Mapping[str, Any], rule: Rule) -> ToolResult:
    """What a call is answered that a rule denies."""
    said = filled(rule.message, arguments) if rule.message else "It is not allowed here."
    return ToolResult(
        status=ResultStatus.DENIED,
        message=f"{tool!r} was not run. {said} Do not try it in another way.",
        reason_code="denied_by_rule",
    )


def denied(tool: str, reason_code: str, reason: str | None = None) -> ToolResult:
    """What a call is answered that a person has not allowed.

    Args:
        tool: The tool's name.
        reason_code: Why, for programs: `refused`, `approval_expired`, …
        reason: What the person has said.
    """
    why = {
        "refused": "The user has said no.",
        "contradicted": "The user has not said yes, but no.",
        "approval_expired": "Nobody has answered in time.",
        "approval_failed": "The person could not be asked.",
        "withdrawn": "The question was withdrawn.",
    }[reason_code]
    said = f" The reason: {reason!r}." if reason else ""
    return ToolResult(
        status=ResultStatus.DENIED,
        message=f"{tool!r} was not run. {why}{said} Call it again only if the user asks for it.",
        reason_code=reason_code,
    )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What a person has changed in the arguments, in a sentence."""
    names = [k for k in {**before, **after} if before.get(k) != after.get(k)]
    told = [f"{k} is {_spoken(after.get(k))} instead of {_spoken(before.get(k))}" for k in names]
    return f"The user has changed the arguments: {', '.join(told)}." if told else ""
