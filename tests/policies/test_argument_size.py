"""Arguments that are too large are refused before anything looks at them."""

import pytest

from leonidas_tools import AdvancedToolProcessor, PythonFunctionProcessor, ToolSession, tool
from leonidas_tools.calls.call import are_too_large
from tests.promises.faults.play import call, play


def _nested(depth):
    value = {}
    for _ in range(depth):
        value = {"value": [value]}
    return value


def _circle():
    value = {}
    value["value"] = value
    return value


# Made in the test: every worker collects all tests.
TOO_LARGE = {
    "many keys": lambda: {"value": {f"key {n}": n for n in range(300_000)}},
    "many unknown names": lambda: {f"name{n}": n for n in range(300_000)},
    "many items": lambda: {"value": [0] * 2_000_000},
    "many empty items": lambda: {"value": [[]] * 500_000},
    "many items in many lists": lambda: {"value": [[0] * 200] * 200},
    "many objects with one key": lambda: {"value": [{"amount": 1}] * 20_000},
    "the same list many times": lambda: {"value": [[["x"] * 1000] * 1000] * 1000},
    "one long text": lambda: {"value": "x" * 2_000_000},
    "one long text of long letters": lambda: {"value": "\u91cc" * 400_000},
    "one long text of half letters": lambda: {"value": "\ud800" * 400_000},
    "one long name": lambda: {"x" * 2_000_000: 1},
    "one long number": lambda: {"value": 1 << 8_000_000},
    "many levels": lambda: {"value": _nested(20_000)},
    "a circle": _circle,
}


class Kitchen:
    """Tools that take anything, and all that is told of their calls."""

    def __init__(self, **policies):
        self.ran = []
        self.events = []

        @tool(effect="read")
        async def look(value=None) -> str:
            self.ran.append("look")
            return "seen"

        @tool(effect="once", requires_approval=True)
        async def send(value=None) -> str:
            self.ran.append("send")
            return "sent"

        self.functions = (look, send)
        self.tools = AdvancedToolProcessor(self.functions, {"policies": policies})
        self.tools.monitor.subscribe(self.events.append)


RULES = [
    {"name": name, "tools": "look", "decide": decide, "when": {path: {"matches": "thief"}}}
    for name, decide, path in (("a", "ask", "value[*]"), ("b", "deny", "value[*][*]"))
]


@pytest.mark.parametrize("name", ["look", "send"])
@pytest.mark.parametrize("made", TOO_LARGE.values(), ids=TOO_LARGE)
async def test_a_call_with_too_large_arguments_is_refused_and_reported_without_them(name, made):
    kitchen = Kitchen(rules=RULES)
    result = await kitchen.tools.execute(name, made(), session=ToolSession("ana"))
    assert (result.status, result.reason_code) == ("invalid_argument", "arguments_too_large")
    assert "1048576 bytes" in result.message
    assert kitchen.ran == []
    assert [event.kind.value for event in kitchen.events] == ["tool_start", "tool_error"]
    assert [event.call.arguments for event in kitchen.events] == [{}, {}]


@pytest.mark.parametrize("name", ["look", "send", "no_such_tool"])
async def test_the_same_is_so_on_a_stream_also_for_a_tool_that_does_not_exist(name):
    kitchen = Kitchen()
    part = call(name, TOO_LARGE["many keys"](), id="1")
    heard = await play(kitchen.tools, [part, call("look", {}, id="2")])
    told = {id_: (body["status"], body.get("reason_code")) for id_, _, body in heard.answers}
    expected = ("invalid_argument", "arguments_too_large")
    unknown = ("not_found", "unknown_tool")
    assert told == {"1": unknown if name == "no_such_tool" else expected, "2": ("ok", None)}
    assert kitchen.ran == ["look"]
    assert all(event.call.arguments == {} for event in kitchen.events)


LARGE = "x" * 2_000_000
DIFFERENT = {
    "texts": lambda: [f"{LARGE}{n}" for n in range(6)],
    "the beginning of a text": lambda: [f"{n}{LARGE}" for n in range(6)],
    "the middle of a text": lambda: [f"{LARGE}{n}{LARGE}" for n in range(6)],
    "half letters": lambda: ["\ud800" * 400_000 + str(n) for n in range(6)],
    "numbers": lambda: [(1 << 8_000_000) + n for n in range(6)],
    "an item": lambda: [[n] * 300_000 for n in range(6)],
    "a number of items": lambda: [[0] * (300_000 + n) for n in range(6)],
    "a key": lambda: [{str(n): "", "text": LARGE} for n in range(6)],
    "bytes": lambda: [LARGE.encode() + b"%d" % n for n in range(6)],
}


@pytest.mark.parametrize("name", ["look", "no_such_tool"])
@pytest.mark.parametrize("made", DIFFERENT.values(), ids=DIFFERENT)
async def test_different_arguments_that_are_too_large_are_no_loop(name, made):
    kitchen, session = Kitchen(), ToolSession("ana")
    results = [
        await kitchen.tools.execute(name, {"value": value}, session=session) for value in made()
    ]
    codes = {result.reason_code for result in results}
    assert codes == {"unknown_tool" if name == "no_such_tool" else "arguments_too_large"}
    assert len({result.message for result in results}) == 1
    assert all(event.call.arguments == {} for event in kitchen.events)


@pytest.mark.slow
@pytest.mark.parametrize("made", TOO_LARGE.values(), ids=TOO_LARGE)
async def test_the_same_arguments_that_are_too_large_are_a_loop(made):
    kitchen, session, arguments = Kitchen(), ToolSession("ana"), made()
    results = [await kitchen.tools.execute("look", arguments, session=session) for _ in range(5)]
    assert [result.status for result in results] == ["invalid_argument"] * 4 + ["loop"]


async def test_a_category_alone_refuses_them_too():
    kitchen = Kitchen()
    chain = PythonFunctionProcessor(kitchen.functions).to_processor()
    heard = await play(chain, [call("send", TOO_LARGE["many keys"](), id="1")])
    assert [body["reason_code"] for _, _, body in heard.answers] == ["arguments_too_large"]


@pytest.mark.parametrize(("most", "status"), [(2_000, "invalid_argument"), (3_000, "ok")])
async def test_the_settings_say_how_large_they_may_be(most, status):
    kitchen = Kitchen(max_argument_bytes=most)
    result = await kitchen.tools.execute("look", {"value": "x" * 2_000})
    assert result.status == status


@pytest.mark.parametrize(
    "value", [None, True, 7, 0.5, "x" * 1_000_000, [0] * 15_000, {str(n): n for n in range(5000)}]
)
def test_what_a_tool_may_need_is_not_too_large(value):
    assert not are_too_large({"value": value}, 1_048_576)


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        ({"note": "x" * 1000}, 4 + 1000),
        ({"note": "é" * 1000}, 4 + 2000),
        ({"note": "𝄞" * 1000}, 4 + 4000),
        ({"number": 1 << 2999}, 6 + 1000),
        ({"größe": True}, 7),
        ({"x" * 1000: None}, 1000),
    ],
)
def test_flat_arguments_are_measured_to_the_byte_where_they_are_near_the_limit(arguments, size):
    assert not are_too_large(arguments, 128 + size)
    assert are_too_large(arguments, 128 + size - 1)
    assert not are_too_large(arguments, 1_000_000)
