"""The same work by agents of other libraries, where they are installed: none is a dependency."""

import importlib
import importlib.util
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from tests.benchmarks.workload import look_up

Runs: TypeAlias = Callable[[], Awaitable[object]]

_TASK = "Look up the weather."
_ANSWER = "It is sunny."
_PACKAGES = {"pydantic_ai": "pydantic_ai", "openai_agents": "agents"}


def installed() -> list[str]:
    """Return the adapters whose packages are there."""
    return [name for name, module in _PACKAGES.items() if importlib.util.find_spec(module)]


def made(adapter: str, iterations: int) -> Runs:
    """Return what runs an agent once: so many calls, no two alike, and an answer."""
    return {"pydantic_ai": _pydantic_ai, "openai_agents": _openai_agents}[adapter](iterations)


def _arguments(number: int) -> dict[str, str]:
    return {"city": f"city {number}", "day": "monday", "unit": "celsius"}


def _pydantic_ai(iterations: int) -> Runs:
    """pydantic-ai's `Agent` with a `FunctionModel`."""
    library: Any = importlib.import_module("pydantic_ai")
    messages: Any = importlib.import_module("pydantic_ai.messages")
    function: Any = importlib.import_module("pydantic_ai.models.function")
    limits: Any = importlib.import_module("pydantic_ai.usage").UsageLimits(request_limit=None)
    numbers = itertools.count(1)

    def model(_messages: object, _info: object) -> Any:
        number = next(numbers)
        if number % (iterations + 1) == 0:
            return messages.ModelResponse(parts=[messages.TextPart(_ANSWER)])
        call = messages.ToolCallPart("look_up", _arguments(number))
        return messages.ModelResponse(parts=[call])

    agent = library.Agent(function.FunctionModel(model), tools=[look_up])

    async def run() -> None:
        assert (await agent.run(_TASK, usage_limits=limits)).output == _ANSWER

    return run


def _openai_agents(iterations: int) -> Runs:
    """The `Runner` of openai-agents with a model of its interface; tracing is off."""
    library: Any = importlib.import_module("agents")
    parts: Any = importlib.import_module("openai.types.responses")
    library.set_tracing_disabled(True)
    numbers = itertools.count(1)

    def said(number: int) -> Any:
        if number % (iterations + 1):
            return parts.ResponseFunctionToolCall(
                call_id=f"call-{number}",
                name="look_up",
                type="function_call",
                arguments=json.dumps(_arguments(number)),
            )
        text = parts.ResponseOutputText(text=_ANSWER, type="output_text", annotations=[])
        return parts.ResponseOutputMessage(
            id="said", type="message", role="assistant", status="completed", content=[text]
        )

    async def get_response(*_: object, **__: object) -> Any:
        output = [said(next(numbers))]
        return library.ModelResponse(output=output, usage=library.Usage(), response_id=None)

    kind: Any = type(
        "Scripted", (library.Model,), {"get_response": get_response, "stream_response": None}
    )
    tools = [library.function_tool(look_up)]
    agent = library.Agent(name="agent", model=kind(), tools=tools)

    async def run() -> None:
        result = await library.Runner.run(agent, _TASK, max_turns=iterations + 2)
        assert result.final_output == _ANSWER

    return run
