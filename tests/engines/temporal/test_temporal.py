"""Calls as Temporal workflows, on a real server, in this process and in others."""

import asyncio
import dataclasses
import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import pytest
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from leonidas_tools import (
    RetryableError,
    Secret,
    ToolContext,
    ToolError,
    ToolRuntime,
    ToolSession,
    tool,
)
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.calls.call import ToolCall
from leonidas_tools.engines.base import Code, EngineCall, EngineLimits, TemporalConnection
from leonidas_tools.engines.temporal import TemporalEngine, connect, workflow_id
from leonidas_tools.engines.temporal_worker import temporal_worker
from tests.engines.temporal.conftest import started
from tests.engines.temporal.kills import kill

pytestmark = pytest.mark.slow  # a server and workers of its own

ONCE = EngineLimits(once=True, max_bytes=10_000, seconds=600.0)
AGAIN = dataclasses.replace(ONCE, once=False, retries=2)
HERE = Path(__file__).parent


def call(name, call_id, **arguments):
    return ToolCall(name=name, arguments=arguments, id=call_id, session=ToolSession("ana"))


def by_name(*_):
    raise AssertionError("the worker has the tool")


def work_of(name, call_id, *, limits, **arguments):
    code = Code(target=by_name, bind=by_name)
    return EngineCall(call=call(name, call_id, **arguments), code=code, limits=limits)


class Served:
    """A worker in this process, for tools of the test."""

    def __init__(self, server, *tools, settings=None):
        self.server, self.tools, self.settings = server, tools, settings

    async def __aenter__(self):
        self.runtime = ToolRuntime(self.tools, self.settings, builtin_tools=False)
        await self.runtime.__aenter__()
        client = await connect(self.server)
        self.worker = temporal_worker(
            self.runtime, client, task_queue=self.server.task_queue, grace_seconds=0.0
        )
        await self.worker.__aenter__()
        return TemporalEngine(self.server)

    async def __aexit__(self, *error):
        await self.worker.__aexit__(*error)
        await self.runtime.__aexit__(*error)


async def test_a_call_that_is_asked_again_has_one_effect_and_the_same_answer(server):
    paid = []

    @tool(effect="once", requires_approval=False)
    async def pay(order: str) -> dict:
        paid.append(order)
        return {"paid": order}

    async with Served(server, pay) as engine:
        asked = [engine.run(work_of("pay", "a", order="tea", limits=ONCE)) for _ in range(5)]
        answers = [*await asyncio.gather(*asked)]
        answers.append(
            await TemporalEngine(server).run(work_of("pay", "a", order="tea", limits=ONCE))
        )
    assert [answer.result for answer in answers] == [{"paid": "tea"}] * 6
    assert paid == ["tea"]


async def test_another_call_with_the_same_id_is_refused_instead_of_answered_by_the_first(server):
    paid = []

    @tool(effect="once", requires_approval=False)
    async def pay(order: str) -> None:
        paid.append(order)
        if order == "tea":
            raise ToolError("There is no tea.")

    async with Served(server, pay) as engine:
        with pytest.raises(ToolError, match="There is no tea"):
            await engine.run(work_of("pay", "a", order="tea", limits=ONCE))
        with pytest.raises(ToolError) as refused:
            await engine.run(work_of("pay", "a", order="coffee", limits=ONCE))
    assert refused.value.reason_code == "call_id_reused"
    assert paid == ["tea"]


async def test_a_call_of_another_user_with_the_same_ids_is_not_answered_by_the_first(server):
    paid = []

    @tool(effect="once", requires_approval=False)
    async def pay(order: str, ctx: ToolContext) -> str:
        paid.append(ctx.session.user)
        return f"receipt of {order}"

    by_policy = ToolSession("ana")
    by_policy.put(SessionPolicy(user="eve"))
    sessions = [by_policy, ToolSession("ana"), ToolSession("ana", user="ana")]
    config, answers = settings(server, pay={"runs_on": "temporal"}), []
    async with (
        Served(server, pay),
        ToolRuntime([pay], config, builtin_tools=False) as runtime,
    ):
        for session in sessions:
            asked = {"session": session, "call_id": "a"}
            answers.append(await runtime.execute("pay", {"order": "tea"}, **asked))
        for session in (by_policy, sessions[-1]):
            asked = {"session": session, "call_id": "a"}
            answers.append((await runtime.outcome("pay", {"order": "***"}, **asked))[1])
    refused = "call_id_reused"
    assert [each.reason_code for each in answers] == [None, refused, refused, None, refused]
    assert paid == ["eve"]


def test_ids_with_slashes_are_of_their_own_session():
    ids = [("ana", "b/c"), ("ana/b", "c"), ("ana", "b"), ("ana/b", "")]
    made = {
        workflow_id(ToolCall(name="pay", id=call_id, session=ToolSession(session)))
        for session, call_id in ids
    }
    assert len(made) == len(ids)


async def test_calls_without_an_id_are_calls_of_their_own(server):
    paid = []

    @tool(effect="once", requires_approval=False)
    def pay(order: str) -> int:
        paid.append(order)
        return len(paid)

    async with Served(server, pay) as engine:
        answers = [
            await engine.run(work_of("pay", None, order="tea", limits=ONCE)) for _ in range(2)
        ]
    assert [answer.result for answer in answers] == [1, 2]


async def test_what_a_tool_raises_arrives_with_all_its_fields(server):
    @tool(effect="once")
    async def order(article: str) -> None:
        raise ToolError(
            "The shop is closed.",
            status="unavailable",
            retry_hint="Ask after nine.",
            reason_code="closed",
            valid_options=["tea"],
        )

    @tool
    async def broken() -> None:
        raise LookupError("a secret")

    async with Served(server, order, broken) as engine:
        with pytest.raises(ToolError) as raised:
            await engine.run(work_of("order", "a", article="tea", limits=ONCE))
        with pytest.raises(LookupError) as unknown:
            await engine.run(work_of("broken", "b", limits=ONCE))
    assert vars(raised.value) == {
        "message": "The shop is closed.",
        "status": "unavailable",
        "retryable": False,
        "retry_hint": "Ask after nine.",
        "reason_code": "closed",
        "valid_options": ["tea"],
    }
    assert "secret" not in str(unknown.value)


async def test_a_secret_of_the_worker_is_masked_in_what_a_tool_raises(server, monkeypatch):
    monkeypatch.setenv("SHOP_KEY", "zebra-4711-of-the-worker")

    @tool(effect="once")
    async def order(code: Annotated[str, Secret], ctx: ToolContext) -> None:
        key = ctx.parameters["key"]
        said = f"{key} and {code} were refused."
        raise ToolError(said, retry_hint=f"Not {key}.", valid_options=[key])

    settings = {"tools": {"order": {"custom_parameters": {"key": "${SHOP_KEY}"}}}}
    async with Served(server, order, settings=settings) as engine:
        with pytest.raises(ToolError) as raised:
            await engine.run(work_of("order", "a", code="giraffe-8815", limits=ONCE))
    said = raised.value
    told = (said.message, said.retry_hint, said.valid_options)
    assert told == ("*** and *** were refused.", "Not ***.", ["***"])


async def test_a_failure_is_retried_where_the_effect_allows_it(server):
    tries = {"read": 0, "once": 0, "safe": 0}

    @tool(effect="read")
    async def read() -> str:
        tries["read"] += 1
        if tries["read"] < 3:
            raise ToolError("Not now.", retryable=True)
        return "read"

    @tool(effect="once")
    async def write() -> str:
        tries["once"] += 1
        raise ToolError("Not now.", retryable=True)

    @tool(effect="once")
    async def locked() -> str:
        tries["safe"] += 1
        if tries["safe"] < 3:
            raise RetryableError("It is locked.")
        return "written"

    async with Served(server, read, write, locked) as engine:
        quick = dataclasses.replace(AGAIN, delay_seconds=0.001)
        assert (await engine.run(work_of("read", "a", limits=quick))).result == "read"
        once = dataclasses.replace(quick, once=True)
        with pytest.raises(ToolError, match="Not now"):
            await engine.run(work_of("write", "b", limits=once))
        assert (await engine.run(work_of("locked", "c", limits=once))).result == "written"
    assert tries == {"read": 3, "once": 1, "safe": 3}


async def test_cancelling_a_call_stops_its_tool(server):
    begun, stopped = asyncio.Event(), asyncio.Event()

    @tool(effect="once")
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.set()

    async with Served(dataclasses.replace(server, heartbeat_seconds=1.5), wait) as engine:
        running = asyncio.create_task(engine.run(work_of("wait", "a", limits=ONCE)))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await stopped.wait()
        with pytest.raises(ToolError) as ended:
            await engine.run(work_of("wait", "a", limits=ONCE))
    assert ended.value.status == "unknown_outcome"


async def test_a_call_that_is_cancelled_before_a_worker_takes_it_never_runs(server):
    paid = []

    @tool(effect="once", requires_approval=False)
    async def pay(order: str) -> None:
        paid.append(order)

    engine = TemporalEngine(server)
    asking = asyncio.create_task(engine.run(work_of("pay", "a", order="tea", limits=ONCE)))
    handle = (await connect(server)).get_workflow_handle(workflow_id(call("pay", "a")))
    while not await exists(handle):
        await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    async with Served(server, pay):
        with pytest.raises(ToolError):
            await engine.run(work_of("pay", "a", order="tea", limits=ONCE))
        await engine.run(work_of("pay", "b", order="coffee", limits=ONCE))
    assert paid == ["coffee"]


async def exists(handle):
    from temporalio.service import RPCError

    try:
        await handle.describe()
    except RPCError:
        return False
    return True


async def test_a_call_that_no_worker_takes_is_unavailable_and_does_not_run_later(server):
    paid = []

    @tool(effect="once", requires_approval=False)
    async def pay(order: str) -> None:
        paid.append(order)

    hasty = TemporalEngine(dataclasses.replace(server, begin_seconds=0.1))
    for _ in range(2):
        with pytest.raises(RetryableError, match="no worker") as raised:
            await hasty.run(work_of("pay", "a", order="tea", limits=ONCE))
        assert raised.value.status == "unavailable"
    async with Served(server, pay) as engine:
        await engine.run(work_of("pay", "b", order="coffee", limits=ONCE))
    assert paid == ["coffee"]


async def test_a_call_that_cannot_be_taken_back_is_waited_for(server, monkeypatch):
    paid = []

    @tool(effect="once", requires_approval=False)
    async def pay(order: str) -> str:
        paid.append(order)
        return f"{order} paid"

    tried = asyncio.Event()

    async def fails(*_: object, **__: object) -> None:
        tried.set()
        raise RPCError("lost", RPCStatusCode.UNAVAILABLE, b"")

    monkeypatch.setattr(WorkflowHandle, "terminate", fails)
    hasty = TemporalEngine(dataclasses.replace(server, begin_seconds=0.1))
    limits = dataclasses.replace(ONCE, seconds=60.0)
    asked = asyncio.create_task(hasty.run(work_of("pay", "a", order="tea", limits=limits)))
    await tried.wait()
    async with Served(server, pay):
        assert (await asked).result == "tea paid"
    assert paid == ["tea"]


async def test_a_server_that_is_away_makes_a_call_unavailable(server, monkeypatch):
    for variable in ("TEMPORAL_ADDRESS", "TEMPORAL_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    for place, says in ((TemporalConnection(), "TEMPORAL_ADDRESS"), (nobody(), "does not respond")):
        with pytest.raises(RetryableError, match=says) as raised:
            await TemporalEngine(place).run(work_of("pay", "a", limits=ONCE))
        assert raised.value.status == "unavailable"


def nobody():
    return TemporalConnection(address="127.0.0.1:1", connect_seconds=30.0)


# --- through a runtime -----------------------------------------------------------------------


def settings(server, **tools):
    """Return settings for a server, as a file has them."""
    temporal = {
        "address": server.address,
        "connect": server.connect_seconds,
        "begin": server.begin_seconds,
        "heartbeat": server.heartbeat_seconds,
    }
    return {"temporal": temporal, "tools": tools}


async def test_a_tool_of_the_settings_runs_in_a_worker_and_reports_its_progress(server):
    seen, told = asyncio.Event(), []

    @tool(effect="once", retry_attempts=1, requires_approval=False)
    async def pay(order: str, ctx: ToolContext) -> dict:
        ctx.progress("Asking the bank", fraction=0.5)
        await seen.wait()
        return {"paid": order, "session": ctx.session.id}

    async with Served(server, pay):
        config = settings(server, pay={"runs_on": "temporal", "timeout": 600})
        runtime = ToolRuntime([pay], config, builtin_tools=False)

        def hear(event):
            if event.kind == "tool_progress":
                told.append(event.data)
                seen.set()

        async with runtime:
            runtime.monitor.subscribe(hear)
            session = ToolSession("ana")
            result = await runtime.execute("pay", {"order": "tea"}, session=session, call_id="a")
            assert result.result == {"paid": "tea", "session": "ana"}
            assert told == [{"message": "Asking the bank", "fraction": 0.5}]
            again = ToolSession("ana")
            result = await runtime.execute("pay", {"order": "tea"}, session=again, call_id="a")
            assert result.result == {"paid": "tea", "session": "ana"}


async def test_a_call_goes_on_when_its_runtime_closes_and_answers_the_next_one(server):
    begun, go_on, runs = asyncio.Event(), asyncio.Event(), []

    @tool(effect="once", runs_on="temporal", timeout_seconds=600, requires_approval=False)
    async def pay(order: str) -> str:
        runs.append(order)
        begun.set()
        await go_on.wait()
        return "paid"

    async with Served(server, pay):
        async with ToolRuntime([pay], settings(server), builtin_tools=False) as first:
            asking = asyncio.create_task(
                first.execute("pay", {"order": "tea"}, session=ToolSession("ana"), call_id="a")
            )
            await begun.wait()
        assert (await asking).status == "cancelled"
        go_on.set()
        async with ToolRuntime([pay], settings(server), builtin_tools=False) as second:
            result = await second.execute(
                "pay", {"order": "tea"}, session=ToolSession("ana"), call_id="a"
            )
        assert result.result == "paid"
    assert runs == ["tea"]


class Interrupted:
    """A call of a session whose process is killed while the call runs."""

    def __init__(self, server, folder):
        self.begun, self.go_on, self.runs = asyncio.Event(), asyncio.Event(), []

        @tool(effect="once", runs_on="temporal", timeout_seconds=600, requires_approval=False)
        async def pay(order: str) -> str:
            self.runs.append(order)
            self.begun.set()
            await self.go_on.wait()
            return f"paid {len(self.runs)}"

        self.pay, self._server, self._store = pay, server, str(folder / "store.db")

    async def __aenter__(self):
        self._served = Served(self._server, self.pay)
        await self._served.__aenter__()
        async with Program("-m", "tests.engines.temporal.dying_session", json.dumps(self.settings)):
            await self.begun.wait()
        return self

    async def __aexit__(self, *error):
        await self._served.__aexit__(*error)

    @property
    def settings(self):
        store = {"enabled": True, "url": self._store, "durable": True}
        return {**settings(self._server), "store": store}

    def elsewhere(self):
        return ToolRuntime([self.pay], self.settings, builtin_tools=False)

    async def ended(self):
        """Wait for the end of the call in Temporal."""
        await (await self._workflow()).result()

    async def is_cancelled(self):
        """Return whether a process has asked Temporal to cancel the call."""
        events = (await (await self._workflow()).fetch_history()).events
        cancel = "workflow_execution_cancel_requested_event_attributes"
        return any(event.HasField(cancel) for event in events)

    async def _workflow(self):
        client = await connect(self._server)
        return client.get_workflow_handle(workflow_id(call("pay", "a")))


def told_by(runtime):
    """Begin the session again, as a live session does, and return what it is told."""
    session, told = ToolSession("ana"), asyncio.Queue()
    runtime.begin(session)
    runtime.notices.join(session, lambda call, result: told.put_nowait((call, result)))
    return told


async def test_a_session_that_was_killed_has_the_outcome_of_its_call_where_it_asks_again(
    server, tmp_path
):
    async with Interrupted(server, tmp_path) as first, first.elsewhere() as runtime:
        session, order = ToolSession("ana"), {"order": "tea"}
        asking = asyncio.create_task(runtime.execute("pay", order, session=session, call_id="b"))
        first.go_on.set()
        assert (await asking).result == "paid 1"
        again = await runtime.execute("pay", order, session=session, call_id="a")
        assert again.result == "paid 1"
        new = await runtime.execute("pay", order, session=session, call_id="c")
        assert new.result == "paid 2"
        assert await runtime.store.interrupted() == []


async def test_a_session_that_was_killed_is_told_the_outcome_of_its_call_elsewhere(
    server, tmp_path
):
    async with Interrupted(server, tmp_path) as first, first.elsewhere() as runtime:
        session, told = ToolSession("ana"), asyncio.Queue()
        stranger = ToolSession("ana", user="eve")
        for each in (stranger, session):  # as a live session does
            runtime.begin(each)
            runtime.notices.join(each, lambda call, result: told.put_nowait((call, result)))
        first.go_on.set()
        call, result = await told.get()
        assert (call.session, call.name, call.arguments) == (session, "pay", {"order": "tea"})
        assert (result.status, result.result) == ("ok", "paid 1")
        again = await runtime.execute("pay", {"order": "tea"}, session=session, call_id="b")
        assert again.result == "paid 1"
        assert told.empty()
    assert first.runs == ["tea"]


async def test_a_call_that_ended_while_no_process_had_its_session_is_told_to_the_next(
    server, tmp_path
):
    async with Interrupted(server, tmp_path) as first:
        first.go_on.set()
        await first.ended()
        async with first.elsewhere() as runtime:
            _, result = await told_by(runtime).get()
            assert (result.status, result.result) == ("ok", "paid 1")
    assert first.runs == ["tea"]


async def test_a_process_that_stops_while_it_waits_leaves_the_call_to_the_next(
    server, tmp_path, monkeypatch
):
    waits, wait = asyncio.Event(), TemporalEngine._wait_for_outcome

    async def waiting(*args):
        waits.set()
        return await wait(*args)

    monkeypatch.setattr(TemporalEngine, "_wait_for_outcome", waiting)
    async with Interrupted(server, tmp_path) as first:
        async with first.elsewhere() as second:
            told = told_by(second)
            await waits.wait()
        assert told.empty()
        assert not await first.is_cancelled()
        first.go_on.set()
        async with first.elsewhere() as third:
            _, result = await told_by(third).get()
            assert (result.status, result.result) == ("ok", "paid 1")
    assert first.runs == ["tea"]


async def test_a_call_that_the_server_has_forgotten_is_told_as_of_unknown_outcome(server, tmp_path):
    async with Interrupted(server, tmp_path) as first:
        another = await started()
        try:
            address = another.client.service_client.config.target_host
            place = {**first.settings["temporal"], "address": address}
            other = {**first.settings, "temporal": place}
            async with (
                Served(dataclasses.replace(server, address=address), first.pay),
                ToolRuntime([first.pay], other, builtin_tools=False) as runtime,
            ):
                _, result = await told_by(runtime).get()
                assert result.status == "unknown_outcome"
        finally:
            await another.shutdown()
    assert first.runs == ["tea"]


async def test_failures_of_a_worker_read_as_those_of_a_tool_here(server):
    @tool(effect="once", runs_on="temporal")
    async def order(article: str) -> None:
        raise ToolError("The shop is closed.", retry_hint="Ask after nine.")

    async with (
        Served(server, order),
        ToolRuntime([order], settings(server), builtin_tools=False) as runtime,
    ):
        there = await runtime.execute("order", {"article": "tea"}, call_id="a")
    here = ToolRuntime([order], {"tools": {"order": {"runs_on": "here"}}}, builtin_tools=False)
    assert there == await here.execute("order", {"article": "tea"})


async def test_a_tool_is_unavailable_while_the_server_is_away():
    @tool(effect="once", runs_on="temporal", requires_approval=False)
    async def pay(order: str) -> None:
        raise AssertionError

    runtime = ToolRuntime([pay], settings(nobody()), builtin_tools=False)
    result = await runtime.execute("pay", {"order": "tea"})
    assert result.status == "unavailable"
    assert "does not respond" in result.message


# --- other processes -------------------------------------------------------------------------


@pytest.fixture
def room(tmp_path, monkeypatch):
    """Return the directory with the ledger, and settings that load its tools."""
    monkeypatch.setenv("LEDGER_ROOM", str(tmp_path))
    (tmp_path / "ledger_tools.py").write_bytes((HERE / "ledger.py").read_bytes())
    (tmp_path / "tools.yaml").write_text("toolboxes: [ledger_tools]\n")
    return tmp_path


class Program:
    """A process of ours, killed at the end."""

    def __init__(self, *words):
        self.words = words

    async def __aenter__(self):
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self.words,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=os.environ,
        )
        return self

    async def until(self, text):
        said = b""
        while text.encode() not in said:
            line = await self.process.stdout.readline()
            assert line, said.decode()
            said += line

    async def kill(self):
        self.process.kill()
        await self.process.wait()

    async def __aexit__(self, *error):
        if self.process.returncode is None:
            await self.kill()


def worker(room, server):
    settings = ("--config", str(room / "tools.yaml"), "--address", server.address)
    return Program("-m", "leonidas_tools", "worker", *settings)


async def line_in(ledger, text):
    """Wait until the ledger has such a line."""
    while not ledger.exists() or text not in ledger.read_text():
        await asyncio.sleep(0.02)


async def test_the_worker_command_serves_the_tools_of_the_settings_until_sigterm(server, room):
    async with worker(room, server) as program:
        await program.until("Running calls")
        result = await TemporalEngine(server).run(work_of("pay", "a", order="tea", limits=ONCE))
        assert result.result == {"paid": "tea"}
        program.process.send_signal(signal.SIGTERM)
        assert await program.process.wait() == 0


async def test_the_worker_command_finds_its_server_and_its_queue_in_the_settings(server, room):
    file = room / "tools.yaml"
    place = f"{{address: {json.dumps(server.address)}, task_queue: mine, connect: 30s}}"
    file.write_text(f"{file.read_text()}temporal: {place}\n")
    async with Program("-m", "leonidas_tools", "worker", "--config", str(file)) as program:
        await program.until(f"Running calls of the task queue 'mine' at {server.address}")


async def test_an_effect_that_a_killed_worker_has_begun_is_never_begun_again(server, room):
    server = dataclasses.replace(server, heartbeat_seconds=2.0)
    async with worker(room, server) as first, worker(room, server) as second:
        await first.until("Running calls")
        engine = TemporalEngine(server)
        asking = asyncio.create_task(engine.run(work_of("wait", "a", order="tea", limits=ONCE)))
        await line_in(room / "ledger", "tea begun")
        await second.until("Running calls")
        taken_by = int((room / "ledger").read_text().split()[-1])
        victim = first if first.process.pid == taken_by else second
        await victim.kill()
        with pytest.raises(ToolError) as raised:
            await asking
        assert raised.value.status == "unknown_outcome"
        assert raised.value.reason_code == "worker_died"
        with pytest.raises(ToolError):
            await engine.run(work_of("wait", "a", order="tea", limits=ONCE))
    assert (room / "ledger").read_text().count("begun") == 1


async def test_an_idempotent_call_of_a_killed_worker_runs_on_another(server, room):
    server = dataclasses.replace(server, heartbeat_seconds=2.0)
    async with worker(room, server) as first:
        await first.until("Running calls")
        engine = TemporalEngine(server)
        asking = asyncio.create_task(engine.run(work_of("deliver", "a", order="tea", limits=AGAIN)))
        await line_in(room / "ledger", "tea")
        await first.kill()
        async with worker(room, server):
            assert (await asking).result == "delivered"
    assert (room / "ledger").read_text().count("tea") == 2


@pytest.mark.timeout(600)
async def test_nothing_is_paid_twice_when_sessions_and_workers_are_killed(tmp_path):
    seen = await kill(tmp_path, times=3, seed=None)
    assert not list(seen.problems())
