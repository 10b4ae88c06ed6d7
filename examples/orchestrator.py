"""An orchestrator leads two fragments, and learns: `python examples/orchestrator.py`."""

import asyncio
from collections.abc import Sequence

from leonidas_tools import ToolSession, tool
from leonidas_tools.agent import (
    Evaluated,
    Fragment,
    FragmentStep,
    Learned,
    Orchestrator,
    OrchestratorStep,
    Recalled,
    ScriptedModel,
)
from leonidas_tools.agent.react import CallsMade

PRICES = {"flour": 1.2, "yeast": 0.3}


@tool(effect="read")
def price(item: str) -> float:
    """Price of one item, in euros; its name is in English, singular."""
    return PRICES[item]


class Lessons:
    """A memory of what was learned with each user, as long as the program runs."""

    def __init__(self) -> None:
        self._of: dict[str | None, list[str]] = {"ana": ["Ana bakes a bread for two."]}

    async def recall(self, task: str, *, session: ToolSession) -> Sequence[str]:
        words = task.split()
        return [each for each in self._of.get(session.user, []) if {*each.split()} & {*words}]

    async def learn(self, lesson: str, *, session: ToolSession) -> None:
        self._of.setdefault(session.user, []).append(lesson)


BAKER = Fragment(
    name="baker",
    description="Knows what a bread takes.",
    instructions="You are a baker. Name the ingredients and nothing else.",
    model="baker",
)
BUYER = Fragment(
    name="buyer",
    description="Knows what things cost.",
    tools=["price"],
    max_calls=5,
    model="buyer",
)


LEAD = ScriptedModel(
    [
        {"calls": [("baker", {"task": "What does a bread for two take?"})]},
        {"calls": [("buyer", {"task": "What do one flour and one yeast cost together?"})]},
        "Flour and yeast, for 1.50 euros.",
        '{"done": true, "missing": "", "lesson": "A bread takes flour and yeast."}',
    ]
)
ASKS = {"calls": [("price", {"item": "flour"}), ("price", {"item": "yeast"})]}
MODELS = {
    "baker": ScriptedModel(["Flour and yeast."]),
    "buyer": ScriptedModel([ASKS, "1.50 euros."]),
}


def show(step: OrchestratorStep) -> None:
    match step:
        case Recalled(memories=memories):
            print(f"recalled: {'; '.join(memories)}")
        case CallsMade(calls=calls):
            print(f"hands to: {', '.join(call.name for call in calls)}")
        case FragmentStep(fragment=name, step=CallsMade(calls=calls)):
            print(f"   {name}: {', '.join(call.name for call in calls)}")
        case Evaluated(is_done=is_done):
            print(f"is done:  {is_done}")
        case Learned(lesson=lesson):
            print(f"learned:  {lesson}")


async def main() -> None:
    lead = Orchestrator(
        LEAD, [price], fragments=[BAKER, BUYER], models=MODELS, memory=Lessons(), max_calls=20
    )
    task = "What does a bread take, and for how much?"
    result = await lead.run(task, session=ToolSession(user="ana"), on_step=show)
    print(result.answer or result.message)
    for name, measured in (await lead.fragments.measures()).items():
        print(f"{name}: {measured.successes} of {measured.runs} tasks, {measured.tokens} tokens")


if __name__ == "__main__":
    asyncio.run(main())
