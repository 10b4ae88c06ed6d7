"""A JSON Schema with its references: compiled, or refused if it is not safe."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import unquote

import jsonschema_rs

from leonidas_tools.errors import SchemaError
from leonidas_tools.redaction.visible import visible_logger

MAX_ARGUMENT_DEPTH: Final = 100
MAX_SCHEMA_DEPTH: Final = 200
MAX_PARTS_IN_PARTS: Final = 500_000
"""Limit of the sum of the parts' depths: each part is compiled with each part around it."""
MAX_EXPANSION: Final = 4_000
MAX_WORK: Final = 400_000
"""Limit of the work of a validation, in checks of a plain schema."""
MAX_PLAIN_CHECKS: Final = 50
"""Checks of each value above which arguments are measured before they are validated."""
MAX_VALUES: Final = 100_000
"""Limit of the values in what a schema that may be costly validates."""
MAX_COUNTED: Final = 5_000
"""Limit of the parts whose work is counted, at each depth below them."""
MAX_PATTERN_CHARACTERS: Final = 10_000
MAX_PATTERN_BYTES: Final = 1 << 24
MAX_COMPILED_BYTES: Final = 1 << 27
"""Limit of all patterns, compiled with each part around them."""
MIN_PATTERN_BYTES: Final = 1 << 12
UNCHECKED_PATTERN_BYTES: Final = 1 << 16
MAX_NAMED_ALIKE: Final = 100
"""Limit of the parts that one reference may mean."""
STEPS: Final = 500
"""The bytes of a compiled pattern, times characters, that take the time of a check."""
_CHARACTERS_OF_A_VALUE: Final = 64

PATTERN_OPTIONS: Final = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES)
"""Options of all patterns: an engine that takes linear time."""
_NEEDS_BACKTRACKING: Final = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9kKGg]|[*+?}]\+")
_CLASS: Final = r"\[(?:\\.|[^\]\\])*\]"
_ONE_WAY: Final = re.compile(
    rf"\^(?:\\.|{_CLASS}|[^\\\[(){{}}*+?|^$])*(?:[*+]|\{{\d+(?:,\d*)?\}})?\$?", re.DOTALL
)
"""A pattern whose only repeat is the last: each text is in one state at a time."""
_OBJECTS: Final = frozenset(
    {
        "properties", "patternProperties", "dependentSchemas", "dependentRequired", "dependencies",
        "$defs", "definitions",
    }
)  # fmt: skip
"""Keywords whose value is an object with names chosen by the author."""
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "enum", "required"})
_SCHEMAS: Final = frozenset(
    {
        "items", "additionalItems", "contains", "unevaluatedItems", "additionalProperties",
        "propertyNames", "unevaluatedProperties", "not", "if", "then", "else", "contentSchema",
    }
)  # fmt: skip
"""Keywords whose value is a schema, or a list of schemas."""
_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES: Final = ("$id", "id", "$anchor", "$dynamicAnchor")
_GOES_DEEP: Final = frozenset({*_REFERENCES, "uniqueItems"})
_UNEVALUATED: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})
_PLAIN_BESIDE: Final = ("not", "if", "then", "else", "propertyNames")
_KINDS: Final = ("object", "array")

logger = visible_logger(__name__)


class Work(NamedTuple):
    """The work of a schema, for each value and for each character in what is validated."""

    checks: int = 1
    compared: int = 0
    steps: int = 0
    reported: int = 0  # what is added if all errors are looked for

    def plus(self, others: Iterable[Work]) -> Work:
        """Return the work of this and all others."""
        checks, compared, steps, reported = self
        for other in others:
            checks += other.checks
            compared += other.compared
            steps += other.steps
            reported += other.reported
        return Work(*(min(each, MAX_WORK) for each in (checks, compared, steps, reported)))


class Size(NamedTuple):
    """The size of a value, which is not counted to its end if it is too large or too deep."""

    values: int  # a long text counts as many
    characters: int
    depth: int


class Document:
    """One schema that is safe to compile.

    Raises:
        SchemaError: The schema is too deep or too large to be validated safely.
    """

    def __init__(self, schema: Mapping[str, Any] | bool) -> None:
        self.schema: Any = dict(schema) if isinstance(schema, Mapping) else schema
        self._patterns: dict[str, int]
        """The compiled size of each pattern in bytes; 0 if it is only ever in one state."""
        self._measure_patterns()
        self._refuse_malformed()
        parts = [part for _, part in self._parts()]
        self.has_integers = any("integer" in _as_list(part.get("type")) for part in parts)
        self.has_defaults = any("default" in part for part in parts)
        self.is_recursive = any(map(_goes_deep, parts))
        """True if validation may go as deep as the arguments."""
        self._known: dict[tuple[int, int, str], Work] = {}
        self._known_meant: dict[str, Sequence[tuple[str, Any]]] = {}
        self._most_known = 3 * len(parts) + MAX_COUNTED
        try:
            if any(self._work(part, 0, "object").checks > MAX_EXPANSION for part in parts):
                raise SchemaError(
                    f"The schema checks one value against more than {MAX_EXPANSION} schemas, its "
                    f"references followed; use fewer branches, and refer to each schema once"
                )
            work = self._work(self.schema, 1, "object")
        except RecursionError:
            raise SchemaError("The schema has a too long chain of references") from None
        self.may_be_costly = bool(
            self.is_recursive or work.steps or work.checks + work.compared > MAX_PLAIN_CHECKS
        )
        """True if validation may take far more steps than arguments have values."""

    def work(self, value: Any, schema: Any = None, *, with_errors: bool = False) -> int:
        """Return the most work that validating a value by the schema, or by a part of it, takes.

        A schema checks each value in the value at most once for each way to reach it, and an error
        copies the value that it is about. So the work is that of the schema times the size.
        """
        size = _size_of(value)
        if size.depth > MAX_ARGUMENT_DEPTH or size.values > MAX_VALUES:
            return MAX_WORK + 1
        depth, kind = (
            size.depth if self.is_recursive else 1,
            "array" if isinstance(value, list) else "object",
        )
        try:
            work = self._work(self.schema if schema is None else schema, depth, kind)
        except RecursionError:
            return MAX_WORK + 1
        of_value = work.checks + work.compared + work.reported * with_errors
        return of_value * size.values + work.steps * size.characters // STEPS

    def _work(self, schema: Any, depth: int, kind: str) -> Work:
        """Return the work of a schema for an object or an array of a depth."""
        if not isinstance(schema, dict):
            return Work()
        key = (id(schema), depth, kind)
        if key not in self._known:
            if len(self._known) > self._most_known:
                return Work(MAX_WORK)
            self._known[key] = Work()  # so that a recursive schema ends
            beside = [self._work(each, depth, kind) for each in self._beside(schema)]
            times = 1 if _UNEVALUATED.isdisjoint(schema) else 3  # to find out what is evaluated
            found = self._own(schema).plus(beside * times)
            if depth:
                found = found.plus(self._inner(schema, depth - self.is_recursive, kind))
            self._known[key] = found
        return self._known[key]

    def _own(self, schema: dict[str, Any]) -> Work:
        """Return the work of a schema itself: its options, patterns and required properties."""
        options = _as_list(schema.get("enum", []))
        kinds = set(map(type, options))
        is_slow = len(kinds) > 1 or not kinds.isdisjoint((dict, list))
        required = [*_dict(schema, "dependentRequired").values(), schema.get("required")]
        patterns = [*_dict(schema, "patternProperties"), *_as_list(schema.get("pattern", []))]
        return Work(
            checks=1,
            compared=len(options) * is_slow + len(patterns),
            steps=sum(self._patterns.get(each, 0) for each in patterns if isinstance(each, str)),
            reported=len(options)
            + sum(len(each) for each in required if isinstance(each, list))
            + _size_of(schema.get("const")).values,
        )

    def _beside(self, schema: dict[str, Any]) -> Iterator[Any]:
        """Yield the schemas that apply to the same value as this one, or to its names."""
        for keyword in ("allOf", "anyOf", "oneOf"):
            yield from _as_list(schema.get(keyword, []))
        yield from (schema[each] for each in _PLAIN_BESIDE if each in schema)
        for keyword in ("dependentSchemas", "dependencies"):
            yield from _dict(schema, keyword).values()
        for key in _REFERENCES:
            if isinstance(reference := schema.get(key), str):
                yield from (part for _, part in self._meant(reference))

    def _inner(self, schema: dict[str, Any], depth: int, kind: str) -> Iterator[Work]:
        """Yield the work of a schema for one part of an object or an array."""
        if kind == "object":
            one = [*_dict(schema, "properties").values(), schema.get("additionalProperties")]
            more = [*_dict(schema, "patternProperties").values()]
            more.append(schema.get("unevaluatedProperties"))
        else:
            places = ("prefixItems", "items", "additionalItems")
            one = [each for place in places for each in _as_list(schema.get(place))]
            more = [schema.get("contains"), schema.get("unevaluatedItems")]
        for schemas in (one, *([each] for each in more)):
            found = [self._work(e, depth, k) for e in schemas if e is not None for k in _KINDS]
            if found:
                yield Work(*map(max, zip(*found, strict=True)))

    def _parts(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield every object in the schema, level by level, with its depth."""
        level: list[Any] = [self.schema]
        in_parts = 0
        for depth in range(MAX_SCHEMA_DEPTH):
            in_parts += depth * len(level)
            if in_parts > MAX_PARTS_IN_PARTS:
                raise SchemaError("The schema has too many parts; split or flatten it")
            following: list[Any] = []
            for part in level:
                if isinstance(part, dict):
                    yield depth, part
                    following += (e for e in part.values() if isinstance(e, dict | list))
                elif isinstance(part, list):
                    following += (e for e in part if isinstance(e, dict | list))
            level = following
            if not level:
                return
        raise SchemaError(f"The schema is more than {MAX_SCHEMA_DEPTH} levels deep; flatten it")

    def _measure_patterns(self) -> None:
        """Compile each pattern; remove those that the linear engine does not have."""
        compiled, sizes = 0, dict[str, int | None]()
        for depth, part in self._parts():
            for each in (part.get("pattern"), *_dict(part, "patternProperties")):
                if not isinstance(each, str):
                    continue
                if each not in sizes:
                    sizes[each] = _size_of_pattern(each)
                compiled += (depth + 1) * (sizes[each] or UNCHECKED_PATTERN_BYTES)
                if compiled > MAX_COMPILED_BYTES:
                    raise SchemaError(
                        "The schema has too many or too large patterns; simplify them"
                    )
        unchecked = {pattern for pattern, size in sizes.items() if size is None}
        if unchecked:
            self.schema = copy.deepcopy(self.schema)
            _remove_patterns(self.schema, unchecked)
        for pattern in unchecked:
            logger.warning(
                "The pattern %.100r is not checked: lookaround and backreferences are not linear",
                pattern,
            )
        self._patterns = {
            pattern: 0 if _ONE_WAY.fullmatch(pattern) else size
            for pattern, size in sizes.items()
            if size is not None
        }

    def _meant(self, reference: str) -> Sequence[tuple[str, Any]]:
        """Return the pointer and the schema of each part that a reference may mean.

        Which one it is depends on the draft, on the ids around it and, for a dynamic one, on the
        value. Missing one would hide branches that multiply.
        """
        if reference not in self._known_meant:  # a reference may be very long
            self._known_meant[reference] = self._find(reference)
        return self._known_meant[reference]

    def _find(self, reference: str) -> Sequence[tuple[str, Any]]:
        fragment = unquote(reference.partition("#")[2])
        if fragment and not fragment.startswith("/"):
            return self._named.get(fragment, ())
        found = [(pointer + fragment, _at(fragment, part)) for pointer, part in self._named[""]]
        return [(pointer, part) for pointer, part in found if part is not None]

    @cached_property
    def _named(self) -> Mapping[str, list[tuple[str, Any]]]:
        """The parts with an anchor by its name; the root and all parts with an id by ""."""
        named: dict[str, list[tuple[str, Any]]] = {"": [("#", self.schema)]}
        stack: list[tuple[str, Any]] = [("#", self.schema)]
        while stack:
            pointer, part = stack.pop()
            entries = part.items() if isinstance(part, dict) else enumerate(part)
            stack += ((child(pointer, k), v) for k, v in entries if isinstance(v, dict | list))
            for key in _NAMES if isinstance(part, dict) else ():
                name = part.get(key)
                if isinstance(name, str):
                    name = name.partition("#")[2] if key in ("$id", "id") else name
                    if name or part is not self.schema:
                        named.setdefault(name, []).append((pointer, part))
        if max(map(len, named.values())) > MAX_NAMED_ALIKE:
            raise SchemaError("The schema has too many parts with an id; split it")
        return named

    def target(self, reference: Any) -> tuple[str, Any] | None:
        """Return the pointer and the schema of a reference inside this document, if it is clear."""
        if not isinstance(reference, str) or not isinstance(self.schema, dict):
            return None
        base = reference.partition("#")[0]
        if base and base != str(self.schema.get("$id", self.schema.get("id"))).rstrip("#"):
            return None
        meant = self._meant(reference)
        return meant[0] if len(meant) == 1 else None

    @cached_property
    def validator(self) -> jsonschema_rs.Validator:
        """The compiled schema.

        Raises:
            SchemaError: The schema is not valid, or has an unknown reference.
        """
        try:
            return jsonschema_rs.validator_for(
                self.schema,
                retriever=_fetch_nothing,
                validate_formats=False,
                pattern_options=PATTERN_OPTIONS,
            )
        except jsonschema_rs.ValidationError as error:
            raise SchemaError(f"The schema is not a JSON Schema: {error.message}") from error
        except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
            raise SchemaError(f"The schema is not a JSON Schema: {error}") from error

    @cached_property
    def validators(self) -> jsonschema_rs.ValidatorMap:
        """Return a compiled schema for every part, by its pointer."""
        return jsonschema_rs.validator_map_for(
            self.schema,
            retriever=_fetch_nothing,
            validate_formats=False,
            pattern_options=PATTERN_OPTIONS,
        )

    def _refuse_malformed(self) -> None:
        """Refuse keywords without the form that this package reads, even if the draft has none."""
        level: list[Any] = [self.schema]
        while level:
            level = [
                inner for part in level if isinstance(part, dict) for inner in _schemas_in(part)
            ]


def _fetch_nothing(uri: str) -> NoReturn:
    """Refuse a reference; without this, jsonschema-rs would read the network or the disk."""
    raise LookupError(f"nothing is fetched, and {uri!r} is not in the schema")


def _size_of_pattern(pattern: str) -> int | None:
    """Return the size of a compiled pattern in bytes; `None` if it needs backtracking.

    The time to match it is at most this size times the length of the text.

    Raises:
        SchemaError: The pattern is too large, or no pattern.
    """
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise SchemaError("The schema has too many or too large patterns; simplify them")
    size = MIN_PATTERN_BYTES
    if not _compiles(pattern, MAX_PATTERN_BYTES):
        if _NEEDS_BACKTRACKING.search(pattern):
            return None
        raise SchemaError(f"The schema is not a JSON Schema: {pattern!r:.100} is not a pattern")
    while not _compiles(pattern, size):
        size *= 2
    return size


def _compiles(pattern: str, max_bytes: int) -> bool:
    options = jsonschema_rs.RegexOptions(size_limit=max_bytes)
    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True


def _remove_patterns(schema: Any, patterns: set[str]) -> None:
    stack = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            if isinstance(pattern := part.get("pattern"), str) and pattern in patterns:
                del part["pattern"]
            stack += (each for key, each in part.items() if key not in _VALUES)
        elif isinstance(part, list):
            stack += part


def _schemas_in(part: dict[str, Any]) -> Iterator[Any]:
    """Yield the schemas in a schema; raise an error if a keyword has the wrong form."""
    for key, value in part.items():
        if key in _OBJECTS:
            if not isinstance(value, dict):
                raise SchemaError(f"The schema is not a JSON Schema: its {key!r} is not an object")
            yield from value.values()
        elif key in _LISTS and not isinstance(value, list):
            raise SchemaError(f"The schema is not a JSON Schema: its {key!r} is not a list")
        elif key in _SCHEMAS or key in _LISTS:
            yield from value if isinstance(value, list) else (value,)


def _at(pointer: str, schema: Any) -> Any | None:
    """Return the part of a schema at a pointer, if there is one."""
    found = schema
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(key)] if isinstance(found, list) else found[key]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return found


def _goes_deep(part: dict[str, Any]) -> bool:
    """Return whether a schema may check deeper levels of a value than it has itself."""
    options = part.get("enum")  # of any form where the part is no schema, but a value
    values = [part.get("const"), *(options if isinstance(options, list) else ())]
    return not _GOES_DEEP.isdisjoint(part) or any(isinstance(v, dict | list) for v in values)


def child(pointer: str, *keys: str | int) -> str:
    """Return the pointer to a part of a schema."""
    for key in keys:
        pointer += "/" + str(key).replace("~", "~0").replace("/", "~1")
    return pointer


def is_too_deep(value: Any) -> bool:
    """Return whether a value is nested deeper than can be checked, or contains itself."""
    level = {id(value): value}
    for _ in range(MAX_ARGUMENT_DEPTH):
        level = {
            id(inner): inner
            for each in level.values()
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list | tuple)
        }
        if not level:
            return False
    return True


def _size_of(value: Any) -> Size:
    values, characters, depth = 1, len(value) if isinstance(value, str) else 0, 0
    level = [value] if isinstance(value, dict | list | tuple) else []
    while level and depth <= MAX_ARGUMENT_DEPTH and values <= MAX_VALUES:
        depth += 1
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
                characters += sum(len(key) for key in each if isinstance(key, str))
            else:
                inner += each
        values += len(inner)
        characters += sum(len(each) for each in inner if isinstance(each, str))
        level = [each for each in inner if isinstance(each, dict | list | tuple)]
    return Size(values + characters // _CHARACTERS_OF_A_VALUE, characters, depth)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _dict(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    value = schema.get(keyword)
    return value if isinstance(value, dict) else {}
