"""A few small tools to try things out with: made-up weather, dice, a slow search for flights."""

from __future__ import annotations

import asyncio
import random
import zlib
from typing import Annotated, Any, Literal

from pydantic import Field

from leonidas_tools.context import ToolContext
from leonidas_tools.tool import Tool, tool

_SKIES = ("sunny", "cloudy", "rainy", "windy", "foggy")


@tool(effect="read", tags=["weather"], timeout_seconds=5)
async def get_weather(
    city: str, unit: Literal["celsius", "fahrenheit"] = "celsius"
) -> dict[str, Any]:
    """Current weather in a city (made up, the same for a city each time).

    Args:
        city: Name of the city.
        unit: Temperature unit.
    """
    drawn = zlib.crc32(city.casefold().encode())
    celsius = 5 + drawn % 25
    degrees = celsius if unit == "celsius" else round(celsius * 9 / 5 + 32)
    return {"city": city, "sky": _SKIES[drawn % len(_SKIES)], "degrees": degrees, "unit": unit}


@tool(effect="read", tags=["game"])
def roll_dice(
    sides: Annotated[int, Field(ge=2, le=100)] = 6, count: Annotated[int, Field(ge=1, le=20)] = 1
) -> dict[str, Any]:
    """Rolls dice.

    Args:
        sides: How many sides a die has.
        count: How many dice.
    """
    rolls = [random.randint(1, sides) for _ in range(count)]  # noqa: S311 - a game
    return {"rolls": rolls, "total": sum(rolls)}


@tool(effect="read", tags=["travel"], behavior="NON_BLOCKING", timeout_seconds=20)
async def search_flights(origin: str, destination: str, ctx: ToolContext) -> dict[str, Any]:
    """Searches flights between two cities; takes a while.

    Args:
        origin: Where the journey begins.
        destination: Where it ends.
    """
    airlines = ("TAP", "Lufthansa", "ANA")
    for number, airline in enumerate(airlines):
        ctx.progress(f"Asking {airline}", fraction=number / len(airlines))
        await asyncio.sleep(2)
    return {
        "origin": origin,
        "destination": destination,
        "cheapest": {"airline": "TAP", "eur": 640},
    }


TOOLS: tuple[Tool[..., Any], ...] = (get_weather, roll_dice, search_flights)
