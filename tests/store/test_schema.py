"""A store of an older version is upgraded with all it holds, and a newer one is left alone."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.store import Store
from leonidas_tools.store.address import database_url
from leonidas_tools.store.database import Database


def add_mood(connection):
    connection.execute(text("ALTER TABLE executions ADD COLUMN mood TEXT"))
    connection.execute(text("UPDATE executions SET mood = 'good' WHERE status = 'ok'"))


def fail(connection):
    connection.execute(text("DROP TABLE tasks"))
    raise ConfigurationError("this upgrade does not work")


@asynccontextmanager
async def opened(where, *upgrades):
    database = Database(database_url(where), upgrades=upgrades)
    try:
        async with database.reading() as connection:
            yield connection
    finally:
        await database.close()


async def version(connection):
    return (await connection.execute(text("SELECT version FROM schema_version"))).scalars().all()


@pytest.fixture
async def of_version_1(where, tell):
    """A store of version 1 with calls in it."""
    async with Store(where) as store:
        told = tell(store)
        told.run(city="Lisbon")
        told.run(status="failed")
        await store.preferences.write("ana", {"voice": "Kore"})
    return where


async def test_a_new_store_is_of_the_newest_version(where):
    async with opened(where, add_mood) as connection:
        assert await version(connection) == [2]


async def test_version_1_becomes_version_2_with_all_it_holds(of_version_1):
    async with opened(of_version_1, add_mood) as connection:
        assert await version(connection) == [2]
        rows = await connection.execute(
            text("SELECT trace_id, arguments, status, mood FROM executions ORDER BY id")
        )
        assert [tuple(row) for row in rows] == [
            ("kitchen-1", '{"city":"Lisbon"}', "ok", "good"),
            ("kitchen-2", "{}", "failed", None),
        ]
        voice = await connection.execute(text("SELECT data FROM preferences"))
        assert voice.scalar_one() == '{"voice": "Kore"}'


async def test_an_upgrade_is_made_once(of_version_1):
    for _ in range(2):
        async with opened(of_version_1, add_mood) as connection:
            assert await version(connection) == [2]


async def test_two_that_open_at_once_upgrade_once(of_version_1):
    async def open_it():
        async with opened(of_version_1, add_mood) as connection:
            return await version(connection)

    assert await asyncio.gather(open_it(), open_it(), open_it()) == [[2]] * 3


async def test_an_upgrade_that_fails_changes_nothing(of_version_1):
    with pytest.raises(ConfigurationError, match="does not work"):
        async with opened(of_version_1, add_mood, fail):
            pass
    async with opened(of_version_1) as connection:
        assert await version(connection) == [1]
        assert (await connection.execute(text("SELECT count(*) FROM tasks"))).scalar_one() == 0
        columns = (await connection.execute(text("SELECT * FROM executions"))).keys()
        assert "mood" not in columns


async def test_a_store_of_a_newer_version_is_refused_and_left_alone(of_version_1):
    async with opened(of_version_1, add_mood):
        pass
    with pytest.raises(ConfigurationError, match="of version 2, and this library knows 1 at most"):
        async with Store(of_version_1):
            pass
    async with opened(of_version_1, add_mood) as connection:
        assert await version(connection) == [2]
