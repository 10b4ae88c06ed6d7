"""Conversations of a user are counted in all processes that share a store."""

import asyncio
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from leonidas_tools.store import Store

CHILD = Path(__file__).parent / "conversing.py"
FREE = {"at_once": 100, "per_minute": 100}


@contextmanager
def conversing(where):
    """Another process, with a conversation of Ana; in the end it is killed."""
    with subprocess.Popen(
        [sys.executable, CHILD, where], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "begun\n"
        try:
            yield
        finally:
            child.kill()


async def test_they_count_in_every_opening_of_the_store_until_they_end(where):
    limits = {**FREE, "at_once": 2}
    async with Store(where) as one, Store(where) as two:
        first = await one.conversations.begin("ana", **limits)
        second = await two.conversations.begin("ana", **limits)
        assert (first.at_once, second.at_once) == (0, 1)
        refused = await one.conversations.begin("ana", **limits)
        assert (refused.id, refused.at_once) == (None, 2)
        assert (await one.conversations.begin("ben", **limits)).id is not None
        two.conversations.end(second.id)
        assert await two.flush()
        assert (await one.conversations.begin("ana", **limits)).at_once == 1


async def test_those_that_begin_at_the_same_time_do_not_exceed_the_limit(where):
    async with Store(where) as one, Store(where) as two:
        tables = [one.conversations, two.conversations] * 6
        begun = await asyncio.gather(
            *(table.begin("ana", at_once=3, per_minute=100) for table in tables)
        )
    assert sum(start.id is not None for start in begun) == 3


async def test_those_that_have_ended_count_for_a_minute(where):
    limits = {**FREE, "per_minute": 2}
    async with Store(where) as one, Store(where) as two:
        for store in (one, two):
            store.conversations.end((await store.conversations.begin("ana", **limits)).id)
            assert await store.flush()
        refused = await two.conversations.begin("ana", **limits)
        assert (refused.id, refused.at_once, refused.in_last_minute) == (None, 0, 2)


async def test_those_of_a_process_that_has_died_do_not_count(where):
    async with Store(where) as store:
        with conversing(where):
            assert (await store.conversations.begin("ana", at_once=1, per_minute=9)).id is None
        async with asyncio.timeout(30):  # the server notices soon
            while (await store.conversations.begin("ana", at_once=1, per_minute=9)).id is None:
                pass
