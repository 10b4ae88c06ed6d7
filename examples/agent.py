"""An agent that works on a task in several steps: `python examples/agent.py`.

With `OPENAI_BASE_URL` set, as to a llama.cpp server, a real model works; otherwise a scripted one.
"""

import asyncio
import os

from leonidas_tools import tool
from leonidas_tools.agent import OpenAIModel, ReActAgent, ScriptedModel
from leonidas_tools.agent.react import CallsMade, Step, Thought, TurnEnded

PRICES = {"apple": 0.4, "pear": 0.6}


@tool(effect="read")
def price(fruit: str) -> float:
    """Price of one fruit, in euros.

    Args:
        fruit: Its name in English, singular.
    """
    return PRICES[fruit]


@tool(effect="read")
def multiply(a: float, b: float) -> float:
    """Multiplies two numbers."""
    return round(a * b, 2)


def show(step: Step) -> None:
    match step:
        case Thought(text=text):
            print(f"… {text}")
        case CallsMade(calls=calls):
            for call in calls:
                print(f"→ {call.name} {call.arguments}")
        case TurnEnded(turn=turn):
            for result in turn.results:
                print(f"← {result.to_response()}")


async def main() -> None:
    script = ScriptedModel(
        [
            {"thought": "I need the price.", "calls": [("price", {"fruit": "pear"})]},
            {"calls": [("multiply", {"a": 0.6, "b": 12})]},
            "Twelve pears cost 7.20 euros.",
        ]
    )
    name = os.environ.get("OPENAI_MODEL", "default")
    model = OpenAIModel(name) if os.environ.get("OPENAI_BASE_URL") else script
    agent = ReActAgent(model, [price, multiply], max_iterations=5)
    result = await agent.run("What do twelve pears cost?", on_step=show)
    print(result.answer or result.message)


if __name__ == "__main__":
    asyncio.run(main())
