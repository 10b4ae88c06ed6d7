"""A store of an older version is upgraded with all it holds, and a newer one is left alone."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.store import Store, Task
from leonidas_tools.store.address import database_url
from leonidas_tools.store.database import Database
from leonidas_tools.store.schema import UPGRADES

from .conftest import insert_question

NEWEST = 1 + len(UPGRADES)
NEXT = NEWEST + 1
NEW_SINCE_1 = {
    "approvals": ("rule", "on_expiry", "answer", "channel", "edited", "run"),
    "runs": ("lock",),
    "results": ("user",),
}
NEW_TABLES_SINCE_1 = (
    "note_words", "note_tags", "notes", "reminders", "cached_results", "cache_generations",
)  # fmt: skip
TASKS_OF_1 = """CREATE TABLE tasks (session TEXT NOT NULL, id TEXT NOT NULL, title TEXT NOT NULL,
    status TEXT NOT NULL, position INTEGER NOT NULL, calls TEXT NOT NULL,
    updated DOUBLE PRECISION NOT NULL, PRIMARY KEY (session, id))"""
TASKS_OF_9 = TASKS_OF_1.replace("updated", '"user" TEXT, updated')
A_TASK = "INSERT INTO tasks VALUES ('kitchen', '1', 'Look', 'pending', 0, '[]', {})"


def add_mood(connection):
    connection.execute(text("ALTER TABLE executions ADD COLUMN mood TEXT"))
    connection.execute(text("UPDATE executions SET mood = 'good' WHERE status = 'ok'"))


def fail(connection):
    connection.execute(text("DROP TABLE tasks"))
    raise ConfigurationError("this upgrade does not work")


@asynccontextmanager
async def opened(where, *upgrades):
    database = Database(database_url(where), upgrades=(*UPGRADES, *upgrades))
    try:
        async with database.reading() as connection:
            yield connection
    finally:
        await database.close()


async def version(connection):
    return (await connection.execute(text("SELECT version FROM schema_version"))).scalars().all()


@pytest.fixture
async def of_this_version(where, tell):
    """A store of the newest version with calls in it."""
    async with Store(where) as store:
        told = tell(store)
        told.run(city="Lisbon")
        told.run(status="failed")
        await store.preferences.write("ana", {"voice": "Kore"})
    return where


async def test_a_new_store_is_of_the_newest_version(where):
    async with opened(where, add_mood) as connection:
        assert await version(connection) == [NEXT]


async def test_it_becomes_one_of_the_next_version_with_all_it_holds(of_this_version):
    async with opened(of_this_version, add_mood) as connection:
        assert await version(connection) == [NEXT]
        rows = await connection.execute(
            text("SELECT trace_id, arguments, status, mood FROM executions ORDER BY id")
        )
        assert [tuple(row) for row in rows] == [
            ("kitchen-1", '{"city":"Lisbon"}', "ok", "good"),
            ("kitchen-2", "{}", "failed", None),
        ]
        voice = await connection.execute(text("SELECT data FROM preferences"))
        assert voice.scalar_one() == '{"voice": "Kore"}'


async def test_an_upgrade_is_made_once(of_this_version):
    for _ in range(2):
        async with opened(of_this_version, add_mood) as connection:
            assert await version(connection) == [NEXT]


async def test_two_that_open_at_once_upgrade_once(of_this_version):
    async def open_it():
        async with opened(of_this_version, add_mood) as connection:
            return await version(connection)

    assert await asyncio.gather(open_it(), open_it(), open_it()) == [[NEXT]] * 3


async def test_an_upgrade_that_fails_changes_nothing(of_this_version):
    with pytest.raises(ConfigurationError, match="does not work"):
        async with opened(of_this_version, add_mood, fail):
            pass
    async with opened(of_this_version) as connection:
        assert await version(connection) == [NEWEST]
        assert (await connection.execute(text("SELECT count(*) FROM tasks"))).scalar_one() == 0
        columns = (await connection.execute(text("SELECT * FROM executions"))).keys()
        assert "mood" not in columns


async def test_a_store_of_a_newer_version_is_refused_and_left_alone(of_this_version):
    async with opened(of_this_version, add_mood):
        pass
    with pytest.raises(
        ConfigurationError, match=f"has version {NEXT}, but this library supports up to {NEWEST}"
    ):
        async with Store(of_this_version):
            pass
    async with opened(of_this_version, add_mood) as connection:
        assert await version(connection) == [NEXT]


async def test_a_store_of_version_1_is_upgraded_to_what_there_is_now(where, tell):
    async with Store(where) as store:
        told = tell(store)
        await insert_question(store, told.run(path="/tmp/x"), message="Delete it?")
        asked = await store.approvals.pending()
        database = store._database
        async with database.writing() as connection:
            for table, names in NEW_SINCE_1.items():
                for name in names:
                    await connection.execute(text(f'ALTER TABLE {table} DROP COLUMN "{name}"'))
            for table in NEW_TABLES_SINCE_1:
                await connection.execute(text(f"DROP TABLE IF EXISTS {table}"))
            for statement in ("DROP TABLE tasks", TASKS_OF_1, A_TASK.format("0")):
                await connection.execute(text(statement))
            await connection.execute(text("UPDATE schema_version SET version = 1"))
    async with Store(where) as store:
        assert await store.approvals.pending() == asked
        assert await store.tasks.read("kitchen") == [Task(id="1", title="Look")]
        assert await store.tasks.read("kitchen", user="ana") == []
        note = await store.notes.create("ana", title="Milk", text="Buy milk")
        assert (await store.notes.find("ana", query="milk")).notes == (note,)
    async with opened(where) as connection:
        assert await version(connection) == [NEWEST]
        assert (await connection.execute(text("SELECT * FROM cached_results"))).all() == []


@pytest.mark.parametrize(("kept", "owner"), [("'ana'", "ana"), ("'local'", None), ("NULL", None)])
async def test_a_task_list_of_version_9_keeps_its_owner(where, kept, owner):
    async with Store(where) as store, store._database.writing() as connection:
        without_users = 'ALTER TABLE results DROP COLUMN "user"'
        lists = ("DROP TABLE tasks", TASKS_OF_9, A_TASK.format(f"{kept}, 0"))
        for statement in (*lists, without_users):
            await connection.execute(text(statement))
        await connection.execute(text("UPDATE schema_version SET version = 9"))
    async with Store(where) as store:
        assert await store.tasks.read("kitchen", user=owner) == [Task(id="1", title="Look")]
        for another in {"ana", None, "local", "NULL"} - {owner}:
            assert await store.tasks.read("kitchen", user=another) == []
