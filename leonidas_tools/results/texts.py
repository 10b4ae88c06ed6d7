"""The texts that the library itself says to a model or a user, each under a key.

A result carries the key of its text, so that the settings can reword it. Only these texts have
keys: what a tool or an MCP server says is never replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING, Any, Self

from leonidas_tools.redaction.visible import hides, visible

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Text:
    """A text with a key.

    Args:
        default: The template, with named placeholders such as `{tool!r}`.
        when: When it is said.
        required: Placeholders that every template for it must have.
        more: Placeholders that the default does not use.
    """

    default: str
    when: str
    required: tuple[str, ...] = ()
    more: tuple[str, ...] = ()

    @property
    def placeholders(self) -> list[str]:
        """The names that a template for it may use."""
        found = [name for _, name, _, _ in Formatter().parse(self.default) if name]
        return list(dict.fromkeys([*found, *self.more]))

    def check(self, template: str) -> None:
        """Check a template that is to replace the default.

        Raises:
            ValueError: It uses what is no placeholder of this text, or cannot be read.
        """
        if len(template) > _LONGEST:
            raise ValueError(f"is longer than {_LONGEST} characters: shorten it")
        if hides(template):
            raise ValueError("has invisible control characters: remove them")
        try:
            fields = list(Formatter().parse(template))
        except ValueError:
            message = "has a single brace: write {{ and }} for braces that are no placeholder"
            raise ValueError(message) from None
        used = [field[1:] for field in fields if field[1] is not None]
        for name, spec, conversion in used:
            if name not in self.placeholders:
                allowed = ", ".join(f"{{{name}}}" for name in self.placeholders) or "none"
                raise ValueError(f"has the unknown placeholder {{{name}}}; allowed: {allowed}")
            if spec or conversion not in (None, "r"):
                raise ValueError(f"formats {{{name}}}: write {{{name}}} or {{{name}!r}}")
        missing = set(self.required) - {name for name, _, _ in used}
        if missing:
            names = ", ".join(f"{{{name}}}" for name in sorted(missing))
            raise ValueError(f"lacks {names}: the user has to hear it")


_AFTER_TIMEOUT = "The tool {tool!r} did not finish within {seconds} seconds"
_NOT_RUN = "{tool!r} was not run."
_LIMIT = "which is the limit."
_GO_ON = "Go on without it, or ask the user."

TEXTS: Mapping[str, Text] = {
    # Calls that do not begin.
    "unknown_tool": Text("There is no tool {tool!r}.", "A tool does not exist."),
    "closest_tool": Text(
        "Call one of the valid options instead, such as {closest!r}.",
        "Follows unknown_tool if a tool has a similar name.",
    ),
    "similar_tool": Text(
        "There is no tool {called!r}: this is the answer of {tool!r}.",
        "A similar tool is run in place of one that does not exist.",
    ),
    "tool_gone": Text("There is no tool {tool!r} any more.", "An approved tool has been removed."),
    "disabled": Text(
        "The tool {tool!r} is switched off: do without it.", "A tool is disabled in the settings."
    ),
    "maintenance": Text(
        "The tool {tool!r} is under maintenance: try later.", "A tool is under maintenance."
    ),
    "no_category": Text(
        "Nothing here runs tools of the category {category!r}.", "No stage runs the tool."
    ),
    "invalid_argument": Text(
        "{problem}",
        "An argument does not fit the schema; the problem says which, and why.",
        more=("tool",),
    ),
    "arguments_too_large": Text(
        "The arguments of {tool!r} are too large: together they may be {bytes} bytes long, where "
        "each value counts at least 64. Nothing was done.",
        "The arguments of a call are too large.",
    ),
    "arguments_too_large_hint": Text(
        "Give fewer or shorter values, or several calls with a part of them each.",
        "The hint for arguments_too_large.",
    ),
    "repeated_call": Text(
        "This call of {tool!r} was made before and does not run again. Its result is not known "
        "here: tell the user, and do not call it again before its effect is checked.",
        "A repeated call whose first result is unknown.",
    ),
    "missing_dependency": Text(
        "The tool needs {needs}, which is not available.",
        "The tool needs something that is not there.",
        more=("tool",),
    ),
    # How calls end.
    "failed": Text("The tool {tool!r} failed.", "A tool raises an exception."),
    "timeout": Text(f"{_AFTER_TIMEOUT}.", "A call has run out of time."),
    "timeout_unknown": Text(
        f"{_AFTER_TIMEOUT}, and it is not known whether it took effect: do not call it again, "
        "check first.",
        "A call with a side effect has run out of time.",
    ),
    "timeout_unknown_undone": Text(
        f"{_AFTER_TIMEOUT}. Every step it had noted was undone, but it is not known whether the "
        "step it was at took effect: do not call it again, check first.",
        "The same, after its steps were undone.",
    ),
    "undone": Text("What it had done was undone.", "Follows a text if all was undone."),
    "left_over": Text(
        "Of what was done before it failed, {count} could not be undone: tell so.",
        "Follows a text if not all was undone.",
    ),
    "cancelled": Text("The call of {tool!r} was cancelled.", "A call was cancelled."),
    "stopped": Text("The user stopped the tool {tool!r}.", "A person stops a call."),
    "stopped_running": Text(
        "The user stopped the tool {tool!r} while it ran.",
        "A person stops a call with a side effect.",
    ),
    "effect_unknown": Text(
        "It is not known whether it took effect: do not call it again, check first.",
        "Follows stopped_running.",
    ),
    "not_again": Text(
        "Therefore do not call it again unless the user asks for it.", "Follows stopped."
    ),
    "go_on_without": Text(
        "Therefore go on without it.", "Follows stopped if a person skips the call."
    ),
    "skipped": Text(
        "The user has decided to go on without {tool!r}: do not call it again for this.",
        "A person skips a call that failed.",
    ),
    "tried_again": Text(
        "The user had {tool!r} tried again.", "Precedes the new result of a call that failed."
    ),
    "tried": Text("It was tried {count} times.", "Follows the text of a call after retries."),
    "stood_in": Text("{fallback!r} stood in for {tool!r}.", "A fallback tool has done the work."),
    "result_cut": Text(
        "The result was cut: it is longer than {tokens} tokens.", "A result exceeds its budget."
    ),
    "result_part": Text(
        "This is a part of the result; {reader} reads more of it by its handle.",
        "A long result is kept for later.",
    ),
    # Limits.
    "circuit_open": Text(
        "The tool {tool!r} keeps failing and is left alone for a while.", "The breaker is open."
    ),
    "circuit_open_hint": Text("Try again in {seconds} seconds.", "The hint for circuit_open."),
    "calls_per_session": Text(
        f"{{tool!r}} was called {{count}} times in this conversation, {_LIMIT} {_GO_ON}",
        "A limit of the tool is reached.",
    ),
    "calls_per_turn": Text(
        f"{{tool!r}} was called {{count}} times since the user has spoken, {_LIMIT} {_GO_ON}",
        "A limit of the tool is reached.",
    ),
    "calls_per_minute": Text(
        f"{{tool!r}} was called {{count}} times in a minute, {_LIMIT} Wait before the next call.",
        "A limit of the tool is reached.",
    ),
    "all_calls_per_session": Text(
        f"Tools were called {{count}} times in this conversation, {_LIMIT} {_GO_ON}",
        "A limit of all tools is reached.",
    ),
    "all_calls_per_turn": Text(
        f"Tools were called {{count}} times since the user has spoken, {_LIMIT} {_GO_ON}",
        "A limit of all tools is reached.",
    ),
    "all_calls_per_minute": Text(
        f"Tools were called {{count}} times in a minute, {_LIMIT} Wait before the next call.",
        "A limit of all tools is reached.",
    ),
    "calls_per_minute_hint": Text(
        "Call again in {seconds} seconds.", "The hint for a limit by the minute."
    ),
    "loop": Text(
        "{tool!r} was not run: the same calls have given the same results {count} times running. "
        "Use what you have, do something else, or ask the user.",
        "The loop guard refuses a call.",
    ),
    "loop_warning": Text(
        "This has now given the same result {count} times running: do something else, or ask the "
        "user.",
        "Follows the text of a call that repeats itself.",
    ),
    # Approval.
    "denied_by_rule": Text(
        f"{_NOT_RUN} It is not allowed here. Do not try it in another way.", "A rule denies a call."
    ),
    "denied_by_rule_because": Text(
        f"{_NOT_RUN} {{reason}} Do not try it in another way.",
        "A rule with a message denies a call.",
    ),
    "refused": Text(f"{_NOT_RUN} The user has said no.", "The user says no."),
    "contradicted": Text(
        f"{_NOT_RUN} The user has not said yes, but no.", "The model reports a yes that was a no."
    ),
    "approval_expired": Text(
        f"{_NOT_RUN} Nobody has answered in time.", "A question was not answered in time."
    ),
    "approval_failed": Text(
        f"{_NOT_RUN} The person could not be asked.", "The channel to a person fails."
    ),
    "withdrawn": Text(f"{_NOT_RUN} The question was withdrawn.", "A question was withdrawn."),
    "denial_reason": Text("The reason: {reason!r}.", "Follows a denial, if a person gives one."),
    "after_denial": Text("Call it again only if the user asks for it.", "Follows a denial."),
    "too_many_questions": Text(
        "{tool!r} was not run: too many questions wait for the user. Ask them first, one after the "
        "other, then call it again.",
        "Too many questions are open.",
    ),
    "needs_approval": Text(
        "Nothing was done yet: the user has to agree first.", "A call waits for approval."
    ),
    "not_answered": Text(
        "Nothing was done: the user has not answered yet.", "The question has no answer yet."
    ),
    "not_asked": Text(
        "Nothing was done: you have not asked this question, or not in full, or have said more "
        "after it, or the user has interrupted it.",
        "The model has not asked the question.",
    ),
    "doubtful": Text(
        "Nothing was done: what the user has said since the question was not a clear yes and "
        "nothing else.",
        "The answer is not clear.",
    ),
    "waits": Text(
        "Nothing was done yet: another question is open, and only that one can be answered.",
        "Another question comes first.",
    ),
    "how_to_ask": Text(
        "Ask the user in the words of 'ask', with all names and numbers, and say nothing after it. "
        "Wait for the answer, then call confirm_action with this approval_id and what the user "
        "said.",
        "Follows the text of a call that waits for approval.",
    ),
    "ask_other_first": Text(
        "First ask that one and call confirm_action for it, also if the answer is no. Then ask "
        "this one in the words of 'ask', wait for the answer, and call confirm_action with this "
        "approval_id.",
        "Follows waits.",
    ),
    "asked_elsewhere": Text(
        "Nothing was done yet: a person is being asked. Tell the user that it waits, and do not "
        "call the tool again; the result will be told to you.",
        "A person is asked in another way.",
    ),
    "not_by_voice": Text(
        "Nothing was done: this call cannot be approved by voice, since its arguments cannot be "
        "said in full so that the user would hear all of them. Tell the user so. It can be "
        "approved where all of it is shown, such as the terminal or the console; the result will "
        "be told to you. Do not call confirm_action.",
        "A question cannot be spoken.",
    ),
    "not_transcribed_yet": Text(
        "Nothing was done yet: what the user says is not transcribed to its end. Say nothing and "
        "make the same call once more.",
        "The transcription of the answer has not ended.",
    ),
    "user_not_transcribed": Text(
        "Nothing was done: what the user says is not transcribed in this session, so that nothing "
        "can be confirmed by voice. Tell the user so.",
        "A session has no transcript of the user.",
    ),
    "model_not_transcribed": Text(
        "Nothing was done: what you say is not transcribed in this session, so that nothing can be "
        "confirmed by voice. Tell the user so.",
        "A session has no transcript of the model.",
    ),
    "needs_answer": Text("The call waits for the user's answer.", "A call needs values."),
    "needs_answer_again": Text("The user has not answered yet.", "The values are still missing."),
    "needs_answer_waits": Text(
        "Another question is open: ask that one first.", "A call needs values, but not first."
    ),
    "needs_answer_doubtful": Text(
        "The answer agrees to something, and the user has not clearly said yes to that.",
        "The values agree to something that the user did not.",
    ),
    "needs_answer_not_chosen": Text(
        "The user has not clearly named that choice. Name all the choices in their order, and have "
        "the user say one of them in these words or by its number.",
        "A choice is not what the user has said.",
    ),
    "how_to_answer": Text(
        "Ask the user just what is in 'ask', in the user's language, and say nothing else. Wait "
        "for the answer, then call answer_question with this question_id and what the user said, "
        "by the names in 'answers'; or with declined, if the user does not want to answer. Never "
        "make up an answer, and do not call the tool again.",
        "Follows the text of a call that needs values.",
    ),
    "approval_question": Text(
        "Shall I do this: {what}?",
        "The question to the user, spoken or shown.",
        required=("what",),
    ),
    "approval_question_pt": Text(
        "Posso fazer isto: {what}?", "The question in Portuguese.", required=("what",)
    ),
    "approval_question_zh": Text(
        "要我这样做吗：{what}？",  # noqa: RUF001 - Chinese punctuation
        "The question in Chinese.",
        required=("what",),
    ),
    "definition_changed": Text(
        "The definition of this tool has changed since you said always.",
        "Precedes the question if an earlier always was about another definition.",
    ),
    "definition_changed_pt": Text(
        "A definição desta ferramenta mudou desde que disse sempre.", "The same in Portuguese."
    ),
    "definition_changed_zh": Text(
        "自从您说了“总是”以后，这个工具的定义变了。",  # noqa: RUF001 - Chinese punctuation
        "The same in Chinese.",
    ),
    # The rest.
    "stale_result": Text(
        "The tool {tool!r} fails now: this is what it said {seconds} seconds ago.",
        "An older result is used while a tool fails.",
    ),
    "not_recorded": Text(
        "Nothing was done: {tool!r} may only run once that is written down, and just now it cannot "
        "be. Tell the user so.",
        "The store cannot be written to.",
    ),
    "not_recorded_hint": Text(
        "Try again in a while, if the user still wants it.", "The hint for not_recorded."
    ),
    "mcp_server_down": Text(
        "The MCP server {server!r} is not available: {reason}.", "A server is not there."
    ),
}
"""Every text, by key."""


@dataclass(frozen=True, slots=True)
class _Fill:
    """A text by its key, with what its placeholders stand for."""

    key: str
    values: Mapping[str, Any]


class Said(str):
    """A text of the library that knows by which keys it was made; to all others it is a `str`."""

    __slots__ = ("parts",)

    parts: tuple[str | _Fill, ...]

    def __new__(cls, text: str, parts: tuple[str | _Fill, ...] = ()) -> Self:
        """Make the text of its parts."""
        made = super().__new__(cls, text)
        made.parts = parts
        return made


def say(key: str, **values: Any) -> Said:
    """Return a text in its default words.

    Example:
        >>> say("unknown_tool", tool="serach")
        "There is no tool 'serach'."
    """
    return Said(TEXTS[key].default.format(**values), (_Fill(key, values),))


def join(*texts: str | None) -> Said:
    """Return the texts in one, with a space between them; each keeps its key.

    Example:
        >>> join(None, "No seats.", say("tried", count=3))
        'No seats. It was tried 3 times.'
    """
    said = [text for text in texts if text]
    parts = [part for text in said for part in (text.parts if type(text) is Said else (text,))]
    return Said(" ".join(said), tuple(parts))


@dataclass(frozen=True, slots=True)
class Wording:
    """The texts that the settings reword.

    Args:
        templates: The templates by key, checked.

    Example:
        >>> Wording({"tried": "Tried {count} times."}).reword(join("No.", say("tried", count=2)))
        'No. Tried 2 times.'
    """

    templates: Mapping[str, str]

    def reword(self, text: str | None) -> str | None:
        """Return a text with the words of the settings; what has no key stays as it is."""
        if type(text) is not Said:
            return text
        fills = [part for part in text.parts if isinstance(part, _Fill)]
        if not any(fill.key in self.templates for fill in fills):
            return text
        return " ".join(
            part if isinstance(part, str) else self._filled(part) for part in text.parts
        )

    def _filled(self, fill: _Fill) -> str:
        template = self.templates.get(fill.key)
        if template is None:
            return TEXTS[fill.key].default.format(**fill.values)
        # `{tool}` without `!r` shows a name that a model made up: nothing in it may be unseen.
        shown = {
            name: _Shown(value) if isinstance(value, str) else value
            for name, value in fill.values.items()
        }
        return template.format(**shown)

    def template(self, key: str, language: str) -> str:
        """Return the template of a text in a language; in English where there is no other.

        Example:
            >>> AS_IT_IS.template("approval_question", "pt-BR")
            'Posso fazer isto: {what}?'
        """
        own = f"{key}_{language.partition('-')[0].lower()}"
        key = own if own in TEXTS else key
        return self.templates.get(key) or TEXTS[key].default


class _Shown(str):
    """A value that is shown with its unseen characters written out."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return visible(str(self), keep="\n")


AS_IT_IS = Wording({})
"""The default words of all texts."""
