"""Find where arguments do not fit a schema, with bounded work.

jsonschema-rs looks for all errors at once, and in each branch of a union: that takes seconds for
a large array, and does not end for deep arguments under a recursive schema. So a value that takes
too much work is narrowed down to one of its parts first.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leonidas_tools.json_schema.document import Document, child
from leonidas_tools.json_schema.keywords import schema_of_item, schemas_of_property

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import jsonschema_rs

    from leonidas_tools.json_schema.report import PathKeys

MAX_CHECKS: Final = 1_000
MAX_WORK: Final = 200_000
"""Limit of the work of a validation, in checks of a plain schema."""
MAX_PAIRS: Final = 10_000
"""Limit of the pairs of a schema and a value that are visited to estimate the work."""
MAX_COPIED: Final = 500_000
"""Limit of the values in all errors together: each error copies the value that it is about."""
MAX_NARROWINGS: Final = 12
"""Limit of the levels by which a value is narrowed: each level checks all levels below it."""
_CHARACTERS_OF_A_VALUE: Final = 64
_ERROR_VALUES: Final = 50
"""The work of an error itself, in values that it copies."""
_NAME_WORK: Final = 20
"""The work of matching a name against a pattern, in checks of a plain schema."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One schema that applies to one value."""

    pointer: str  # of the schema in its document
    schema: Any
    value: Any
    path: PathKeys = ()  # of the value in the arguments


def errors_in(
    document: Document, value: Any
) -> tuple[PathKeys, list[jsonschema_rs.ValidationError]]:
    """Return the path of a part that is not valid, and the errors in this part.

    The paths of the errors continue this path. No errors are returned if only the path can be
    found.
    """
    check = Check(pointer="#", schema=document.schema, value=value)
    for level in itertools.count():
        is_large = _cost(document, check, {}, MAX_CHECKS, MAX_CHECKS) > MAX_CHECKS
        if not is_large and _count_copied(document, check) <= MAX_COPIED:
            break
        if level == MAX_NARROWINGS:
            return check.path, []
        wrong = next((c for c in _parts(document, check) if not _fits(document, c)), None)
        if wrong is None:
            return check.path, [] if is_large else _first_error(document, check)
        check = wrong
    validator = document.validators.get(check.pointer)
    return check.path, list(validator.iter_errors(check.value)) if validator else []


def _first_error(document: Document, check: Check) -> list[jsonschema_rs.ValidationError]:
    """Return the first error of a value; none if the schema has branches, which it would copy."""
    import jsonschema_rs

    validator = document.validators.get(check.pointer)
    if validator is not None and next(_branches(document, check), None) is None:
        try:
            validator.validate(check.value)
        except jsonschema_rs.ValidationError as error:
            return [error]
    return []


def _count_copied(document: Document, check: Check) -> int:
    """Return an upper bound of the values that the errors of a check copy."""
    sizes: dict[int, int] = {}

    def own(_: Document, check: Check) -> int:
        schema, value = check.schema, check.value
        if not isinstance(schema, dict):
            return 1
        errors = 1
        if isinstance(value, dict):
            named = [schema.get("required", ()), *_find_required_names(schema, value)]
            errors += sum(name not in value for names in named for name in names)
        listed = len(schema.get("enum", ())) + _size(schema.get("const"), {})
        return errors * (_ERROR_VALUES + _size(value, sizes)) + listed

    return _cost(document, check, {}, MAX_COPIED, MAX_CHECKS, own)


def _find_required_names(schema: dict[str, Any], value: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the names that a present property requires."""
    for keyword in ("dependentRequired", "dependencies"):
        for name, names in dict(schema.get(keyword, {})).items():
            if name in value and isinstance(names, list):
                yield names


def _size(value: Any, known: dict[int, int]) -> int:
    """Return the number of values in a value, including itself; a long text counts as many."""
    if isinstance(value, str):
        return 1 + len(value) // _CHARACTERS_OF_A_VALUE
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(each, known) for each in inner)
    return known[id(value)]


def _fits(document: Document, check: Check) -> bool:
    validator = document.validators.get(check.pointer)
    return validator is None or validator.is_valid(check.value)


def is_too_costly(document: Document, value: Any) -> bool:
    """Return whether validating a value takes more work than is done at once."""
    check = Check(pointer="#", schema=document.schema, value=value)
    return _cost(document, check, {}, MAX_WORK, MAX_PAIRS, _own_work) > MAX_WORK


def work_of(document: Document, check: Check, known: dict[tuple[int, int], int]) -> int:
    """Return the work of a check, and add the work of its parts to `known`.

    The values must live as long as `known`, since their ids are its keys.
    """
    return _cost(document, check, known, MAX_WORK, 2 * MAX_PAIRS, _own_work)


def _cost(
    document: Document,
    check: Check,
    known: dict[tuple[int, int], int],
    most: int,
    most_pairs: int,
    own_work: Callable[[Document, Check], int] = lambda _document, _check: 1,
) -> int:
    """Return an upper bound of the checks of a value by a schema; stop counting above `most`."""
    key = (id(check.schema), id(check.value))
    if key in known:
        return known[key]
    if len(known) > most_pairs:
        return most + 1
    known[key] = total = own_work(document, check)
    if total > most:
        return total
    again = _count_evaluations(check)
    for part in itertools.chain(_parts(document, check), _branches(document, check)):
        cost = _cost(document, part, known, most, most_pairs, own_work)
        total += cost * again if part.value is check.value else cost
        if total > most:
            break
    known[key] = total
    return total


def _count_evaluations(check: Check) -> int:
    """Return how often the schemas next to `unevaluated…` are checked: once more per part."""
    schema, value = check.schema, check.value
    if not isinstance(schema, dict) or not isinstance(value, dict | list):
        return 1
    keyword = "unevaluatedProperties" if isinstance(value, dict) else "unevaluatedItems"
    return 1 + len(value) if keyword in schema else 1


def _own_work(document: Document, check: Check) -> int:
    """Return the work of a schema itself, without the schemas in it."""
    schema, value, work = check.schema, check.value, 1
    if not isinstance(schema, dict):
        return work
    work += document.slow_enums.get(id(schema), 0)
    if isinstance(value, str) and (cost := document.patterns.get(schema.get("pattern", ""))):
        work += cost.of(value)
    if isinstance(value, list) and schema.get("uniqueItems") is True:
        work += _size(value, {})
    if isinstance(value, dict):
        patterns = schema.get("patternProperties", {})
        longest = max(value, key=len, default="") if patterns else ""
        for pattern in patterns:
            cost = document.patterns.get(pattern)
            work += len(value) * (_NAME_WORK + (0 if cost is None else cost.of(longest)))
    return work


def _parts(document: Document, check: Check) -> Iterator[Check]:
    """Yield the checks of a value and its parts that must all succeed."""
    schema = check.schema
    if not isinstance(schema, dict):
        return
    target = document.target(schema.get("$ref"))
    if target is not None:
        yield Check(pointer=target[0], schema=target[1], value=check.value, path=check.path)
    yield from _check_branches(check, "allOf")
    if isinstance(check.value, dict):
        yield from _properties(check)
    elif isinstance(check.value, list):
        yield from _items(check)


def _branches(document: Document, check: Check) -> Iterator[Check]:
    """Yield the checks of a value and its parts that need not succeed."""
    if not isinstance(check.schema, dict):
        return
    yield from _other_targets(document, check)
    for keyword in ("dependentSchemas", "dependencies"):
        for name, schema in dict(check.schema.get(keyword, {})).items():
            yield _under(check, schema, keyword, name)
    yield from _branches_of_parts(check)
    yield from _names(check)
    for keyword in ("anyOf", "oneOf"):
        yield from _check_branches(check, keyword)
    for keyword in ("not", "if", "then", "else"):
        if keyword in check.schema:
            yield _under(check, check.schema[keyword], keyword)


def _other_targets(document: Document, check: Check) -> Iterator[Check]:
    """Yield the checks by references, except the one that must succeed."""
    target = document.target(check.schema.get("$ref"))
    for pointer, schema in document.targets(check.schema):
        if target is None or schema is not target[1]:
            yield Check(pointer=pointer, schema=schema, value=check.value, path=check.path)


def _branches_of_parts(check: Check) -> Iterator[Check]:
    if isinstance(check.value, list):
        for keyword in ("contains", "unevaluatedItems"):
            for index, value in enumerate(check.value if keyword in check.schema else ()):
                yield _under(check, check.schema[keyword], keyword, of=value, at=index)
    elif isinstance(check.value, dict) and "unevaluatedProperties" in check.schema:
        inner = check.schema["unevaluatedProperties"]
        for name, value in check.value.items():
            yield _under(check, inner, "unevaluatedProperties", of=value, at=name)


def _names(check: Check) -> Iterator[Check]:
    if isinstance(check.value, dict) and "propertyNames" in check.schema:
        for name in check.value:
            yield _under(check, check.schema["propertyNames"], "propertyNames", of=name, at=name)


def _check_branches(check: Check, keyword: str) -> Iterator[Check]:
    for index, schema in enumerate(check.schema.get(keyword, ())):
        yield _under(check, schema, keyword, index)


def _under(
    check: Check, schema: Any, *keys: str | int, of: Any = None, at: str | int | None = None
) -> Check:
    pointer = child(check.pointer, *keys)
    if at is None:
        return Check(pointer=pointer, schema=schema, value=check.value, path=check.path)
    return Check(pointer=pointer, schema=schema, value=of, path=(*check.path, at))


def _properties(check: Check) -> Iterator[Check]:
    for name in _select_names(check.schema, check.value):
        for keys, schema in schemas_of_property(check.schema, name):
            if isinstance(schema, dict) or schema is False:
                pointer, path = child(check.pointer, *keys), (*check.path, name)
                yield Check(pointer=pointer, schema=schema, value=check.value[name], path=path)


def _select_names(schema: dict[str, Any], value: dict[str, Any]) -> Iterable[str]:
    """Return the names that a schema may check; it may be one of thousands."""
    rest = schema.get("additionalProperties")
    if isinstance(rest, dict) or rest is False or "patternProperties" in schema:
        return value
    declared = schema.get("properties", {})
    return [name for name in min(value, declared, key=len) if name in value and name in declared]


def _items(check: Check) -> Iterator[Check]:
    for index, value in enumerate(check.value):
        keys, schema = schema_of_item(check.schema, index)
        if isinstance(schema, dict) or schema is False:
            pointer = child(check.pointer, *keys)
            yield Check(pointer=pointer, schema=schema, value=value, path=(*check.path, index))
        elif len(keys) == 1:  # nothing checks the rest of the items
            return
