"""The multi-turn ground truth of BFCL through the stream, against the classes called directly."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import pytest
from genai_processors import content_api, context, streams
from google.genai import types as genai_types

from leonidas_tools import AdvancedToolProcessor, Tool
from tests.real.bfcl import Bfcl, GroundCall, Scenario, json_schema, methods
from tests.real.bfcl_state import state

pytestmark = pytest.mark.slow

Part = content_api.ProcessorPart
FunctionCall = genai_types.FunctionCall
Instances = Mapping[str, Any]
Functions = Mapping[str, Callable[..., Any]]

_SCENARIO_SECONDS = 20
_REFUSED_FOR_GOOD = {
    # "ticket_001" for a number: the class takes any key, its signature and document do not.
    ("multi_turn_base_173", "3-0"): "'ticket_id' must be an integer, not \"ticket_001\".",
}
"""Scenario and call: ground truth that is no valid call, and what the model is told."""


def tools_from_methods(bfcl: Bfcl, instances: Instances) -> list[Any]:
    """Bound methods as they are: name, description and schema come from their signatures."""
    return list(functions(instances).values())


def tools_from_documents(bfcl: Bfcl, instances: Instances) -> list[Any]:
    """The same methods as the dataset describes them to a model, in JSON."""
    return [
        Tool.from_json_schema(
            name=name,
            description=document["description"],
            parameters=json_schema(document["parameters"]),
            function=getattr(instance, name),
        )
        for class_name, instance in instances.items()
        for name, document in bfcl.documents(class_name).items()
    ]


def functions(instances: Instances) -> dict[str, Callable[..., Any]]:
    """The public methods of all instances, by name."""
    return {
        name: method
        for instance in instances.values()
        for name, method in methods(instance).items()
    }


class Session:
    """One open stream of a processor."""

    def __init__(self, tools: AdvancedToolProcessor) -> None:
        self._input: asyncio.Queue[Part | None] = asyncio.Queue()
        content = streams.dequeue(self._input)
        self._output: AsyncIterator[Part] = aiter(tools(content))

    async def ask(self, calls: Sequence[FunctionCall]) -> list[Part]:
        """Sends the calls of a turn at once; returns their answers in the order of the calls."""
        for call in calls:
            self._input.put_nowait(Part(genai_types.Part(function_call=call), role="model"))
        answers: dict[str, Part] = {}
        while len(answers) < len(calls):
            part = await anext(self._output)
            if (response := part.function_response) is not None:
                assert str(response.id) not in answers
                answers[str(response.id)] = part
        return [answers[str(call.id)] for call in calls]

    async def close(self) -> list[Part]:
        """Ends the input; returns the answers that nobody asked for."""
        self._input.put_nowait(None)
        return [part async for part in self._output if part.function_response is not None]


def answer(call: FunctionCall, value: Any) -> Part:
    """The answer to expect: the value as plain JSON in the envelope, `None` left out.

    A few results hold a number of `mpmath`, which JSON does not know: it is told as a float.
    """
    result = {} if value is None else {"result": json.loads(json.dumps(value, default=float))}
    return response(call, {"status": "ok", **result, "retryable": False})


def refusal(call: FunctionCall, message: str) -> Part:
    """The answer to a call with an argument of the wrong type."""
    status, reason = "invalid_argument", "wrong_type"
    body = {"status": status, "message": message, "retryable": False, "reason_code": reason}
    return response(call, body)


def response(call: FunctionCall, body: dict[str, Any]) -> Part:
    answered = genai_types.FunctionResponse(id=call.id, name=call.name, response=body)
    return Part(genai_types.Part(function_response=answered), role="user")


def asked(turn: Sequence[GroundCall], number: int, ours: Functions) -> list[FunctionCall]:
    """The calls of a turn as a model makes them."""
    return [
        FunctionCall(id=f"{number}-{place}", name=call.name, args=call.arguments(ours[call.name]))
        for place, call in enumerate(turn)
    ]


def told(part: Part) -> str:
    """The whole part in JSON, where `1`, `1.0` and `true` are not the same."""
    return json.dumps(part.to_dict(), sort_keys=True)


async def replay(
    scenario: Scenario, tools: AdvancedToolProcessor, ours: Instances, direct: Instances
) -> None:
    """Plays a scenario both ways, comparing after each turn."""
    session, by_name = Session(tools), functions(direct)
    for number, turn in enumerate(scenario.turns):
        calls = asked(turn, number, functions(ours))
        answers = await session.ask(calls)
        expected = [
            refusal(call, _REFUSED_FOR_GOOD[scenario.id, str(call.id)])
            if (scenario.id, call.id) in _REFUSED_FOR_GOOD
            else answer(call, by_name[truth.name](*truth.args, **truth.kwargs))
            for call, truth in zip(calls, turn, strict=True)
        ]
        assert [told(part) for part in answers] == [told(part) for part in expected]
        assert state(ours) == state(direct), f"{scenario.id}, turn {number}"
    assert await session.close() == []


@pytest.mark.parametrize("describe", [tools_from_methods, tools_from_documents])
async def test_every_scenario_ends_as_if_the_classes_were_called_directly(
    bfcl: Bfcl, describe: Callable[[Bfcl, Instances], list[Any]]
) -> None:
    played: Counter[str] = Counter()
    for scenario in bfcl.scenarios():
        ours, direct = bfcl.instances(scenario), bfcl.instances(scenario)
        unasked = {"policies": {"risky": "allow"}}
        tools = AdvancedToolProcessor(describe(bfcl, ours), unasked, builtin_tools=False)
        async with asyncio.timeout(_SCENARIO_SECONDS), context.context(), tools:
            await replay(scenario, tools, ours, direct)
        calls = sum(map(len, scenario.turns))
        played.update(scenarios=1, turns=len(scenario.turns), calls=calls)
    assert played == {"scenarios": 200, "turns": 734, "calls": 1142}
