"""The sentences of questions to the user, and of results for the model."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.approvals.spoken import (
    MAX_SPOKEN_ARGUMENTS,
    UnsayableError,
    ValueSpeaker,
    has_question,
    is_plain,
    is_short,
)
from leonidas_tools.calls.call import ResultStatus, ToolResult
from leonidas_tools.results.texts import AS_IT_IS, MessageText, join, say
from leonidas_tools.rules.conditions import steps_of, values_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from leonidas_tools.approvals.request import ApprovalRequest
    from leonidas_tools.results.texts import Wording
    from leonidas_tools.rules.rule import Rule

_PLACE = re.compile(r"\{([^{}]+)\}")
_MAX_SHOWN_CHARACTERS = 2_000
_COUNT = ".count"
_Say: TypeAlias = "Callable[[Any], str]"


def question(
    tool: str, arguments: Mapping[str, Any], rule: Rule, language: str, words: Wording = AS_IT_IS
) -> str:
    """Return the question as a sentence to read; the rule's message replaces the default one.

    Example:
        >>> from leonidas_tools.rules.rule import Decide, Rule
        >>> large = Rule(name="large", decide=Decide.ASK, message="Send {amount} euros to {to}?")
        >>> question("send_money", {"amount": 20, "to": "Ana"}, large, "en")
        'Send 20 euros to Ana?'
        >>> question("send_money", {"to": "Ana"}, Rule(name="r", decide=Decide.ASK), "en")
        'Shall I do this: send money, to Ana?'
    """
    usual = words.template("approval_question", language)
    return _question(tool, arguments, rule, usual, partial(_format_value, words=words))


def build_spoken_question(  # noqa: PLR0913 - the parts of a question
    tool: str,
    arguments: Mapping[str, Any],
    rule: Rule,
    *,
    language: str,
    shortens: bool,
    notice: str = "",
    words: Wording = AS_IT_IS,
) -> str | None:
    """Return the question as a sentence to speak.

    With `shortens`, a long value may be spoken as its beginning and its end. `notice` precedes the
    question. `words` are those of the settings. If a value may be heard as a question, the default
    question follows without the values, so that it comes last.

    Returns:
        `None` if the question cannot be spoken so that a listener learns all of it.

    Example:
        >>> from leonidas_tools.rules.rule import Decide, Rule
        >>> asking = Rule(name="r", decide=Decide.ASK)
        >>> long = {"line": "ls" * 50}
        >>> build_spoken_question("run", long, asking, language="en", shortens=False) is None
        True
    """
    usual = words.template("approval_question", language)
    voice = ValueSpeaker(language=language, names=tuple(arguments), shortens=shortens)
    if len(arguments) > MAX_SPOKEN_ARGUMENTS or not all(map(voice.is_name, (tool, *arguments))):
        return None
    try:
        said = _question(tool, arguments, rule, usual, voice.say)
    except UnsayableError:
        return None
    if not is_short(said) and not shortens:
        return None
    if any(map(has_question, arguments.values())):  # else a yes might answer that question
        said = f"{said} {usual.format(what=tool.replace('_', ' '))}"
    return prepend_notice(notice, said)


def prepend_notice(notice: str, question: str) -> str:
    """Return a question after a notice, which may be empty."""
    return f"{notice} {question}" if notice else question


def fixed_question(question: str, language: str) -> str | None:
    """Return a question whose sentence is given; `None` if it cannot be spoken."""
    return question if is_plain(question, language) and is_short(question) else None


def _question(tool: str, arguments: Mapping[str, Any], rule: Rule, usual: str, speak: _Say) -> str:
    if rule.message is not None:
        return _complete_message(_counting(rule, arguments), arguments, speak)
    what = [tool.replace("_", " "), *_format_arguments(arguments, speak)]
    return usual.format(what=", ".join(what))


def _counting(rule: Rule, arguments: Mapping[str, Any]) -> str:
    """Return a rule's message with the path of the list that its `{count}` means.

    That is the first list in the rule's conditions, or else among the arguments.
    """
    message = rule.message or ""
    if "count" in arguments:
        return message
    lists = [path for path in (*rule.when, *arguments) if _is_list(path, arguments)]
    return message.replace("{count}", f"{{{lists[0]}{_COUNT}}}") if lists else message


def _is_list(path: str, arguments: Mapping[str, Any]) -> bool:
    found = values_at(arguments, steps_of(path), parts=False)
    return [type(each) for each in found] in ([list], [tuple])


def _complete_message(message: str, arguments: Mapping[str, Any], speak: _Say) -> str:
    """Fill in a rule's message, and append the arguments that it does not mention."""
    named = {re.split(r"[.\[]", path, maxsplit=1)[0] for path in places_in(message)}
    rest = {name: value for name, value in arguments.items() if name not in named}
    more = f" ({', '.join(_format_arguments(rest, speak))})" if rest else ""
    return _fill_places(message, arguments, speak) + more


def _format_arguments(arguments: Mapping[str, Any], speak: _Say) -> list[str]:
    return [f"{name.replace('_', ' ')} {speak(value)}" for name, value in arguments.items()]


def format_rule_message(rule: Rule, arguments: Mapping[str, Any]) -> str:
    """Return a rule's message with the arguments in place of `{path}`.

    `{files.count}` is the number of items of a list, and `{count}` that of the list in the rule's
    conditions, or else of the first list among the arguments.

    Example:
        >>> from leonidas_tools.rules.rule import Decide, Rule
        >>> many = Rule(name="many", decide=Decide.DENY, message="{count} files are too many.")
        >>> format_rule_message(many, {"files": ["a", "b"]})
        '2 files are too many.'
    """
    return _fill_places(_counting(rule, arguments), arguments, _format_value)


def _fill_places(message: str, arguments: Mapping[str, Any], speak: _Say) -> str:
    return _PLACE.sub(lambda match: _at(match[1], arguments, speak), message)


def places_in(message: str) -> list[str]:
    """Return the paths in a message's placeholders."""
    return _PLACE.findall(message)


def _at(path: str, arguments: Mapping[str, Any], speak: _Say) -> str:
    try:
        found = _values_for(path, arguments)
    except UnsayableError:
        raise
    except (ValueError, TypeError):
        found = []
    return ", ".join(map(speak, found)) or "?"


def _values_for(path: str, arguments: Mapping[str, Any]) -> Sequence[Any]:
    """Return the values at a path of a message; for `.count` of a list, return its length.

    A property of that name in the items of the list is ignored.
    """
    found = values_at(arguments, steps_of(path), parts=False)
    if not path.endswith(_COUNT):
        return found
    counted = values_at(arguments, steps_of(path.removesuffix(_COUNT)), parts=False)
    numbers = [len(each) for each in counted if isinstance(each, list | tuple)]
    return numbers or found or [len(each) for each in counted]


def _format_value(value: Any, words: Wording | None = None) -> str:
    """Return a value as text for a person; shorten a very long one in the middle."""
    if isinstance(value, list | tuple):
        text = ", ".join(_format_value(each, words) for each in value)
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= _MAX_SHOWN_CHARACTERS:
        return text
    half = _MAX_SHOWN_CHARACTERS // 2
    left = len(text) - 2 * half
    middle = " … " if words is None else words.text("characters_left_out", count=left)
    return f"{text[:half]}{middle}{text[-half:]}"


def still_open(request: ApprovalRequest, key: str, reason_code: str | None = None) -> ToolResult:
    """Return the result of a call whose question the model need not ask now.

    `key` is the key of the text, and the default of the reason code.
    """
    return ToolResult(
        status=ResultStatus.PENDING_APPROVAL,
        result={id_key(request): request.id},
        message=say(key),
        reason_code=reason_code or key,
    )


def id_key(request: ApprovalRequest) -> str:
    """Return the key of a question's id in results."""
    return "approval_id" if request.schema is None else "question_id"


def pending(request: ApprovalRequest, ask: str, again: str | None = None) -> ToolResult:
    """Return the result of a call whose question the model must ask.

    `again` is the reason code if the model has received this result before.
    """
    if request.schema is not None:
        return _wanting(request, ask, request.schema, again)
    return ToolResult(
        status=ResultStatus.PENDING_APPROVAL,
        result={"approval_id": request.id, "ask": ask},
        message=join(
            say(again or "needs_approval"),
            say("ask_other_first" if again == "waits" else "how_to_ask"),
        ),
        reason_code=again or "needs_approval",
    )


def _wanting(
    request: ApprovalRequest, ask: str, schema: Mapping[str, Any], again: str | None
) -> ToolResult:
    """Return the result of a call that needs values from the user before it continues."""
    why = "needs_answer_again" if again else "needs_answer"
    if again in ("waits", "doubtful", "not_chosen", "not_said"):
        why = f"needs_answer_{again}"
    return ToolResult(
        status=ResultStatus.PENDING_APPROVAL,
        result={"question_id": request.id, "ask": ask, "answers": schema},
        message=join(say(why), say("how_to_answer")),
        reason_code=again or "needs_answer",
    )


def too_many(tool: str) -> ToolResult:
    """Return the result of a call whose question exceeds the limit of open questions."""
    return ToolResult(
        status=ResultStatus.LIMITED,
        message=say("too_many_questions", tool=tool),
        retryable=True,
        reason_code="too_many_questions",
    )


def build_rule_denial(tool: str, arguments: Mapping[str, Any], rule: Rule) -> ToolResult:
    """Return the result of a call that a rule denies."""
    said = say("denied_by_rule", tool=tool)
    if rule.message:
        own = type(rule.message) is MessageText  # without placeholders
        reason = rule.message if own else format_rule_message(rule, arguments)
        said = say("denied_by_rule_because", tool=tool, reason=reason)
    return ToolResult(status=ResultStatus.DENIED, message=said, reason_code="denied_by_rule")


def build_denial(tool: str, reason_code: str, reason: str | None = None) -> ToolResult:
    """Return the result of a call that a person has not approved.

    `reason` is the person's own reason.
    """
    said = say("denial_reason", reason=reason) if reason else None
    return ToolResult(
        status=ResultStatus.DENIED,
        message=join(say(reason_code, tool=tool), said, say("after_denial")),
        reason_code=reason_code,
    )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """Describe in a sentence which arguments a person has changed."""
    names = [k for k in {**before, **after} if before.get(k) != after.get(k)]
    edits = [
        say(
            "user_edit",
            name=k,
            now=_format_value(after.get(k)),
            before=_format_value(before.get(k)),
        )
        for k in names
    ]
    return say("user_edited", changes=join(*edits, between=", ")) if edits else None
