"""Small example tools: made-up weather, dice, coins, flights, a log, money."""

from __future__ import annotations

import asyncio
import random
import zlib
from typing import Annotated, Any, Literal

from pydantic import Field

from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import ToolError
from leonidas_tools.results.texts import say
from leonidas_tools.tools.registry import ToolRegistry
from leonidas_tools.tools.tool import Tool, tool

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
    """Roll dice.

    Args:
        sides: How many sides a die has.
        count: How many dice.
    """
    rolls = [random.randint(1, sides) for _ in range(count)]  # noqa: S311 - a game
    return {"rolls": rolls, "total": sum(rolls)}


@tool(effect="read", tags=["travel"], behavior="NON_BLOCKING", timeout_seconds=20)
async def search_flights(origin: str, destination: str, ctx: ToolContext) -> dict[str, Any]:
    """Search flights between two cities; takes a while.

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


@tool(effect="read", tags=["game"])
def flip_coin() -> str:
    """Flip a coin: heads or tails."""
    return random.choice(("heads", "tails"))  # noqa: S311 - a game


@tool(effect="idempotent", tags=["game"])
async def offer_coin(offered: bool, ctx: ToolContext) -> dict[str, Any]:
    """Offer the tool flip_coin, or take it away. Use it when the user wants a coin.

    It shows that tools may come and go while the model talks. The session needs the registry
    (`session.put(registry)`), as that of `leonidas run` does.

    Args:
        offered: Whether to offer the tool.
    """
    registry = ctx.session.get(ToolRegistry)
    if ctx.call.name not in registry:
        raise ToolError(say("no_coin"), reason_code="no_registry")
    if offered != (flip_coin.name in registry):
        if offered:
            registry.register(flip_coin)
        else:
            registry.unregister(flip_coin.name)
    return {"offered": offered}


@tool(effect="read", tags=["home"])
def read_log(room: str) -> str:
    """Read what the devices of a room have noted today, minute by minute (made up).

    Args:
        room: Which room.
    """
    minutes = [f"{minute // 60:02}:{minute % 60:02} {room}: all is well" for minute in range(1440)]
    minutes[720] = f"12:00 {room}: error: the oven does not answer"
    return "\n".join(minutes)


@tool(effect="once", tags=["money"], requires_approval=True)
async def send_money(
    to: str, amount: Annotated[float, Field(gt=0, le=10_000)], currency: str = "EUR"
) -> dict[str, Any]:
    """Send money to somebody (made up: nothing moves). The user is asked first.

    Args:
        to: The recipient.
        amount: The amount.
        currency: The currency.
    """
    return {"sent": amount, "currency": currency, "to": to}


TOOLS: tuple[Tool[..., Any], ...] = (
    get_weather,
    roll_dice,
    search_flights,
    offer_coin,
    read_log,
    send_money,
)
