"""Parse the thought, the calls and the final answer from the text of a model."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from leonidas_tools.agent.malformed_json import (
    ARGUMENT_KEYS,
    CALL_TAGS,
    MAX_DEPTH,
    MAX_TEXT_CHARACTERS,
    MAX_VALUES,
    JsonValue,
    json_values,
    value_at,
)
from leonidas_tools.calls.records import record
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


@record
class ParsedCall:
    """A parsed call."""

    name: str
    arguments: Mapping[str, Any]


@record
class Parsed:
    """The thought, the calls and the answer in a text."""

    thought: str = ""
    calls: Sequence[ParsedCall] = ()
    answer: str | None = None
    # parts that could not be parsed and how to write them, as messages for the model
    problems: Sequence[str] = ()


def parse(text: str, tools: Collection[str] | None = None, *, is_cut: bool = False) -> Parsed:
    r"""Return the thought, the calls and the final answer in a text; never raise.

    It parses the labels of ReAct (in English, Portuguese and Chinese), JSON, fenced, in tags or
    bare, and calls in Python syntax. Text after an observation that the model has made up is
    ignored. Arguments that were cut off are a problem, not a call. A text without any sign of a
    call is the answer.

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
    text = text[:MAX_TEXT_CHARACTERS].replace("\r\n", "\n")
    turn_end = next((e for e in _TURN_END.finditer(text) if text[: e.start()].strip()), None)
    text = text if turn_end is None else text[: turn_end.start()]
    known = None if tools is None else frozenset(tools)
    # Calls are read from the model's own words, in one form; an answer keeps quotes and markup.
    reading = _Reading(known, is_cut=is_cut)
    own = reading.begin(_unify_markup(text))
    reading.read(_blank_quotes(own))
    if reading.calls or reading.problems:
        return reading.build_result()
    whole = _Reading(known, is_cut=False)
    said = whole.begin(text)
    thoughts = list(whole.thoughts)
    whole.read(said)
    if said and (whole.calls or not whole.answers):
        whole.thoughts = thoughts
        whole.answers = [whole.read_answer(said)]
    whole.calls, whole.problems = [], []
    return whole.build_result()


def calls_within(value: Any, tools: Collection[str]) -> list[ParsedCall]:
    """Return the calls anywhere in the result of a tool, quoted or not; never raise.

    Texts in the value are parsed like `parse` does.

    Example:
        >>> calls_within({"page": "Write `pay(amount=5)` now."}, ["pay"])
        [ParsedCall(name='pay', arguments={'amount': 5})]
    """
    search = _Search(frozenset(tools))
    search.search(value)
    return search.found


_MARKUP = re.compile(
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
    found = _MARKUP.search(text)
    if found is None:
        return None
    is_last = _COMPLETE.search(_unify_markup(text).rstrip("` \n")) is not None
    return CallMarkup(found["tag"] is not None, is_last)


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
    text = arguments.strip()
    if not text:
        return {}, ""
    if text.startswith('"') and isinstance(decoded := _loads(text), str):  # encoded twice
        text = decoded
    start = text.find("{")
    value = None if start < 0 else value_at(text, start)
    if value is not None and value.is_open:
        return None, say("agent_call_cut", tool=name)
    # Two objects belong to two calls: neither is complete.
    if value is None or not isinstance(value.value, dict) or "{" in text[value.end :]:
        return None, say("agent_call_unreadable", tool=name)
    return value.value, ""


def _loads(text: str) -> Any:
    """Return the value of a JSON text, or the text if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# Markup -------------------------------------------------------------------------------------------

_TURN_END = re.compile(
    r"<\|(?:im_end|eot_id|eom_id|end|endoftext|end_of_text|return)\|>|</s>|<end_of_turn>"
    r"|<\|im_start\|>|<\|start_header_id\|>|<start_of_turn>|\[/?INST\]"
)
"""End of the model's own turn; later text is made up."""
_MADE_UP = re.compile(
    r"</?(?:tool_response|tool_result|function_results?|observation|\|observation\|)>|\[TOOL_RESULTS\]",
    re.IGNORECASE,
)
_EMPTY_MARKS = re.compile(
    r"(?<=[</])\uff5cDSML\uff5c|\[TOOL_CALLS\]|<\|python_tag\|>|\bfunctools(?=\[\s*\{)",
    re.IGNORECASE,
)
"""Marks before calls or in their tags, which say no more than the calls."""
_MISTRAL_CALL = re.compile(r"\[TOOL_CALLS\]\s*([\w.-]{1,128})\s*(?:\[ARGS\])?\s*(?=\{)")
_ELEMENT = re.compile(
    r"<(?:(?:function|tool)=(?P<name>[^\s>]{1,128})|invoke\s+name=[\"'](?P<invoked>[^\"'>]{1,128})"
    r"[\"']\s*)>(?P<body>.*?)(?P<end></(?:function|tool|invoke)>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
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
_ANSWER_TAG = re.compile(
    r"<(?P<tag>final_answer|answer|response)>(?P<body>.*?)(?:</(?P=tag)>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_OPENING_TAGS = re.compile(rf"(?:<(?:{CALL_TAGS})>\s*)+\Z", re.IGNORECASE)
_CLOSING_TAGS = re.compile(rf"(?:\s*</(?:{CALL_TAGS})>)+", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*```[ \t]*[\w+-]*[ \t]*\n?|\n?[ \t]*```[ \t]*$", re.MULTILINE)
_COMPLETE = re.compile(r"(?:[}\])]|</\w+>)\Z")
"""End of a text whose last call is complete."""


def _unify_markup(text: str) -> str:
    """Return the text with JSON in `<tool_call>` in place of calls in other markup."""
    text = _MISTRAL_CALL.sub(r"Action: \1 ", text)
    return _ELEMENT.sub(_element_to_json, _EMPTY_MARKS.sub("", text))


def _element_to_json(found: re.Match[str]) -> str:
    """Return a call such as `<function=f><parameter=a>1</parameter></function>` as JSON."""
    name, body = (found["name"] or found["invoked"]).strip(_QUOTES), found["body"]
    parameters = list(_PARAMETER.finditer(body))
    arguments: Any = body.strip()
    if parameters:
        arguments = {each["key"]: _parameter_value(each) for each in parameters}
    call = json.dumps({"name": name, "arguments": arguments})
    is_closed = all(each["end"] for each in (found, *parameters))
    if is_closed or (not parameters and "{" in body):  # a cut object is found by its reader
        return f"<tool_call>{call}</tool_call>"
    return f"<tool_call>{call[:-2]}"


def _parameter_value(parameter: re.Match[str]) -> Any:
    text = parameter["value"].strip("\n")
    return text if 'string="true"' in parameter["more"] else _loads(text)


# Quotes: a call in them is only mentioned ---------------------------------------------------------

_QUOTED_BLOCK = re.compile(
    r"<(?P<tag>blockquote|quote|document|example)\b[^<>]{0,200}>.*?</(?P=tag)>"
    r"|^[ \t]*(?P<mark>\"{3}|'{3})[ \t]*$.*?^[ \t]*(?P=mark)[ \t.,;:]*$",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_SENTENCE_END = re.compile(r"[.!?。！？][\s\"'*`]*\Z")  # noqa: RUF001 - of Chinese sentences
_MARKS = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": "”",
    "„": "“",
    "«": "»",
    "「": "」",
    "‘": "’",  # noqa: RUF001
}


def _blank_quotes(text: str) -> str:
    """Return the text with quoted blocks and tagged answers replaced by spaces."""
    for form in (_QUOTED_BLOCK, _ANSWER_TAG):
        text = form.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def _is_quoted_line(text: str, at: int) -> bool:
    return text[text.rfind("\n", 0, at) + 1 : at].lstrip(" \t").startswith(">")


def _is_mentioned(text: str, start: int, end: int) -> bool:
    """Return whether a call is quoted, or is part of a sentence about it."""
    if _is_quoted_line(text, start):
        return True
    before = text[text.rfind("\n", 0, start) + 1 : start]
    after = text[end:].partition("\n")[0]
    if before and after[:1] == _MARKS.get(before[-1]) and not after.startswith("```"):
        return bool(_WORD.search(before) or _WORD.search(after))
    if any(each in before + after for each in "{}<") or _SENTENCE_END.search(before):
        return False
    return bool(_WORD.search(before) and _WORD.search(after))


def _unquote_lines(text: str) -> str:
    """Return the text without quote marks if the model quotes the whole text."""
    lines = text.splitlines()
    if not all(line.lstrip().startswith(">") for line in lines if line.strip()):
        return text
    return "\n".join(line.lstrip().removeprefix(">").removeprefix(" ") for line in lines)


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
    r"^[ \t>#*_\-]*(?:\d+[.)]\s*)?[\[【]?(?:"
    + "|".join(f"(?P<{kind}>{names})" for kind, names in reversed(_LABELS.items()))
    + r")(?:[ \t]*\#?\d+)?(?:】|\]?[ \t]*[*_`]*[ \t]*[:\uff1a])[ \t]*[*_]*",
    re.IGNORECASE | re.MULTILINE,
)
_NONE = re.compile(r"(?:none|null|n/?a|no(?:thing| action| tool)?|nenhuma?|无)\W*", re.IGNORECASE)
_FINAL_ANSWER = "final_answer"
_FINISH = re.compile(r"(?:final[ _-]?(?:answer|response)|finish|answer|respond)", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d][\w.:/-]{0,127}")
_FINAL = re.compile("final|最终", re.IGNORECASE)
_PLAIN_LABEL = re.compile(r"action|a[cç][aã]o|行动|动作", re.IGNORECASE)
_LIKE_A_CALL = re.compile(r"[`'\"*\s]*(?:[^\W\d][\w.:/-]*[`'\"*]*[ \t]*(?:[({]|\n|\Z)|[{\[<])")
_QUOTES = "`'\"*_ \t"


class _Segment(NamedTuple):
    """A label and the text up to the next one."""

    kind: str
    text: str
    label: str = ""


def _is_label(found: re.Match[str], text: str) -> bool:
    """Return whether a match is a label, not a quote or a sentence that begins with `Tool:`."""
    if _is_quoted_line(text, found.end()):
        return False
    if found.lastgroup != "action" or _PLAIN_LABEL.search(found[0]):
        return True
    return _LIKE_A_CALL.match(text, found.end()) is not None


def _split_at_labels(text: str) -> list[_Segment]:
    """Split a text at the labels outside of JSON; the first segment has no label.

    The last one is a made-up observation, if there is one, or comes before a made-up question.
    """
    matches = list(_LABEL.finditer(text))
    values = _values(text) if matches else ()
    spans = [(start, value.end) for start, value in values if not value.is_open]
    outside = (each for each in matches if not any(a < each.start() < b for a, b in spans))
    labels = [each for each in outside if _is_label(each, text)]
    ends = [*(label.start() for label in labels), len(text)]
    segments = [_Segment("", text[: ends[0]].strip())]
    for label, end in zip(labels, ends[1:], strict=True):
        kind = label.lastgroup or ""
        if kind == "question" and len(segments) > 1:
            break
        segments.append(_Segment(kind, text[label.end() : end].strip(), label[0]))
        if kind == "observation":
            break
    return segments


# Calls in JSON ------------------------------------------------------------------------------------

_VALUE_START = re.compile(r"\{|\[(?=\s*[\[{])")
_ARGUMENTS = re.compile(ARGUMENT_KEYS, re.IGNORECASE)
_TOOL = re.compile(
    r"action|(?:tool|function)(?:[_ ]?(?:name|call))?|call|ação|ferramenta|工具|行动", re.IGNORECASE
)
_LIST = re.compile(r"(?:tool_|function_)?calls|actions|tools")
_THOUGHT = re.compile(r"thoughts?|thinking|reasoning|pensamento|思考")
_ANSWER = re.compile(r"(?:final[_ ]?)?answer|final_response|resposta_final|最终答案", re.IGNORECASE)
_OWN = re.compile(f"{_TOOL.pattern}|{_THOUGHT.pattern}|name|id|type|index", re.IGNORECASE)

INPUT = "input"
"""The key of an argument that a model wrote without a key."""


def _values(text: str) -> Iterator[tuple[int, JsonValue]]:
    """Yield the objects in a text, and the arrays of objects, with their positions."""
    at = 0
    for _ in range(MAX_VALUES):
        match = _VALUE_START.search(text, at)
        if match is None:
            return
        value = value_at(text, match.start())
        if not _is_quoted_line(text, match.start()):
            yield match.start(), value
        at = max(value.end, match.end())


def _first(value: Mapping[str, Any], keys: re.Pattern[str]) -> Any:
    """Return the first value under one of the keys, other than null."""
    found = (each for key, each in value.items() if each is not None and keys.fullmatch(key))
    return next(found, None)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


class _Reading:
    """State of parsing a text."""

    def __init__(self, tools: frozenset[str] | None, *, is_cut: bool) -> None:
        self.thoughts: list[str] = []
        self.calls: list[ParsedCall] = []
        self.answers: list[str] = []
        self.problems: list[str] = []
        self._tools = tools
        self._is_cut = is_cut
        self._tail = ""

    def build_result(self) -> Parsed:
        """Build the result; ignore an answer given with calls, as it cannot know their results."""
        if self._is_cut and self.calls and _COMPLETE.search(self._tail) is None:
            self._report("cut", self.calls.pop().name)
        calls = tuple(self.calls[:MAX_VALUES])
        answer = self.answers[0] if self.answers and not (calls or self.problems) else None
        if not (calls or self.problems) and answer is None:
            self.problems.append(say("agent_no_action" if self.thoughts else "agent_nothing_said"))
        return Parsed(
            thought="\n".join(each for each in self.thoughts if each),
            calls=calls,
            answer=answer,
            problems=tuple(dict.fromkeys(self.problems)),
        )

    def begin(self, text: str) -> str:
        """Return the text without its thoughts, up to a tagged result that the model made up."""
        closed, opened = _THINK_END.search(text), _THINK.search(text)
        if closed is not None and (opened is None or closed.start() < opened.start()):
            self.thoughts.append(text[: closed.start()].strip())
            text = text[closed.end() :]
        self.thoughts += [each["body"].strip() for each in _THINK.finditer(text)]
        text = _unquote_lines(_THINK.sub("", text).strip())
        if made_up := _MADE_UP.search(text):
            text = text[: made_up.start()].strip()
            self._is_cut = False
            if not text:
                self.problems.append(say("agent_own_observation"))
        self._tail = text.rstrip("` \n")
        return text

    def read(self, text: str) -> None:
        """Parse a text in each form in turn, until one form matches."""
        for form in (self.read_labels, self._json, self.read_python):
            if self._is_done:
                return
            form(text)

    def read_answer(self, text: str) -> str:
        """Return the answer in a text without calls: in its tags, or the whole text."""
        if said := _ANSWER_TAG.search(text):
            self._think(text[: said.start()])
            return said["body"].strip()
        return _unfence_all(text)

    @property
    def _is_done(self) -> bool:
        return bool(self.calls or self.problems or self.answers)

    # Labels

    def read_labels(self, text: str) -> None:
        """Parse the labels of ReAct."""
        segments = _split_at_labels(text)
        kinds = {segment.kind for segment in segments[1:]}
        if not kinds & {"thought", "action", "observation", "answer"}:
            return
        is_final = any(e.kind == "answer" and _FINAL.search(e.label) for e in segments)
        if segments[0].text and kinds.isdisjoint({"thought", "action"}) and not is_final:
            return  # prose with such a word at the start of a line
        if segments[-1].kind == "observation":
            self._is_cut = False
        self._segments(segments)
        if not self._is_done:
            self._search_thoughts(segments)

    def _segments(self, segments: Sequence[_Segment]) -> None:
        """Parse the text after each label, up to an answer without calls before it."""
        for segment, after in zip(segments, [*segments[1:], _Segment("", "")], strict=True):
            if segment.kind == "action":
                self._action(segment.text, after.text if after.kind == "input" else None)
            elif segment.kind == "answer":
                self.answers.append(_unfence_all(segment.text))
                if not self.calls:
                    return
            elif segment.kind in ("", "thought") and not self._json(segment.text, in_tags=True):
                self._think(segment.text)

    def _search_thoughts(self, segments: Sequence[_Segment]) -> None:
        """Search a text with neither action nor answer for calls in its thoughts."""
        if segments[-1].kind == "observation":
            self.problems.append(say("agent_own_observation"))
        thoughts, self.thoughts = self.thoughts, []
        for segment in segments:
            self._json(segment.text)
        if not self.calls:
            self.thoughts = thoughts
        if not self._is_done:
            self.problems.append(say("agent_no_action"))

    def _action(self, text: str, given: str | None) -> None:
        """Parse the text after the label of an action, and that of its input."""
        text = _strip_fences(text)
        if text.startswith(("{", "[{", "<")):
            self._json(text)
            if not self._is_done:
                self._report("unnamed")
        elif not _NONE.fullmatch(text):
            self._named_action(_bare(text), given)

    def _named_action(self, text: str, given: str | None) -> None:
        match = _NAME.match(text)
        name = "" if match is None else match[0].rstrip(".:,*_`") or match[0]
        first = re.split(r"[\n(\[{]", text, maxsplit=1)[0].strip()
        if _FINISH.fullmatch(first) and not self._is_known(name):
            said = text[len(first) :].lstrip(":") if given is None else given
            if said.startswith("("):
                self.read_python(_FINAL_ANSWER + said, strict=False)
            if not self.answers:
                self._call(_FINAL_ANSWER, said)
        elif match is None:
            self._report("unnamed")
        elif given is not None:
            self._call(name, given)
        else:
            self._with_arguments(name, text[len(name) :])

    def _with_arguments(self, name: str, after: str) -> None:
        """Parse the text after a name: arguments in brackets, JSON, or nothing."""
        rest = after.lstrip(_QUOTES).strip()
        if rest.startswith("("):
            self.read_python(name + rest, strict=False)
            if not self._is_done:
                self._report("unreadable", name)
        elif "{" in rest:
            self._call(name, rest[rest.index("{") :])
        elif not rest or self._is_known(name):
            self._call(name, rest)
        elif rest.startswith("["):
            self._report("unreadable", name)
        elif "\n" in after:
            self._call(name, "")
        else:  # a sentence that begins with a word
            self._report("unnamed")

    # JSON

    def _json(self, text: str, *, in_tags: bool = False) -> bool:
        """Parse the calls in JSON that are not only mentioned; return whether there are any."""
        begin = None
        for start, value in _values(text):
            tags = _OPENING_TAGS.search(text, max(start - 200, 0), start)
            after = None if tags is None else _CLOSING_TAGS.match(text, value.end)
            opening = start if tags is None else tags.start()
            end = value.end if after is None else after.end()
            if (in_tags and tags is None) or _is_mentioned(text, opening, end):
                continue
            before = len(self.calls) + len(self.problems) + len(self.answers)
            self._value(value)
            if tags is not None and before == len(self.calls + self.problems + self.answers):
                self._report("unnamed")
            if begin is None and before < len(self.calls + self.problems + self.answers):
                begin = opening
        if begin is not None:
            self._think(_bare(_strip_fences(text[:begin])))
        return begin is not None

    def _value(self, value: JsonValue) -> None:
        """Parse a value; the last call of a value without an end was cut off."""
        before = len(self.calls)
        self.read_object(value.value)
        if value.is_open and len(self.calls) > before:
            self._report("cut", self.calls.pop().name)

    def read_object(self, value: Any, depth: int = 0) -> None:
        """Parse the calls, or the answer, of an object or a list of objects."""
        if depth > MAX_DEPTH:
            return
        if isinstance(value, list):
            for item in value[:MAX_VALUES]:
                self.read_object(item, depth + 1)
        elif isinstance(value, dict):
            self._think(_first(value, _THOUGHT))
            if not self._calls_of(value, depth) and (final := _first(value, _ANSWER)) is not None:
                self.answers.append(_as_text(final))

    def _calls_of(self, value: dict[str, Any], depth: int) -> bool:
        """Parse the calls of an object; return whether it has any."""
        listed, tool, given = (_first(value, keys) for keys in (_LIST, _TOOL, _ARGUMENTS))
        if isinstance(listed, list) and listed:
            self.read_object(listed, depth + 1)
        elif isinstance(tool, dict):
            is_named = "name" in tool and given is not None
            self.read_object({"arguments": given, **tool} if is_named else tool, depth + 1)
        elif isinstance(name := value.get("name") if tool is None else tool, str) and (
            tool is not None or any(map(_ARGUMENTS.fullmatch, value)) or self._is_known(name)
        ):
            self._call_of_object(name.strip(_QUOTES), value)
        else:  # such as {"get_weather": {"city": "Lisbon"}}
            name, arguments = next(iter(value.items())) if len(value) == 1 else ("", None)
            if not self._is_known(name) or not isinstance(arguments, dict):
                return False
            self._add(name, arguments)
        return True

    def _call_of_object(self, name: str, value: dict[str, Any]) -> None:
        key = next((key for key in value if _ARGUMENTS.fullmatch(key)), None)
        arguments = None if key is None else value[key]
        final = _first(value, _ANSWER)
        if _NONE.fullmatch(name):
            if final is not None:
                self.answers.append(_as_text(final))
        elif key is None and final is not None and self._is_final(name):
            self._add(name, {INPUT: final})
        elif key is None:
            self._add(name, {k: v for k, v in value.items() if not _OWN.fullmatch(k)})
        elif arguments is None or isinstance(arguments, dict):
            self._add(name, arguments or {})
        elif isinstance(arguments, str):
            self._call(name, arguments)
        else:
            self._report("unreadable", name)

    # Python

    def read_python(self, text: str, *, strict: bool = True) -> None:
        """Parse `name(key=value)` and lists of such calls, if the text has no other content."""
        code = _strip_fences(text).strip("`").strip()
        if "(" not in code or not re.match(r"\[?\s*[^\W\d][\w.]*\s*\(", code):
            return
        try:
            tree = ast.parse(code if strict else _first_call(code), mode="exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            match = _NAME.search(code)
            if match is not None and (not strict or self._is_known(match[0])):
                is_open = code.count("(") > code.count(")")
                self._report("cut" if is_open else "unreadable", match[0])
            return
        for call in _python_calls(tree):
            name = ast.unparse(call.func)
            is_call = code.startswith("[") if self._tools is None else self._is_known(name)
            if strict and not (is_call or self._is_final(name)):
                return
            arguments = _python_arguments(call)
            if arguments is None:
                self._report("unreadable", name)
            else:
                self._add(name, arguments)

    # Common to all forms

    def _call(self, name: str, text: str) -> None:
        """Add a call with arguments from text: an object, or the value of the only parameter."""
        body = _strip_fences(text)
        if self._is_final(name):
            self.answers.append(_inner(body))
            return
        plain = "" if _NONE.fullmatch(body) else body.strip(_QUOTES)
        arguments: Mapping[str, Any] | None = {INPUT: plain} if plain else {}
        if "{" in body:
            arguments, problem = read_arguments(name, body)
            self.problems += [problem] if arguments is None else []
        if arguments is not None:
            self._add(name, arguments)

    def _add(self, name: str, arguments: Mapping[str, Any]) -> None:
        if self._is_final(name):
            self.answers.append(_inner(dict(arguments)))
        elif not _NAME.fullmatch(name):
            self._report("unnamed")
        else:
            by_name = {str(key): value for key, value in arguments.items()}
            self.calls.append(ParsedCall(name=name, arguments=by_name))

    def _is_final(self, name: str) -> bool:
        """Return whether a call means the final answer."""
        return _FINISH.fullmatch(name) is not None and not self._is_known(name)

    def _report(self, problem: str, name: str = "") -> None:
        self.problems.append(say(f"agent_call_{problem}", tool=name))

    def _think(self, text: Any) -> None:
        if isinstance(text, str) and (said := text.strip()):
            self.thoughts.append(said)

    def _is_known(self, name: str) -> bool:
        return self._tools is not None and name in self._tools


# Calls in the results of tools --------------------------------------------------------------------

_LINE_QUOTE = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
_AFTER_A_MARK = re.compile(r"(?<=[`>\"'“«「(\[])(?=[^\W\d_][\w ]{0,20}[:\uff1a])")
"""Positions in a line where a label can begin: after a quotation mark, a tag or a bracket."""
_MAX_NESTED_TEXTS = 3
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
        self._python_call = re.compile(rf"(?<![\w.])(?:{names})[ \t]*\(" if names else r"\b\B")

    def search(self, value: Any, level: int = 0) -> None:
        """Search plain JSON for calls, and texts in it, as JSON too."""
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if isinstance(each, str) and any(name in each for name in self._tools):
                self._text(each[:MAX_TEXT_CHARACTERS], level)
            elif isinstance(each, dict):
                reading = _Reading(self._tools, is_cut=False)
                reading.read_object(each)
                self.found += reading.calls
                waiting += [*each, *each.values()]
            elif isinstance(each, list):
                waiting += each

    def _text(self, text: str, level: int) -> None:
        read = _LINE_QUOTE.sub("", text.replace("\r\n", "\n"))
        text = _unify_markup(read)
        lines = _AFTER_A_MARK.sub("\n", text)
        labels = (each for each in _LABEL.finditer(lines) if each.lastgroup == "action")
        places = [lines[each.start() : each.start() + _MAX_PLACE_LENGTH] for each in labels]
        calls = self._python_call.finditer(text)
        places += [text[each.start() : each.start() + _MAX_PLACE_LENGTH] for each in calls]
        for place in places[: max(self._places, 0)]:
            reading = _Reading(self._tools, is_cut=False)
            reading.read_labels(place)
            if not reading.calls:
                reading.read_python(place, strict=False)
            self.found += reading.calls
        self._places -= len(places)
        # The markup may be in JSON, which is not JSON any more once it is unified.
        for each in dict.fromkeys((read, text)) if level < _MAX_NESTED_TEXTS else ():
            self.search(json_values(each), level + 1)


# Text ---------------------------------------------------------------------------------------------


def _strip_fences(text: str) -> str:
    """Return the text without code fences."""
    return _FENCE.sub("", text).strip() if "```" in text else text.strip()


def _unfence_all(text: str) -> str:
    """Return an answer without a fence around the whole of it; keep fences inside."""
    text = text.strip()
    is_all = text.startswith("```") and text.endswith("```") and text.count("```") == 2  # noqa: PLR2004
    return _strip_fences(text) if is_all else text


def _bare(text: str) -> str:
    return text.strip().strip(_QUOTES).strip()


def _inner(value: Any) -> str:
    """Return the answer in the arguments of a final answer."""
    if isinstance(value, str):
        text = _strip_fences(value)
        if text.startswith("{") and isinstance(found := value_at(text, 0).value, dict) and found:
            return _inner(found)
        return _bare(text[1:-1] if text[:1] + text[-1:] in ("[]", "()") else text)
    if isinstance(value, dict) and len(value) == 1:
        return _inner(next(iter(value.values())))
    return "" if value is None else _as_text(value)


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
    values = [each.value if isinstance(each, ast.Expr) else each for each in tree.body]
    items = [
        item
        for value in values
        for item in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])
    ]
    calls = [item for item in items if isinstance(item, ast.Call)]
    return calls if len(calls) == len(items) else []


def _python_arguments(call: ast.Call) -> dict[str, Any] | None:
    """Return the arguments of a Python call, or `None` if they are not all literals."""
    try:
        named = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
        given = [ast.literal_eval(each) for each in call.args]
    except (ValueError, TypeError, RecursionError, MemoryError, SyntaxError):
        return None
    if len(named) < len(call.keywords) or len(given) > 1:
        return None
    if given and isinstance(given[0], dict) and not named:
        return given[0]
    return {INPUT: given[0], **named} if given else named
