"""A call that happens only once is on disk before it runs, where that is asked for."""

import asyncio

import pytest

from leonidas_tools import AdvancedToolProcessor, Approvals, Decision, ToolSession, tool
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.store import DurableStart, Store

from .conftest import locked


async def test_its_row_can_be_read_by_others_when_the_function_runs(where):
    seen = []
    async with Store(StoreSettings(url=where, durable=True)) as store, Store(where) as other:

        @tool(effect="once")
        async def book(city: str) -> str:
            """Books."""
            seen.extend(await other.executions(tool="book"))
            return city

        tools = AdvancedToolProcessor(tools=[book], policies=store.policies)
        tools.monitor.subscribe(store.sink)
        assert (await tools.execute("book", {"city": "Lisbon"})).ok
        assert [(call.status, call.arguments) for call in seen] == [("started", {"city": "Lisbon"})]
        (kept,) = await store.executions()
        assert kept.status == "ok"
        assert store.status.not_durable == 0


async def test_it_works_without_the_sink_too(where, tell):
    async with Store(StoreSettings(url=where, durable=True)) as store:
        call = tell(store).call("book")
        assert await store.begun(call)
        assert await store.begun(call)
        assert len(await store.executions()) == 1


async def test_only_calls_that_happen_once_wait(file):
    async with Store(StoreSettings(url=str(file), durable=True)) as store:

        @tool(effect="read")
        async def look() -> str:
            """Looks."""
            return "seen"

        tools = AdvancedToolProcessor(tools=[look], policies=store.policies)
        with locked(file):
            assert (await tools.execute("look")).ok
        assert store.status.not_durable == 0


def test_without_the_setting_no_call_waits_for_the_disk(file):
    assert not any(isinstance(policy, DurableStart) for policy in Store(file).policies)


async def test_many_that_begin_at_once_share_transactions(file, tell):
    async with Store(StoreSettings(url=str(file), durable=True)) as store:
        told = tell(store)
        begun = await asyncio.gather(*(store.begun(told.call()) for _ in range(1000)))
        assert all(begun)
        assert len(await store.executions(limit=None)) == 1000


async def test_a_disk_that_does_not_answer_holds_a_call_up_for_a_moment_only(file, tell, caplog):
    async with Store(StoreSettings(url=str(file), durable=True)) as store:
        told = tell(store)
        with locked(file):
            assert not await store.begun(told.call(), timeout_seconds=0.05)
        assert store.status.not_durable == 1
        assert await store.flush(timeout_seconds=20)
        assert len(await store.executions()) == 1
    assert "start of a call is not on disk yet" in caplog.text


async def test_a_call_there_is_no_room_for_goes_on(file, tell):
    async with Store(StoreSettings(url=str(file), durable=True, max_waiting=1)) as store:
        told = tell(store)
        told.start()
        assert not await store.begun(told.call())
        assert (store.status.dropped, store.status.not_durable) == (0, 1)


async def test_a_call_that_is_approved_at_once_runs(where):
    @tool(effect="once", requires_approval=True)
    async def pay(amount: int) -> str:
        """Pays."""
        return f"paid {amount}"

    settings = {"store": {"enabled": True, "url": where, "durable": True}}
    async with AdvancedToolProcessor(tools=[pay], config=settings) as tools:
        for number in range(20):
            session = ToolSession(f"session-{number}")
            desk, results = session.get(Approvals), asyncio.Queue()
            desk.on_result(lambda _, result, to=results: to.put_nowait(result))
            asked = await tools.execute("pay", {"amount": 5}, session=session, call_id="c1")
            assert asked.status == "pending_approval"
            desk.decide(desk.pending()[0].id, Decision.approve())
            result = await results.get()
            assert (result.status, result.reason_code) == ("ok", None)


async def test_a_call_that_a_person_retries_runs_once_more_and_then_no_more(where):
    runs = []

    @tool(effect="once")
    async def book(city: str) -> str:
        """Books."""
        runs.append(city)
        if len(runs) == 1:
            raise OSError
        return f"booked {city}"

    store = {"enabled": True, "url": where, "durable": True}
    arguments, asked = {"city": "Lisbon"}, {"call_id": "c1"}
    async with AdvancedToolProcessor(tools=[book], config={"store": store}) as tools:
        session = ToolSession("trip", user="ana")
        assert (await tools.execute("book", arguments, session=session, **asked)).status == "failed"
        assert (await tools.retry("c1", session=session)).result == "booked Lisbon"
        again = await tools.execute("book", arguments, session=session, **asked)
    async with AdvancedToolProcessor(tools=[book], config={"store": store}) as tools:
        session = ToolSession("trip", user="ana")
        later = await tools.execute("book", arguments, session=session, **asked)
    assert [again.result, later.result] == ["booked Lisbon"] * 2
    assert runs == ["Lisbon"] * 2


PARTLY_STORED = {
    # No digits, which could be in a time or an id.
    "a secret": ({"pin": "lime"}, {"pin": "plum"}),
    "a long text": ({"note": "a" * 9000 + "x"}, {"note": "a" * 9000 + "y"}),
}


def paying_into(paid):
    """Return a tool with a side effect that notes its arguments."""

    @tool(effect="once", secrets=["pin"], requires_approval=False)
    async def pay(pin: str = "", note: str = "") -> str:
        paid.append({"pin": pin} if pin else {"note": note})
        return f"payment {len(paid)}"

    return pay


@pytest.mark.parametrize("which", PARTLY_STORED)
async def test_calls_that_look_equal_in_the_store_are_told_apart_by_their_process(where, which):
    paid, (one, other) = [], PARTLY_STORED[which]
    pay = paying_into(paid)
    store = {"enabled": True, "url": where, "durable": True}
    async with AdvancedToolProcessor([pay], {"store": store}) as tools:
        results = []
        for arguments in (one, other, one, other):
            session = ToolSession("kitchen", user="ana")  # as after a lost connection
            asked = {"session": session, "call_id": "fc-1"}
            results.append((await tools.execute("pay", arguments, **asked)).result)
        kept = await tools.store.executions()
    assert results == ["payment 1", "payment 2"] * 2
    assert paid == [one, other]
    assert not any(pin in str(kept) for pin in ("lime", "plum"))


@pytest.mark.parametrize("which", PARTLY_STORED)
async def test_another_process_gives_no_result_for_a_call_that_only_looks_equal(where, which):
    paid, (one, other) = [], PARTLY_STORED[which]
    pay = paying_into(paid)
    store = {"enabled": True, "url": where, "durable": True}
    results = []
    for arguments, call_id in ((one, "fc-1"), (other, "fc-1"), (other, "fc-2")):
        async with AdvancedToolProcessor([pay], {"store": store}) as tools:
            session = ToolSession("kitchen", user="ana")
            asked = {"session": session, "call_id": call_id}
            results.append(await tools.execute("pay", arguments, **asked))
    assert [(each.status, each.result) for each in results] == [
        ("ok", "payment 1"), ("unknown_outcome", None), ("ok", "payment 2"),
    ]  # fmt: skip
    assert results[1].reason_code == "repeated_call"
    assert paid == [one, other]


async def test_many_other_calls_do_not_let_a_repeated_call_run_again(where):
    paid = []

    @tool(effect="once", requires_approval=False)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return f"{amount} paid"

    @tool(effect="read")
    async def look(number: int) -> int:
        return number

    store = {"enabled": True, "url": where, "durable": True, "keep_calls": 5}
    results = []
    for _ in range(2):
        async with AdvancedToolProcessor([pay, look], {"store": store}) as tools:
            ana, bob = ToolSession("kitchen", user="ana"), ToolSession("attic", user="bob")
            results.append(await tools.execute("pay", {"amount": 5}, session=ana, call_id="fc-1"))
            for number in range(10):
                await tools.execute("look", {"number": number}, session=bob)
            await tools.store.flush(timeout_seconds=60)
            await tools.store.prune()
            assert len(await tools.store.executions(tool="look")) == 5
    assert [result.result for result in results] == ["5 paid", "5 paid"]
    assert paid == [5]
