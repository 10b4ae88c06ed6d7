"""The public API as users write it, strictly typed: checked by `make types`, and never run."""

from collections.abc import AsyncIterable
from typing import Any, assert_type

from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from google.genai import types

from leonidas_tools import (
    ActionToolProcessor,
    AdvancedToolProcessor,
    CategoryProcessor,
    ConfigurationProcessor,
    LiveToolSession,
    MCPToolProcessor,
    MonitoringProcessor,
    PythonFunctionProcessor,
    ResultStatus,
    SpeechControlProcessor,
    Tool,
    ToolCategory,
    ToolContext,
    ToolEffect,
    ToolError,
    ToolRegistry,
    ToolRegistryProcessor,
    ToolResult,
    ToolSession,
    tool,
    tool_request,
)


@tool
def add(a: int, b: int) -> int:
    return a + b


@tool(effect="read", timeout_seconds=5, tags=["weather"], behavior="NON_BLOCKING", priority=1)
async def get_weather(city: str, ctx: ToolContext) -> dict[str, Any]:
    ctx.progress("Asking", fraction=0.5)
    if not city:
        raise ToolError("Name a city.", valid_options=["Lisbon"])
    return {"city": city}


@tool(effct="read")  # type: ignore[call-overload, untyped-decorator]
def misspelt() -> None: ...


@tool(timeout_seconds="5s")  # type: ignore[call-overload, untyped-decorator]
def mistyped() -> None: ...


assert_type(add.metadata.effect, ToolEffect)
assert_type(add.metadata.deadline_seconds, float | None)


class Data(CategoryProcessor):
    categories = frozenset({ToolCategory.DATA})


assert_type(add(1, 2), int)

odd = Tool.from_json_schema(name="odd", parameters={"type": "object"}, function=lambda: 1)
registry = ToolRegistry([add, get_weather, odd, len])
tools = AdvancedToolProcessor(tools=[add, get_weather, len], config={"version": 1})
chain = (
    ToolRegistryProcessor(registry)
    + ConfigurationProcessor("tools.yaml")
    + (
        ActionToolProcessor()
        // SpeechControlProcessor()
        // PythonFunctionProcessor([add])
        // MCPToolProcessor({})
        // Data()
    )
    + MonitoringProcessor()
)


async def use(model: processor.Processor, microphone: AsyncIterable[ProcessorPart]) -> None:
    result = await tools.execute("add", {"a": 1, "b": 2}, session=ToolSession("kitchen"))
    assert_type(result, ToolResult)
    assert_type(result.status, ResultStatus)
    assert_type(result.to_response(), dict[str, Any])
    assert_type(tools.declarations(), list[types.Tool])
    assert_type(await tools.ready(1.0), bool)
    async with tools as held:
        assert_type(held, AdvancedToolProcessor)
        agent = LiveToolSession(model, held.in_session(ToolSession()))
        async for part in agent(microphone):
            assert_type(part, ProcessorPart)
        async for part in tools([tool_request("list_tools", category="speech")]):
            assert_type(part.text, str)
