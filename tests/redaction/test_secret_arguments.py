"""P7: an argument that is declared to be secret is not kept, however a model writes it."""

import json
import sqlite3
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from leonidas_tools import AdvancedToolProcessor, Secret, ToolSession, tool

SECRET = "zebra-4711-Kappa"


class Card(BaseModel):
    number: str
    check: Annotated[str, Secret]


@tool
async def pay(card: Card, note: str = "") -> None: ...


@tool
async def pay_all(cards: list[Card]) -> None: ...


@tool
async def unlock(code: Annotated[str, Secret], note: str = "") -> None: ...


@tool
async def count(pin: Annotated[int, Secret]) -> None: ...


def kept_of(file: Any) -> str:
    """All that the database has."""
    with sqlite3.connect(file) as database:
        return "\n".join(database.iterdump())


async def kept(tmp_path: Any, name: str, arguments: dict[str, Any]) -> tuple[str, str]:
    """Make a call, and return its status and all that the store has kept."""
    store = {"enabled": True, "url": str(tmp_path / "kept.db")}
    async with AdvancedToolProcessor([pay, pay_all, unlock, count], {"store": store}) as tools:
        result = await tools.execute(name, arguments, session=ToolSession("s"))
    return result.status, kept_of(tmp_path / "kept.db")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("unlock", {"code": {"value": SECRET}}),
        ("unlock", {"code": [SECRET]}),
        ("count", {"pin": SECRET}),
    ],
)
async def test_the_error_about_a_secret_of_a_wrong_type_is_kept_without_it(
    name, arguments, tmp_path
):
    status, rows = await kept(tmp_path, name, arguments)
    assert status == "invalid_argument"
    assert "must be" in rows
    assert SECRET not in rows
