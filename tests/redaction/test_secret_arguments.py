"""P7: an argument that is declared to be secret is not kept, however a model writes it."""

import json
import sqlite3
import threading
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from leonidas_tools import (
    AdvancedToolProcessor,
    Secret,
    SessionPolicy,
    ToolContext,
    ToolSession,
    tool,
)
from leonidas_tools.agent import ReActAgent, ScriptedModel, trajectory_line
from leonidas_tools.redaction import KnownSecrets

SECRET = "zebra-4711-Kappa"


class Card(BaseModel):
    number: str
    check: Annotated[str, Secret]


@tool(requires_approval=False)
async def pay(card: Card, note: str = "") -> None: ...


@tool(requires_approval=False)
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


CARD = {"number": "1", "check": SECRET}
AS_TEXT = json.dumps(CARD)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("pay", {"card": AS_TEXT}),
        ("pay", {"card": f" {json.dumps(CARD, indent=1)}"}),
        ("pay", {"card": AS_TEXT[:-1]}),
        ("pay", {"card": str(CARD)}),
        ("pay", {"card": json.dumps({"number": 1, "check": [SECRET]})}),
        ("pay", {"card": {"number": "1", "Check": SECRET}}),
        ("pay_all", {"cards": f"[{AS_TEXT}]"}),
        ("pay_all", {"cards": [AS_TEXT]}),
        ("unlock", {"Code": SECRET}),
        ("unlock", {"code_": SECRET, "code": "0"}),
        ("unlock", {"code": SECRET, "note": f"The code is {SECRET}."}),
    ],
)
async def test_a_secret_argument_is_not_kept_however_it_is_written(name, arguments, tmp_path):
    _, rows = await kept(tmp_path, name, arguments)
    assert "***" in rows
    assert SECRET not in rows


async def test_secrets_that_begin_alike_are_masked_to_their_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("HOUSE_KEY", "ACME-2026-kitchen")

    @tool
    async def open_door(code: Annotated[str, Secret], ctx: ToolContext) -> str:
        assert ctx.parameters["key"] == "ACME-2026-kitchen"
        ctx.progress(f"trying {code}")
        return f"{code} opened it"

    told: list[Any] = []
    file = tmp_path / "tools.yaml"
    file.write_text(
        "tools: {open_door: {custom_parameters: {key: '${HOUSE_KEY}'}}}\n"
        f"store: {{enabled: true, url: '{tmp_path}/kept.db'}}\n"
    )
    async with AdvancedToolProcessor([open_door], file) as tools:
        tools.monitor.subscribe(lambda event: told.append(event.to_json()))
        result = await tools.execute("open_door", {"code": "ACME-2026-4711"})
    assert result.result == "*** opened it"
    assert "trying ***" in str(told)
    assert "4711" not in str(told) + kept_of(tmp_path / "kept.db")


async def test_no_argument_of_a_tool_that_does_not_exist_is_kept(tmp_path):
    status, kept_text = await kept(tmp_path, "unlok", {"code": SECRET, "note": ["Ana", 4711]})
    assert status == "not_found"
    assert '{"code":"***","note":"***"}' in kept_text


async def test_a_short_secret_in_json_is_not_kept_either(tmp_path):
    text = json.dumps({"number": "4711 0815", "check": "12"})
    status, rows = await kept(tmp_path, "pay", {"card": text})
    assert status == "ok"
    assert '"number\\":\\"4711 0815\\",\\"check\\":\\"***' in rows


async def test_a_question_is_kept_without_the_secret_that_another_argument_repeats(tmp_path):
    asking = tool(requires_approval=True)(unlock.function)
    store = {"enabled": True, "url": str(tmp_path / "kept.db")}
    arguments = {"code": SECRET, "note": f"The code is {SECRET}."}
    async with AdvancedToolProcessor([asking], {"store": store}) as tools:
        asked = await tools.execute("unlock", arguments, session=ToolSession("s"))
    assert asked.status == "pending_approval"
    rows = kept_of(tmp_path / "kept.db")
    assert "The code is ***." in rows
    assert SECRET not in rows


LONG = f"The key is {SECRET}. " + "lorem " * 1000


@pytest.mark.parametrize("order", [("note", "password"), ("password", "note")])
async def test_a_secret_is_not_kept_where_it_is_cut_off_from_the_arguments(tmp_path, order):
    @tool(requires_approval=True)
    async def log_in(note: str, password: str) -> str:
        return f"Welcome, {password} is right."

    by_name = {"note": LONG, "password": SECRET}
    arguments = {name: by_name[name] for name in order}
    config = {"store": {"enabled": True, "url": str(tmp_path / "kept.db")}}
    async with AdvancedToolProcessor([log_in], config) as tools:
        session = ToolSession("s")
        asked = await tools.execute("log_in", arguments, session=session, call_id="1")
        session.get(SessionPolicy).mode = "autonomous"
        done = await tools.execute("log_in", arguments, session=session)
    assert (asked.status, done.status) == ("pending_approval", "ok")
    rows = kept_of(tmp_path / "kept.db")
    assert "Welcome, *** is right." in rows
    assert SECRET not in rows
    with sqlite3.connect(tmp_path / "kept.db") as database:
        (kept,) = database.execute("SELECT fingerprint FROM approvals").fetchall()
    assert kept == (None,), "it would reveal a short secret"


MANY = [f"key-{number}-of-Kappa" for number in range(1000)]


@pytest.mark.parametrize(
    "passwords", [MANY, ["".join(MANY) * 2]], ids=["many secrets", "a very long secret"]
)
async def test_of_a_call_with_too_much_that_is_secret_only_its_status_is_kept(
    tmp_path, monkeypatch, passwords
):
    @tool(effect="read")
    async def log_in(passwords: list[str]) -> str:
        return f"Welcome, {passwords[-1]} is right."

    searched = []
    search = KnownSecrets.text
    monkeypatch.setattr(KnownSecrets, "text", lambda *a: searched.append(a) or search(*a))
    config = {"store": {"enabled": True, "url": str(tmp_path / "kept.db")}}
    async with AdvancedToolProcessor([log_in], config) as tools:
        result = await tools.execute("log_in", {"passwords": passwords}, session=ToolSession("s"))
    assert result.result == f"Welcome, {passwords[-1]} is right.", "it is not declared as secret"
    rows = kept_of(tmp_path / "kept.db")
    assert "Kappa" not in rows
    assert "'ok'" in rows
    assert searched == []


async def test_of_a_call_made_by_a_call_with_too_much_that_is_secret_only_its_status_is_kept(
    tmp_path, monkeypatch
):
    @tool(effect="read")
    async def look(key: str) -> str:
        return f"{key} is right."

    @tool(effect="read")
    async def log_in(keys: Annotated[list[str], Secret]) -> None:
        await tools.execute("look", {"key": keys[-1]})

    threads = set()
    search = KnownSecrets.text
    monkeypatch.setattr(
        KnownSecrets, "text", lambda *a: threads.add(threading.get_ident()) or search(*a)
    )
    config = {"store": {"enabled": True, "url": str(tmp_path / "kept.db")}}
    async with AdvancedToolProcessor([look, log_in], config) as tools:
        assert (await tools.execute("log_in", {"keys": MANY})).ok
    assert "Kappa" not in kept_of(tmp_path / "kept.db")
    assert threading.get_ident() not in threads


async def test_too_much_that_is_declared_as_secret_is_searched_for_beside_the_event_loop(
    monkeypatch,
):
    @tool(effect="read")
    async def log_in(keys: Annotated[list[str], Secret], ctx: ToolContext) -> str:
        ctx.progress(f"Trying {keys[-1]}")
        return f"Welcome, {keys[-1]} is right."

    threads, told = set(), []
    search = KnownSecrets.text
    monkeypatch.setattr(
        KnownSecrets, "text", lambda *a: threads.add(threading.get_ident()) or search(*a)
    )
    async with AdvancedToolProcessor([log_in]) as tools:
        tools.monitor.subscribe(lambda event: told.append(dict(event.data)))
        result = await tools.execute("log_in", {"keys": MANY})
    assert result.result == "Welcome, *** is right."
    assert {"***": "***"} in told
    assert "Kappa" not in str(told)
    assert threads
    assert threading.get_ident() not in threads


async def test_a_secret_argument_that_is_written_as_json_is_in_no_trajectory():
    model = ScriptedModel([{"calls": [("pay", {"card": AS_TEXT})]}, f"Paid with {SECRET}."])
    line = trajectory_line(await ReActAgent(model, AdvancedToolProcessor([pay])).run("Pay."))
    assert "Paid with ***." in line
    assert SECRET not in line


def test_texts_that_are_no_object_with_a_secret_stay_as_they_are():
    redaction = unlock.redaction
    for text in ("[ok] the code was right", '{"door":  "front"}', "{code}", "code", '["a", "b"]'):
        assert redaction(text) == text
