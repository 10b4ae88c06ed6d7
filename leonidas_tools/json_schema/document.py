"""A JSON Schema with its references: compiled, or refused if it is not safe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, cast
from urllib.parse import unquote

import jsonschema_rs

from leonidas_tools.errors import SchemaError
from leonidas_tools.json_schema.patterns import PatternCost, cost_of

MAX_ARGUMENT_DEPTH: Final = 100
MAX_SCHEMA_DEPTH: Final = 200
MAX_SCHEMA_PARTS: Final = 200_000
MAX_PARTS_IN_PARTS: Final = 500_000
"""Limit of the sum of the parts' depths: each part is compiled with each part around it."""
MAX_EXPANSION: Final = 4_000
MAX_PLAIN_PARTS: Final = 100
MAX_PATTERN_CHARACTERS: Final = 100_000
MAX_PATTERN_STATES: Final = 350_000
MAX_PLAIN_OPTIONS: Final = 10
MAX_NAMED_ALIKE: Final = 100
"""Limit of the parts that one reference may mean."""
MAX_MEANT: Final = 100_000
"""Limit of the parts that all references together may mean."""

_BRANCHES: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies", "contains"}
)
PATTERN_OPTIONS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000)
"""Options of all patterns; a pattern that takes more steps counts as not matching."""
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
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_GOES_ON: Final = frozenset(_REFERENCES)
_IDS: Final = ("$id", "id")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_GOES_DEEP: Final = frozenset({*_REFERENCES, "uniqueItems"})


class Document:
    """One schema with the documents it may refer to.

    Raises:
        SchemaError: The schema is too deep or too large to be validated safely.
    """

    def __init__(
        self, schema: Mapping[str, Any] | bool, documents: Mapping[str, Mapping[str, Any] | bool]
    ) -> None:
        self.schema: Any = dict(schema) if isinstance(schema, Mapping) else schema
        self._documents = documents
        self.has_integers = False
        self.is_recursive = bool(documents)
        """True if validation may go as deep as the arguments."""
        self._pattern_characters = self._pattern_states = 0
        self.patterns: dict[str, PatternCost] = {}
        """The work of matching each pattern in the schema."""
        self.slow_enums: dict[int, int] = {}
        """The number of options that a value is compared with one by one, by the id of the part."""
        used = set[str]()
        count = in_parts = 0
        for depth, part in self._parts():
            count += 1
            in_parts += depth
            used.update(part)
            self.is_recursive = self.is_recursive or _goes_deep(part)
            kind = part.get("type")
            if kind == "integer" or (isinstance(kind, list) and "integer" in kind):
                self.has_integers = True
            self._note_work(part, depth)
        self.has_defaults = "default" in used
        branches, unevaluated = (not used.isdisjoint(each) for each in (_BRANCHES, _UNEVALUATED))
        self.may_be_costly = (
            (branches and (self.is_recursive or unevaluated or count > MAX_PLAIN_PARTS))
            or bool(self.slow_enums)
            or len(self.patterns) > MAX_PLAIN_PARTS
            or not all(cost.is_light for cost in self.patterns.values())
        )
        """True if validation may take far more steps than arguments have values."""
        self.takes_work = self.may_be_costly or branches or bool(self.patterns)
        """True if it may for a value without a limit of size."""
        self._known_checks: dict[int, int] = {}
        self._refuse_explosion()
        if in_parts > MAX_PARTS_IN_PARTS:
            raise SchemaError("The schema has too many parts that are deep in it; flatten it")

    def _parts(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield every object in the schema, level by level, with its depth."""
        level: list[Any] = [self.schema]
        for depth in range(MAX_SCHEMA_DEPTH):
            following: list[Any] = []
            for part in level:
                if isinstance(part, dict):
                    yield depth, part
                    following.extend(part.values())
                elif isinstance(part, list):
                    following.extend(part)
            level = [part for part in following if isinstance(part, dict | list)]
            if not level:
                return
            if len(level) > MAX_SCHEMA_PARTS:
                raise SchemaError(f"The schema has more than {MAX_SCHEMA_PARTS} parts; split it")
        raise SchemaError(f"The schema is more than {MAX_SCHEMA_DEPTH} levels deep; flatten it")

    def _refuse_malformed(self) -> None:
        """Refuse malformed keywords, even if the draft does not restrict their form."""
        level: list[Any] = [self.schema]
        for _ in range(MAX_SCHEMA_DEPTH):
            following: list[Any] = []
            for part in level:
                if isinstance(part, dict):
                    following.extend(_schemas_in(part))
            level = following

    def _note_work(self, part: dict[str, Any], depth: int) -> None:
        """Record the patterns and the long lists of options that values are compared with."""
        options, pattern, named = (part.get(k) for k in ("enum", "pattern", "patternProperties"))
        if isinstance(options, list) and len(options) > MAX_PLAIN_OPTIONS:
            kinds = {type(each) for each in options}
            if len(kinds) > 1 or not kinds.isdisjoint((dict, list)):
                self.slow_enums[id(part)] = len(options)
        for each in (pattern, *(named if isinstance(named, dict) else ())):
            if isinstance(each, str) and each not in self.patterns:
                self._pattern_characters += len(each)
                if self._pattern_characters > MAX_PATTERN_CHARACTERS:
                    raise SchemaError(
                        f"The schema has patterns of more than {MAX_PATTERN_CHARACTERS:,} "
                        f"characters; shorten them"
                    )
                self.patterns[each] = cost_of(each)
            if isinstance(each, str):  # compiled with each part around it
                self._pattern_states += self.patterns[each].size * (depth + 1)
        if self._pattern_states > MAX_PATTERN_STATES:
            raise SchemaError("The schema has too many or too large patterns; simplify them")

    def _refuse_explosion(self) -> None:
        """Refuse branches and references that multiply: validating one value might never end."""
        for _, part in self._parts():
            if self.checks(part) > MAX_EXPANSION:
                raise SchemaError(
                    f"The schema checks one value against more than {MAX_EXPANSION} schemas, its "
                    f"references followed; use fewer branches, and refer to each schema once"
                )

    def checks(self, schema: Any) -> int:
        """Return how many schemas one value is checked against for this schema."""
        return self._checks(schema, self._known_checks)

    def _checks(self, schema: Any, known: dict[int, int]) -> int:
        """Return how many schemas are checked against one value, references included."""
        if not isinstance(schema, dict):
            return 1
        if id(schema) not in known:
            known[id(schema)] = 1  # so that a recursive schema ends
            try:
                total = sum(self._checks(inner, known) for inner in self._beside(schema))
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
        if _GOES_ON.isdisjoint(schema):
            return ()
        if id(schema) not in self._known_targets:  # a reference may be very long
            self._known_targets[id(schema)] = tuple(self._resolve(schema))
        return self._known_targets[id(schema)]

    def _resolve(self, schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for keyword in _REFERENCES:
            reference = schema.get(keyword)
            if not isinstance(reference, str) or not isinstance(self.schema, dict):
                continue
            fragment = unquote(reference.partition("#")[2])
            if fragment and not fragment.startswith("/"):
                yield from self._parts_by_name.get(fragment, ())
                continue
            for pointer, part in self._parts_by_name[""]:
                found = _at(fragment, part)
                if found is not None:
                    yield pointer + fragment, found

    @cached_property
    def _known_target(self) -> dict[str, tuple[str, Any] | None]:
        return {}

    @cached_property
    def _known_targets(self) -> dict[int, Sequence[tuple[str, Any]]]:
        return {}

    @cached_property
    def _references(self) -> int:
        """Return the number of schemas that refer to others."""
        return sum(not _GOES_ON.isdisjoint(part) for _, part in self._parts())

    @cached_property
    def _parts_by_name(self) -> Mapping[str, list[tuple[str, Any]]]:
        """Return the parts by anchor; the root and all parts with an id are under an empty name."""
        named: dict[str, list[tuple[str, Any]]] = {"": [("#", self.schema)]}
        level: list[tuple[str, Any]] = [("#", self.schema)]
        while level:
            following: list[tuple[str, Any]] = []
            for pointer, part in level:
                names = [part.get(key) for key in _ANCHORS]
                names += [
                    each.partition("#")[2] for k in _IDS if isinstance(each := part.get(k), str)
                ]
                for name in names:
                    if isinstance(name, str) and (name or part is not self.schema):
                        alike = named.setdefault(name, [])
                        alike.append((pointer, part))
                        if len(alike) > min(MAX_NAMED_ALIKE, MAX_MEANT // (self._references or 1)):
                            raise SchemaError("The schema has too many parts with an id; split it")
                following += (
                    (child(pointer, *keys), inner)
                    for keys, inner in _walk_subschemas(part)
                    if isinstance(inner, dict)
                )
            level = following
        return named

    def target(self, reference: Any) -> tuple[str, Any] | None:
        """Return the pointer and the schema of a reference inside this document."""
        if not isinstance(reference, str) or not isinstance(self.schema, dict):
            return None
        if reference not in self._known_target:
            self._known_target[reference] = self._target(reference)
        return self._known_target[reference]

    def _target(self, reference: str) -> tuple[str, Any] | None:
        base, _, fragment = reference.partition("#")
        if base and base != str(self.schema.get("$id", self.schema.get("id"))).rstrip("#"):
            return None
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment)
        pointer = unquote(fragment)
        found = _at(pointer, self.schema)
        return None if found is None else (f"#{pointer}", found)

    @cached_property
    def _anchors(self) -> Mapping[str, tuple[str, Any]]:
        anchors: dict[str, tuple[str, Any]] = {}
        stack: list[tuple[str, Any]] = [("#", self.schema)]
        while stack:
            pointer, part = stack.pop()
            if isinstance(part, dict):
                if isinstance(part.get("$anchor"), str):
                    anchors[part["$anchor"]] = (pointer, part)
                stack.extend((child(pointer, key), value) for key, value in part.items())
            elif isinstance(part, list):
                stack.extend((child(pointer, key), value) for key, value in enumerate(part))
        return anchors

    def validator(self) -> jsonschema_rs.Validator:
        """Return the compiled schema.

        Raises:
            SchemaError: The schema is not valid, or has an unknown reference.
        """
        self._refuse_malformed()
        try:
            return jsonschema_rs.validator_for(
                self.schema,
                registry=self._meta_schemas,
                retriever=self._retrieve,
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
            registry=self._meta_schemas,
            retriever=self._retrieve,
            validate_formats=False,
            pattern_options=PATTERN_OPTIONS,
        )

    @cached_property
    def _meta_schemas(self) -> jsonschema_rs.Registry | None:
        """Return a registry with the schema's own meta-schema, if it is one of the documents."""
        uri = self.schema.get("$schema") if isinstance(self.schema, dict) else None
        if not isinstance(uri, str) or uri not in self._documents:
            return None
        return jsonschema_rs.Registry([(uri, cast("Any", self._documents[uri]))])

    def _retrieve(self, uri: str) -> Any:
        """Return a document; without this, jsonschema-rs would read the network or the disk."""
        try:
            return self._documents[uri]
        except KeyError:
            raise LookupError("nothing is fetched, and no such document was given") from None


def _schemas_in(part: dict[str, Any]) -> Iterator[Any]:
    """Yield the schemas in a schema; raise an error if a keyword has the wrong form."""
    for key, value in part.items():
        if key in _OBJECTS and not isinstance(value, dict):
            raise SchemaError(f"The schema is not a JSON Schema: its {key!r} is not an object")
        if key in _LISTS and not isinstance(value, list):
            raise SchemaError(f"The schema is not a JSON Schema: its {key!r} is not a list")
    for _, inner in _walk_subschemas(part):
        yield inner


def _walk_subschemas(part: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the schemas in a schema, each with the keys that lead to it."""
    for key, value in part.items():
        if key in _OBJECTS and isinstance(value, dict):
            yield from (((key, name), inner) for name, inner in value.items())
        elif key in _SCHEMAS or (key in _LISTS and key not in ("enum", "required")):
            if isinstance(value, list):
                yield from (((key, index), inner) for index, inner in enumerate(value))
            else:
                yield (key,), value


def _at(pointer: str, schema: Any) -> Any | None:
    """Return the part of a schema at a pointer, if any."""
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
