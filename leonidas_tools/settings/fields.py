"""The types of values in settings: durations, counts, switches, enumerations."""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    WrapValidator,
)

from leonidas_tools.errors import SchemaError
from leonidas_tools.settings.problem import EMPTY
from leonidas_tools.tools.metadata import (
    NO_TIMEOUT_OFF,
    ToolCategory,
    as_category,
    as_enum,
    is_off,
)

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E", bound=Enum)

_DURATION = r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|h)?\s*"
_SECONDS = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NULLS = frozenset({"", "~", "null"})
_OFF_WORDS = (False, 0, "off", "false", "no")
_VARIABLE = r"\$\{.+\}"


def refuse_empty(value: Any) -> Any:
    """Return the value; refuse an empty text, such as that of an empty environment variable.

    As no value, it would override the value of another layer, or leave a limit out.

    Raises:
        ValueError: The text is empty, or a word for no value.
    """
    if isinstance(value, str) and value.strip().lower() in _NULLS:
        raise ValueError(EMPTY)
    return value


def seconds(value: Any) -> Any:
    """Return the seconds of a number, or of text such as `500ms`, `2s`, `1m`, `1h`.

    Raises:
        ValueError: The text is not a duration, or the value is a boolean.

    Example:
        >>> seconds("500ms"), seconds("1m"), seconds(2)
        (0.5, 60.0, 2)
    """
    if isinstance(value, bool):
        raise ValueError("is not a duration: give seconds, or text such as '500ms', '2s', '1m'")  # noqa: TRY004 - pydantic reports ValueErrors
    if not isinstance(refuse_empty(value), str):
        return value
    match = re.fullmatch(_DURATION, value, re.ASCII)
    if match is None:
        raise ValueError("is not a duration: give seconds, or text such as '500ms', '2s', '1m'")
    return float(match[1]) * _SECONDS[match[2]]


def or_off(value: Any, read: Callable[[Any], Any]) -> Any:
    """Return `False` for `0` or `off`, which switch a limit off; else the value."""
    return False if is_off(value) else read(value)


def off_as_zero(value: Any) -> Any:
    """Return `0` for `0` or `off`, else the value."""
    return 0 if is_off(value) else value


def off_as_none(value: Any) -> Any:
    """Return `None` for `0` or `off`, which switch a whole section off; else the value."""
    return None if is_off(value) else value


def never_off(why: str) -> Callable[[Any], Any]:
    """Return a validator that refuses `0` and `off`, for a limit that always applies."""

    def read(value: Any) -> Any:
        if is_off(value):
            raise ValueError(why)
        return value

    return read


def filler_after(value: Any) -> Any:
    """Return seconds, as `seconds` parses them, or the word `median`.

    Raises:
        ValueError: The value is neither.
    """
    if isinstance(value, str) and value.strip().lower() == "median":
        return "median"
    try:
        read = seconds(value)
    except ValueError:
        read = math.nan
    if read is None or (isinstance(read, int | float) and 0 < read < math.inf):
        return read
    raise ValueError("is neither a duration, such as 2 or '500ms', nor 'median' or 'off'")


def number(value: Any) -> Any:
    """Return a number or its text; refuse a boolean, which Python treats as 0 or 1.

    Raises:
        ValueError: The value is a boolean.
    """
    if isinstance(value, bool):
        raise ValueError("is not a number")  # noqa: TRY004 - pydantic reports ValueErrors
    return refuse_empty(value)


def mapping(value: Any) -> Any:
    """Return an empty mapping for `None`, which code may give for a section."""
    return {} if value is None else value


def choice(kind: type[E]) -> Callable[[Any], Any]:
    """Return a validator that accepts a member, its value, or its name in any case."""
    options = ", ".join(repr(member.name.lower()) for member in kind)

    def read(value: Any) -> Any:
        if refuse_empty(value) is None:
            return None
        try:
            if not isinstance(value, bool):
                return as_enum(kind, value)
        except SchemaError:
            pass  # its message shows the value, which may be a secret of the environment
        raise ValueError(f"is not one of {options}")

    return read


def choice_schema(kind: type[Enum]) -> dict[str, Any]:
    """Return the JSON Schema of the values that `choice` accepts."""
    names = [name for member in kind for name in (member.name.lower(), member.name)]
    numbers = [member.value for member in kind if isinstance(member.value, int)]
    return {
        "anyOf": [
            {"enum": [*names, *numbers]},
            {"type": "string", "pattern": _VARIABLE},
            {"type": "null"},
        ]
    }


def _number_schema(kind: str, *, nullable: bool = True, **bounds: float) -> dict[str, Any]:
    options: list[dict[str, Any]] = [
        {"type": kind, **bounds},
        {"type": "string", "pattern": _VARIABLE},
    ]
    return {"anyOf": [*options, {"type": "null"}] if nullable else options}


def _duration_schema(*, nullable: bool) -> dict[str, Any]:
    options: list[dict[str, Any]] = [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": rf"^\s*(\d+\.?\d*|\.\d+)\s*(ms|s|m|h)?\s*$|{_VARIABLE}"},
    ]
    return {"anyOf": [*options, {"type": "null"}] if nullable else options}


def _add_off(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [*schema["anyOf"], {"enum": list(_OFF_WORDS)}]}


def section_or_off(schema: dict[str, Any]) -> None:
    """Add the values that switch a section off to its JSON Schema."""
    found = {key: schema.pop(key) for key in ("$ref", "anyOf") if key in schema}
    options = found.get("anyOf") or [found]
    schema["anyOf"] = [*options, {"enum": list(_OFF_WORDS)}]


_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_FromZero = Annotated[int, Field(ge=0)]
_FromOne = Annotated[int, Field(ge=1)]

_ALWAYS_HOLDS = BeforeValidator(
    never_off("cannot be switched off, since this limit always holds: give a value above 0")
)
_TIMEOUT_HOLDS = BeforeValidator(never_off(NO_TIMEOUT_OFF))

Duration = Annotated[
    _Positive,
    BeforeValidator(seconds),
    _ALWAYS_HOLDS,
    WithJsonSchema(_duration_schema(nullable=False)),
]
OptionalDuration = Annotated[
    _Positive | None,
    BeforeValidator(seconds),
    _ALWAYS_HOLDS,
    WithJsonSchema(_duration_schema(nullable=True)),
]
TimeLimit = Annotated[
    _Positive,
    BeforeValidator(seconds),
    _TIMEOUT_HOLDS,
    WithJsonSchema(_duration_schema(nullable=False)),
]
OptionalTimeLimit = Annotated[
    _Positive | None,
    BeforeValidator(seconds),
    _TIMEOUT_HOLDS,
    WithJsonSchema(_duration_schema(nullable=True)),
]
OptionalDelay = Annotated[
    Annotated[float, Field(ge=0, allow_inf_nan=False)] | None,
    BeforeValidator(seconds),
    BeforeValidator(off_as_zero),
    WithJsonSchema(_add_off(_duration_schema(nullable=True))),
]
_AS_IT_IS = PlainSerializer(lambda value: value)  # as a number, `False` would be 0
DurationOrOff = Annotated[
    _Positive | None,
    BeforeValidator(seconds),
    WrapValidator(or_off),
    _AS_IT_IS,
    WithJsonSchema(_add_off(_duration_schema(nullable=True))),
]
Number = Annotated[
    _Finite, BeforeValidator(number), WithJsonSchema(_number_schema("number", nullable=False))
]
OptionalNumber = Annotated[
    _Finite | None, BeforeValidator(number), WithJsonSchema(_number_schema("number"))
]
CountFromZero = Annotated[
    _FromZero,
    BeforeValidator(number),
    WithJsonSchema(_number_schema("integer", nullable=False, minimum=0)),
]
CountOrZero = Annotated[
    _FromZero,
    BeforeValidator(number),
    BeforeValidator(off_as_zero),
    WithJsonSchema(_add_off(_number_schema("integer", nullable=False, minimum=0))),
]
Count = Annotated[
    _FromOne,
    BeforeValidator(number),
    _ALWAYS_HOLDS,
    WithJsonSchema(_number_schema("integer", nullable=False, minimum=1)),
]
OptionalCount = Annotated[
    _FromOne | None,
    BeforeValidator(number),
    _ALWAYS_HOLDS,
    WithJsonSchema(_number_schema("integer", minimum=1)),
]
LimitOrNone = Annotated[
    _FromOne | None,
    BeforeValidator(number),
    BeforeValidator(off_as_none),
    WithJsonSchema(_add_off(_number_schema("integer", minimum=1))),
]
CostOrNone = Annotated[
    _Positive | None,
    BeforeValidator(number),
    BeforeValidator(off_as_none),
    WithJsonSchema(_add_off(_number_schema("number", exclusiveMinimum=0))),
]
CountOrOff = Annotated[
    _FromOne | None,
    BeforeValidator(number),
    WrapValidator(or_off),
    _AS_IT_IS,
    WithJsonSchema(_add_off(_number_schema("integer", minimum=1))),
]
LimitOrOff = Annotated[
    _FromOne,
    BeforeValidator(number),
    WrapValidator(or_off),
    _AS_IT_IS,
    WithJsonSchema(_add_off(_number_schema("integer", nullable=False, minimum=1))),
]
"""A limit with a default, which an empty value must not switch off."""
Retries = Annotated[
    Annotated[int, Field(ge=0, le=20)] | None,
    BeforeValidator(number),
    BeforeValidator(off_as_zero),
    WithJsonSchema(_add_off(_number_schema("integer", minimum=0, maximum=20))),
]
Backoff = Annotated[
    Annotated[float, Field(ge=1, le=10)] | None,
    BeforeValidator(number),
    WithJsonSchema(_number_schema("number", minimum=1, maximum=10)),
]
Share = Annotated[
    Annotated[float, Field(gt=0, le=1)],
    BeforeValidator(number),
    WithJsonSchema(_number_schema("number", nullable=False, exclusiveMinimum=0, maximum=1)),
]
Port = Annotated[
    Annotated[int, Field(ge=0, le=65535)] | None,
    BeforeValidator(number),
    WithJsonSchema(_number_schema("integer", minimum=0, maximum=65535)),
]
Switch = Annotated[bool, WithJsonSchema(_number_schema("boolean", nullable=False))]
OptionalSwitch = Annotated[bool | None, WithJsonSchema(_number_schema("boolean"))]
Parameters = Annotated[dict[str, Any], BeforeValidator(mapping)]
Texts = Annotated[dict[str, str], BeforeValidator(mapping)]
Transport = Literal["stdio", "http", "sse"]
Metric = Literal[
    "error_rate", "p95_seconds", "p99_seconds", "mean_seconds", "calls_per_minute", "active"
]
Name = Annotated[str, Field(min_length=1)]
Names = tuple[Name, ...]


def category(value: Any) -> Any:
    """Return a category: a known one or any other word.

    Raises:
        ValueError: The value cannot be the name of a category.
    """
    refuse_empty(value)
    try:
        return None if value is None else as_category(value)
    except SchemaError:
        raise ValueError("is not a category: give a word such as 'python' or 'billing'") from None


CATEGORY_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"enum": [member.value for member in ToolCategory]},
        {"type": "string", "pattern": r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"},
        {"type": "null"},
    ]
}
Category = Annotated[
    ToolCategory | str | None, PlainValidator(category), WithJsonSchema(CATEGORY_SCHEMA)
]


def optional_choice(kind: type[Enum]) -> Any:
    """Return the type of a setting that is a member of an enumeration, if it is set."""
    return Annotated[
        kind | None, BeforeValidator(choice(kind)), WithJsonSchema(choice_schema(kind))
    ]


FillerAfter = Annotated[
    _Positive | Literal["median"] | None,
    BeforeValidator(filler_after),
    WrapValidator(or_off),
    _AS_IT_IS,
    WithJsonSchema(
        _add_off({"anyOf": [{"enum": ["median"]}, *_duration_schema(nullable=True)["anyOf"]]})
    ),
]
