"""Tools made of functions and of JSON Schemas, and their options."""

import functools
import inspect

import pytest

from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import SchemaError
from leonidas_tools.tools.tool import (
    OnCancel,
    Scheduling,
    Tool,
    ToolBehavior,
    ToolCategory,
    ToolEffect,
    ToolMetadata,
    ToolPriority,
    ToolScheduling,
    ToolStatus,
    as_enum,
    as_tool,
    tool,
)

ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
    "required": ["a"],
    "additionalProperties": False,
}


def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


def test_a_function_becomes_a_tool_with_the_defaults():
    made = tool(add)
    assert made.metadata == ToolMetadata(
        name="add", description="Adds two numbers.", parameters=ADD
    )
    assert (made.name, made.function, made.undo, repr(made)) == ("add", add, None, "<Tool 'add'>")


def test_a_tool_is_still_called_as_its_function():
    assert tool(add)(2, b=3) == 5
    assert tool(effect="read")(add)(2) == 3


async def test_a_tool_of_an_async_function_is_still_awaited():
    @tool
    async def later(a: int) -> int:
        return a

    assert await later(1) == 1


def test_every_option_is_kept():
    def undo(a, b=1): ...

    made = tool(
        name="plus",
        description="Sums.",
        category="action",
        priority="high",
        effect="idempotent",
        timeout_seconds=1.5,
        deadline_seconds=9,
        retry_attempts=2,
        fallback_tools=["other"],
        dependencies=["module:math"],
        tags=["maths"],
        lane="numbers",
        cache_seconds=60,
        requires_approval=True,
        behavior="non_blocking",
        scheduling={"ok": "when_idle", "error": "INTERRUPT", "progress": None},
        on_cancel="Finish",
        filler_after_seconds="Median",
        filler="Let me add that up.",
        repeat_after_resume=True,
        cpu_bound=True,
        status="maintenance",
        version="2.1",
        undo=undo,
    )(add)
    assert made.undo is undo
    assert made.metadata == ToolMetadata(
        name="plus",
        description="Sums.",
        parameters=ADD,
        category=ToolCategory.ACTION,
        priority=ToolPriority.HIGH,
        effect=ToolEffect.IDEMPOTENT,
        timeout_seconds=1.5,
        deadline_seconds=9,
        retry_attempts=2,
        fallback_tools=["other"],
        dependencies=["module:math"],
        tags=["maths"],
        lane="numbers",
        cache_seconds=60,
        requires_approval=True,
        behavior=ToolBehavior.NON_BLOCKING,
        scheduling=Scheduling(ok=ToolScheduling.WHEN_IDLE, error=ToolScheduling.INTERRUPT),
        on_cancel=OnCancel.FINISH,
        filler_after_seconds="median",
        filler="Let me add that up.",
        repeat_after_resume=True,
        cpu_bound=True,
        status=ToolStatus.MAINTENANCE,
        version="2.1",
    )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("scheduling", "later", "no scheduling 'later': choose from 'silent'"),
        ("scheduling", {"okay": "silent"}, "'okay' is not an answer to schedule"),
        ("scheduling", {"ok": "later"}, "no scheduling 'later'"),
        ("on_cancel", "ignore", "no on_cancel 'ignore': choose from 'stop', 'finish'"),
        ("filler_after_seconds", "mean", "a time in seconds, 'median' or 'off', not 'mean'"),
        ("filler_after_seconds", True, "a time in seconds, 'median' or 'off', not True"),
        ("retry_attempts", "3", "retry_attempts must be 0 or more, or 'off', not '3'"),
        ("requires_approval", "yes", "requires_approval must be True or False, not 'yes'"),
        ("filler", 5, "filler must be a string, not 5"),
        ("tags", "weather", "tags must be a list of names, not 'weather'"),
        ("fallback_tools", "other", "fallback_tools must be a list of names, not 'other'"),
        ("dependencies", "other", "dependencies must be a list of names, not 'other'"),
        ("filler_after", 2, "'filler_after' is not an option of a tool"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(option, value, message):
    with pytest.raises(SchemaError, match=message):
        tool(**{option: value})(add)


def test_one_word_schedules_every_final_answer():
    made = tool(scheduling="silent")(add)
    silent = ToolScheduling.SILENT
    assert made.metadata.scheduling == Scheduling(ok=silent, error=silent, late=silent)
    assert made.with_options(name="b").metadata.scheduling == made.metadata.scheduling


def test_an_option_that_is_none_leaves_the_default():
    made = tool(name=None, description=None, effect=None, priority=None)(add)
    assert made.metadata == tool(add).metadata


def test_options_beside_the_function_count():
    made = tool(add, name="plus", requires_approval=True)
    assert (made.name, made.metadata.requires_approval) == ("plus", True)
    with pytest.raises(SchemaError):
        tool(add, requires_aproval=True)


def test_an_unknown_option_is_named():
    with pytest.raises(
        SchemaError, match="not an option of a tool: did you mean 'timeout_seconds'"
    ):
        tool(timeout=5)(add)


def test_a_misspelt_option_is_suggested_and_internal_ones_are_not():
    with pytest.raises(SchemaError, match=r"did you mean 'effect'\?") as raised:
        tool(efect="read")(add)
    assert "quarantine" not in str(raised.value)


def test_a_name_without_its_keyword_says_how_to_write_it():
    with pytest.raises(TypeError, match=r"write @tool\(name='weather'\)"):
        tool("weather")


def test_the_schema_is_no_option():
    with pytest.raises(SchemaError, match="'parameters' is not an option"):
        tool(parameters={})(add)


@pytest.mark.parametrize(
    ("kind", "value", "member"),
    [
        (ToolEffect, "read", ToolEffect.READ),
        (ToolEffect, "READ", ToolEffect.READ),
        (ToolEffect, "Once", ToolEffect.ONCE),
        (ToolEffect, ToolEffect.ONCE, ToolEffect.ONCE),
        (ToolPriority, "critical", ToolPriority.CRITICAL),
        (ToolPriority, "Background", ToolPriority.BACKGROUND),
        (ToolPriority, 2, ToolPriority.HIGH),
        (ToolPriority, "2", ToolPriority.HIGH),
        (ToolBehavior, "NON_BLOCKING", ToolBehavior.NON_BLOCKING),
        (ToolBehavior, "blocking", ToolBehavior.BLOCKING),
        (ToolScheduling, "interrupt", ToolScheduling.INTERRUPT),
        (ToolCategory, "Mcp", ToolCategory.MCP),
        (ToolStatus, "disabled", ToolStatus.DISABLED),
    ],
)
def test_enumerations_take_their_names_in_any_case(kind, value, member):
    assert as_enum(kind, value) is member


@pytest.mark.parametrize("value", ["write", "", "rea d", 7])
def test_what_is_no_member_is_refused_with_the_options(value):
    with pytest.raises(SchemaError, match="hoose from 'read', 'idempotent', 'once'"):
        tool(effect=value)(add)


class Thermostat:
    def __init__(self, degrees: int) -> None:
        self.degrees = degrees

    @tool(effect="idempotent")
    def set(self, degrees: int) -> int:
        """Sets the temperature."""
        self.degrees = degrees
        return degrees

    @tool
    @staticmethod
    def convert(celsius: float) -> float:
        """Converts to Fahrenheit."""
        return celsius * 9 / 5 + 32


def test_a_method_becomes_a_tool_of_its_object():
    first, second = Thermostat(20), Thermostat(20)
    assert first.set.metadata == ToolMetadata(
        name="set",
        description="Sets the temperature.",
        parameters={
            "type": "object",
            "properties": {"degrees": {"type": "integer"}},
            "required": ["degrees"],
            "additionalProperties": False,
        },
        effect=ToolEffect.IDEMPOTENT,
    )
    assert first.set(23) == 23
    assert (first.degrees, second.degrees) == (23, 20)
    assert isinstance(Thermostat.set, Tool)


@pytest.mark.parametrize("made", [Thermostat.convert, Thermostat(1).convert])
def test_a_static_method_becomes_a_tool(made):
    assert (made.name, made.metadata.description) == ("convert", "Converts to Fahrenheit.")
    assert made(100) == 212


def test_a_partial_becomes_a_tool_named_after_its_function():
    made = as_tool(functools.partial(add, b=2))
    assert (made.name, list(made.metadata.parameters["properties"])) == ("add", ["a"])
    assert made(1) == 3


def test_what_is_a_tool_stays_the_same_and_takes_options():
    made = tool(effect="read")(add)
    assert as_tool(made) is made
    changed = as_tool(made, name="plus", tags=["maths"])
    assert changed.metadata == ToolMetadata(
        name="plus",
        description="Adds two numbers.",
        parameters=ADD,
        effect=ToolEffect.READ,
        tags=["maths"],
    )
    assert made.metadata.name == "add"


@pytest.mark.parametrize("thing", [None, 3, "add", {"name": "add"}])
def test_what_cannot_be_called_is_no_tool(thing):
    with pytest.raises(SchemaError, match="is not a tool"):
        as_tool(thing)


def test_a_tool_may_be_known_by_its_schema_alone():
    made = Tool.from_json_schema(
        name="srv.add", description="Sums.", parameters=ADD, function=add, effect="read"
    )
    assert made.metadata == ToolMetadata(
        name="srv.add", description="Sums.", parameters=ADD, effect=ToolEffect.READ
    )
    assert made(a=1) == 2
    assert as_tool(made, name="plus").metadata.parameters == ADD


def test_the_function_of_a_schema_is_given_its_context():
    def run(ctx: ToolContext, **arguments): ...

    made = Tool.from_json_schema(name="run", parameters=ADD, function=run)
    assert made.signature.context_parameter == "ctx"


@pytest.mark.parametrize(
    "parameters",
    [{"type": "strng"}, {"type": "array"}, {"$ref": "#/$defs/gone"}, {"$ref": "https://a.b/c"}],
)
def test_a_schema_that_is_none_is_refused_at_once(parameters):
    with pytest.raises(SchemaError):
        Tool.from_json_schema(name="x", parameters=parameters, function=add)


def test_a_signature_is_read_when_it_is_needed():
    @tool
    def broken(*args): ...

    with pytest.raises(SchemaError, match="'broken'"):
        _ = broken.signature


def test_a_context_does_not_reach_another_process():
    @tool(cpu_bound=True)
    def crunch(n: int, ctx: ToolContext): ...

    with pytest.raises(SchemaError, match=r"'crunch' is cpu_bound .* drop its parameter 'ctx'"):
        _ = crunch.metadata


def test_a_context_is_hidden_from_the_schema():
    @tool
    async def greet(ctx: ToolContext, name: str): ...

    assert list(greet.metadata.parameters["properties"]) == ["name"]
    assert greet.signature.context_parameter == "ctx"
    assert list(inspect.signature(greet.function).parameters) == ["ctx", "name"]


@pytest.mark.parametrize("kind", ["coroutine", "generator", "async generator"])
def test_only_a_plain_function_can_be_cpu_bound(kind):
    async def coroutine() -> None: ...

    def generator():
        yield 1

    async def async_generator():
        yield 1

    functions = {
        "coroutine": coroutine,
        "generator": generator,
        "async generator": async_generator,
    }
    with pytest.raises(SchemaError, match="only a plain function can be"):
        _ = Tool(functions[kind], cpu_bound=True).metadata
