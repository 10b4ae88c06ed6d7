"""Processes with the same store answer the reads of each other, where the settings ask for it."""

import asyncio
import contextlib
import json

import pytest
from sqlalchemy import text

from leonidas_tools import AdvancedToolProcessor, Tool, ToolResult, ToolSession
from leonidas_tools.calls.call import Media
from leonidas_tools.errors import StoreError
from leonidas_tools.store import cached_results
from leonidas_tools.store.database import Database
from leonidas_tools.tools.metadata import ToolOrigin

from .conftest import until

pytestmark = pytest.mark.slow

KEY = "sk-proj-4f9a8b7c6d5e4f3a2b1c"


@pytest.fixture(autouse=True)
def a_busy_machine_is_waited_for(monkeypatch):
    """The store has time to answer: nothing is judged by how fast it is."""
    monkeypatch.setattr(cached_results, "_WAITING_SECONDS", 60.0)


class Process:
    """What a process has: tools on the store, and how often they have run."""

    def __init__(self, where, *, names=("read",), returns=None, config=None, **options):
        self.runs = []
        self.fails = None

        def reader(name):
            async def read(place: str = "here"):
                self.runs.append(place)
                if self.fails is not None:
                    raise self.fails
                return {"place": place} if returns is None else returns

            own = {"effect": "read", "cache_seconds": 60, "retry_attempts": 0, **options}
            return Tool(read, **{"name": name, **own})

        settings = {
            "store": {"enabled": True, "url": where},
            "tools": {name: {"cache_shared": True} for name in names},
            **(config or {}),
        }
        self.tools = AdvancedToolProcessor(map(reader, names), settings, builtin_tools=False)
        self.session = ToolSession(user="ana")

    async def __aenter__(self):
        await self.tools.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self.tools.__aexit__(*error)

    async def read(self, place="here", session=None, name="read"):
        session = session or self.session
        return await self.tools.execute(name, {"place": place}, session=session)

    def invalidate(self, *which):
        return self.tools.executor.cache.invalidate(*which)

    async def sql(self, statement):
        """What a statement returns, or nothing."""
        async with self.tools.store._database.writing() as connection:
            done = await connection.execute(text(statement))
            return [tuple(row) for row in done] if done.returns_rows else []

    async def rows(self):
        return await self.sql(
            "SELECT tool, arguments, content FROM cached_results ORDER BY created"
        )


@pytest.fixture
async def two(where):
    async with Process(where) as one, Process(where) as other:
        yield one, other


@pytest.fixture
async def two_with_a_file(file):
    async with Process(str(file)) as one, Process(str(file)) as other:
        yield one, other


async def test_a_read_is_answered_with_what_another_process_has_read(two):
    one, other = two
    first, second = await one.read("a"), await other.read("a")
    assert first.to_response() == second.to_response()
    assert (first.cached, second.cached) == (False, True)
    assert (one.runs, other.runs) == (["a"], [])
    assert other.tools.executor.cache.stats["hits"] == 1


async def test_a_process_that_starts_later_finds_it_too(file):
    async with Process(str(file)) as one:
        await one.read()
    async with Process(str(file)) as later:
        assert (await later.read()).cached


async def test_a_result_says_in_another_process_all_that_it_said_in_the_first(file):
    said = ToolResult(
        status="no_results",
        result={"rows": [1, 2.5, None, "Zoë", "\0"]},
        message="Nothing of today.",
        retryable=True,
        retry_hint="Ask for a day.",
        reason_code="partial",
        valid_options=["monday"],
        speech="None.",
    )
    async with Process(str(file), returns=said) as one, Process(str(file)) as other:
        first, second = await one.read(), await other.read()
    assert second.cached
    assert first.to_response() == second.to_response()


async def test_texts_of_the_library_are_in_the_words_of_the_settings_that_read_them(file):
    cut = {"policies": {"max_result_bytes": 1000}}
    async with Process(str(file), returns="x" * 2000, config=cut) as one:
        first = await one.read()
    worded = {**cut, "texts": {"result_too_long": "Shortened."}}
    async with Process(str(file), config=worded) as other:
        second = await other.read()
    assert second.cached
    assert second.result == first.result
    assert (first.message != second.message, second.message) == (True, "Shortened.")


OWNERS = [
    (("s1", "ana"), ("s2", "ana"), True),
    (("s1", "ana"), ("s1", "bo"), False),
    (("s1", None), ("s1", None), True),
    (("s1", None), ("s2", None), False),
    (("s1", None), ("s1", "ana"), False),
    (("ana", None), ("s1", "ana"), False),
    (("s1", ""), ("s1", None), False),
]
"""The ids and users of two sessions, and whether the second gets what the first has read."""


async def test_users_share_nothing_nor_do_sessions_without_a_user(two_with_a_file):
    one, other = two_with_a_file
    shared = []
    for number, (first, second, _) in enumerate(OWNERS):
        await one.read(f"{number}", session=ToolSession(first[0], user=first[1]))
        again = await other.read(f"{number}", session=ToolSession(second[0], user=second[1]))
        shared.append((first, second, again.cached))
    assert shared == OWNERS


WEATHER = {"toolboxes": [{"weather": {"default_city": "Lisbon"}}]}
SHARED = {"tools": {"read": {"cache_shared": True}}}


@pytest.mark.parametrize(
    "change",
    [
        {"version": "2"},
        {"description": "Reads otherwise."},
        {"fixed": {"unit": "metric"}},
        {"secrets": ["place"]},
        {"max_result_tokens": 5000},
        {"origin": ToolOrigin(server="files", tool="read", identity="1")},
        {"config": {"tools": {"read": {"cache_shared": True, "custom_parameters": {"unit": 1}}}}},
        {"config": {**SHARED, **WEATHER}},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_tool_with_another_definition_or_other_settings_is_another_tool(file, change):
    async with Process(str(file)) as one, Process(str(file), **change) as other:
        await one.read()
        assert not (await other.read()).cached
        assert (await other.read()).cached
        assert (await one.read()).cached


async def test_a_function_that_replaces_another_does_not_answer_as_that_one(two_with_a_file):
    one, other = two_with_a_file
    await one.read()

    async def read(place: str = "here"):
        return f"new: {place}"

    one.tools.registry.replace(Tool(read, effect="read", cache_seconds=60, retry_attempts=0))
    assert (await one.read()).result == "new: here"
    assert (await other.read()).result == "new: here"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"cache_shared": False},
        {"cache_shared": True, "cache_seconds": "off"},
        {"cache_shared": True, "effect": "idempotent"},
        {"cache_shared": True, "overflow": "spill"},
        {"cache_shared": True, "custom_parameters": {"api_key": "4711"}},
    ],
    ids=repr,
)
async def test_nothing_is_written_where_the_settings_do_not_ask_or_it_must_not_be(file, settings):
    config = {"tools": {"read": settings}, "defaults": {"cache_shared": False}}
    async with Process(str(file), config=config) as one:
        await one.read()
        assert await one.rows() == []


async def test_a_long_secret_of_the_settings_does_not_prevent_it(file):
    asks = {"cache_shared": True, "custom_parameters": {"api_key": KEY}}
    config = {"tools": {"read": asks}}
    async with Process(str(file), config=config) as one, Process(str(file), config=config) as other:
        await one.read()
        assert (await other.read()).cached
        assert KEY not in str(await one.rows())


@pytest.mark.parametrize(
    ("returns", "place"),
    [
        ({"password": "tulip-77"}, "here"),
        (f"the key is {KEY}", "here"),
        (ToolResult(result=1, message=f"Use {KEY}."), "here"),
        (ToolResult(result=1, valid_options=[KEY]), "here"),
        ("fine", KEY),
        ("x" * 65_537, "here"),
        ("fine", "x" * 65_537),
    ],
    ids=["name", "look", "message", "options", "argument", "long", "long argument"],
)
async def test_what_must_not_be_written_is_kept_in_the_process(file, returns, place):
    options = {
        "returns": returns,
        "config": {**SHARED, "policies": {"max_result_bytes": 100_000}},
    }
    async with Process(str(file), **options) as one, Process(str(file), **options) as other:
        assert not (await one.read(place)).cached
        assert (await one.read(place)).cached
        assert not (await other.read(place)).cached
        assert await one.rows() == []


@pytest.mark.parametrize(
    "returns",
    [
        ToolResult.failed("No."),
        ToolResult.not_found("No."),
        ToolResult(result=1, media=[Media(mime_type="image/png", data=b"png")]),
    ],
)
async def test_neither_failures_nor_pictures_are_written(file, returns):
    async with Process(str(file), returns=returns) as one:
        await one.read()
        assert await one.rows() == []


@pytest.mark.parametrize(("age", "is_fresh"), [(30, True), (61, False), (-3600, False)])
async def test_a_result_is_used_for_as_long_as_the_reader_says(two_with_a_file, age, is_fresh):
    """One of the future is of a clock that is ahead: nobody knows how old it is."""
    one, other = two_with_a_file
    await one.read()
    await one.sql(f"UPDATE cached_results SET created = created - {age}")
    assert (await other.read()).cached is is_fresh


async def test_an_old_result_of_another_process_stands_in_when_the_tool_fails(file):
    stale = {"stale_if_error_seconds": 300}
    async with Process(str(file), **stale) as one, Process(str(file), **stale) as other:
        other.fails = RuntimeError()
        assert (await other.read()).status == "failed"
        await one.read()
        await one.sql("UPDATE cached_results SET created = created - 61")
        again = await other.read()
        assert (again.status, again.result, again.cached) == ("ok", {"place": "here"}, True)
        assert again.message.endswith("this is its result from 61 seconds ago.")
        one.invalidate()
        await until(lambda: not one.tools.store.cached_results._forgotten)
        assert (await other.read()).status == "failed"


@pytest.mark.parametrize(
    "bound", [{"max_entries": 3}, {"max_bytes": 600}], ids=["entries", "bytes"]
)
async def test_the_oldest_results_of_a_tool_make_room_for_new_ones(where, bound):
    config = {
        "tools": {name: {"cache_shared": True} for name in ("one", "other")},
        "policies": {"cache": bound},
    }
    async with Process(where, names=("one", "other"), config=config) as process:
        await process.read("z", name="other")
        for place in "abcde":
            await process.read(place, name="one")
        kept = [
            (tool, json.loads(arguments)["place"]) for tool, arguments, _ in await process.rows()
        ]
    assert kept == [("other", "z"), ("one", "c"), ("one", "d"), ("one", "e")]


async def test_expired_results_are_deleted_without_a_call_of_their_tool(file):
    async with Process(str(file)) as one:
        for place in "ab":
            await one.read(place)
        await one.sql("UPDATE cached_results SET expires = 0 WHERE arguments LIKE '%: _a%'")
        await one.tools.store.prune()
        assert [json.loads(row[1]) for row in await one.rows()] == [{"place": "b"}]


@pytest.mark.parametrize(
    ("which", "forgotten"),
    [
        ((), {"one a", "one b", "other a", "other b"}),
        (("one",), {"one a", "one b"}),
        (("one", {"place": "a"}), {"one a"}),
        ((None, {"place": "a"}), {"one a", "other a"}),
        (("nobody",), set()),
    ],
)
async def test_what_one_process_invalidates_runs_again_in_all(file, which, forgotten):
    names, where = ("one", "other"), str(file)
    async with Process(where, names=names) as here, Process(where, names=names) as there:
        for name in names:
            for place in "ab":
                await here.read(place, name=name)
        here.invalidate(*which)
        for process in (here, there):
            again = {
                f"{name} {place}": await process.read(place, name=name)
                for name in names
                for place in "ab"
            }
            ran = {call for call, result in again.items() if not result.cached}
            assert ran == forgotten
            forgotten = set()


async def test_a_result_that_was_invalidated_while_the_tool_ran_is_not_kept(two):
    one, other = two
    other.invalidate()
    await until(lambda: not other.tools.store.cached_results._forgotten)
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def read(place: str = "here"):
        entered.set()
        await go_on.wait()
        return place

    one.tools.registry.replace(Tool(read, effect="read", cache_seconds=60))
    running = asyncio.create_task(one.read())
    await entered.wait()
    other.invalidate("read")
    await until(lambda: not other.tools.store.cached_results._forgotten)
    go_on.set()
    assert (await running).ok
    assert await one.rows() == []
    await one.read()
    assert len(await one.rows()) == 1


# --- faults -----------------------------------------------------------------------------------


class Fault:
    """A database that does not do what it should, until it does again."""

    def __init__(self, monkeypatch, how):
        self.tries = 0
        self.ends = asyncio.Event()
        real = {"reading": Database.reading, "writing": Database.writing}

        def broken(kind):
            @contextlib.asynccontextmanager
            async def transaction(database):
                if not self.ends.is_set():
                    self.tries += 1
                    await how(self)
                async with real[kind](database) as connection:
                    yield connection

            return transaction

        for kind in real:
            monkeypatch.setattr(Database, kind, broken(kind))


async def hangs(fault):
    await fault.ends.wait()


async def is_away(_):
    raise StoreError("The store is away")


async def is_broken(_):
    raise RuntimeError


@pytest.mark.parametrize("how", [hangs, is_away, is_broken])
async def test_without_the_database_each_call_runs_and_few_wait_for_it(
    two_with_a_file, monkeypatch, how
):
    one, other = two_with_a_file
    await one.read("a")
    assert (await other.read("b")).ok
    monkeypatch.setattr(cached_results, "_WAITING_SECONDS", 0.01)
    fault = Fault(monkeypatch, how)
    assert [(await other.read("a")).cached for _ in range(3)] == [False] * 3
    assert other.runs == ["b", "a", "a", "a"]
    tried = other.tools.store.cached_results
    assert tried._is_resting
    fault.ends.set()
    await until(lambda: not tried._tasks)
    monkeypatch.setattr(cached_results, "_WAITING_SECONDS", 60.0)
    tried._rests_until = 0.0
    assert (await other.read("a")).cached


async def test_calls_wait_for_a_database_that_hangs_no_longer_than_a_moment(
    two_with_a_file, monkeypatch
):
    _, other = two_with_a_file
    await other.read("b")
    monkeypatch.setattr(cached_results, "_WAITING_SECONDS", 0.01)
    fault = Fault(monkeypatch, hangs)
    async with asyncio.timeout(30):
        results = await asyncio.gather(*(other.read(f"{n}") for n in range(20)))
    assert [result.cached for result in results] == [False] * 20
    monkeypatch.setattr(cached_results, "_WAITING_SECONDS", 60.0)
    async with asyncio.timeout(30):  # it is left alone now
        assert (await other.read("b")).ok
    fault.ends.set()


async def test_what_is_invalidated_without_the_database_is_forgotten_once_it_is_back(
    two_with_a_file, monkeypatch
):
    one, other = two_with_a_file
    await one.read("a")
    await other.read("a")
    fault = Fault(monkeypatch, is_away)
    other.invalidate("read")
    assert not (await other.read("a")).cached
    fault.ends.set()
    other.tools.store.cached_results._rests_until = 0.0
    assert not (await other.read("a")).cached
    assert other.runs == ["a", "a"]


async def test_very_many_invalidations_without_the_database_become_one_of_all(
    two_with_a_file, monkeypatch
):
    one, other = two_with_a_file
    await one.read("a")
    await other.read("a")
    fault = Fault(monkeypatch, is_away)
    for number in range(1000):
        other.invalidate("read", {"place": f"{number}"})
    assert len(other.tools.store.cached_results._forgotten) <= 65
    fault.ends.set()
    other.tools.store.cached_results._rests_until = 0.0
    assert not (await other.read("a")).cached


DAMAGED = [
    "",
    "{",
    "null",
    "[]",
    "{}",
    "[" * 5000,
    '{"status": "ok"}',
    '{"status": "failed", "result": 1}',
    '{"status": "perhaps", "result": 1}',
]


async def test_a_damaged_result_is_none(two_with_a_file):
    one, other = two_with_a_file
    for number, content in enumerate(DAMAGED):
        await one.read(f"{number}")
        await one.sql(f"UPDATE cached_results SET content = '{content}'")
        assert not (await other.read(f"{number}")).cached
        assert (await one.read(f"{number}")).cached


async def test_damaged_arguments_are_deleted_with_any_that_are_invalidated(two_with_a_file):
    one, other = two_with_a_file
    await one.read()
    await one.sql("UPDATE cached_results SET arguments = '{'")
    other.invalidate("read", {"place": "elsewhere"})
    assert not (await other.read()).cached


async def test_a_damaged_file_is_a_miss_and_the_next_one_keeps_results(file):
    async with Process(str(file)) as one:
        await one.read()
        content = file.read_bytes()
        file.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
        for wal in file.parent.glob("*-wal"):
            wal.write_bytes(b"")
    async with Process(str(file)) as one:
        assert (await one.read()).ok
        one.tools.store.cached_results._rests_until = 0.0
        assert (await one.read()).ok
        one.tools.store.cached_results._rests_until = 0.0
        assert (await one.read()).cached


async def test_a_removed_file_is_a_miss(file):
    async with Process(str(file)) as one:
        await one.read()
        for each in file.parent.glob(f"{file.name}*"):
            each.unlink()
        assert (await one.read()).ok
        assert one.runs == ["here", "here"]


def test_calls_of_one_event_loop_after_another_run_without_an_error(file):
    one = Process(str(file))

    async def burst():
        try:  # the tools are not entered, so nothing closes the database
            return await asyncio.gather(*(one.read(f"{number}") for number in range(10)))
        finally:
            await one.tools.store._database.close()

    for _ in range(2):
        assert all(result.ok for result in asyncio.run(burst()))


async def test_equal_running_calls_share_one_look_at_the_store(two_with_a_file, monkeypatch):
    one, other = two_with_a_file
    await one.read("a")
    looked = []
    find = type(other.tools.store.cached_results)._find
    monkeypatch.setattr(
        cached_results.CachedResults,
        "_find",
        lambda self, key: looked.append(key) or find(self, key),
    )
    results = await asyncio.gather(*(other.read("a") for _ in range(20)))
    assert [result.cached for result in results] == [True] * 20
    assert len(looked) == 1
