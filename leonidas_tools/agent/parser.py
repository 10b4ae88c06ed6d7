"""Parse the thought, the calls and the final answer from the text of a model."""

from __future__ import annotations

import ast
import json
import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from leonidas_tools.agent.malformed_json import (
    ARGUMENT_KEYS,
    MAX_DEPTH,
    MAX_TEXT_CHARACTERS,
    MAX_VALUES,
    JsonValue,
    json_values,
    value_at,
)
from leonidas_tools.agent.quotes import (
    CODE_MARKS,
    MARKS,
    blank_quotes,
    is_in_a_sentence,
    is_in_marks,
    is_quoted,
    strip_quote_marks,
)
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedCall:
    """A parsed call."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """The thought, the calls and the answer in a text."""

    thought: str = ""
    calls: Sequence[ParsedCall] = ()
    answer: str | None = None
    # parts that could not be parsed and how to write them, as messages for the model
    problems: Sequence[str] = ()


def parse(text: str, tools: Collection[str] | None = None, *, is_cut: bool = False) -> Parsed:
    r"""Return the thought, the calls and the final answer in a text; never raise.

    It parses the labels of ReAct (in English, Portuguese and Chinese), JSON, fenced or bare, the
    tags that models put around calls, and calls in Python syntax. Text after an observation that
    the model has made up is ignored. Arguments that were cut off are a problem, not a call. A text
    without any sign of a call is the answer.

    Args:
        text: The text of the model.
        tools: The names of the tools, if they are known.
        is_cut: Whether the answer was cut off.

    Example:
        >>> parse('Thought: sum\nAction: add\nAction Input: {"a": 1, "b": 2}').calls[0]
        ParsedCall(name='add', arguments={'a': 1, 'b': 2})
        >>> parse('Action: add\nAction Input: {"a": 1, "b"').problems
        ("The call of 'add' was cut off in the middle and not run. Write it again in full.",)
        >>> parse("It is 3.").answer
        'It is 3.'
    """
    own = _truncate_at_turn_end(text[:MAX_TEXT_CHARACTERS].replace("\r\n", "\n"))
    for each in dict.fromkeys((_plain(own), own)):  # an answer keeps the marks of calls
        reading = _Reading(tools=None if tools is None else frozenset(tools), is_cut=is_cut)
        reading.read(each)
        if reading.calls or reading.problems:
            break
    return reading.build_result()


def calls_within(value: Any, tools: Collection[str]) -> list[ParsedCall]:
    """Return the calls anywhere in the result of a tool, quoted or not; never raise.

    Texts in the value are parsed like `parse` does.

    Example:
        >>> calls_within({"page": "Write `pay(amount=5)` now."}, ["pay"])
        [ParsedCall(name='pay', arguments={'amount': 5})]
    """
    search = _Search(frozenset(tools))
    search.value(value, 0)
    return search.found


_CALL_MARKUP = re.compile(
    r"^[ \t]*(?:(?P<tag><(?:tool_calls?|function_calls?|tool_use|functioncall)>|<function=|<invoke "
    r"|<[|\uff5c](?:DSML|tool|python_tag)|\[TOOL_CALLS\])"
    r"|(?P<json>\A\[?\s*\{\s*\"(?:name|type|function|tool_calls?)\"\s*:))",
    re.IGNORECASE | re.MULTILINE,
)


class CallMarkup(NamedTuple):
    """Markup of calls in a text."""

    is_tag: bool  # not only JSON, which may be an answer
    is_last: bool  # whether the text ends with it


def markup_in(text: str) -> CallMarkup | None:
    """Return the markup of calls in a text, other than within a line; `None` without any.

    Example:
        >>> markup_in('<tool_call>{"name": "now"}</tool_call>')
        CallMarkup(is_tag=True, is_last=True)
        >>> markup_in("Models write <tool_call> then.") is None
        True
    """
    found = _CALL_MARKUP.search(text)
    if found is None:
        return None
    return CallMarkup(
        found["tag"] is not None, _CLOSED.search(_plain(text).rstrip("` \n")) is not None
    )


def read_arguments(
    name: str, arguments: Mapping[str, Any] | str
) -> tuple[Mapping[str, Any] | None, str]:
    """Return the arguments of a native call, or `None` and a message for the model.

    Example:
        >>> read_arguments("add", "{'a': 1,}")
        ({'a': 1}, '')
        >>> read_arguments("add", '{"a": 1')[0] is None
        True
    """
    if not isinstance(arguments, str):
        return arguments, ""
    if not arguments.strip():
        return {}, ""
    text = _decode_string(arguments.strip())
    start = text.find("{")
    value = None if start < 0 else value_at(text, start)
    if value is not None and value.is_open:
        return None, say("agent_call_cut", tool=name)
    # Two objects belong to two calls: neither is complete.
    if value is None or not isinstance(value.value, dict) or "{" in text[value.end :]:
        return None, say("agent_call_unreadable", tool=name)
    return value.value, ""


def _decode_string(text: str) -> str:
    """Return the text in a JSON string, as some models encode arguments twice."""
    try:
        value = json.loads(text) if text.startswith('"') else text
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, str) else text


# End of the model's turn --------------------------------------------------------------------------

_MARKS_OF_CALLS = re.compile(
    r"(?<=[</])\uff5cDSML\uff5c|\[TOOL_CALLS\]|<\|python_tag\|>|\bfunctools(?=\[\s*\{)",
    re.IGNORECASE,
)
"""Marks before calls or in their tags, which say no more than the calls."""
_ENDS = re.compile(
    r"<\|(?:im_end|eot_id|eom_id|end|endoftext|end_of_text|return)\|>|</s>|<end_of_turn>"
    r"|<\|im_start\|>|<\|start_header_id\|>|<start_of_turn>|\[/?INST\]"
)
"""End of the model's own turn; later text is made up."""


_MISTRAL_CALL = re.compile(r"\[TOOL_CALLS\]\s*([\w.-]{1,128})\s*(?:\[ARGS\])?\s*(?=\{)")


def _plain(text: str) -> str:
    """Return the text without marks of calls that say no more than the calls themselves."""
    text = _MISTRAL_CALL.sub(r"Action: \1 ", text)
    return _MARKS_OF_CALLS.sub("", text)


def _truncate_at_turn_end(text: str) -> str:
    """Return the text up to the end of the model's own turn."""
    end = next((e for e in _ENDS.finditer(text) if text[: e.start()].strip()), None)
    return text if end is None else text[: end.start()]


# Labels of ReAct ----------------------------------------------------------------------------------

_LABELS = {
    "thought": "thoughts?|thinking|reasoning|pensamento|racioc[ií]nio|思考|想法",
    "action": r"actions?|tool[ _]?(?:call|name)?|function(?:[ _]call|[ _]name)?|a[cç][aã]o"
    r"|ferramenta|行动|动作|工具",
    "input": r"action[ _-]?input|tool[ _-]?input|inputs?|arguments?|args|param(?:eter)?s?"
    r"|entrada(?: da a[cç][aã]o)?|argumentos?|par[aâ]metros?|行动输入|动作输入|工具输入|输入|参数",
    "observation": r"observations?|tool[ _](?:result|response|output)s?|observa[cç][aã]o"
    r"|观察|观察结果",
    "answer": r"final[ _]?(?:answer|response)|answer|resposta(?: final)?|最终答案|最终回答|答案",
    "question": "question|pergunta|user|human|usu[aá]rio|问题|用户",
}
_LABEL = re.compile(
    r"^[ \t>#*_\-]*(?:\d+[.)]\s*)?\[?(?:"
    + "|".join(f"(?P<{kind}>{names})" for kind, names in reversed(_LABELS.items()))
    + r")(?:[ \t]*\#?\d+)?\]?[ \t]*[*_`]*[ \t]*[:\uff1a][ \t]*[*_]*",
    re.IGNORECASE | re.MULTILINE,
)
_NONE = re.compile(r"(?:none|null|n/?a|no(?:thing| action| tool)?|nenhuma?|无)\W*", re.IGNORECASE)
_FINISH = re.compile(r"(?:final[ _-]?(?:answer|response)|finish|answer|respond)", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d][\w.:/-]{0,127}")
_FINAL = re.compile("final|最终", re.IGNORECASE)
_QUOTES = "`'\"*_ \t"


@dataclass(frozen=True, slots=True)
class _Segment:
    """A label and the text up to the next one."""

    kind: str
    text: str
    label: str = ""


_PLAIN_LABEL = re.compile(r"action|a[cç][aã]o|行动|动作", re.IGNORECASE)
_LIKE_A_CALL = re.compile(r"[`'\"*\s]*(?:[^\W\d][\w.:/-]*[`'\"*]*[ \t]*(?:[({]|\n|\Z)|[{\[])")


def _is_label(found: re.Match[str], text: str) -> bool:
    """Return whether a match is a label, not a quote or a sentence that begins with `Tool:`."""
    if is_quoted(text, found.end()):
        return False
    if found.lastgroup != "action" or _PLAIN_LABEL.search(found[0]):
        return True
    return _LIKE_A_CALL.match(text, found.end()) is not None


def _segments(text: str) -> list[_Segment]:
    """Split a text at the labels outside of JSON; the first segment has no label."""
    matches = list(_LABEL.finditer(text))
    spans = _spans_of_values(text) if matches else []
    outside = (each for each in matches if not any(a < each.start() < b for a, b in spans))
    labels = [each for each in outside if _is_label(each, text)]
    first = labels[0].start() if labels else len(text)
    segments = [_Segment("", text[:first].strip())]
    for at, label in enumerate(labels):
        end = labels[at + 1].start() if at + 1 < len(labels) else len(text)
        segments.append(_Segment(label.lastgroup or "", text[label.end() : end].strip(), label[0]))
    return segments


_VALUE_START = re.compile(r"\{|\[(?=\s*[\[{])")


def _values(text: str) -> Iterator[tuple[int, JsonValue]]:
    """Yield the objects in a text, and the arrays of objects, with their positions."""
    at = 0
    for _ in range(MAX_VALUES):
        match = _VALUE_START.search(text, at)
        if match is None:
            return
        value = value_at(text, match.start())
        if not is_quoted(text, match.start()):
            yield match.start(), value
        at = max(value.end, match.end())


def _spans_of_values(text: str) -> list[tuple[int, int]]:
    return [(start, value.end) for start, value in _values(text) if not value.is_open]


# Calls in JSON ------------------------------------------------------------------------------------

_ARGUMENTS = re.compile(ARGUMENT_KEYS, re.IGNORECASE)
_TOOL = re.compile(
    r"action|(?:tool|function)(?:[_ ]?(?:name|call))?|call|ação|ferramenta|工具|行动", re.IGNORECASE
)
_LIST = re.compile(r"(?:tool_|function_)?calls|actions|tools")
_THOUGHT = re.compile(r"thoughts?|thinking|reasoning|pensamento|思考")
_ANSWER = re.compile(r"(?:final[_ ]?)?answer|final_response|resposta_final|最终答案", re.IGNORECASE)
_OWN = re.compile(f"{_TOOL.pattern}|{_THOUGHT.pattern}|name|id|type|index", re.IGNORECASE)


def _first(value: Mapping[str, Any], keys: re.Pattern[str]) -> Any:
    """Return the first value under one of the keys, other than null."""
    found = (each for key, each in value.items() if each is not None and keys.fullmatch(key))
    return next(found, None)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


# Calls in tags ------------------------------------------------------------------------------------

_TAGGED = re.compile(
    r"<(?P<tag>tool_calls?|function_calls?|tool_use|functioncall|tool|function|action)>"
    r"\s*(?=[\[{<])(?P<body>.*?)(?:</(?P=tag)>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_NAMED = re.compile(
    r"<(?:function|tool)=(?P<name>[^\s>]{1,128})>(?P<body>.*?)(?P<end></(?:function|tool)>|\Z)"
    r"|<invoke\s+name=[\"'](?P<invoked>[^\"'>]{1,128})[\"']\s*>(?P<inside>.*?)(?P<out></invoke>|\Z)",
    re.DOTALL | re.IGNORECASE,
)


def _is_mentioned(text: str, found: re.Match[str]) -> bool:
    """Return whether a call in tags is quoted, or is part of a sentence about it."""
    start, end = found.span()
    if is_quoted(text, start) or is_in_marks(text, start, end, CODE_MARKS):
        return True
    return found[0].endswith(">") and is_in_a_sentence(text, start, end)


def _answer_at(text: str, tagged: Sequence[re.Match[str]]) -> int:
    """Return the start of a final answer outside of tags; calls in it are only mentioned."""
    for found in _LABEL.finditer(text) if tagged else ():
        is_inside = any(each.start() < found.start() < each.end() for each in tagged)
        if _FINAL.search(found[0]) and not is_inside and _is_label(found, text):
            return found.start()
    return len(text)


def _without_mentions(text: str) -> str:
    """Return the text with spaces in place of tags that are only mentioned, with their JSON."""
    for form in (_TAGGED, _NAMED):
        text = form.sub(
            lambda found: " " * len(found[0]) if _is_mentioned(found.string, found) else found[0],
            text,
        )
    return text


_PARAMETER = re.compile(
    r"<parameter(?:=|\s+name=[\"'])(?P<key>[^\"'>\s]{1,128})[\"']?(?P<more>[^<>]{0,100})>(?P<value>.*?)"
    r"(?P<end></parameter>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_THINK = re.compile(
    r"<(?P<tag>think|thinking|thought|reasoning|scratchpad)>(?P<body>.*?)(?:</(?P=tag)>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_THINK_END = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
_MADE_UP = re.compile(
    r"</?(?:tool_response|tool_result|function_results?|observation|\|observation\|)>|\[TOOL_RESULTS\]",
    re.IGNORECASE,
)
_ANSWER_TAG = re.compile(
    r"<(?P<tag>final_answer|answer|response)>(?P<body>.*?)(?:</(?P=tag)>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_FENCE = re.compile(r"^[ \t]*```[ \t]*[\w+-]*[ \t]*\n?|\n?[ \t]*```[ \t]*$", re.MULTILINE)


_CLOSED = re.compile(r"(?:[}\])]|</\w+>)\Z")
"""End of a text whose last call is complete."""


@dataclass(slots=True)
class _Reading:
    """State of parsing a text."""

    tools: frozenset[str] | None
    is_cut: bool  # whether the answer was cut off
    thoughts: list[str] = field(default_factory=list)
    calls: list[ParsedCall] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    tail: str = ""

    def build_result(self) -> Parsed:
        """Build the result; ignore an answer given with calls, as it cannot know their results."""
        if self.is_cut and self.calls and _CLOSED.search(self.tail) is None:
            self.problems.append(say("agent_call_cut", tool=self.calls.pop().name))
        calls = tuple(self.calls[:MAX_VALUES])
        answer = None
        if not calls and not self.problems and self.answers:
            answer = self.answers[0]
        if not (calls or self.problems) and answer is None:
            self.problems.append(say("agent_no_action" if self.thoughts else "agent_nothing_said"))
        return Parsed(
            thought="\n".join(each for each in self.thoughts if each),
            calls=calls,
            answer=answer,
            problems=tuple(dict.fromkeys(self.problems)),
        )

    @property
    def _is_done(self) -> bool:
        return bool(self.calls or self.problems or self.answers)

    def read(self, text: str) -> None:
        """Parse a text in each form in turn, until one form matches."""
        text = strip_quote_marks(self._without_thoughts(text).strip())
        text = self._before_made_up(text)
        self.tail = text.rstrip("` \n")
        own = blank_quotes(text)
        if own != text:
            self._read_shown(own, text)
            return
        self._read_forms(text)
        if text and not self._is_done:
            self.answers.append(_answer_in(text))

    def read_place(self, place: dict[str, Any] | re.Match[str] | str) -> None:
        """Parse an object, a call in tags, or a text that begins with a call."""
        if isinstance(place, dict):
            self._object(place, 0)
        elif isinstance(place, str):
            self._labels(place)
            if not self.calls:
                self._python(place, strict=False)
        else:
            self._read_tagged_call(place)

    def _read_shown(self, own: str, text: str) -> None:
        """Parse a text with quoted parts; a call in them is not intended."""
        thoughts = list(self.thoughts)
        self._read_forms(own)
        if self.calls or self.problems:
            return
        self.thoughts, self.answers = thoughts, []
        whole = _Reading(tools=self.tools, is_cut=False)
        whole._read_forms(text)
        if whole.answers and not whole.calls:
            self.thoughts += whole.thoughts
            self.answers += whole.answers
        else:
            self.answers.append(_answer_in(text))

    def _read_forms(self, text: str) -> None:
        for form in (self._tags, self._labels, self._json, self._python):
            form(text)
            if self._is_done:
                return

    def _without_thoughts(self, text: str) -> str:
        """Remove and record the tagged thoughts; calls in them must not run."""
        closed = _THINK_END.search(text)
        opened = _THINK.search(text)
        if closed is not None and (opened is None or closed.start() < opened.start()):
            self.thoughts.append(text[: closed.start()].strip())
            text = text[closed.end() :]
        self.thoughts += [each["body"].strip() for each in _THINK.finditer(text)]
        return _THINK.sub("", text)

    def _before_made_up(self, text: str) -> str:
        """Return the text before a tagged result that the model has made up."""
        match = _MADE_UP.search(text)
        if match is None:
            return text
        if not text[: match.start()].strip():
            self.problems.append(say("agent_own_observation"))
        self.is_cut = False
        return text[: match.start()].strip()

    # Tags

    def _tags(self, text: str) -> None:
        begin = len(text)
        tagged = [*_TAGGED.finditer(text), *_NAMED.finditer(text)]
        answer = _answer_at(text, tagged)
        for found in tagged:
            if found.start() > answer or _is_mentioned(text, found):
                continue
            if self._read_tagged_call(found):
                begin = min(begin, found.start())
        if self._is_done:
            self._think(_strip_fences(_bare(text[:begin])))
        elif said := _ANSWER_TAG.search(text):
            self._think(text[: said.start()])
            self.answers.append(said["body"].strip())

    def _read_tagged_call(self, found: re.Match[str]) -> bool:
        """Parse a call in tags; return whether a call or a problem was found."""
        groups = found.groupdict()
        before = len(self.calls) + len(self.problems)
        if "name" in groups:
            self._read_named_call(found)
        elif not _NAMED.search(found["body"]):  # else they are matched separately
            self._json(found["body"])
            if len(self.calls) + len(self.problems) == before:
                self._python(found["body"])
            if len(self.calls) + len(self.problems) == before:
                self.problems.append(say("agent_call_unnamed"))
        return len(self.calls) + len(self.problems) > before

    def _read_named_call(self, found: re.Match[str]) -> None:
        name = (found["name"] or found["invoked"]).strip(_QUOTES)
        body = found["body"] if found["name"] else found["inside"]
        is_open = not (found["end"] if found["name"] else found["out"])
        parameters = list(_PARAMETER.finditer(body))
        if not parameters and ("{" in body or not is_open):
            self._call(name, body)
        elif is_open or not all(each["end"] for each in parameters):
            self.problems.append(say("agent_call_cut", tool=name))
        else:
            self._add(name, {each["key"]: _literal(each) for each in parameters})

    # Labels

    def _labels(self, text: str) -> None:
        segments = _before_observation(_segments(text))
        kinds = {segment.kind for segment in segments[1:]}
        if not kinds & {"thought", "action", "observation", "answer"}:
            return
        is_final = any(e.kind == "answer" and _FINAL.search(e.label) for e in segments)
        if segments[0].text and kinds.isdisjoint({"thought", "action"}) and not is_final:
            return  # prose with such a word at the start of a line
        if segments[-1].kind == "observation":
            self.is_cut = False
        rest = deque(segments)
        while rest and self._segment(rest.popleft(), rest):
            pass
        if not self._is_done:
            self._read_thoughts(segments)

    def _segment(self, segment: _Segment, rest: deque[_Segment]) -> bool:
        """Parse the text after a label; return whether to continue."""
        if segment.kind in ("", "thought"):
            self._think(segment.text)
        elif segment.kind == "action":
            given = rest.popleft().text if rest and rest[0].kind == "input" else None
            self._action(segment.text, given)
        elif segment.kind == "answer":
            self.answers.append(_answer_in(segment.text))
            return bool(self.calls)
        return segment.kind != "observation"

    def _read_thoughts(self, segments: Sequence[_Segment]) -> None:
        """Search a text with neither action nor answer for calls in its thoughts."""
        thoughts, self.thoughts = self.thoughts, []
        if any(segment.kind == "observation" for segment in segments):
            self.problems.append(say("agent_own_observation"))
        for segment in segments:
            self._json(segment.text)
        if not self.calls:
            self.thoughts = thoughts
        if not self._is_done:
            self.problems.append(say("agent_no_action"))

    def _action(self, text: str, given: str | None) -> None:
        text = _strip_fences(text).strip()
        if not text and given is None:
            self.problems.append(say("agent_call_unnamed"))
        elif text.startswith(("{", "[{")):
            self._json(text)
            if not self._is_done:
                self.problems.append(say("agent_call_unnamed"))
        elif _NONE.fullmatch(text):
            return
        else:
            self._read_named_action(text, given)

    def _read_named_action(self, text: str, given: str | None) -> None:
        match = _NAME.match(text.lstrip(_QUOTES))
        name = "" if match is None else match[0].rstrip(".:,*_`") or match[0]
        after = text.lstrip(_QUOTES)[len(name) :]
        first = re.split(r"[\n(\[{]", _bare(text), maxsplit=1)[0].strip()
        if _FINISH.fullmatch(first) and not self._is_known(name):
            self._finish(first, _bare(text)[len(first) :] if given is None else given)
            return
        if match is None:
            self.problems.append(say("agent_call_unnamed"))
        elif given is not None:
            self._call(name, given)
        else:
            self._with_arguments(name, after)

    def _finish(self, name: str, said: str) -> None:
        """Parse the answer in an action that means the final answer."""
        if said.startswith("("):
            self._python(name + said, strict=False)
        if not self.answers:
            self.answers.append(_inner(said.lstrip(":")))

    def _with_arguments(self, name: str, after: str) -> None:
        """Parse the text after a name: arguments in brackets, JSON, or nothing."""
        rest = after.lstrip(_QUOTES).strip()
        if rest.startswith("("):
            self._python(name + rest, strict=False)
            if not self._is_done:
                self.problems.append(say("agent_call_unreadable", tool=name))
        elif "{" in rest:
            self._call(name, rest[rest.index("{") :])
        elif not rest or self._is_known(name):
            self._call(name, rest)
        elif rest.startswith("["):
            self.problems.append(say("agent_call_unreadable", tool=name))
        elif "\n" in after.strip(" \t") or rest.startswith("\n") or after.startswith("\n"):
            self._call(name, "")
        else:  # a sentence that begins with a word
            self.problems.append(say("agent_call_unnamed"))

    # JSON

    def _json(self, text: str) -> None:
        begin = None
        for start, value in _values(_without_mentions(text)):
            if is_in_a_sentence(text, start, value.end) or is_in_marks(
                text, start, value.end, MARKS
            ):
                continue
            if self._from_json(value) and begin is None:
                begin = start
        if begin is not None:
            self._think(_bare(_strip_fences(text[:begin])))

    def _from_json(self, value: JsonValue) -> bool:
        """Parse a value; return whether it has a call, a problem or an answer."""
        before = len(self.calls) + len(self.problems) + len(self.answers)
        if value.is_open:
            self._open_json(value.value)
        else:
            self._object(value.value, 0)
        return len(self.calls) + len(self.problems) + len(self.answers) > before

    def _open_json(self, value: Any) -> None:
        """Parse a value without an end: complete calls, and the call that was cut off."""
        items = value if isinstance(value, list) else [value]
        for item in items[:-1]:
            self._object(item, 0)
        last = items[-1] if items else None
        shadow = _Reading(tools=self.tools, is_cut=True)
        shadow._object(last, 0)
        for call in shadow.calls[:1]:
            self.problems.append(say("agent_call_cut", tool=call.name))
        self.problems += shadow.problems if not shadow.calls else []
        if shadow.answers and not self.calls:
            self.answers += shadow.answers

    def _object(self, value: Any, depth: int) -> None:
        if depth > MAX_DEPTH:
            return
        if isinstance(value, list):
            for item in value[:MAX_VALUES]:
                self._object(item, depth + 1)
        elif isinstance(value, dict):
            self._think(_first(value, _THOUGHT))
            if not self._calls_of(value, depth):
                final = _first(value, _ANSWER)
                if final is not None:
                    self.answers.append(_as_text(final))

    def _calls_of(self, value: dict[str, Any], depth: int) -> bool:
        """Parse the calls of an object; return whether it has any."""
        if isinstance(listed := _first(value, _LIST), list) and listed:
            self._object(listed, depth + 1)
            return True
        tool = _first(value, _TOOL)
        if isinstance(tool, dict):
            outer = _first(value, _ARGUMENTS)
            named = "name" in tool and outer is not None
            self._object({"arguments": outer, **tool} if named else tool, depth + 1)
            return True
        name = tool if isinstance(tool, str) else self._bare_name(value)
        if name is None:
            return self._by_key(value)
        self._of_object(name.strip(_QUOTES), value)
        return True

    def _bare_name(self, value: dict[str, Any]) -> str | None:
        """Return the `name` of an object that can only be a call."""
        name = value.get("name")
        if not isinstance(name, str):
            return None
        return name if any(map(_ARGUMENTS.fullmatch, value)) or self._is_known(name) else None

    def _by_key(self, value: dict[str, Any]) -> bool:
        """Parse a call such as `{"get_weather": {"city": "Lisbon"}}`."""
        if len(value) != 1 or self.tools is None:
            return False
        name, arguments = next(iter(value.items()))
        if name not in self.tools or not isinstance(arguments, dict):
            return False
        self._add(name, arguments)
        return True

    def _of_object(self, name: str, value: dict[str, Any]) -> None:
        if _NONE.fullmatch(name):
            final = _first(value, _ANSWER)
            if final is not None:
                self.answers.append(_as_text(final))
            return
        key = next((key for key in value if _ARGUMENTS.fullmatch(key)), None)
        arguments = value[key] if key is not None else None
        if _FINISH.fullmatch(name) and not self._is_known(name):
            self.answers.append(_inner(arguments if key else _first(value, _ANSWER)))
        elif key is None:
            self._add(name, {k: v for k, v in value.items() if not _OWN.fullmatch(k)})
        elif arguments is None or isinstance(arguments, dict):
            self._add(name, arguments or {})
        elif isinstance(arguments, str):
            self._call(name, arguments)
        else:
            self.problems.append(say("agent_call_unreadable", tool=name))

    # Python

    def _python(self, text: str, *, strict: bool = True) -> None:
        """Parse `name(key=value)` and lists of such calls, if the text has no other content."""
        code = _strip_fences(text).strip().strip("`").strip()
        if "(" not in code or not re.match(r"\[?\s*[^\W\d][\w.]*\s*\(", code):
            return
        try:
            tree = ast.parse(code if strict else _first_call(code), mode="exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._report_broken_python(code, strict=strict)
            return
        for call in _python_calls(tree):
            name = ast.unparse(call.func)
            if strict and not self._is_python_call(name, code):
                return
            arguments = _python_arguments(call)
            if arguments is None:
                self.problems.append(say("agent_call_unreadable", tool=name))
            else:
                self._finish_or_add(name, arguments)

    def _report_broken_python(self, code: str, *, strict: bool) -> None:
        match = _NAME.search(code)
        if match is None or (strict and not self._is_known(match[0])):
            return
        is_open = code.count("(") > code.count(")")
        key = "agent_call_cut" if is_open else "agent_call_unreadable"
        self.problems.append(say(key, tool=match[0]))

    def _is_python_call(self, name: str, code: str) -> bool:
        """Return whether Python code is a call, and not an answer."""
        if self.tools is not None:
            return self._is_known(name) or bool(_FINISH.fullmatch(name))
        return code.startswith("[") or bool(_FINISH.fullmatch(name))

    def _finish_or_add(self, name: str, arguments: dict[str, Any]) -> None:
        if _FINISH.fullmatch(name) and not self._is_known(name):
            self.answers.append(_inner(arguments))
        else:
            self._add(name, arguments)

    # Common to all forms

    def _call(self, name: str, text: str) -> None:
        """Add a call with arguments from text: an object, or the value of the only parameter."""
        body = _strip_fences(text).strip()
        if not body or _NONE.fullmatch(body):
            self._add(name, {})
            return
        if not body.startswith("{") and "{" not in body:
            plain = body.strip(_QUOTES)
            self._add(name, {INPUT: plain}) if plain else self._add(name, {})
            return
        arguments, problem = read_arguments(name, body)
        if arguments is None:
            self.problems.append(problem)
        else:
            self._add(name, arguments)

    def _add(self, name: str, arguments: Mapping[str, Any]) -> None:
        if not _NAME.fullmatch(name):
            self.problems.append(say("agent_call_unnamed"))
        else:
            self.calls.append(
                ParsedCall(name=name, arguments={str(k): v for k, v in arguments.items()})
            )

    def _think(self, text: Any) -> None:
        if isinstance(text, str) and (said := text.strip()):
            self.thoughts.append(said)

    def _is_known(self, name: str) -> bool:
        return self.tools is not None and name in self.tools


_LINE_QUOTE = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
_AFTER_A_MARK = re.compile(r"(?<=[`>\"'“«「(\[])(?=[^\W\d_][\w ]{0,20}[:\uff1a])")
"""Positions in a line where a label can begin: after a quotation mark, a tag or a bracket."""
_NESTED = 3
"""Maximum depth of JSON texts in JSON texts to search for calls."""
_MAX_PLACES = 100
_MAX_PLACE_LENGTH = 5_000
"""Limits for calls without an explicit end, which take the longest to parse."""


class _Search:
    """Finds calls in quoted text, whether intended or only mentioned."""

    def __init__(self, tools: frozenset[str]) -> None:
        self.found: list[ParsedCall] = []
        self._tools = tools
        self._places = _MAX_PLACES
        names = "|".join(sorted(map(re.escape, tools), key=len, reverse=True))
        self._python_call = re.compile(rf"(?<![\w.])(?:{names})[ \t]*\(") if names else None

    def value(self, value: Any, level: int) -> None:
        """Search plain JSON for calls."""
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if isinstance(each, str):
                if any(name in each for name in self._tools):
                    self._text(each[:MAX_TEXT_CHARACTERS], level)
            elif isinstance(each, dict):
                self._take(each)
                waiting += [*each, *each.values()]
            elif isinstance(each, list):
                waiting += each

    def _text(self, text: str, level: int) -> None:
        text = _LINE_QUOTE.sub("", _plain(text.replace("\r\n", "\n")))
        for form in (_TAGGED, _NAMED):
            for found in form.finditer(text):
                self._take(found)
        lines = _AFTER_A_MARK.sub("\n", text)
        for label in _LABEL.finditer(lines):
            if label.lastgroup == "action":
                part = lines[label.start() : label.start() + _MAX_PLACE_LENGTH]
                self._take(part)
        for called in () if self._python_call is None else self._python_call.finditer(text):
            part = text[called.start() : called.start() + _MAX_PLACE_LENGTH]
            self._take(part)
        if level < _NESTED:
            for each in json_values(text):
                self.value(each, level + 1)

    def _take(self, place: dict[str, Any] | re.Match[str] | str) -> None:
        if isinstance(place, str):
            self._places -= 1
        if self._places >= 0 or not isinstance(place, str):
            reading = _Reading(tools=self._tools, is_cut=False)
            reading.read_place(place)
            self.found += reading.calls


INPUT = "input"
"""The key of an argument that a model wrote without a key."""


def _before_observation(segments: Sequence[_Segment]) -> Sequence[_Segment]:
    """Return the segments up to and including a made-up observation, or before a question."""
    begun = False
    for at, segment in enumerate(segments):
        if segment.kind == "observation":
            return segments[: at + 1]
        if segment.kind == "question" and begun:
            return segments[:at]
        begun = begun or bool(segment.kind)
    return segments


def _strip_fences(text: str) -> str:
    """Return the text without code fences."""
    return _FENCE.sub("", text).strip() if "```" in text else text.strip()


def _answer_in(text: str) -> str:
    """Return an answer without a fence around the whole of it; keep fences inside."""
    text = text.strip()
    is_all = text.startswith("```") and text.endswith("```") and text.count("```") == 2  # noqa: PLR2004
    return _strip_fences(text) if is_all else text


def _bare(text: str) -> str:
    return text.strip().strip(_QUOTES).strip()


def _inner(value: Any) -> str:
    """Return the answer in the arguments of a final answer."""
    if isinstance(value, str):
        text = _strip_fences(value).strip()
        if text.startswith("{") and isinstance(found := value_at(text, 0).value, dict) and found:
            return _inner(found)
        if text[:1] + text[-1:] in ("[]", "()"):
            text = text[1:-1]
        return _bare(text)
    if isinstance(value, dict) and len(value) == 1:
        return _inner(next(iter(value.values())))
    return "" if value is None else _as_text(value)


def _literal(parameter: re.Match[str]) -> Any:
    """Return the value of a parameter in tags: parsed JSON, or the text if it is not JSON."""
    body = parameter["value"].strip("\n")
    try:
        return body if 'string="true"' in parameter["more"] else json.loads(body)
    except (ValueError, RecursionError):
        return body


def _first_call(code: str) -> str:
    """Return the text up to the parenthesis that closes the first one."""
    depth = 0
    for at, character in enumerate(code):
        depth += (character == "(") - (character == ")")
        if character == ")" and depth == 0:
            return code[: at + 1]
    return code


def _python_calls(tree: ast.Module) -> list[ast.Call]:
    """Return the calls of a module that contains only calls."""
    calls = list[ast.Call]()
    for statement in tree.body:
        value = statement.value if isinstance(statement, ast.Expr) else None
        items = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
        if not all(isinstance(item, ast.Call) for item in items):
            return []
        calls += [item for item in items if isinstance(item, ast.Call)]
    return calls


def _python_arguments(call: ast.Call) -> dict[str, Any] | None:
    """Return the arguments of a Python call, or `None` if they are not all literals."""
    try:
        named = {
            each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg is not None
        }
        given = [ast.literal_eval(each) for each in call.args]
    except (ValueError, TypeError, RecursionError, MemoryError, SyntaxError):
        return None
    if len(named) < len(call.keywords) or len(given) > 1:
        return None
    if given and isinstance(given[0], dict) and not named:
        return given[0]
    return {INPUT: given[0], **named} if given else named
