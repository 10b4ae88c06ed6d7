"""A user's stricter mode never fails open: what is not known of it makes the session stricter."""

import json
import sqlite3
from contextlib import closing

import pytest

from leonidas_tools import AdvancedToolProcessor, SessionPolicy, ToolSession, tool
from leonidas_tools.rules.rule import Mode
from leonidas_tools.store import Store

from .conftest import locked

pytestmark = pytest.mark.slow  # each waits ten seconds for a locked database

RAN = "ran"
ASKED = "asked"
DENIED = "denied"


@tool(effect="once", requires_approval=True)
async def pay(amount: int) -> str:
    """Pays."""
    return "paid"


def chain(file, mode="autonomous"):
    settings = {"store": {"enabled": True, "url": str(file)}, "policies": {"mode": mode}}
    return AdvancedToolProcessor([pay], settings, builtin_tools=False)


async def outcome(tools, session):
    result = await tools.execute("pay", {"amount": 5}, session=session)
    return {"ok": RAN, "pending_approval": ASKED, "denied": DENIED}[result.status]


async def prefer(file, **values):
    async with Store(file) as store:
        await store.preferences.write("ana", values)


def rewrite(file, text):
    """Writes preferences as another program might, past what the library accepts."""
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("UPDATE preferences SET data = ? WHERE user = 'ana'", (text,))


def damage(file):
    file.write_bytes(b"no database " * 1000)


MISSPELT = [
    ("read-only", DENIED),
    ("Read_Only", DENIED),
    ("readonly ", DENIED),
    ("AUTONOMOUS", DENIED),
    ("autonomous\n", DENIED),
    (["read_only"], DENIED),
    ({"read_only": True}, DENIED),
    (0, DENIED),
    (True, DENIED),
    ("", DENIED),
    (None, RAN),
    ("ask", ASKED),
    ("read_only", DENIED),
    ("autonomous", RAN),
]


@pytest.mark.parametrize(("mode", "expected"), MISSPELT)
async def test_a_mode_that_is_none_is_taken_for_the_strictest(file, mode, expected):
    await prefer(file, voice="Kore")
    rewrite(file, json.dumps({"mode": mode}))
    async with chain(file) as tools:
        assert await outcome(tools, ToolSession(user="ana")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ASKED),
        ("{", ASKED),
        ("[]", ASKED),
        ('"read_only"', ASKED),
        ("null", ASKED),
        ("[" * 100_000, ASKED),
        (json.dumps({"mode": "read_only", "always": ["pay"]}), DENIED),
        (json.dumps({"mode": "ask", "always": {"x": 1}}), ASKED),
        (json.dumps({"mode": "nonsense", "always": {"x": 1}}), DENIED),
    ],
)
async def test_preferences_that_cannot_be_read_leave_the_stricter_of_ask_and_the_settings(
    file, text, expected
):
    await prefer(file, mode="read_only")
    rewrite(file, text)
    async with chain(file) as tools:
        assert await outcome(tools, ToolSession(user="ana")) == expected


@pytest.mark.parametrize(
    ("mode", "expected"), [("autonomous", ASKED), ("ask", ASKED), ("read_only", DENIED)]
)
async def test_a_store_that_is_held_leaves_the_stricter_of_ask_and_the_settings(
    file, mode, expected
):
    await prefer(file, mode="read_only")
    with locked(file):
        async with chain(file, mode) as tools:
            session = ToolSession(user="ana")
            assert await outcome(tools, session) == expected


async def test_a_damaged_store_leaves_the_stricter_mode_also_after_the_next_start(file):
    await prefer(file, mode="read_only")
    damage(file)
    for _ in range(2):
        async with chain(file) as tools:
            assert await outcome(tools, ToolSession(user="ana")) == ASKED
    await prefer(file, mode="autonomous")
    async with chain(file) as tools:
        assert await outcome(tools, ToolSession(user="ana")) == RAN


async def test_without_any_preferences_the_mode_of_the_settings_applies(file):
    async with chain(file) as tools:
        assert await outcome(tools, ToolSession(user="ana")) == RAN


async def test_the_own_mode_of_a_session_applies_although_preferences_are_unknown(file):
    file.parent.mkdir()
    damage(file)
    async with chain(file) as tools:
        session = ToolSession(user="ana")
        session.get(SessionPolicy).mode = Mode.AUTONOMOUS
        assert await outcome(tools, session) == RAN


async def test_what_is_known_stays_in_force_when_the_store_breaks(file):
    await prefer(file, mode="read_only")
    async with chain(file) as tools:
        session = ToolSession(user="ana")
        assert await outcome(tools, session) == DENIED
        with locked(file):
            assert await outcome(tools, session) == DENIED
        for beside in file.parent.iterdir():
            beside.unlink()
        assert await outcome(tools, session) == DENIED


async def test_what_another_process_changes_is_seen_by_a_later_call(where, monkeypatch):
    monkeypatch.setattr("leonidas_tools.store.sessions._FRESH_SECONDS", 0.0)
    async with chain(where) as tools, Store(where) as other:
        session = ToolSession(user="ana")
        assert await outcome(tools, session) == RAN
        await other.preferences.write("ana", {"mode": "read_only"})
        assert await outcome(tools, session) == DENIED
        await other.preferences.patch("ana", {"mode": "ask"})
        assert await outcome(tools, session) == ASKED
