"""Our agent beside its model alone on BFCL: `python -m tests.agent.real.bfcl simple_python 100`."""

import asyncio
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leonidas_tools import Tool
from leonidas_tools.agent import ReActAgent
from tests.agent.real.bfcl_answers import is_exact
from tests.agent.real.models import NeedleModel, completed
from tests.real.bfcl import Bfcl, Case, folder, json_schema

_OTHER_WORDS = {"dict": "object", "float": "number"}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Whether the function is the right one, and the whole call.

    Args:
        raw: Of the call that the model of our agent made first.
        agent: Of the call that has run.
    """

    raw: tuple[bool, bool]
    agent: tuple[bool, bool]


@dataclass(frozen=True, kw_only=True)
class _Declared:
    name: str
    description: str
    parameters: Any


async def played(case: Case) -> Outcome:
    """Play a case of one call."""
    model = NeedleModel()
    result = await ReActAgent(model, [_tool(each) for each in case.functions]).run(case.question)
    done = [
        (call.name, call.arguments)
        for turn in result.turns
        for call, outcome in zip(turn.calls, turn.results, strict=True)
        if outcome.ok
    ]
    return Outcome(raw=_judged(_pairs(model.first or []), case), agent=_judged(done, case))


def played_alone(case: Case) -> tuple[bool, bool]:
    """Return whether the model alone is right, with the schemas as they are, but for two words."""
    plain = [
        _Declared(
            name=each["name"],
            description=each["description"],
            parameters=_reworded(each["parameters"]),
        )
        for each in case.functions
    ]
    return _judged(_pairs(completed(case.question, plain)), case)


def _tool(function: Mapping[str, Any]) -> Tool[..., Any]:
    return Tool.from_json_schema(
        function=lambda **arguments: arguments,
        name=function["name"],
        description=function["description"],
        parameters=json_schema(function["parameters"]),
        effect="read",
    )


def _pairs(calls: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(call["name"], call["arguments"]) for call in calls]


def _judged(calls: Sequence[tuple[str, Mapping[str, Any]]], case: Case) -> tuple[bool, bool]:
    if len(calls) != 1:
        return False, False
    name, accepted = case.answers[0]
    ((called, arguments),) = calls
    return called == name, called == name and is_exact(arguments, accepted)


def _reworded(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: _OTHER_WORDS.get(value, value)
            if key == "type" and isinstance(value, str)
            else _reworded(value)
            for key, value in schema.items()
        }
    return [_reworded(each) for each in schema] if isinstance(schema, list) else schema


async def _main(category: str, count: int) -> None:
    sys.path.append(str(folder()))
    cases = random.Random(7).sample(list(Bfcl(folder()).cases(category)), count)
    alone, outcomes = [], []
    for number, case in enumerate(cases, start=1):
        alone.append(played_alone(case))
        outcomes.append(await played(case))
        shown = ", ".join(
            f"{who} {sum(each[0] for each in of)}/{sum(each[1] for each in of)}"
            for who, of in (
                ("model alone", alone),
                ("its first call in our agent", [each.raw for each in outcomes]),
                ("our agent", [each.agent for each in outcomes]),
            )
        )
        print(f"{number} of {count}: right function/exact call: {shown}", flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
