"""What happened is kept, can be asked for, and outlives the process."""

import asyncio
import json
from typing import Annotated

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolContext, ToolSession, tool
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.errors import ConfigurationError, StoreError, ToolValidationError
from leonidas_tools.redaction import MASK, Secret
from leonidas_tools.store import Execution, ReplayEvent, SessionSummary, Step, Store


async def test_a_call_is_kept_from_its_start_to_its_end(store, told):
    call = told.start("book", city="Lisbon")
    (begun,) = await store.executions()
    assert begun == Execution(
        id=begun.id,
        session="kitchen",
        user="local",
        trace_id="kitchen-1",
        call_id="id-1",
        tool="book",
        effect="once",
        arguments={"city": "Lisbon"},
        started=1_700_000_001.0,
        status="started",
    )
    told.end(call, {"seat": "12A"}, message="Done.", reason_code="new")
    (ended,) = await store.executions()
    assert ended == Execution(
        id=begun.id,
        session="kitchen",
        user="local",
        trace_id="kitchen-1",
        call_id="id-1",
        tool="book",
        effect="once",
        arguments={"city": "Lisbon"},
        started=1_700_000_001.0,
        status="ok",
        ending="tool_complete",
        result={"seat": "12A"},
        message="Done.",
        reason="new",
        ended=1_700_000_002.0,
        seconds=1.0,
    )
    assert json.loads(json.dumps(ended.to_json()))["result"] == {"seat": "12A"}
    assert await store.interrupted() == []


async def test_what_was_kept_is_there_after_a_restart(where, tell):
    async with Store(where) as store:
        told = tell(store)
        for number in range(300):
            told.run("count", number)
    async with Store(where) as again:
        kept = await again.executions(limit=None, newest_first=False)
        assert [call.result for call in kept] == list(range(300))
        assert await again.interrupted() == []


async def test_calls_are_kept_of_a_real_processor(store):
    @tool(effect="read")
    async def look(city: str, ctx: ToolContext) -> str:
        """Looks."""
        ctx.progress("Looking", fraction=0.5)
        return f"{city} is fine"

    tools = AdvancedToolProcessor(tools=[look])
    tools.monitor.subscribe(store.sink)
    session = ToolSession("s1")
    session.user = "ana"
    await tools.execute("look", {"city": "Lisbon"}, session=session, call_id="7")
    await tools.execute("lok", {}, session=session)
    unknown, looked = await store.executions()
    assert (looked.status, looked.result, looked.user, looked.call_id, looked.effect) == (
        "ok",
        "Lisbon is fine",
        "ana",
        "7",
        "read",
    )
    assert [(step.kind, step.data) for step in looked.steps] == [
        ("tool_progress", {"message": "Looking", "fraction": 0.5})
    ]
    assert (unknown.status, unknown.ending, unknown.reason, unknown.effect) == (
        "not_found",
        "tool_error",
        "unknown_tool",
        None,
    )


async def test_secrets_are_not_kept(store):
    @tool
    async def log_in(user: str, phrase: Annotated[str, Secret], ctx: ToolContext) -> dict:
        """Logs in."""
        ctx.progress(f"Trying {phrase}")
        return {"said": f"{phrase} is right", "api_key": "abc", "url": "https://a:b@example.org"}

    tools = AdvancedToolProcessor(tools=[log_in])
    tools.monitor.subscribe(store.sink)
    await tools.execute("log_in", {"user": "ana", "phrase": "hunter2"})
    (call,) = await store.executions()
    assert call.arguments == {"user": "ana", "phrase": MASK}
    assert call.result == {
        "said": f"{MASK} is right",
        "api_key": MASK,
        "url": f"https://{MASK}@example.org",
    }
    assert call.steps[0].data == {"message": f"Trying {MASK}"}


async def test_secrets_are_not_kept_of_a_call_there_was_no_room_for_at_first(settings, tell):
    async with Store(settings(max_waiting=1)) as store:
        told = tell(store)
        first, second = told.start(), told.start(password="hunter2")
        told.end(first)
        assert await store.flush()
        told.end(second, "hunter2 is right")
        kept, _ = await store.executions()
        assert (kept.arguments, kept.result) == ({"password": MASK}, f"{MASK} is right")
        assert store.status.dropped == 0


async def test_long_values_are_cut_and_odd_ones_kept_as_text(store, told):
    told.run("long", "x" * 100_000, text="y" * 100_000)
    told.run("odd", {"a": "\0\ud800é", "b": float("nan")}, **{"k\0": object})
    odd, long = await store.executions()
    assert long.result.startswith("xxxx")
    assert len(long.result) < 4200
    assert len(long.arguments["text"]) < 4200
    assert odd.result["b"] == "nan"
    assert "é" in odd.result["a"]


async def test_events_say_which_approval_a_call_needed_and_whether_it_was_cached(store, told):
    call = told.start()
    told.tell(EventKind.PROGRESS, call, data={"approval_id": "a1", "message": "asking"})
    told.tell(EventKind.PROGRESS, call, data={"cached": True})
    told.end(call, 1)
    told.run()
    other, kept = await store.executions()
    assert (kept.approval_id, kept.cached) == ("a1", True)
    assert (other.approval_id, other.cached) == (None, False)


async def test_calls_without_a_number_are_distinguished(store, told):
    calls = [told.call().with_arguments({"n": n}) for n in range(3)]
    for call in calls:
        call.number = 0
        store.sink(ToolEvent(kind=EventKind.START, call=call))
    for n, call in enumerate(calls):
        told.end(call, n)
    kept = await store.executions(newest_first=False)
    assert [(call.arguments["n"], call.result) for call in kept] == [(0, 0), (1, 1), (2, 2)]


async def test_calls_can_be_filtered(store, tell):
    kitchen, hall = tell(store), tell(store, "hall", now=1_700_001_000.0)
    hall.session.user = "ana"
    kitchen.run("search", "Lisbon 100% warm", query="a_b")
    kitchen.run("search", None, status="failed", query="axb")
    kitchen.run("book", query="x")
    hall.run("search", "PORTO", query="z")

    async def found(**filters):
        calls = await store.executions(newest_first=False, **filters)
        return [call.trace_id for call in calls]

    assert await found() == ["kitchen-1", "kitchen-2", "kitchen-3", "hall-1"]
    assert await found(tool="search") == ["kitchen-1", "kitchen-2", "hall-1"]
    assert await found(status="failed") == ["kitchen-2"]
    assert await found(session="hall") == ["hall-1"]
    assert await found(user="local", tool="book") == ["kitchen-3"]
    assert await found(user="ana") == ["hall-1"]
    assert await found(since=1_700_000_003.0) == ["kitchen-2", "kitchen-3", "hall-1"]
    assert await found(until=1_700_000_003.0) == ["kitchen-1", "kitchen-2"]
    assert await found(text="a_b") == ["kitchen-1"]
    assert await found(text="100%") == ["kitchen-1"]
    assert await found(text="porto") == ["hall-1"]
    assert await found(text="nothing") == []
    assert await found(limit=2) == ["kitchen-1", "kitchen-2"]
    assert [call.trace_id for call in await store.executions(limit=1)] == ["hall-1"]


async def test_a_call_that_asked_first_is_counted_by_itself_and_is_no_failure(store, tell):
    kitchen = tell(store)
    kitchen.run(status="pending_approval")
    kitchen.run(status="failed")
    kitchen.run()
    (session,) = await store.sessions()
    assert (session.calls, session.failures, session.pending_approvals) == (3, 1, 1)


async def test_sessions_are_summed_up(store, tell):
    kitchen, hall = tell(store), tell(store, "hall", now=1_700_001_000.0)
    kitchen.run()
    kitchen.run(status="failed")
    kitchen.start()
    hall.run(status="no_results")
    assert await store.sessions() == [
        SessionSummary(
            session="hall",
            user="local",
            started=1_700_001_001.0,
            last=1_700_001_001.0,
            calls=1,
            failures=0,
        ),
        SessionSummary(
            session="kitchen",
            user="local",
            started=1_700_000_001.0,
            last=1_700_000_005.0,
            calls=3,
            failures=1,
        ),
    ]
    assert await store.sessions(user="nobody") == []
    assert len(await store.sessions(limit=1)) == 1


async def test_a_session_can_be_replayed(store, told):
    first = told.start("look", city="Lisbon")
    second = told.start("book")
    told.tell(EventKind.RETRY, first, data={"attempt": 1})
    told.end(second, "seat")
    told.end(first, None, status="timeout")

    def event(at, kind, call, **data):
        return ReplayEvent(
            at=1_700_000_000.0 + at,
            kind=kind,
            tool=call.name,
            trace_id=call.trace_id,
            data=data,
        )

    assert await store.replay("kitchen") == [
        event(1, "tool_start", first, arguments={"city": "Lisbon"}),
        event(2, "tool_start", second, arguments={}),
        event(3, "tool_retry", first, attempt=1),
        event(4, "tool_complete", second, status="ok", seconds=1.0, result="seat"),
        event(5, "tool_failed", first, status="timeout", seconds=1.0),
    ]
    assert await store.replay("nowhere") == []
    looked = (await store.executions(tool="look"))[0]
    assert looked.steps == (Step(kind="tool_retry", after_seconds=2.0, data={"attempt": 1}),)


async def test_only_so_many_steps_of_a_call_are_kept(store, told):
    call = told.start()
    for number in range(100):
        told.tell(EventKind.PROGRESS, call, data={"message": f"{number} " + "x" * 1000})
    told.end(call)
    (kept,) = await store.executions()
    assert len(kept.steps) == 32
    assert all(len(step.data["message"]) < 300 for step in kept.steps)


async def test_old_calls_go_and_so_do_too_many(settings, tell):
    async with Store(settings(keep_calls=700, keep_for="10m")) as store:
        old, new = tell(store, now=1_000.0), tell(store, now=32_000_000_000.0)
        for _ in range(30):
            old.run()
        assert await store.flush()
        assert await store.prune() == 30
        for number in range(1300):
            new.run("count", number)
        assert await store.flush()
        assert await store.prune() == 600
        assert await store.prune() == 0
        kept = await store.executions(limit=None, newest_first=False)
        assert [call.result for call in kept] == list(range(600, 1300))


@pytest.mark.slow
async def test_what_is_pruned_makes_the_file_smaller(file, tell):
    async with Store(file) as store:
        told = tell(store, now=1_000.0)
        for _ in range(500):
            told.run("long", "x" * 4000)
        assert await store.flush()
        async with store._database.reading() as connection:
            before = (await connection.exec_driver_sql("PRAGMA page_count")).scalar_one()
        assert await store.prune() == 500
        async with store._database.reading() as connection:
            after = (await connection.exec_driver_sql("PRAGMA page_count")).scalar_one()
    assert after < before / 5


async def test_only_the_owner_can_read_the_file(file):
    async with Store(file) as store:
        await store.executions()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


async def test_a_store_that_is_only_read_does_not_write(file):
    async with Store(file):
        pass
    before = file.read_bytes()
    async with Store(file) as store:
        assert await store.executions() == []
        assert await store.sessions() == []
    assert file.read_bytes() == before


async def test_a_sink_that_cannot_read_an_event_affects_no_other(store, told, caplog):
    store.sink(object())
    told.run()
    assert len(await store.executions()) == 1
    assert "is not stored" in caplog.text


async def test_an_event_before_the_opening_is_kept_once_it_is_open(file, tell):
    store = Store(file)
    tell(store).run()
    async with store:
        assert len(await store.executions()) == 1


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("mysql://host/name", "store.url: .*'mysql'; write the path of a file, sqlite:///FILE or"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("sqlite:///file:kept.db?uri=true", "needs a file"),
        ("postgresql://host:port:x/y", "is invalid; write"),
    ],
)
def test_an_address_that_is_none_is_an_error_that_shows_no_password(where, said):
    with pytest.raises(ConfigurationError, match=said):
        Store(where)


@pytest.mark.parametrize("where", ["ana:hunter2@127.0.0.1:1/a", "127.0.0.1:1/a?password=hunter2"])
async def test_neither_the_status_nor_an_error_shows_a_password(where, caplog):
    async with Store(f"postgresql://{where}") as store:
        assert "hunter2" not in str(store.status)
        assert "127.0.0.1:1" in store.status.where
        with pytest.raises(StoreError) as error:
            await store.executions()
    assert "hunter2" not in str(error.value) + caplog.text


async def test_many_sessions_at_once_keep_their_order(store, tell):
    tellers = [tell(store, f"s{n}") for n in range(10)]

    async def talk(told):
        for number in range(50):
            call = told.start("count")
            await asyncio.sleep(0)
            told.end(call, number)

    await asyncio.gather(*map(talk, tellers))
    for told in tellers:
        kept = await store.executions(session=told.session.id, limit=None, newest_first=False)
        assert [call.result for call in kept] == list(range(50))


async def test_a_status_that_is_none_is_an_error_with_those_there_are(store):
    with pytest.raises(ToolValidationError, match="no status 'nonsense'; choose one of ok, ") as no:
        await store.executions(status="nonsense")
    assert {"ok", "started", "interrupted"} <= set(no.value.valid_options)
