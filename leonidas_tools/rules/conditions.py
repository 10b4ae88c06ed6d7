"""Conditions of a rule on the arguments of a call, and the paths of the values they test.

A condition that cannot be decided is `None`, "in doubt", rather than `False`.
"""

from __future__ import annotations

import functools
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import jsonschema_rs

from leonidas_tools.redaction.visible import without_unseen

Path: TypeAlias = str
"""The location of values in the arguments: `amount`, `to.country`, `files[0].name`, `files[*]`."""

_Check: TypeAlias = Callable[[Any, Any], "bool | None"]
_STEP = re.compile(r"\.?(?:([^.\[\]'\"]+)|\[(\d+|\*)\]|\['([^']*)'\]|\[\"([^\"]*)\"\])")
_ANY = "*"
_WORD = re.compile(r"\S+")
_LATIN = re.compile("[A-Za-z]")
_LOOK_ALIKES = str.maketrans(  # of Cyrillic, Greek and Armenian, and of Latin itself
    "\u0430\u0441\u0501\u0435\u04bb\u0456\u0458\u043a\u04cf\u043c\u043e\u0440\u051b"
    "\u0455\u0442\u0443\u0475\u051d\u0445\u0410\u0412\u0421\u0415\u041d\u0406\u0408"
    "\u041a\u041c\u041e\u0420\u0405\u0422\u0423\u0425\u03b1\u03f2\u03b5\u03b9\u03ba"
    "\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03b3\u03b7\u03c9\u0391\u0392\u0395\u0396"
    "\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u0131\u0251\u0261"
    "\u0585\u0570\u0578\u057d\u0581",
    "acdehijklmopqstyvwxABCEHIJKMOPSTYXaceikvoptuxynwABEZHIKMNOPTYXiagohnug",
)
_SEPARATOR = re.compile("[,;<>\uff0c\uff1b\u3001]")
_FULL_STOP = re.compile("(?<=[A-Za-z0-9])\u3002(?=[A-Za-z0-9])")
"""An ideographic full stop in a domain name, where it is equivalent to a dot."""
_BETWEEN = re.compile(r"[\s,;<>()\"'\uff0c\uff1b\u3001]+")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
"""A character as JSON may write it, which a tool reads as the character."""
_MAX_LEAVES = 10_000
_MAX_TEXTS = 1_000
"""Most texts in a list that are parsed as JSON."""
_MAX_REFERENCES = 32
_MAX_SCHEMAS = 2_000
"""Most parts of a schema that are looked at for a path: the references of a server may multiply."""
_MAX_BYTES = 1 << 20
_MAX_STEPS = 10_000
_BEGIN_NUMBERS = "iInN"
"""Letters with which a number may begin: `inf`, `nan`."""
_MAX_TEXT_LENGTH = 1_000_000
_MAX_BOUNDED_LENGTH = 1_000
"""Longest text for an expression with lookaround, whose time grows with its square."""


class _Unreadable:
    """A value that cannot be read at its place: any condition on it is in doubt."""

    def __repr__(self) -> str:
        return "?"


class Incomplete(str):
    """A text that may expand to more: a condition that it does not meet is in doubt."""

    __slots__ = ()


UNREADABLE = _Unreadable()
_BEFORE_JSON = "\ufeff \t\r\n"


@functools.lru_cache(maxsize=1024)
def steps_of(path: Path) -> tuple[str, ...]:
    """Return the steps of a path; it may begin with `$`.

    Raises:
        ValueError: It is not a path.

    Example:
        >>> steps_of("$.files[*].name"), steps_of("headers['x.y']")
        (('files', '*', 'name'), ('headers', 'x.y'))
    """
    rest = path.removeprefix("$")
    steps: list[str] = []
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None:
            break
        steps.append(next(group for group in match.groups() if group is not None))
        position = match.end()
    if position < len(rest) or not steps:
        raise ValueError(
            f"{path!r} is not a path: write one such as 'amount', 'to.city', 'files[*]'"
        )
    return tuple(steps)


def values_at(arguments: Any, steps: Sequence[str], *, parts: bool = True) -> Sequence[Any]:
    """Return the values at a path: an empty list if there are none.

    A `*` selects every item of a list, every value of an object, or a single value itself. From a
    text it selects the text, and each part of it between commas, semicolons, brackets and spaces;
    from a text in a list or object, between all of these except spaces. A name leads into nested
    lists, and into JSON that is passed as text. Without `parts`, texts are not split.

    Example:
        >>> values_at({"files": [{"size": 1}, {"size": 2}]}, ("files", "*", "size"))
        [1, 2]
        >>> values_at({"to": "Ben <ben@work>"}, ("to", "*"))
        ['Ben <ben@work>', 'Ben', 'ben@work']
    """
    if len(steps) == 1:  # the common case
        return _select(arguments, steps[0], parts=parts)
    found = [arguments]
    for step in steps:
        found = [
            inner
            for value in found
            for inner in ([value] if value is UNREADABLE else _select(value, step, parts=parts))
        ]
    return found


def _select(value: Any, step: str, *, parts: bool) -> Sequence[Any]:
    if type(value) is dict or isinstance(value, Mapping):
        if step == _ANY:  # even if a key is `*`: it must not hide the other values
            return _add_parts(list(value.values())) if parts else list(value.values())
        return [value[step]] if step in value else []
    if isinstance(value, list | tuple):
        return _add_parts(value) if parts and step == _ANY else _select_in_list(value, step)
    if isinstance(value, str) and step != _ANY:
        return _select_in_json(value, step)
    if step != _ANY or value is None:
        return []
    return _parts(value) if parts and isinstance(value, str) else [value]


def _select_in_list(values: Sequence[Any], step: str) -> Sequence[Any]:
    """Apply a step: `*` selects every item, a number one item, a name a value of each object."""
    if step == _ANY:
        return values
    if step.isdecimal():
        return values[int(step) : int(step) + 1]
    found, left, texts = list[Any](), [*reversed(values)], 0
    while left:
        item = left.pop()
        if isinstance(item, Mapping):
            found += [item[step]] if step in item else []
        elif isinstance(item, str) and _begins_as_json(item):
            texts += 1
            if texts > _MAX_TEXTS:
                return [*found, UNREADABLE]
            found += _select_in_json(item, step)
        elif isinstance(item, list | tuple):
            left += reversed(item)
    return found


def _begins_as_json(text: str) -> bool:
    return text.lstrip(_BEFORE_JSON).startswith(("{", "["))


def _select_in_json(text: str, step: str) -> Sequence[Any]:
    """Apply a step to the object or array in a text: a tool may read one as the other."""
    if not _begins_as_json(text):
        return []
    if len(text) > _MAX_TEXT_LENGTH:
        return [UNREADABLE]
    try:
        value = json.loads(text, object_pairs_hook=_all_values, strict=False)
    except (ValueError, RecursionError):  # a tool may still be able to read it
        return [UNREADABLE]
    return _select(value, step, parts=False)


def _all_values(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object with all values of a repeated name, since a tool may read any of them."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    every: dict[str, list[Any]] = {}
    for name, value in pairs:
        every.setdefault(name, []).append(value)
    return dict(every)


def _parts(text: str) -> Sequence[str]:
    parts = [part for part in _BETWEEN.split(text, _MAX_LEAVES) if part]
    return [text] if parts == [text] else [text, *parts]


def _add_parts(values: Sequence[Any]) -> Sequence[Any]:
    """Return values with the parts of the texts among them, such as two addresses in one item."""
    texts = [each for each in values if isinstance(each, str) and _SEPARATOR.search(each)]
    if not texts:
        return values
    parts = (part.strip() for text in texts for part in _SEPARATOR.split(text, _MAX_LEAVES))
    return [*values, *(part for part in parts if part)]


def is_described(schema: Any, steps: Sequence[str]) -> bool:
    """Return whether a JSON Schema allows a value at a path; `True` if that is unclear.

    In an object with named properties, any other name is not described, even if the schema allows
    additional properties: such a path is a mistake, or the tool has changed. Neither is one that
    takes too long to find, so that a rule applies in doubt.

    Example:
        >>> schema = {"properties": {"to": {"type": "array", "items": {"type": "string"}}}}
        >>> [is_described(schema, steps_of(path)) for path in ("to[*]", "to[*].name", "cc")]
        [True, False, False]
    """
    looks = iter(range(_MAX_SCHEMAS))
    return _is_described(schema, tuple(steps), schema, _MAX_REFERENCES, looks)


def _is_described(
    schema: Any, steps: tuple[str, ...], root: Any, left: int, looks: Iterator[int]
) -> bool:
    if not steps or not isinstance(schema, Mapping) or left == 0:
        return schema is not False
    if next(looks, None) is None:
        return False
    subschemas = [*_subschemas(schema, root)]
    if any(
        part is None or _is_described(part, steps, root, left - 1, looks) for part in subschemas
    ):
        return True
    if _leads_into_items(schema, steps[0]):  # a name applies to each item, as in `values_at`
        return any(_is_described(item, steps, root, left - 1, looks) for item in _items(schema))
    said = _schemas_at(schema, steps[0])
    if said is not None:
        return any(_is_described(inner, steps[1:], root, left - 1, looks) for inner in said)
    # `*` selects a plain value itself.
    return steps == (_ANY,) if _is_plain(schema) else not subschemas


def _subschemas(schema: Mapping[str, Any], root: Any) -> Iterator[Any]:
    """Yield the subschemas that apply to the same value; `None` for an unresolvable one."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(keyword) or ()
    for keyword in ("if", "then", "else"):
        if keyword in schema:
            yield schema[keyword]
    yield from (schema.get("dependentSchemas") or {}).values()
    if "$dynamicRef" in schema or "$recursiveRef" in schema:
        yield None
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found = root if reference.startswith("#") else None
        for token in reference.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        yield found


def _leads_into_items(schema: Mapping[str, Any], step: str) -> bool:
    named = step != _ANY and not step.isdecimal()
    return named and "properties" not in schema and bool(_items(schema))


def _items(schema: Mapping[str, Any]) -> list[Any]:
    listed = [*(schema.get("prefixItems") or ()), schema.get("items")]
    flat = [item for each in listed for item in (each if isinstance(each, list) else [each])]
    return [item for item in flat if item is not None]


def _schemas_at(schema: Mapping[str, Any], step: str) -> Sequence[Any] | None:
    """Return the schemas of the values at a step; `None` if this schema does not describe any."""
    if (step == _ANY or step.isdecimal()) and (items := _items(schema)):
        return items
    named, more = schema.get("properties"), schema.get("additionalProperties")
    if named is None and more is None:
        return None
    open_ = [more] if isinstance(more, Mapping) or more is True else []
    if step == _ANY:
        return [*(named or {}).values(), *open_]
    if named is not None and step in named:
        return [named[step]]
    return [True] if schema.get("patternProperties") else open_


def _is_plain(schema: Mapping[str, Any]) -> bool:
    """Return whether the schema allows neither objects nor arrays."""
    kinds = schema.get("type")
    kinds = {kinds} if isinstance(kinds, str) else set(kinds or ())
    return bool(kinds) and kinds.isdisjoint({"object", "array"})


class Condition:
    """Tests on one value, all of which must be true.

    Args:
        equals: The value equals this one.
        matches: The value contains a match of this regular expression. Values other than text are
            searched as JSON.
        above: The value is a greater number.
        below: The value is a smaller number.
        count_above: The value has more items.

    Raises:
        ValueError: `matches` is not an expression that can be searched for safely.

    Example:
        >>> condition = Condition(above=10)
        >>> [condition.holds(value) for value in (11, "11", 10, ["many"])]
        [True, True, False, None]
    """

    __slots__ = ("_checks", "_given")

    def __init__(self, **said: Any) -> None:
        self._given = {k: v for k, v in said.items() if v is not None or k == "equals"}
        self._checks = tuple(_check_of(key, wanted) for key, wanted in self._given.items())

    def holds(self, value: Any) -> bool | None:
        """Return whether the condition is true of a value; `None` if that is in doubt."""
        if value is UNREADABLE:
            return None
        answer: bool | None = True
        unmet: bool | None = False
        if isinstance(value, Incomplete):
            value, unmet = str(value), None
        for check, wanted in self._checks:
            one = check(value, wanted)
            if one is False:
                return unmet
            answer = answer and one
        return answer

    def to_json(self) -> dict[str, Any]:
        """Return the condition as in a settings file."""
        return dict(self._given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> str:
        """Return a key of the condition; by `repr`, since `1 == True` in Python and not in JSON."""
        return repr(sorted(self._given.items()))

    def __repr__(self) -> str:
        return f"Condition({', '.join(f'{k}={v!r}' for k, v in self._given.items())})"


class Expression:
    r"""A regular expression whose search time is bounded for any text.

    The search is linear. Lookaround and backreferences need a backtracking engine; it is limited in
    steps and length of text, and beyond these limits the result is in doubt.

    As in JSON Schema, `\d` and `\w` mean ASCII, and `$` the very end.

    Raises:
        ValueError: Neither engine accepts it.
    """

    __slots__ = ("_longest", "_validator")

    def __init__(self, pattern: str) -> None:
        linear = jsonschema_rs.RegexOptions(size_limit=_MAX_BYTES, dfa_size_limit=_MAX_BYTES)
        bounded = jsonschema_rs.FancyRegexOptions(
            backtrack_limit=_MAX_STEPS, size_limit=_MAX_BYTES, dfa_size_limit=_MAX_BYTES
        )
        schema = {"pattern": pattern}
        self._longest = _MAX_TEXT_LENGTH
        try:
            self._validator = jsonschema_rs.validator_for(schema, pattern_options=linear)
        except (jsonschema_rs.ValidationError, ValueError):
            self._longest = _MAX_BOUNDED_LENGTH
            try:
                self._validator = jsonschema_rs.validator_for(schema, pattern_options=bounded)
            except (jsonschema_rs.ValidationError, ValueError):
                raise ValueError(
                    f"{pattern!r} is not a regular expression that can be searched for safely: "
                    "write it as in JSON Schema, such as '$' or '\\z' for the end, and without "
                    "very long repeats"
                ) from None

    def is_in(self, text: str) -> bool | None:
        """Return whether a text contains a match; `None` if that is in doubt."""
        if len(text) > self._longest:
            return None
        try:
            if self._validator.is_valid(text):
                return True
            if self._longest == _MAX_TEXT_LENGTH:
                return False
            error = next(self._validator.iter_errors(text))
        except UnicodeError:  # a lone surrogate
            return None
        gave_up = jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded
        return None if isinstance(error.kind, gave_up) else False


def _fold(text: str) -> str:
    """Return a text as a person reads it, without look-alikes and invisible characters."""
    if "\\u" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    if not text.isascii() or not text.isprintable():
        text = unicodedata.normalize("NFKC", without_unseen(text))
        text = _FULL_STOP.sub(".", text)
        text = "".join(str(unicodedata.decimal(each, each)) for each in text)
        text = _WORD.sub(_in_one_script, text)
    return text.strip()


def _in_one_script(word: re.Match[str]) -> str:
    """Return a word without letters that only look like Latin ones, if it has Latin ones too."""
    return word[0].translate(_LOOK_ALIKES) if _LATIN.search(word[0]) else word[0]


def _check_of(key: str, wanted: Any) -> tuple[_Check, Any]:
    """Return a check and its operand, which is prepared once."""
    if key == "equals" and type(wanted) is str:
        return _is_equal_text, (wanted, _reads_as(wanted))
    if key == "matches":
        return _is_found, Expression(wanted)
    checks: dict[str, _Check] = {
        "equals": _is_equal,
        "above": _is_above,
        "below": _is_below,
        "count_above": _has_more,
    }
    return checks[key], wanted


def _is_equal_text(value: Any, wanted: tuple[str, str | float]) -> bool | None:
    """Return whether a value equals a text, of which is given how it reads."""
    text, reads = wanted
    if type(value) is not str:
        return _is_equal(value, text)
    return value == text or (None if _reads_as(value) == reads else False)


def _is_equal(value: Any, wanted: Any) -> bool | None:
    """Return whether two values are equal in JSON; in doubt if they only read the same."""
    if type(value) is str and type(wanted) is str:  # as most are
        return value == wanted or (None if _reads_as(value) == _reads_as(wanted) else False)
    if _is_same(value, wanted):
        return True
    if isinstance(value, bool) or isinstance(wanted, bool):
        return None if str(value).strip().lower() == str(wanted).lower() else False
    if isinstance(value, Mapping | list | tuple) and not isinstance(wanted, Mapping | list | tuple):
        return _test_leaves(value, lambda leaf: _is_equal(leaf, wanted))
    if not isinstance(value, str | int | float) or not isinstance(wanted, str | int | float):
        return False
    return None if _reads_as(value) == _reads_as(wanted) else False


def _is_same(value: Any, wanted: Any) -> bool:
    """Return whether two values are equal in JSON, where `true` is not a number."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, Mapping) and isinstance(wanted, Mapping):
        return value.keys() == wanted.keys() and all(_is_same(value[k], wanted[k]) for k in wanted)
    if isinstance(value, list | tuple) and isinstance(wanted, list | tuple):
        return len(value) == len(wanted) and all(map(_is_same, value, wanted))
    return bool(value == wanted)


def _reads_as(value: str | float) -> str | float:
    found = _number(value)
    if found is not None:
        return found
    text = _fold(str(value))
    return (text if text.isascii() else text.translate(_LOOK_ALIKES)).casefold()


def _test_leaves(value: Any, holds: Callable[[Any], bool | None]) -> bool | None:
    """Return `None` (in doubt) if a test may be true of a part of a value, else `False`."""
    left, stack = _MAX_LEAVES, [value]
    while stack:
        part = stack.pop()
        left -= 1
        if isinstance(part, Mapping):
            stack += [*part, *part.values()]
        elif isinstance(part, list | tuple):
            stack += part
        elif holds(part) is not False:
            return None
        if left <= 0 or len(stack) > _MAX_LEAVES:
            return None
    return False


def _is_found(value: Any, expression: Expression) -> bool | None:
    if isinstance(value, str):
        return _is_in_text(value, expression)
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return None
    found = expression.is_in(text)
    if found is not False or not isinstance(value, Mapping | list | tuple):
        return found
    return _test_leaves(value, lambda leaf: isinstance(leaf, str) and _is_in_text(leaf, expression))


def _is_in_text(text: str, expression: Expression) -> bool | None:
    """Return whether a text contains a match; in doubt if the text as a person reads it differs."""
    found = expression.is_in(text)
    if len(text) > _MAX_TEXT_LENGTH:
        return found
    read = _fold(text)
    return found if read == text or expression.is_in(read) is found else None


def _is_above(value: Any, limit: float) -> bool | None:
    found = _number(value)
    return None if found is None else found > limit


def _is_below(value: Any, limit: float) -> bool | None:
    found = _number(value)
    return None if found is None else found < limit


def _number(value: Any) -> float | None:
    """Return a number, also from its text; `None` if there is none."""
    if isinstance(value, str):
        if value[:1].isalpha() and value[0] not in _BEGIN_NUMBERS:
            return None  # as most texts: `float` is slow to refuse them
    elif isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(found) else found


def _has_more(value: Any, limit: int) -> bool | None:
    """Return whether a value has more items; in doubt if it has more only with their parts."""
    if not isinstance(value, Mapping | list | tuple):
        return None
    if len(value) > limit:
        return True
    items = value.values() if isinstance(value, Mapping) else value
    return None if sum(map(_items_in, items)) > limit else False


def _items_in(item: Any) -> int:
    """Return how many items a tool may split an item into: "a@home, b@home" is two."""
    if isinstance(item, str):
        return sum(1 for part in _SEPARATOR.split(item, _MAX_LEAVES) if part.strip())
    return len(item) if isinstance(item, list | tuple) else 1
