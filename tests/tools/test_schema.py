"""Signatures and docstrings as JSON Schema, and arguments as what annotations ask for."""

# ruff: noqa: UP007, UP045 - the older ways of writing a type are under test

import builtins
import dataclasses
import datetime as dt
import enum
import functools
import inspect
import json
import math
import operator
import textwrap
import typing
import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, AliasPath, BaseModel, Field, TypeAdapter
from pydantic_core import to_jsonable_python

from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import SchemaError, ToolValidationError
from leonidas_tools.json_schema import ArgumentValidator
from leonidas_tools.tools.schema import read_json_schema, read_signature
from leonidas_tools.tools.schema.annotations import describe
from leonidas_tools.tools.schema.plain_types import is_plain, plain_schema
from leonidas_tools.tools.schema.signature import Docstring, read_docstring

T = TypeVar("T")


class Unit(enum.Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(BaseModel):
    """A place on the map."""

    x: int
    y: int = 0


class Tree(BaseModel):
    value: int
    children: list["Tree"] = []


class Page(BaseModel, Generic[T]):
    items: list[T]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: set[str]


@dataclasses.dataclass
class Leg:
    start: str
    end: str
    when: dt.date | None = None


class Guest(TypedDict):
    name: str
    born: NotRequired[dt.date]


class Pair(NamedTuple):
    first: int
    second: str = "x"


UserId = NewType("UserId", int)
Names: TypeAlias = list[str]
Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def signature_of(annotation, default=inspect.Parameter.empty):
    """The signature of a function with one parameter `p`."""

    def function(p): ...

    function.__annotations__ = {"p": annotation}
    if default is not inspect.Parameter.empty:
        function.__defaults__ = (default,)
    return read_signature(function)


def called_with(annotation, value):
    """What a function would get for an argument: validated, and converted where that is needed."""
    signature = signature_of(annotation)
    arguments = ArgumentValidator(signature.parameters)({"p": value})
    return (signature.convert(arguments) if signature.convert else arguments)["p"]


STRING, INTEGER, NUMBER, NULL = ({"type": t} for t in ("string", "integer", "number", "null"))
DATE = {**STRING, "format": "date"}
UNIT = {"enum": ["celsius", "fahrenheit"], "type": "string"}
POINT = {
    "type": "object",
    "description": "A place on the map.",
    "properties": {"x": INTEGER, "y": {**INTEGER, "default": 0}},
    "required": ["x"],
}


@pytest.mark.parametrize(
    ("annotation", "schema", "given", "wanted"),
    [
        (str, STRING, "a", "a"),
        (int, INTEGER, 1, 1),
        (float, NUMBER, 1.5, 1.5),
        (bool, {"type": "boolean"}, True, True),
        (None, NULL, None, None),
        (Any, {}, [1], [1]),
        (object, {}, {"a": 1}, {"a": 1}),
        (list, {"type": "array", "items": {}}, [1, "a"], [1, "a"]),
        (list[int], {"type": "array", "items": INTEGER}, [1], [1]),
        (Names, {"type": "array", "items": STRING}, ["a"], ["a"]),
        (dict, {"type": "object", "additionalProperties": True}, {"a": 1}, {"a": 1}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}, {"a": 1}, {"a": 1}),
        (dict[int, str], {"type": "object", "additionalProperties": STRING}, {"1": "a"}, {1: "a"}),
        (
            Mapping[str, int],
            {"type": "object", "additionalProperties": INTEGER},
            {"a": 1},
            {"a": 1},
        ),
        (Sequence[int], {"type": "array", "items": INTEGER}, [1], [1]),
        (set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}, [1, 2], {1, 2}),
        (
            frozenset[str],
            {"type": "array", "items": STRING, "uniqueItems": True},
            ["a"],
            frozenset({"a"}),
        ),
        (tuple[int, ...], {"type": "array", "items": INTEGER}, [1, 2], (1, 2)),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
            [1, "a"],
            (1, "a"),
        ),
        (Literal["a"], {"const": "a", "type": "string"}, "a", "a"),
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}, "b", "b"),
        (Literal["a", 1, None], {"enum": ["a", 1, None]}, None, None),  # noqa: PYI061 - so users write
        (Literal[Unit.CELSIUS], {"const": "celsius", "type": "string"}, "celsius", Unit.CELSIUS),
        (int | str, {"anyOf": [INTEGER, STRING]}, "7", "7"),
        (Union[int, None], {"anyOf": [INTEGER, NULL]}, None, None),
        (Optional[Unit], {"anyOf": [UNIT, NULL]}, "celsius", Unit.CELSIUS),
        (Unit, UNIT, "celsius", Unit.CELSIUS),
        (Level, {"enum": [1, 2], "type": "integer"}, "2", Level.HIGH),
        (list[Unit], {"type": "array", "items": UNIT}, ["celsius"], [Unit.CELSIUS]),
        (UserId, INTEGER, 7.0, 7),
        (dt.date, DATE, "2026-11-21", dt.date(2026, 11, 21)),
        (
            dt.datetime,
            {"type": "string", "format": "date-time"},
            "2026-11-21T10:00:00",
            dt.datetime(2026, 11, 21, 10),  # noqa: DTZ001 - as it was written
        ),
        (dt.time, {"type": "string", "format": "time"}, "10:30", dt.time(10, 30)),
        (dt.timedelta, {"type": "string", "format": "duration"}, "PT90S", dt.timedelta(seconds=90)),
        (
            uuid.UUID,
            {"type": "string", "format": "uuid"},
            "12345678-1234-5678-1234-567812345678",
            uuid.UUID(int=0x12345678123456781234567812345678),
        ),
        (Path, {"type": "string", "format": "path"}, "/tmp/a", Path("/tmp/a")),
        (bytes, {"type": "string", "format": "binary"}, "ab", b"ab"),
        (Point, POINT, {"x": 1}, Point(x=1)),
        (Point | None, {"anyOf": [POINT, NULL]}, {"x": "1"}, Point(x=1)),
        (
            Page[Point],
            {
                "type": "object",
                "properties": {"items": {"type": "array", "items": POINT}},
                "required": ["items"],
            },
            {"items": [{"x": 1, "y": 2}]},
            Page[Point](items=[Point(x=1, y=2)]),
        ),
        (
            Leg,
            {
                "type": "object",
                "properties": {
                    "start": STRING,
                    "end": STRING,
                    "when": {
                        "anyOf": [DATE, NULL],
                        "default": None,
                    },
                },
                "required": ["start", "end"],
            },
            {"start": "a", "end": "b", "when": "2026-01-02"},
            Leg("a", "b", dt.date(2026, 1, 2)),
        ),
        (
            Guest,
            {
                "type": "object",
                "properties": {"name": STRING, "born": DATE},
                "required": ["name"],
            },
            {"name": "Ada", "born": "1815-12-10"},
            {"name": "Ada", "born": dt.date(1815, 12, 10)},
        ),
        (
            Pair,
            {
                "type": "array",
                "prefixItems": [INTEGER, {**STRING, "default": "x"}],
                "minItems": 1,
                "maxItems": 2,
            },
            [1],
            Pair(1),
        ),
        (
            Pet,
            {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {
                            "kind": {"const": "cat", "type": "string"},
                            "lives": INTEGER,
                        },
                        "required": ["kind", "lives"],
                    },
                    {
                        "type": "object",
                        "properties": {
                            "kind": {"const": "dog", "type": "string"},
                            "tricks": {"type": "array", "items": STRING, "uniqueItems": True},
                        },
                        "required": ["kind", "tricks"],
                    },
                ]
            },
            {"kind": "dog", "tricks": ["sit"]},
            Dog(kind="dog", tricks={"sit"}),
        ),
        (Annotated[int, Field(ge=1, lt=9)], {**INTEGER, "minimum": 1, "exclusiveMaximum": 9}, 3, 3),
        (Annotated[str, Field(pattern="^a", max_length=3)], None, "abc", "abc"),
        (Annotated[int, "How many."], {**INTEGER, "description": "How many."}, 3, 3),
        (
            Annotated[Unit, Field(description="Which.")],
            {**UNIT, "description": "Which."},
            "celsius",
            Unit.CELSIUS,
        ),
        (Annotated[int, AfterValidator(lambda n: n * 2)], INTEGER, 3, 6),
        (Decimal, None, "1.5", Decimal("1.5")),
        (Decimal, None, 7, Decimal(7)),
        (T, {}, 1, 1),
        (type(None) | list[Literal["a"]], None, ["a"], ["a"]),
    ],
)
def test_an_annotation_becomes_a_schema_and_its_value(annotation, schema, given, wanted):
    parameters = signature_of(annotation).parameters
    if schema is not None:
        assert parameters == {
            "type": "object",
            "properties": {"p": schema},
            "required": ["p"],
            "additionalProperties": False,
        }
    value = called_with(annotation, given)
    assert (value, type(value)) == (wanted, type(wanted))


def test_a_model_that_contains_itself_is_defined_once():
    assert signature_of(Tree).parameters == {
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/Tree"}},
        "required": ["p"],
        "additionalProperties": False,
        "$defs": {
            "Tree": {
                "type": "object",
                "properties": {
                    "value": INTEGER,
                    "children": {
                        "type": "array",
                        "items": {"$ref": "#/$defs/Tree"},
                        "default": [],
                    },
                },
                "required": ["value"],
            }
        },
    }
    value = {"value": 1, "children": [{"value": "2"}]}
    assert called_with(Tree, value) == Tree(value=1, children=[Tree(value=2)])


@pytest.mark.parametrize(
    ("annotation", "default", "wanted"),
    [
        (int, 3, {"default": 3}),
        (float, 1, {"default": 1}),
        (str | None, None, {"default": None}),
        (list[int], [1], {"default": [1]}),
        (Unit, Unit.CELSIUS, {"default": "celsius"}),
        (Unit | None, None, {"default": None}),
        (dt.date, dt.date(2026, 1, 2), {"default": "2026-01-02"}),
        (tuple[int, ...], (1, 2), {"default": [1, 2]}),
        (Point, Point(x=1), {"default": {"x": 1, "y": 0}}),
        (Annotated[int, Field(ge=1)], 2, {"default": 2}),
        (Any, object(), {}),
        (Any, (1, 2), {}),
        (int, None, {}),
        (int, True, {}),
        (float, math.inf, {}),
        (float, math.nan, {}),
        (Unit, "celsius", {}),
        (dt.date, None, {}),
        (list[int], (), {}),
        (Annotated[int, AfterValidator(lambda n: n * 2)], 3, {}),
    ],
)
def test_a_default_is_declared_where_it_reads_back_as_itself(annotation, default, wanted):
    parameters = signature_of(annotation, default).parameters
    schema = parameters["properties"]["p"]
    assert "required" not in parameters
    assert {key: value for key, value in schema.items() if key == "default"} == wanted


def test_the_default_of_a_pydantic_field_is_passed():
    def function(b: Annotated[list, Field(default_factory=lambda: [1])], a: int = Field(3, ge=1)):
        """Works."""

    signature = read_signature(function)
    assert "required" not in signature.parameters
    assert signature.parameters["properties"]["a"] == {**INTEGER, "minimum": 1, "default": 3}
    assert signature.convert({}) == {"a": 3, "b": [1]}
    assert signature.convert({"b": [2]}) == {"a": 3, "b": [2]}


async def _async(a: int): ...


def _generator(a: int):
    yield a


async def _async_generator(a: int):
    yield a


class _Service:
    def method(self, a: int):
        """Works."""

    @classmethod
    def of_class(cls, a: int):
        """Works."""

    @staticmethod
    def static(a: int):
        """Works."""

    async def __call__(self, a: int):
        """Works."""


def _three(x: str, a: int, *, unit: Unit = Unit.CELSIUS):
    """Works."""


ONE = {
    "type": "object",
    "properties": {"a": INTEGER},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (_async, "_async"),
        (_generator, "_generator"),
        (_async_generator, "_async_generator"),
        (_Service().method, "method"),
        (_Service.of_class, "of_class"),
        (_Service().of_class, "of_class"),
        (_Service.static, "static"),
        (_Service(), "_Service"),
        (functools.partial(_async), "_async"),
        (functools.partial(_three, "x", unit=Unit.CELSIUS), "_three"),
        (functools.partial(functools.partial(_three, "x"), unit=Unit.CELSIUS), "_three"),
        (functools.partial(_Service().method), "method"),
        (functools.partial(_Service()), "_Service"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_every_kind_of_callable_is_read(function, name):
    signature = read_signature(function)
    assert (signature.name, signature.parameters) == (name, ONE)
    assert signature.description == ("" if name.startswith("_") and name[1] in "ag" else "Works.")


def test_what_a_partial_binds_by_name_disappears():
    bound = functools.partial(_three, a=1)
    assert list(read_signature(bound).parameters["properties"]) == ["x", "unit"]


def test_a_function_without_parameters_takes_none():
    assert read_signature(lambda: None).parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_a_lambda_takes_anything():
    assert read_signature(lambda a, b=2: a).parameters == {
        "type": "object",
        "properties": {"a": {}, "b": {"default": 2}},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_a_builtin_is_read_where_it_has_a_signature():
    signature = read_signature(math.sqrt)
    assert (signature.name, signature.positional) == ("sqrt", ("x",))
    assert signature.parameters["properties"] == {"x": {}}
    assert signature.description == "Return the square root of x."


@pytest.mark.parametrize("function", [max, dict, operator.itemgetter(1), type])
def test_a_callable_without_a_signature_is_refused_by_name(function):
    with pytest.raises(SchemaError, match=r"itemgetter|max|dict|type"):
        read_signature(function)


def test_positional_only_parameters_are_named_in_order():
    def function(a: int, b: str = "x", /, c: int = 1): ...

    signature = read_signature(function)
    assert signature.positional == ("a", "b")
    assert list(signature.parameters["properties"]) == ["a", "b", "c"]


def test_further_positional_arguments_are_refused():
    def function(*numbers: int): ...

    with pytest.raises(SchemaError, match=r"'function' takes \*numbers"):
        read_signature(function)


def test_further_keyword_arguments_are_typed_and_converted():
    def function(a: int, **more: dt.date): ...

    signature = read_signature(function)
    assert signature.parameters == {
        **ONE,
        "additionalProperties": DATE,
    }
    converted = signature.convert({"a": 1, "b": "2026-01-02"})
    assert converted == {"a": 1, "b": dt.date(2026, 1, 2)}


def test_further_keyword_arguments_without_a_type_are_anything():
    def function(a: int, **more): ...

    signature = read_signature(function)
    assert (signature.parameters, signature.convert) == (
        {**ONE, "additionalProperties": True},
        None,
    )


def test_an_alias_is_the_name_of_an_argument():
    def function(
        since: Annotated[dt.date, Field(alias="from")],
        count: int = Field(3, validation_alias="page-size", ge=1),
        /,
        unit: str = "C",
    ):
        """Read.

        Args:
            since: The first day.
        """

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        signature = read_signature(function)
    assert signature.parameters == {
        "type": "object",
        "properties": {
            "from": {**DATE, "description": "The first day."},
            "page-size": {"minimum": 1, "type": "integer", "default": 3},
            "unit": {"type": "string", "default": "C"},
        },
        "required": ["from"],
        "additionalProperties": False,
    }
    assert signature.convert({"from": "2026-01-02", "unit": "F"}) == {
        "since": dt.date(2026, 1, 2),
        "count": 3,
        "unit": "F",
    }


def test_an_alias_that_is_not_one_name_is_refused():
    def twice(a: int, b: Annotated[int, Field(alias="a")]): ...
    def rest(b: Annotated[int, Field(alias="a")], **more: int): ...
    def path(b: Annotated[int, Field(validation_alias=AliasPath("a", 0))]): ...

    for function in (twice, rest, path):
        with pytest.raises(SchemaError, match=r"'b'.*alias"):
            read_signature(function)


def in_module(source):
    """The namespace of a module with such a text."""
    namespace = {"__name__": "some_module"}
    exec(textwrap.dedent(source), namespace)
    return namespace


@pytest.mark.parametrize(
    "source",
    [
        "def f(a: int, ctx: ToolContext): ...",
        "def f(a: int, ctx: ToolContext | None = None): ...",
        "def f(a: int, ctx: Optional[ToolContext] = None): ...",
        "def f(a: int, ctx: Annotated[ToolContext, 'x']): ...",
        "def f(ctx: 'ToolContext', a: 'int'): ...",
        "class Own(ToolContext): ...\ndef f(a: int, *, ctx: Own): ...",
    ],
)
@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
def test_a_context_is_injected_and_not_declared(source, future):
    imports = (
        "from typing import Annotated, Optional\n"
        "from leonidas_tools.calls.context import ToolContext\n"
    )
    signature = read_signature(in_module(future + imports + source)["f"])
    assert (signature.context_parameter, signature.parameters) == ("ctx", ONE)


def test_a_context_that_only_type_checkers_import_is_injected():
    source = """
        from __future__ import annotations
        def f(a: int, ctx: ToolContext | None = None) -> Nowhere: ...
    """
    signature = read_signature(in_module(source)["f"])
    assert (signature.context_parameter, signature.parameters) == ("ctx", ONE)


def test_two_contexts_are_refused():
    def function(a: ToolContext, b: ToolContext): ...

    with pytest.raises(SchemaError, match="twice"):
        read_signature(function)


def test_annotations_as_texts_are_read_where_the_function_is_defined():
    source = """
        from __future__ import annotations
        import datetime
        class Node(dict): ...
        def f(when: datetime.date, more: list["datetime.date"] | None = None): ...
    """
    signature = read_signature(in_module(source)["f"])
    date = DATE
    assert signature.parameters["properties"] == {
        "when": date,
        "more": {"anyOf": [{"type": "array", "items": date}, NULL], "default": None},
    }


@pytest.mark.parametrize(
    "wrap", ["functools.cache", "staticmethod", "functools.partial", "decorated"]
)
def test_annotations_as_texts_are_read_behind_what_wraps_the_function(wrap):
    source = f"""
        from __future__ import annotations
        import datetime, functools
        def decorated(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs): ...
            return wrapper
        @{wrap}
        def f(p: datetime.date):
            "Works."
    """
    signature = read_signature(in_module(source)["f"])
    assert (signature.name, signature.description) == ("f", "Works.")
    assert signature.parameters["properties"] == {"p": DATE}


def test_annotations_as_texts_may_name_what_the_function_encloses():
    source = """
        from __future__ import annotations
        def outer():
            class Local(dict): ...
            from enum import Enum
            Unit = Enum("Unit", {"A": "a"})
            def f(unit: Unit): return Unit
            return f
    """
    signature = read_signature(in_module(source)["outer"]())
    assert signature.parameters["properties"] == {"unit": {"enum": ["a"], "type": "string"}}


LOCAL = """
    from __future__ import annotations
    import enum
    class Unit(enum.Enum): B = "b"
    def outer(read):
        class Unit(enum.Enum): A = "a"
        class Tools:
            class Level(enum.Enum): LOW = 1
            def f(self, unit: Unit, level: Level | None = None): ...
            if read: signature = read(f)
        return Tools
    def gone():
        class Kind(dict): ...
        def g(kind: Kind): ...
        return g
"""


def test_annotations_as_texts_may_name_local_types():
    properties = in_module(LOCAL)["outer"](read_signature).signature.parameters["properties"]
    assert properties["unit"] == {"enum": ["a"], "type": "string"}
    assert properties["level"]["anyOf"][0] == {"enum": [1], "type": "integer"}


def test_a_local_type_out_of_reach_is_refused_by_name():
    with pytest.raises(SchemaError, match=r"'Kind' of its parameter 'kind' cannot be read"):
        read_signature(in_module(LOCAL)["gone"]())


def test_a_wrapped_function_is_read_as_what_it_wraps():
    @functools.wraps(_three)
    def wrapper(*args, **kwargs):
        return _three(*args, **kwargs)

    plain, wrapped = read_signature(_three), read_signature(wrapper)
    assert (wrapped.name, wrapped.parameters) == (plain.name, plain.parameters)


class Opaque:
    """Of this pydantic knows nothing."""


@pytest.mark.parametrize(
    ("annotation", "named"),
    [(Opaque, "Opaque"), (list[Opaque], "Opaque"), ("Nowhere", "Nowhere"), ("1 +", "1 +")],
)
def test_a_type_that_cannot_be_described_is_named(annotation, named):
    with pytest.raises(SchemaError) as caught:
        signature_of(annotation)
    assert all(part in str(caught.value) for part in ("'function'", "'p'", named))


def test_a_function_type_cannot_be_described():
    with pytest.raises(SchemaError, match="'function'"):
        signature_of(type(lambda: None))


GOOGLE = """Books a flight.

    Pays at once.

    Args:
        city: Where to,
            and not from where.
        days (int, optional): How long: in days.
        **more: Anything else.

    Returns:
        A ticket.

    Raises:
        ValueError: Never.
    """
NUMPY = """Books a flight.

    Pays at once.

    Parameters
    ----------
    city : str
        Where to,
        and not from where.
    days : int, optional
        How long: in days.
    **more
        Anything else.

    Returns
    -------
    str
        A ticket.
    """
REST = """Books a flight.

    Pays at once.

    :param city: Where to,
        and not from where.
    :param int days: How long: in days.
    :param more: Anything else.
    :returns: A ticket.
    :raises ValueError: Never.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["Google", "numpy", "reST"])
def test_docstrings_of_three_styles_are_read(text):
    assert read_docstring(text) == Docstring(
        description="Books a flight.\n\nPays at once.",
        parameters={
            "city": "Where to, and not from where.",
            "days": "How long: in days.",
            "more": "Anything else.",
        },
    )


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (None, ""),
        ("", ""),
        ("Adds.", "Adds."),
        ("Adds.\n\n    Note: not really.\n", "Adds.\n\nNote: not really."),
        ("Adds.\n\n    Example:\n        >>> 1 + 1\n        2\n", "Adds."),
        ("Args:\n    a: The first.\n", ""),
        ("Adds.\n\n    Args:\n        no colon here\n", "Adds."),
        ("Adds a: b.\n- one\n- two", "Adds a: b.\n- one\n- two"),
    ],
)
def test_what_stands_before_the_sections_is_the_description(text, description):
    assert read_docstring(text).description == description


@given(st.text(max_size=300))
def test_any_docstring_can_be_read(text):
    assert isinstance(read_docstring(text), Docstring)
    assert isinstance(read_docstring(f"A.\n\nArgs:\n    {text}"), Docstring)


def test_a_parameter_is_described_by_annotation_docstring_or_type():
    def function(a: Annotated[int, "By annotation."], b: int, c: Point, d: Point):
        """Does.

        Args:
            a: By docstring.
            b: By docstring.
            c: By docstring.
        """

    properties = read_signature(function).parameters["properties"]
    assert {name: schema["description"] for name, schema in properties.items()} == {
        "a": "By annotation.",
        "b": "By docstring.",
        "c": "By docstring.",
        "d": "A place on the map.",
    }


@pytest.mark.parametrize(
    ("annotation", "value", "message", "code"),
    [
        (
            dt.date,
            "tomorrow",
            "'p' must be a valid date or datetime, input is too short.",
            "invalid_argument",
        ),
        (uuid.UUID, "x", None, "invalid_argument"),
        (list[dt.date], ["2026-01-01", "x"], None, "invalid_argument"),
        (
            Annotated[int, AfterValidator(lambda n: 1 // n)],
            0,
            "'p' cannot be read.",
            "invalid_argument",
        ),
    ],
)
def test_a_value_that_cannot_be_converted_is_refused(annotation, value, message, code):
    with pytest.raises(ToolValidationError) as caught:
        called_with(annotation, value)
    assert caught.value.reason_code == code
    assert "'p" in caught.value.message
    assert message in (None, caught.value.message)


def test_every_parameter_that_cannot_be_converted_is_named():
    def function(a: dt.date, b: list[uuid.UUID]): ...

    with pytest.raises(ToolValidationError) as caught:
        read_signature(function).convert({"a": "x", "b": ["y"]})
    assert "'a'" in caught.value.message
    assert "'b[0]'" in caught.value.message


PLAIN = st.deferred(
    lambda: (
        st.sampled_from([str, int, float, bool, None, list, dict, Any, object])
        | st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(
            lambda values: Literal[tuple(values)]
        )
        | st.lists(st.integers(-2, 2), min_size=1, max_size=3).map(lambda v: Literal[tuple(v)])
        | PLAIN.map(lambda inner: list[inner])
        | PLAIN.map(lambda inner: dict[str, inner])
        | st.lists(PLAIN, min_size=1, max_size=3).map(lambda inner: Union[tuple(inner)])
    )
)


@settings(deadline=None)
@given(PLAIN)
def test_plain_types_are_described_just_as_pydantic_does(annotation):
    schema = plain_schema(annotation)
    if schema is not None:
        made, definitions = describe({"p": TypeAdapter(annotation)}, where="it")
        assert definitions == {}
        assert sorted_unions(made["p"]) == sorted_unions(schema)


def sorted_unions(schema):
    """A schema with its unions in one order, since typing keeps the order it met first."""
    if isinstance(schema, dict):
        return {key: sorted_unions(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return sorted(map(sorted_unions, schema), key=lambda s: json.dumps(s, sort_keys=True))
    return schema


@settings(deadline=None)
@given(PLAIN, st.data())
def test_plain_values_are_the_same_in_python_as_in_json(annotation, data):
    if not is_plain(annotation):
        return
    value = data.draw(_values(annotation))
    assert ArgumentValidator(signature_of(annotation).parameters)({"p": value}) == {"p": value}
    assert TypeAdapter(annotation).validate_json(json.dumps(value)) == value


def _values(annotation):  # noqa: PLR0911 - one for each type
    """JSON values of a plain type."""
    inner = get_args(annotation)
    match get_origin(annotation) or annotation:
        case typing.Any | builtins.object:
            return st.none() | st.integers(-9, 9) | st.text()
        case builtins.float:
            return st.floats(allow_nan=False, allow_infinity=False)
        case builtins.list:
            return st.lists(_values(*inner or (Any,)), max_size=3)
        case builtins.dict:
            return st.dictionaries(st.text(), _values((inner or (Any,))[-1]), max_size=3)
        case typing.Literal:
            return st.sampled_from(inner)
        case typing.Union:
            return st.one_of([_values(member) for member in inner])
        case None:
            return st.none()
        case kind:
            return st.from_type(kind)


SAMPLES = [
    Unit,
    Level,
    list[Unit],
    set[int],
    frozenset[str],
    tuple[int, ...],
    tuple[int, bool],
    dt.date,
    dt.datetime,
    dt.time,
    uuid.UUID,
    dict[int, str],
    dict[str, set[int]],
    Pair,
    Leg,
    Point,
    Optional[Unit],
    Literal["a", 1, True],
]


@pytest.mark.parametrize("annotation", SAMPLES, ids=str)
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_a_value_survives_the_way_through_json(annotation, data):
    value = data.draw(st.from_type(annotation))
    received = called_with(annotation, to_jsonable_python(value))
    assert (received, type(received)) == (value, type(value))


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_survives_the_way_through_json(value):
    assert called_with(Decimal, str(value)) == value


def test_a_json_schema_is_taken_as_it_is():
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}}
    signature = read_json_schema(lambda a: a, parameters, description="Counts.")
    assert (signature.parameters, signature.description, signature.convert) == (
        parameters,
        "Counts.",
        None,
    )


def test_a_json_schema_without_a_type_is_one_of_an_object():
    assert read_json_schema(print, {}, description="").parameters == {"type": "object"}


def test_the_function_of_a_json_schema_may_take_anything_and_a_context():
    def function(*args, ctx: ToolContext, **kwargs): ...

    assert read_json_schema(function, {}, description="").context_parameter == "ctx"
    assert read_json_schema(max, {}, description="").context_parameter is None


@pytest.mark.parametrize(
    "parameters",
    [{"type": "string"}, {"type": "nonsense"}, {"$ref": "#/$defs/a"}, [], None, "object", True],
    ids=str,
)
def test_a_json_schema_that_is_not_one_of_an_object_is_refused(parameters):
    with pytest.raises(SchemaError):
        read_json_schema(print, parameters, description="")


def test_iterables_are_given_as_what_iterates():
    assert list(called_with(Iterable[int], [1, 2])) == [1, 2]
