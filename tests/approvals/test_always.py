"""An "always" holds for one user, one question and one definition of a tool."""

import pytest

from leonidas_tools import AdvancedToolProcessor, Tool, ToolSession
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.store import sessions
from leonidas_tools.tools.metadata import ToolOrigin

CHANGED = "The definition of this tool has changed since you said always."
SCHEMA = {"type": "object", "properties": {"amount": {"type": "number"}}}


async def paid(**arguments):
    return arguments


def pay(**changes):
    said = {
        "name": "pay",
        "description": "Pays a bill.",
        "parameters": SCHEMA,
        "function": paid,
        "category": "mcp",
        "effect": "once",
        "requires_approval": True,
        "origin": ToolOrigin(server="bank", tool="pay", identity="https://bank.example"),
    }
    return Tool.from_json_schema(**{**said, **changes})


class Person:
    def __init__(self, decision):
        self.decision = decision
        self.titles = []

    async def __call__(self, request):
        self.titles.append(request.title)
        return self.decision


def chain(tool, person, config):
    return AdvancedToolProcessor([tool], config, approval=person, builtin_tools=False)


CHANGES = {
    "schema": {"parameters": {**SCHEMA, "required": ["amount"]}},
    "another argument": {
        "parameters": {**SCHEMA, "properties": {**SCHEMA["properties"], "to": {"type": "string"}}}
    },
    "description": {"description": "Pays a bill, or all of them."},
    "unseen": {"description": "Pays a bill.\u200b"},
    "effect": {"effect": "idempotent"},
    "server": {"origin": ToolOrigin(server="mallory", tool="pay")},
    "address": {"origin": ToolOrigin(server="bank", tool="pay", identity="https://mallory")},
    "name there": {
        "origin": ToolOrigin(server="bank", tool="pay_all", identity="https://bank.example")
    },
    "ours": {"origin": None, "category": "python"},
}


@pytest.mark.parametrize("scope", ["session", "file", "user"])
@pytest.mark.parametrize("change", CHANGES)
async def test_another_tool_of_the_name_is_asked_about_again(scope, change, tmp_path, monkeypatch):
    # What is not loaded in time is asked about as if it had never been allowed.
    monkeypatch.setattr(sessions, "_LOADING_SECONDS", 20.0)
    file = tmp_path / "tools.yaml"
    store = f"{{enabled: true, url: {str(tmp_path / 'kept.db')!r}}}"
    file.write_text(f"version: 1\nstore: {store}\n")
    session = ToolSession("s", user="ana")
    person = Person(Decision.always(scope))
    arguments = {"amount": 5}
    async with chain(pay(), person, file) as tools:
        assert (await tools.execute("pay", arguments, session=session)).ok
        assert (await tools.execute("pay", arguments, session=session)).ok
        assert len(person.titles) == 1
        if scope == "session":
            tools.registry.replace(pay(**CHANGES[change]))
            await asked_again(tools, person, session)
    if scope != "session":
        async with chain(pay(), person, file) as tools:
            assert (await tools.execute("pay", arguments, session=session_of("ana"))).ok
            assert len(person.titles) == 1
            person.decision = Decision.deny()
            other = await tools.execute("pay", arguments, session=session_of("ben"))
            assert other.status == "denied"
            assert not person.titles.pop().startswith(CHANGED)
        async with chain(pay(**CHANGES[change]), person, file) as tools:
            await asked_again(tools, person, session_of("ana"))


def session_of(user):
    return ToolSession(user=user)


async def asked_again(tools, person, session):
    before, person.decision = len(person.titles), Decision.deny()
    assert (await tools.execute("pay", {"amount": 5}, session=session)).status == "denied"
    assert len(person.titles) == before + 1
    assert person.titles[-1].startswith(CHANGED)


ENTRIES = [
    {"tools": "pay", "question": "requires_approval"},
    {"tools": "*", "question": "requires_approval"},
    {"question": "requires_approval"},
    {"tools": "pay", "question": "requires_approval", "servers": "bank"},
    {"tools": "pay", "question": "requires_approval", "fingerprint": "0" * 64},
    {"tools": "pay", "question": "requires_approval", "fingerprint": "*"},
]


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
async def test_an_answer_that_was_kept_by_name_alone_is_asked_again(entry):
    person = Person(Decision.deny())
    async with chain(pay(), person, {"policies": {"always": {"pay": entry}}}) as tools:
        await asked_again(tools, person, session_of("ana"))


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
async def test_a_preference_that_was_kept_by_name_alone_is_asked_again(entry, tmp_path):
    person = Person(Decision.deny())
    config = {"store": {"enabled": True, "url": str(tmp_path / "kept.db")}}
    async with chain(pay(), person, config) as tools:
        await tools.store.preferences.write("ana", {"always": {"pay": entry}})
        await asked_again(tools, person, session_of("ana"))


async def test_a_question_by_voice_says_that_the_definition_has_changed():
    config = {"policies": {"always": {"pay": ENTRIES[0]}}}
    async with AdvancedToolProcessor([pay()], config) as tools:
        session = session_of("ana")
        await tools.execute("pay", {"amount": 5}, session=session)
        (request,) = session.get(Approvals).pending()
        assert request.title.startswith(CHANGED)
