"""A function becomes a tool, and a call of it gets one answer, whatever happens.

Run it: `python examples/first_tool.py`
"""

import asyncio
import json
from typing import Literal

from leonidas_tools import AdvancedToolProcessor, ToolContext, ToolError, tool

TEMPERATURES = {"Lisbon": 21, "Oslo": 4}


@tool(effect="read", timeout_seconds=5)
async def get_weather(
    city: str, ctx: ToolContext, unit: Literal["celsius", "fahrenheit"] = "celsius"
) -> dict[str, float]:
    """Current weather in a city.

    Args:
        city: Name of the city.
        unit: Temperature unit.
    """
    ctx.progress(f"Looking at {city}")  # a parameter of this type is hidden from the model
    if city not in TEMPERATURES:
        raise ToolError(f"There is no weather for {city!r}; try {', '.join(TEMPERATURES)}.")
    celsius = TEMPERATURES[city]
    return {unit: celsius if unit == "celsius" else celsius * 9 / 5 + 32}


async def main() -> None:
    async with AdvancedToolProcessor(tools=[get_weather]) as tools:
        (declared,) = [
            function
            for each in tools.declarations()
            for function in each.function_declarations or []
            if function.name == "get_weather"
        ]
        print("declared:", declared.name, "-", declared.description)

        for arguments in (
            {"city": "Lisbon"},
            {"city": "Oslo", "unit": "fahrenheit"},
            {"city": "Atlantis"},  # the tool says what is wrong
            {"town": "Lisbon"},  # validation says what is wrong
        ):
            result = await tools.execute("get_weather", arguments)
            print(json.dumps(result.to_response()))


if __name__ == "__main__":
    asyncio.run(main())
