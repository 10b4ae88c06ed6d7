"""A conversation that comes from another process: what happens once has one effect."""

import asyncio
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from leonidas_tools import AdvancedToolProcessor, RetryableError, ToolSession, tool
from leonidas_tools.session.resumption import Resumption
from leonidas_tools.store import Store, durable
from tests.databases import free_port, place
from tests.promises.faults.play import Script, call, cancellation

CHILD = Path(__file__).parent / "ordering.py"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def where(request, file):
    """A place for a store; each test starts a process, so the quick tests have one kind."""
    return place(request.param, request, file)


@pytest.fixture(autouse=True)
def a_busy_machine_is_waited_for(monkeypatch):
    """The store has time to answer: nothing is judged by how fast it is."""
    monkeypatch.setattr(durable, "_ANSWER_SECONDS", 60.0)


_OTHER_CLOCK = (
    "import runpy, sys, time; now, ahead = time.time, float(sys.argv.pop()); "
    "time.time = lambda: now() + ahead; sys.argv[:1] = []; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


@contextmanager
def ordering(where, *, ahead_seconds=0.0):
    """Another process with the session `kitchen` of Ana, which orders once for each line."""
    command = [sys.executable, "-c", _OTHER_CLOCK, str(CHILD), where, str(ahead_seconds)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def says(child, line):
    child.stdin.write(f"{line}\n")
    child.stdin.flush()


def hears(child, line):
    assert child.stdout.readline() == f"{line}\n"


def orders_tea(child, call_id):
    says(child, f"order tea {call_id}")
    hears(child, "runs tea")


def serves(child):
    says(child, "serve")
    hears(child, "ok")


class Here:
    """The same session in this process; notes what runs here."""

    def __init__(self, where, own=None, **more):
        self.ran = []

        @tool(effect="once", lane=None)
        async def order(article: str) -> str:
            self.ran.append(article)
            return f"{article}, ordered here"

        @tool(effect="idempotent", retry_attempts=0, fallback_tools=["order"])
        async def ask(article: str) -> None:
            raise RetryableError(f"No {article} here.")

        settings = {"store": {"enabled": True, "url": where, "durable": True}, **more}
        self.tools = AdvancedToolProcessor(
            tools=[own or order, ask], config=settings, builtin_tools=False
        )
        self.session = ToolSession("kitchen", user="ana")

    async def __aenter__(self):
        await self.tools.__aenter__()
        await self.tools.store.interrupted()
        return self

    async def __aexit__(self, *error):
        await self.tools.__aexit__(*error)

    async def order(self, article, call_id, session=None):
        return await self.tools.execute(
            "order", {"article": article}, session=session or self.session, call_id=call_id
        )

    async def hears_once_of_tea(self, first_id, next_id):
        """The order of the other process is told once; the next equal call runs."""
        assert (await self.order("tea", first_id)).result == "tea, ordered elsewhere"
        assert await self.tools.store.flush()
        assert (await self.order("tea", next_id)).result == "tea, ordered here"


@pytest.fixture
async def here(where):
    async with Here(where) as made:
        yield made


async def test_a_call_whose_process_has_died_is_not_run_again_under_another_id(where, here):
    with ordering(where) as child:
        orders_tea(child, "c1")
        child.kill()
        child.wait()
        refused = await here.order("tea", "c2")
        assert (refused.status, refused.reason_code) == ("unknown_outcome", "repeated_call")
        assert (await here.order("tea", "c3")).reason_code == "repeated_call"
        assert (await here.order("coffee", "c4")).ok
        assert here.ran == ["coffee"]


async def test_a_fallback_whose_process_has_died_is_not_run_again_under_another_id(where, here):
    arguments, session = {"article": "tea"}, here.session
    with ordering(where) as child:
        says(child, "ask tea c1")
        hears(child, "runs tea")
        child.kill()
        child.wait()
        refused = await here.tools.execute("ask", arguments, session=session, call_id="c2")
    assert (refused.status, refused.reason_code) == ("unknown_outcome", "repeated_call")
    assert here.ran == []


@pytest.mark.slow
async def test_it_runs_once_a_person_knows_of_the_call_that_was_interrupted(where, here):
    with ordering(where) as child:
        orders_tea(child, "c1")
        child.kill()
        child.wait()
        await here.tools.store.acknowledge(await here.tools.store.interrupted())
        assert (await here.order("tea", "c2")).ok


async def test_a_call_that_still_runs_elsewhere_is_answered_with_its_outcome(where, here):
    with ordering(where) as child:
        orders_tea(child, "c1")
        here.tools.store.begin(here.session)
        asked = asyncio.create_task(here.order("tea", "c2"))
        await here.order("coffee", "c3")
        assert not asked.done()
        says(child, "serve")
        assert (await asked).result == "tea, ordered elsewhere"
        assert here.ran == ["coffee"]


@pytest.mark.slow
async def test_an_outcome_after_the_move_is_told_once_and_the_next_equal_call_runs(where, here):
    with ordering(where) as child:
        orders_tea(child, "c1")
        here.tools.store.begin(here.session)
        serves(child)
        await here.hears_once_of_tea("c2", "c3")


@pytest.mark.slow
@pytest.mark.parametrize("ahead_seconds", [-600.0, 600.0])
async def test_a_clock_that_differs_gives_a_call_no_second_effect(where, here, ahead_seconds):
    with ordering(where, ahead_seconds=ahead_seconds) as child:
        orders_tea(child, "c1")
        assert (await here.order("coffee", "c2")).ok  # the session is bound
        serves(child)
        await here.hears_once_of_tea("c3", "c4")


@pytest.mark.parametrize("ahead_seconds", [-600.0, 600.0])
async def test_a_call_that_another_clock_dates_before_the_session_is_not_run_again(
    where, here, ahead_seconds
):
    assert (await here.order("coffee", "c1")).ok  # the session is bound
    with ordering(where, ahead_seconds=ahead_seconds) as child:
        orders_tea(child, "c2")
        serves(child)
        await here.hears_once_of_tea("c3", "c4")


@pytest.mark.slow
async def test_a_clock_that_is_ahead_makes_no_call_of_a_dead_process_one_of_the_same_time(
    where, here
):
    with ordering(where, ahead_seconds=600.0) as child:
        orders_tea(child, "c1")
        child.kill()
        child.wait()
        told = await here.order("tea", "c2")
    assert (told.status, told.reason_code) == ("unknown_outcome", "repeated_call")
    assert here.ran == []


@pytest.mark.slow
async def test_an_outcome_after_the_handle_was_not_heard_although_the_call_has_ended(where, here):
    here.session.get(Resumption).use("h1", at=time.time())
    with ordering(where) as child:
        orders_tea(child, "c1")
        serves(child)
        await here.hears_once_of_tea("c2", "c3")


@pytest.mark.slow
async def test_an_equal_call_after_one_that_has_ended_before_the_move_runs(where, here):
    with ordering(where) as child:
        orders_tea(child, "c1")
        serves(child)
        assert (await here.order("tea", "c2")).result == "tea, ordered here"


@pytest.mark.slow
async def test_a_call_that_outlives_its_conversation_is_answered_in_the_next_one(where, here):
    with ordering(where) as child:
        orders_tea(child, "c1")
        says(child, "leave")
        hears(child, "left")
        asked = asyncio.create_task(here.order("tea", "c2"))
        await here.order("coffee", "c3")
        says(child, "serve")
        assert (await asked).result == "tea, ordered elsewhere"
        assert here.ran == ["coffee"]


async def test_a_call_that_was_cut_off_as_its_process_stopped_is_not_simply_run_again(where, here):
    with ordering(where) as child:
        orders_tea(child, "c1")
        child.stdin.close()
        assert child.wait() == 0
        told = await here.order("tea", "c2")
        assert (told.status, told.reason_code) == ("unknown_outcome", "repeated_call")
        assert here.ran == []


async def test_a_call_that_was_cut_off_is_told_of_once_and_the_next_equal_call_runs(
    where, here, tell
):
    async with Store(where) as store:
        told = tell(store, now=time.time())
        told.session = ToolSession("kitchen", user="ana")
        told.run("order", status="cancelled", article="tea")
    assert (await here.order("tea", "c2")).reason_code == "repeated_call"
    assert await here.tools.store.flush()
    assert (await here.order("tea", "c3")).result == "tea, ordered here"


async def test_a_call_that_was_cancelled_in_this_process_may_be_made_again(here, tell):
    told = tell(here.tools.store, now=time.time() - 60)
    told.session = ToolSession("kitchen", user="ana")
    told.run("order", status="cancelled", article="tea")
    assert await here.tools.store.flush()
    assert (await here.order("tea", "c2")).ok


@pytest.mark.slow
@pytest.mark.parametrize("told", ["after the move", "before the move"])
async def test_a_call_that_went_on_after_a_barge_in_is_told_once_and_the_next_runs(where, told):
    begun, go_on, ordered = asyncio.Event(), asyncio.Event(), []

    @tool(effect="once", lane=None)
    async def order(article: str) -> str:
        begun.set()
        await go_on.wait()
        ordered.append(article)
        return f"{article}, ordered there"

    async with Here(where, order) as there:
        async with Script(there.tools.in_session(there.session)) as script:
            script.say(call("order", {"article": "tea"}, id="c1"))
            await begun.wait()
            script.say(cancellation("c1"))
            script.say(call("nothing", id="c0"))
            await script.until_answered("c0")
            go_on.set()
            if told == "before the move":
                script.say(call("order", {"article": "tea"}, id="c2"))
                await script.until_answered("c2")
        assert await there.tools.store.flush()
        async with Here(where) as here:
            here.session.get(Resumption).use("h1", at=time.time())
            if told == "after the move":
                assert (await here.order("tea", "c2")).result == "tea, ordered there"
            assert (await here.order("tea", "c3")).result == "tea, ordered here"
    assert (ordered, here.ran) == (["tea"], ["tea"])


async def test_calls_of_another_process_count_towards_the_limits_of_the_session(where):
    limits = {"policies": {"calls": {"per_session": 2}}}
    async with Here(where, **limits) as here:
        with ordering(where) as child:
            orders_tea(child, "c1")
            serves(child)
        assert (await here.order("coffee", "c2")).ok
        assert (await here.order("cocoa", "c3")).reason_code == "calls_per_session"
        assert (await here.order("cocoa", "c3", ToolSession("garden", user="ana"))).ok


@pytest.mark.slow
async def test_calls_before_the_move_count_for_their_minute(where):
    async with Here(where, tools={"order": {"calls_per_minute": 2}}) as here:
        for article in ("tea", "coffee"):
            assert (await here.order(article, article)).ok
        assert (await here.order("cocoa", "refused")).status == "limited"
        assert await here.tools.store.flush()
        moved = ToolSession("kitchen", user="ana")
        refused = await here.order("cocoa", "c3", moved)
        assert (refused.reason_code, refused.retryable) == ("calls_per_minute", True)


async def test_a_call_that_an_earlier_session_left_in_this_process_is_waited_for(where):
    begun, served = asyncio.Event(), asyncio.Event()

    @tool(effect="once", lane=None)
    async def order(article: str) -> str:
        begun.set()
        await served.wait()
        return f"{article}, ordered before"

    async with Here(where, order) as here:
        first = asyncio.create_task(here.order("tea", "c1"))
        await begun.wait()
        moved = ToolSession("kitchen", user="ana")
        here.tools.store.begin(moved)
        second = asyncio.create_task(here.order("tea", "c2", moved))
        served.set()
        assert (await first).result == (await second).result == "tea, ordered before"


@pytest.mark.slow
async def test_without_the_store_a_session_from_another_process_makes_no_such_call():
    ran = []

    @tool(effect="once")
    async def order(article: str) -> None:
        ran.append(article)

    nowhere = f"postgresql://ana@127.0.0.1:{free_port()}/kept"
    settings = {"store": {"enabled": True, "url": nowhere, "durable": True}}
    moved = ToolSession("kitchen", user="ana")
    moved.get(Resumption).use("h1", at=time.time())
    async with AdvancedToolProcessor([order], settings, builtin_tools=False) as tools:
        refused = await tools.execute("order", {"article": "tea"}, session=moved, call_id="c2")
        assert (refused.status, refused.reason_code) == ("unavailable", "not_recorded")
        await tools.execute("order", {"article": "coffee"}, session=ToolSession(), call_id="c3")
    assert ran == ["coffee"]


async def test_calls_of_other_sessions_and_users_do_not_count(where, here):
    with ordering(where) as child:
        orders_tea(child, "c1")
        child.kill()
        child.wait()
        for other in (ToolSession("kitchen", user="ben"), ToolSession("garden", user="ana")):
            for call_id in ("c1", "c2"):
                assert (await here.order("tea", call_id, other)).ok


async def test_calls_with_one_id_that_begin_in_two_processes_at_once_have_one_effect(where):
    async with Here(where) as one, Here(where) as another:
        for article in ("tea", "milk", "salt"):
            orders = [each.order(article, f"order {article}") for each in (one, another)]
            assert {each.status for each in await asyncio.gather(*orders)} <= {"ok", "unavailable"}
    assert sorted(one.ran + another.ran) == ["milk", "salt", "tea"]


@pytest.mark.parametrize("which", ["name", "id"])
async def test_what_is_too_long_for_the_store_is_told_apart_and_found_again(where, which):
    same, other = "x" * 200, "x" * 199 + "y"
    ran = []

    async def order(article: str) -> None:
        ran.append(article)

    for call_id in (same, same, other) if which == "id" else ("c1", "c1"):
        own = tool(order, name=same if which == "name" else "order", effect="once")
        async with Here(where, own) as here:
            await here.tools.execute(
                own.name, {"article": "tea"}, session=ToolSession("kitchen"), call_id=call_id
            )
    assert len(ran) == (2 if which == "id" else 1)
