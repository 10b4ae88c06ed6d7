"""Whatever a tool returns becomes JSON of bounded size, and none of its code holds the loop."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import itertools
import json
import threading
from collections import OrderedDict, UserDict, UserList, deque
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools import AdvancedToolProcessor, ToolContext, ToolError, ToolResult, tool
from leonidas_tools.calls.call import Media
from leonidas_tools.calls.sendable import sendable
from leonidas_tools.results.jsonable import is_utf8, utf8_text
from leonidas_tools.results.plain import NotPlainError, length, measured, plain
from tests.promises.faults.play import call, play

ROOM = 2000
HALF = "caf\udce9.txt"
WHOLE = "caf\ufffd.txt"


def json_of(value: Any) -> str:
    """The value as JSON text, as strictly as anything that sends it."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    text.encode()
    return text


# --- every object graph ------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red\ud800"
    NEST = (1, {2})


class Model(pydantic.BaseModel):
    name: Any = None


@dataclasses.dataclass
class Pair:
    left: Any = None
    right: Any = None


class Float(float):
    pass


class Text(str):
    __slots__ = ()


class Raises:
    def __str__(self) -> str:
        raise RuntimeError("hunter2")


any_text = st.text(st.characters(categories=("Cs", "Cc", "L", "Mn", "So")), max_size=30) | st.text(
    st.characters(categories=("Cs",)), max_size=500
)
leaves = (
    st.none()
    | st.booleans()
    | any_text
    | st.integers()
    | st.integers(min_value=4000, max_value=100_000).map(lambda n: 1 << n)
    | st.floats()
    | st.complex_numbers()
    | st.binary(max_size=300)
    | st.decimals()
    | st.fractions()
    | st.datetimes()
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.sampled_from([*Colour, Raises(), object(), Raises, json, date.min])
    | st.builds(bytearray, st.binary(max_size=20))
    | st.builds(memoryview, st.binary(max_size=20))
    | any_text.map(Text)
    | st.floats().map(Float)
    | any_text.map(lambda text: PurePosixPath(text.replace("\0", "")))
)
keys = (
    st.none()
    | any_text
    | st.integers()
    | st.floats()
    | st.binary(max_size=8)
    | st.just((1, "\ud800"))
)


def branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=6)
    objects = st.dictionaries(keys, inner, max_size=6)
    return (
        lists
        | objects
        | lists.map(tuple)
        | lists.map(deque)
        | lists.map(iter)
        | lists.map(UserList)
        | objects.map(OrderedDict)
        | objects.map(UserDict)
        | objects.map(lambda each: each.values())
        | st.builds(Pair, inner, inner)
        | st.builds(Model, name=inner)
        | st.sets(st.integers() | any_text, max_size=5)
        | st.builds(itertools.repeat, inner)
        | inner.map(lambda each: [each] * 500)
        | lists.map(in_itself)
    )


def in_itself(items: list[Any]) -> list[Any]:
    items.append(items)
    return items


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@given(st.recursive(leaves, branches, max_leaves=25))
def test_every_object_graph_becomes_json_of_bounded_size_or_is_refused(value: Any) -> None:
    try:
        shown, _ = plain(value, ROOM)
    except NotPlainError as error:
        shown = str(error)
    assert "hunter2" not in str(shown)
    assert len(json.dumps(shown, allow_nan=False)) <= 4 * ROOM  # as roughly as it is counted
    json_of(shown)


good_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | good_text
    | st.integers()
    | st.integers(min_value=0, max_value=8000).map(lambda n: 1 << n)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(good_text, inner, max_size=6),
    max_leaves=25,
)


def containers(value: Any) -> list[int]:
    """The identity of each list and object."""
    if not isinstance(value, list | dict):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [id(value), *itertools.chain.from_iterable(map(containers, inner))]


@given(st.lists(json_values, min_size=1, max_size=4), st.sampled_from([1, 200]))
def test_json_is_copied_as_it_is_and_measured_alike_however_large(
    rows: list[Any], times: int
) -> None:
    value = {"rows": rows * times, "padding": "x" * 5000}
    shown, cut, size, *_ = measured(value, 1 << 40)
    assert (repr(shown), cut) == (repr(value), False)
    assert size == length(value)
    made = containers(shown)
    assert len({*made}) == len(made)
    assert not {*made} & {*containers(value)}
    assert plain(value, size) == (value, False)
    assert plain(value, size - 1)[1]


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@given(st.lists(st.recursive(leaves, branches, max_leaves=9), max_size=4), st.integers(1, 8))
def test_every_large_object_graph_becomes_json_or_is_refused(rows: list[Any], times: int) -> None:
    room = 10 * ROOM
    try:
        shown, _ = plain([*rows, "x" * 5000] * times, room)
    except NotPlainError as error:
        shown = str(error)
    assert "hunter2" not in str(shown)
    assert len(json.dumps(shown, allow_nan=False)) <= 4 * room
    json_of(shown)


@given(any_text)
def test_only_lone_surrogates_are_replaced(text: str) -> None:
    made = utf8_text(text)
    assert is_utf8(made)
    assert made == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if is_utf8(text):
        assert made is text


# --- surrogates, by every way out --------------------------------------------------------------

HALVES = [
    pytest.param(HALF, WHOLE, id="text"),
    pytest.param([HALF, 1], [WHOLE, 1], id="list"),
    pytest.param({HALF: 1}, {WHOLE: 1}, id="key"),
    pytest.param({"é": {"\ud800": ["\udfff"]}}, {"é": {"\ufffd": ["\ufffd"]}}, id="nested"),
    pytest.param("\ud83d\ude00", "\U0001f600", id="two that make one character"),
    pytest.param((HALF,), [WHOLE], id="tuple"),
    pytest.param({HALF}, [WHOLE], id="set"),
    pytest.param(PurePosixPath(HALF), WHOLE, id="path"),
    pytest.param(Colour.RED, "red\ufffd", id="enum"),
    pytest.param(Pair(HALF, {HALF: 1}), {"left": WHOLE, "right": {WHOLE: 1}}, id="dataclass"),
    pytest.param({("\ud800",): 1}, {"['\ufffd']": 1}, id="key of another type"),
    pytest.param({1: "\ud800", "x": {2.5}}, {"1": "\ufffd", "x": [2.5]}, id="mixed"),
]


@pytest.mark.parametrize(("value", "shown"), HALVES)
def test_a_lone_surrogate_in_a_result_is_replaced(value: Any, shown: Any) -> None:
    assert sendable(value, 1000, tool="list_files").to_response()["result"] == shown


def test_a_lone_surrogate_behind_the_cut_or_before_it_is_no_matter() -> None:
    for value in ("é" * 5000 + "\ud800", "\ud800" + "é" * 5000, ["é" * 900, "\ud800" * 900]):
        body = sendable(value, 1000, tool="list_files").to_response()
        json_of(body)
        assert body["message"] == "The result was truncated: it is longer than 1000 bytes."


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(message=HALF),
        ToolResult(speech=HALF),
        ToolResult.failed(HALF, retry_hint=HALF, reason_code=HALF, valid_options=[HALF, {HALF}]),
        ToolResult(media=[Media(mime_type=HALF, data=b"x")]),
    ],
)
def test_no_field_of_a_result_holds_a_lone_surrogate(result: ToolResult) -> None:
    sent = sendable(result, 1000, tool="list_files")
    json_of(sent.to_response())
    assert all(is_utf8(media.mime_type) for media in sent.media)
    json_of(result.to_response() if not result.valid_options else {})


@tool(name="odd")
async def odd(text: str, ctx: ToolContext) -> list[str]:
    ctx.progress(HALF, **{"\ud800": HALF})
    if text == "fail":
        raise ToolError(f"There is no {HALF}", retry_hint=HALF, valid_options=[HALF])
    return [HALF]


async def test_names_ids_arguments_errors_and_progress_leave_a_stream_without_surrogates() -> None:
    tools = AdvancedToolProcessor(tools=[odd], builtin_tools=False)
    async with tools:
        heard = await play(
            tools,
            [
                call("odd", {"text": "fine"}, id="id-\ud800"),
                call("odd", {"text": "fail"}, id="2"),
                call("odd", {"text": HALF}, id="3"),
                call("odd", {HALF: HALF, "text": 1}, id="4"),
                call("odd\ud800", {}, id="5"),
            ],
        )
    for part in heard.parts:
        json_of(part.part.model_dump(mode="python", exclude_none=True))
        json_of(json.loads(part.text) if part.get_metadata("tool_event") else None)
    assert sorted(str(identifier) for identifier, _, _ in heard.answers) == sorted(
        ["id-\ufffd", "2", "3", "4", "5"]
    )
    assert {body["status"] for _, _, body in heard.answers} == {
        "ok",
        "failed",
        "invalid_argument",
        "not_found",
    }


# --- code of the value's own -------------------------------------------------------------------

held = threading.Event()


class Lazy:
    """A value whose conversion waits until the test lets it go on, wherever it runs."""

    ran_on: set[int] = set()

    def text(self) -> str:
        self.ran_on.add(threading.get_ident())
        return "made"

    def __str__(self) -> str:
        return self.text()


class LazyMapping(dict[str, Any]):
    def items(self) -> Any:
        Lazy().text()
        return super().items()

    def keys(self) -> Any:
        Lazy().text()
        return super().keys()

    def __iter__(self) -> Any:
        Lazy().text()
        return super().__iter__()


class LazyList(list[Any]):
    def __iter__(self) -> Any:
        Lazy().text()
        return super().__iter__()


class LazyFloat(float):
    def __sub__(self, other: Any) -> Any:
        Lazy().text()
        return super().__sub__(other)

    def __float__(self) -> float:
        Lazy().text()
        return 1.5


class LazyText(str):
    __slots__ = ()

    def __str__(self) -> str:
        return Lazy().text()

    def isascii(self) -> bool:
        Lazy().text()
        return True


class Proxy:
    @property
    def __class__(self) -> Any:
        Lazy().text()
        return Lazy


class LazyModel(pydantic.BaseModel):
    @pydantic.computed_field  # type: ignore[prop-decorator]  # as pydantic documents it
    @property
    def slow(self) -> str:
        return Lazy().text()


class LazyResult(ToolResult):
    @property
    def message(self) -> str:  # type: ignore[override]  # that is the attack
        return Lazy().text()


@dataclasses.dataclass
class LazyPair:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]  # that is the attack
        Lazy().text()
        return {}


class LazyKey:
    def __repr__(self) -> str:
        return Lazy().text()


class LazyEnum(enum.Enum):
    ONE = 1

    def __str__(self) -> str:
        return Lazy().text()


LAZY = [
    Lazy,
    LazyMapping,
    lambda: LazyMapping(a=1),
    lambda: LazyList([1]),
    lambda: LazyFloat(2.5),
    lambda: LazyText("x"),
    Proxy,
    LazyModel,
    LazyPair,
    lambda: {LazyKey(): 1},
    lambda: [1, {"deep": (Lazy(),)}],
    lambda: LazyEnum.ONE,
    lambda: ToolResult(result=Lazy()),
    lambda: ToolResult(message=Lazy()),  # type: ignore[arg-type]  # that is the attack
    lambda: ToolResult(valid_options=LazyList([Lazy()])),
    lambda: ToolResult(media=LazyList([1])),
    lambda: UserDict(a=Lazy()),
    lambda: (Lazy() for _ in range(2)),
]


@pytest.mark.parametrize("make", LAZY)
async def test_no_code_of_a_result_runs_on_the_event_loop(make: Any) -> None:
    async def on_loop() -> Any:
        return make()

    def in_thread() -> Any:
        return make()

    async def yields() -> Any:
        yield make()
        yield make()

    async def raises() -> Any:
        raise ToolError(make())

    here = threading.get_ident()
    Lazy.ran_on.clear()
    async with AdvancedToolProcessor(
        tools=[on_loop, in_thread, yields, raises], builtin_tools=False
    ) as tools:
        for name in ("on_loop", "in_thread", "yields", "raises"):
            json_of((await tools.execute(name, {})).to_response())
            assert here not in Lazy.ran_on, name


async def test_a_result_whose_conversion_never_ends_meets_the_timeout_of_its_tool() -> None:
    release = threading.Event()

    class Endless:
        def __str__(self) -> str:
            release.wait()
            return "late"

    @tool(effect="read", timeout_seconds=0.05, retry_attempts=0)
    async def endless() -> Any:
        return Endless()

    try:
        async with AdvancedToolProcessor(tools=[endless], builtin_tools=False) as tools:
            assert (await tools.execute("endless")).to_response()["status"] == "timeout"
    finally:
        release.set()


async def test_progress_from_the_loop_shows_a_foreign_value_by_its_type() -> None:
    @tool(effect="read")
    async def looks(ctx: ToolContext) -> None:
        ctx.progress("Looking", found=Lazy(), leaves=time(12), sizes={1})
        await asyncio.sleep(0)

    Lazy.ran_on.clear()
    async with AdvancedToolProcessor(tools=[looks], builtin_tools=False) as tools:
        heard = await play(tools, [call("looks", id="1")])
    (told,) = [event for event in heard.events if event["event"] == "tool_progress"]
    assert (told["found"], told["leaves"], told["sizes"]) == ("<Lazy>", "12:00:00", [1])
    assert Lazy.ran_on == set()


# --- sizes -------------------------------------------------------------------------------------

# Made in the test: every worker collects all tests.
BIG: dict[str, Callable[[], Any]] = {
    "integer": lambda: 10**100_000,
    "integer as key": lambda: {10**100_000: 1},
    "decimal": lambda: Decimal(10) ** 100_000,
    "fraction": lambda: Fraction(1, 10**5000),
    "bytes": lambda: bytes(50_000_000),
    "the same bytes often": lambda: [bytes(100_000)] * 10_000,
    "the same text often": lambda: [Text("x" * 100_000)] * 10_000,
    "key": lambda: {"x" * 50_000_000: 1},
    "key that is not ASCII": lambda: {"é" * 5_000_000: 1},
    "many keys": lambda: {f"é{n}": n for n in range(300_000)},
    "combining characters": lambda: "e\u0301" * 5_000_000,
    "endless iterator": itertools.count,
    "endless iterator of texts": lambda: {"a": itertools.repeat("x" * 1000)},
    "range": lambda: range(10**18),
    "the last date": lambda: datetime.max.replace(tzinfo=UTC),
    "the longest time": lambda: timedelta.max,
    "late tuple": lambda: [*([{"a": "x" * 10_000}] * 1000), (1,), 2.5, {3}],
    "the same long key often": lambda: [{"x" * 1_000_000: 1}] * 100_000,
    "the same long text often": lambda: ["x" * 1_000_000] * 100_000,
    "mixed keys": lambda: {1: "a", "1": "b", None: "c", (1,): "d", 1.5: UUID(int=1)},
}


@pytest.mark.parametrize("made", BIG.values(), ids=BIG)
def test_a_big_value_is_cut_to_what_there_is_room_for(made: Callable[[], Any]) -> None:
    value = made()
    for room in (ROOM, 5 * ROOM):
        body = sendable(value, room, tool="big").to_response()
        assert len(json_of(body)) <= 3 * room


def test_what_is_nested_too_deeply_or_in_itself_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    cyclic: dict[str, Any] = {}
    cyclic["self"] = [cyclic, cyclic]
    pair = Pair()
    pair.left = pair.right = pair
    for value in (deep, cyclic, pair, (cyclic, {1})):
        body = sendable(value, ROOM, tool="deep").to_response()
        assert body["reason_code"] == "unserialisable_result"
        body = sendable([value, "x" * ROOM * 5], 4 * ROOM, tool="deep").to_response()
        assert body["reason_code"] == "unserialisable_result"
    while deep:  # level by level: to free it at once would take as deep a stack
        deep = deep[0]
