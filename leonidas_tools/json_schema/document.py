"""A JSON Schema with its references: compiled, or refused if it is not safe."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import jsonschema_rs

from leonidas_tools.errors import SchemaError
from leonidas_tools.redaction.visible import visible_logger

MAX_ARGUMENT_DEPTH: Final = 100
MAX_SCHEMA_DEPTH: Final = 200
MAX_PARTS_IN_PARTS: Final = 500_000
"""Limit of the sum of the parts' depths: each part is compiled with each part around it."""
MAX_EXPANSION: Final = 4_000
MAX_PLAIN_PARTS: Final = 100
MAX_PATTERN_CHARACTERS: Final = 10_000
MAX_PATTERN_BYTES: Final = 1 << 24
MAX_COMPILED_BYTES: Final = 1 << 27
"""Limit of all patterns, compiled with each part around them."""
MAX_PLAIN_OPTIONS: Final = 10
MAX_NAMED_ALIKE: Final = 100
"""Limit of the parts that one reference may mean."""
MIN_PATTERN_BYTES: Final = 1 << 12
UNCHECKED_PATTERN_BYTES: Final = 1 << 16

PATTERN_OPTIONS: Final = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES)
"""Options of all patterns: an engine that takes linear time."""
_NEEDS_BACKTRACKING: Final = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9kKGg]|[*+?}]\+")
_CLASS: Final = r"\[(?:\\.|[^\]\\])*\]"
_ONE_WAY: Final = re.compile(
    rf"\^(?:\\.|{_CLASS}|[^\\\[(){{}}*+?|^$])*(?:[*+]|\{{\d+(?:,\d*)?\}})?\$?", re.DOTALL
)
"""A pattern whose only repeat is the last: each text is in one state at a time."""
_BRANCHES: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies", "contains"}
)
_UNEVALUATED: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})
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

logger = visible_logger(__name__)


class Document:
    """One schema that is safe to compile.

    Raises:
        SchemaError: The schema is too deep or too large to be validated safely.
    """

    def __init__(self, schema: Mapping[str, Any] | bool) -> None:
        self.schema: Any = dict(schema) if isinstance(schema, Mapping) else schema
        self.has_integers = False
        self.is_recursive = False
        """True if validation may go as deep as the arguments."""
        self.patterns: dict[str, int]
        """The compiled size of each pattern in bytes; 0 if it is only ever in one state."""
        self.slow_enums: dict[int, int] = {}
        """The number of options that a value is compared with one by one, by the id of the part."""
        self._measure_patterns()
        used = set[str]()
        count = 0
        for _, part in self._parts():
            count += 1
            used.update(part)
            self._note(part)
        self.has_defaults = "default" in used
        branches, unevaluated = (not used.isdisjoint(each) for each in (_BRANCHES, _UNEVALUATED))
        self.may_be_costly = (
            (branches and (self.is_recursive or unevaluated or count > MAX_PLAIN_PARTS))
            or bool(self.slow_enums)
            or len(self.patterns) > MAX_PLAIN_PARTS
            or max(self.patterns.values(), default=0) > MIN_PATTERN_BYTES
        )
        """True if validation may take far more steps than arguments have values."""
        self.takes_work = self.may_be_costly or branches or bool(self.patterns)
        """True if it may for a value without a limit of size."""
        self._known_checks: dict[int, int] = {}
        self._known_meant: dict[str, Sequence[tuple[str, Any]]] = {}
        self._refuse_explosion()

    def _note(self, part: dict[str, Any]) -> None:
        self.is_recursive = self.is_recursive or _goes_deep(part)
        kind, options = part.get("type"), part.get("enum")
        if kind == "integer" or (isinstance(kind, list) and "integer" in kind):
            self.has_integers = True
        if isinstance(options, list) and len(options) > MAX_PLAIN_OPTIONS:
            kinds = {type(each) for each in options}
            if len(kinds) > 1 or not kinds.isdisjoint((dict, list)):
                self.slow_enums[id(part)] = len(options)

    def _refuse_explosion(self) -> None:
        """Refuse branches and references that multiply: validating one value might never end."""
        for _, part in self._parts():
            if self._checks(part) > MAX_EXPANSION:
                raise SchemaError(
                    f"The schema checks one value against more than {MAX_EXPANSION} schemas, its "
                    f"references followed; use fewer branches, and refer to each schema once"
                )

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
            named = part.get("patternProperties")
            for each in (part.get("pattern"), *(named if isinstance(named, dict) else ())):
                if not isinstance(each, str):
                    continue
                if each not in sizes:
                    sizes[each] = _size_of(each)
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
        self.patterns = {
            pattern: 0 if _ONE_WAY.fullmatch(pattern) else size
            for pattern, size in sizes.items()
            if size is not None
        }

    def _checks(self, schema: Any) -> int:
        """Return how many schemas one value is checked against, references included."""
        known = self._known_checks
        if not isinstance(schema, dict):
            return 1
        if id(schema) not in known:
            known[id(schema)] = 1  # so that a recursive schema ends
            try:
                total = sum(self._checks(inner) for inner in self._beside(schema))
            except RecursionError:
                raise SchemaError("The schema has a too long chain of references") from None
            known[id(schema)] = 1 + total
        return known[id(schema)]

    def _beside(self, schema: dict[str, Any]) -> Iterator[Any]:
        """Yield the schemas that apply to the same value as this one."""
        for keyword in ("allOf", "anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                yield from schema[keyword]
        for keyword in ("not", "if", "then", "else"):
            if keyword in schema:
                yield schema[keyword]
        for keyword in ("dependentSchemas", "dependencies"):
            if isinstance(schema.get(keyword), dict):
                yield from schema[keyword].values()
        for _, part in self.targets(schema):
            yield part

    def targets(self, schema: dict[str, Any]) -> Sequence[tuple[str, Any]]:
        """Return the pointer and the schema of each part that the references of a schema may mean.

        Which part a reference means depends on the draft, on the ids around it and, for a dynamic
        one, on the value. Missing a part would hide branches that multiply.
        """
        references = (r for key in _REFERENCES if isinstance(r := schema.get(key), str))
        return [target for reference in references for target in self._meant(reference)]

    def _meant(self, reference: str) -> Sequence[tuple[str, Any]]:
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

    def validator(self) -> jsonschema_rs.Validator:
        """Return the compiled schema.

        Raises:
            SchemaError: The schema is not valid, or has an unknown reference.
        """
        self._refuse_malformed()
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


def _size_of(pattern: str) -> int | None:
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
    return _depth(value, MAX_ARGUMENT_DEPTH, {}) > MAX_ARGUMENT_DEPTH


def _depth(value: Any, left: int, known: dict[int, int]) -> int:
    """Return the depth of a value; more than the maximum if it is deeper than `left`."""
    if not isinstance(value, dict | list | tuple):
        return 0
    if left == 0:
        return MAX_ARGUMENT_DEPTH + 1
    if id(value) not in known:
        known[id(value)] = MAX_ARGUMENT_DEPTH + 1  # for a value that contains itself
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + max((_depth(part, left - 1, known) for part in parts), default=0)
    return known[id(value)]
