"""Notes are kept in the store, found by their words, and seen by their user alone."""

import asyncio
import time

import pytest

from leonidas_tools import ToolRuntime, ToolSession
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision


@pytest.fixture
def runtime(where):
    def made(toolbox="notes", **more):
        store = {"enabled": True, "url": where}
        return ToolRuntime(config={"toolboxes": [toolbox], "store": store, **more})

    return made


async def said(tools, session, name, **arguments):
    return (await tools.execute(name, arguments, session=session)).to_response()


async def create(tools, session, text, **more):
    return (await said(tools, session, "create_note", text=text, **more))["result"]["id"]


async def titles(tools, session, query, **more):
    found = await said(tools, session, "search_notes", query=query, **more)
    return sorted(each["title"] for each in found.get("result", {"notes": []})["notes"])


async def test_a_note_is_kept_over_a_restart_read_changed_and_deleted(runtime):
    ana = ToolSession("kitchen", user="ana")
    async with runtime() as tools:
        made = await said(
            tools, ana, "create_note", text="Buy milk\nand eggs", tags=["#Shop", "shop ", " "]
        )
        assert made["speech"] == "Noted: Buy milk."
        assert made["result"]["tags"] == ["shop"]
        note_id = made["result"]["id"]
    ana = ToolSession("car", user="ana")
    async with runtime() as tools:
        read = await said(tools, ana, "read_note", note_id=note_id)
        assert read["result"]["text"] == "Buy milk\nand eggs"
        assert read["speech"] == "Your note Buy milk says: Buy milk and eggs"
        changed = await said(tools, ana, "update_note", note_id=note_id, text="Buy bread")
        assert changed["result"]["tags"] == ["shop"]
        assert await titles(tools, ana, "milk bread") == ["Buy milk"]
        assert await titles(tools, ana, "eggs") == []
        deleting = await tools.execute("delete_note", {"note_id": note_id}, session=ana)
        assert deleting.status == "pending_approval"
        answered = asyncio.get_running_loop().create_future()
        desk = ana.get(Approvals)
        desk.on_result(lambda _, result: answered.set_result(result))
        desk.decide(desk.pending()[0].id, Decision.approve())
        assert (await answered).speech == "I have deleted the note Buy milk."
        assert (await said(tools, ana, "read_note", note_id=note_id))["status"] == "not_found"
        listed = await said(tools, ana, "list_notes")
        assert (listed["status"], listed["speech"]) == ("no_results", "There are no notes.")


FOUND = [
    ("Buy milk tomorrow", "milk"),
    ("Buy milk tomorrow", "MILK buy"),
    ("Buy milk tomorrow", "tom"),
    ("Reunião às três", "reuniao tres"),
    ("Reuniao as tres", "reunião"),
    ("明天要买牛奶", "牛奶"),
    ("明天要买牛奶", "买 明天"),
    ("call 张伟 at 5", "张伟"),
    ("Позвонить маме", "мам"),
    ("Straße 12", "strasse"),
    ("C++ and C#", "c"),
    ('He said "hello" OR nothing', "or"),
    ("a-b_c.d@example.org", "example.org"),
    ("한국어 공부", "한국"),
    ("price: 4€", "4€"),
]
NOT_FOUND = [
    ("Buy milk", "ilk"),
    ("Buy milk", "milk bread"),
    ("明天要买牛奶", "牛买"),
    ("Buy milk", '" OR "1"="1'),
    ("Buy milk", "words:milk"),
    ("Buy milk", "milk NOT buy"),
    ("Buy milk", "NEAR(milk buy)"),
    ("Buy milk", "milk') ; DROP TABLE notes; --"),
    ("Buy milk", "!!!"),
    ("Buy milk", "\x00"),
    ("Buy milk", "bread | milk"),
]


async def test_notes_are_found_by_their_words_in_any_language(runtime):
    async with runtime() as tools:
        for number, (text, query) in enumerate(FOUND):
            session = ToolSession(user=f"user {number}")
            await create(tools, session, text, title="it")
            assert await titles(tools, session, query) == ["it"], query


async def test_what_is_no_word_of_a_note_finds_nothing_and_harms_nothing(runtime):
    async with runtime() as tools:
        session = ToolSession(user="ana")
        await create(tools, session, "Buy milk")
        for text, query in NOT_FOUND:
            await create(tools, session, text, title="it")
            answer = await said(tools, session, "search_notes", query=query)
            assert answer["status"] == "no_results", query
        assert await titles(tools, session, "buy") != []


async def test_a_user_never_sees_changes_or_deletes_the_notes_of_another(runtime):
    users = [ToolSession(user=name) for name in ("ana", "ben", None, "local", "", "ANA")]
    async with runtime(policies={"rules": [{"name": "go", "decide": "allow", "tools": "*"}]}) as t:
        for number, session in enumerate(users):
            await create(t, session, f"secret {number}", tags=["private"])
        for number, session in enumerate(users):
            assert await titles(t, session, "secret") == [f"secret {number}"]
            assert await titles(t, session, "secret", tag="private") == [f"secret {number}"]
            listed = (await said(t, session, "list_notes"))["result"]
            assert (listed["total"], len(listed["notes"])) == (1, 1)
            own = listed["notes"][0]["id"]
            for other in users:
                if other is not session:
                    for name, more in (
                        ("read_note", {}),
                        ("update_note", {"text": "mine"}),
                        ("delete_note", {}),
                    ):
                        answer = await t.execute(
                            name, {"note_id": own, **more}, session=other, autonomous=True
                        )
                        assert answer.status == "not_found"
            assert (await said(t, session, "read_note", note_id=own))["result"]["text"] == (
                f"secret {number}"
            )


WRONG = [
    ("create_note", {"text": " \n "}, "invalid_argument"),
    ("create_note", {"text": "x" * 101}, "invalid_argument"),
    ("create_note", {"text": "x", "title": "t" * 81}, "invalid_argument"),
    ("create_note", {"text": "x", "tags": [""]}, "invalid_argument"),
    ("read_note", {"note_id": "' OR 1=1 --"}, "not_found"),
    ("read_note", {"note_id": "x" * 10_000}, "not_found"),
    ("update_note", {"note_id": "none", "text": "x"}, "not_found"),
    ("list_notes", {"limit": 51}, "invalid_argument"),
    ("list_notes", {"tag": "none"}, "no_results"),
    ("list_notes", {"tag": "%"}, "no_results"),
    ("list_notes", {"tag": ""}, "ok"),
]


async def test_what_is_wrong_is_refused_with_what_to_do(runtime):
    session = ToolSession(user="ana")
    async with runtime({"notes": {"max_characters": 100}}) as tools:
        await create(tools, session, "x" * 100, tags=["a%"])
        for name, arguments, status in WRONG:
            answer = await said(tools, session, name, **arguments)
            assert answer["status"] == status, (name, arguments, answer)


async def test_text_with_odd_characters_is_kept(runtime):
    odd = "nul\x00 lone\ud800 bell\x07 \u202eright 🥛 " + "e\u0301" * 50
    session = ToolSession(user="ana")
    async with runtime() as tools:
        note_id = await create(tools, session, odd)
        text = (await said(tools, session, "read_note", note_id=note_id))["result"]["text"]
        assert "🥛" in text
        assert "\x00" not in text
        assert await titles(tools, session, "🥛 lone") != []


async def test_many_changes_at_once_lose_none(runtime):
    session = ToolSession(user="ana")
    async with runtime() as tools:
        await asyncio.gather(*(create(tools, session, f"note {n}") for n in range(20)))
        listed = (await said(tools, session, "list_notes", limit=50))["result"]
        assert listed["total"] == 20
        assert (await said(tools, session, "list_notes", limit=3))["speech"].startswith(
            "There are 20 notes. The first are note "
        )


async def test_the_best_note_comes_first(runtime):
    session = ToolSession(user="ana")
    async with runtime() as tools:
        await create(tools, session, "milk milk milk", title="milk")
        await create(tools, session, "a long list: bread, butter, cheese, eggs, milk", title="list")
        found = (await said(tools, session, "search_notes", query="milk"))["result"]["notes"]
        assert [each["title"] for each in found] == ["milk", "list"]


async def test_without_a_store_notes_are_unavailable():
    tools = ToolRuntime(config={"toolboxes": ["notes"]})
    answer = await tools.execute("create_note", {"text": "x"})
    assert (answer.status, answer.reason_code) == ("unavailable", "no_store")


async def test_a_store_that_cannot_be_reached_is_reported(tmp_path):
    (tmp_path / "folder.db").mkdir()
    store = {"enabled": True, "url": str(tmp_path / "folder.db")}
    async with ToolRuntime(config={"toolboxes": ["notes"], "store": store}) as tools:
        answer = await tools.execute("list_notes", {})
    assert (answer.status, answer.reason_code) == ("unavailable", "store_unavailable")


async def test_a_changed_note_is_restored_as_it_was(runtime):
    from leonidas_tools.store import Store

    session = ToolSession(user="ana")
    async with runtime() as tools:
        note_id = await create(tools, session, "as it was")
        store: Store = tools.store
        before = await store.notes.read("ana", note_id)
        await store.notes.update("ana", note_id, text="changed")
        await store.notes.restore("ana", before)
        assert await store.notes.read("ana", note_id) == before
        assert before.updated <= time.time()
