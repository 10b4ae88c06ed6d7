"""A conversation whose user a proxy moves from one process to another, in the middle of a call."""

import asyncio
import contextlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from leonidas_tools.gateway import make_token
from leonidas_tools.simulator import FunctionCall, LiveSimulator, Scenario
from leonidas_tools.store import Store
from tests.gateway.served import SECRET, Client

pytestmark = pytest.mark.slow  # each test starts two gateways

ROOT = Path(__file__).parents[2]
TEA = {"article": "tea"}


class Process:
    """One of the two; what it says is read line by line."""

    def __init__(self, name, store, simulator):
        self.child = subprocess.Popen(
            [sys.executable, "-m", "tests.gateway.one_of_two", name, store],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **simulator.environment()},
        )

    async def says(self):
        line = await asyncio.to_thread(self.child.stdout.readline)
        assert line, "the process has ended"
        return line.strip()

    def serve(self):
        self.child.stdin.write("serve\n")
        self.child.stdin.flush()

    def kill(self):
        self.child.kill()
        self.child.wait()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.child.kill()
        self.child.__exit__(*error)


class Proxy:
    """Passes connections on to one process, and drops them all when it is to be another."""

    def __init__(self):
        self._to = None
        self._passing = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"ws://{host}:{port}/conversation"
        return self

    async def __aexit__(self, *error):
        self._server.close()
        await self.lead_to(None)

    async def lead_to(self, address):
        self._to = address
        for task in self._passing:
            task.cancel()
        if self._passing:
            await asyncio.wait(self._passing)

    async def _pass(self, reader, writer):
        self._passing.add(asyncio.current_task())
        host, _, port = self._to.removeprefix("http://").partition(":")
        try:
            from_process, to_process = await asyncio.open_connection(host, int(port))
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(copied(reader, to_process))
                    group.create_task(copied(from_process, writer))
            finally:
                to_process.transport.abort()
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # the connection is dropped
        finally:
            writer.transport.abort()
            self._passing.discard(asyncio.current_task())


async def copied(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


class Moves:
    """Two processes with one store and one model, and a proxy in front of them."""

    def __init__(self, store, *connections):
        self.store = store
        self.simulator = LiveSimulator(Scenario(connections=connections), speed=math.inf)
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self):
        await self._stack.enter_async_context(self.simulator)
        self.first, self.second = (
            self._stack.enter_context(Process(each, self.store, self.simulator)) for each in "AB"
        )
        self.proxy = await self._stack.enter_async_context(Proxy())
        await self.proxy.lead_to(await self.first.says())
        self._second = await self.second.says()
        return self

    async def __aexit__(self, *error):
        await self._stack.aclose()

    @contextlib.asynccontextmanager
    async def client(self, **start):
        headers = {"Authorization": f"Bearer {make_token(SECRET, 'ana')}"}
        async with connect(
            self.proxy.address, additional_headers=headers, proxy=None, open_timeout=None,
            close_timeout=0.1,
        ) as websocket:  # fmt: skip
            client = Client(websocket)
            await client.say("start", **start)
            client.ready = await client.until("ready")
            yield client

    async def move(self, client):
        """Drop the connection of a client, which is led to the other process from now on."""
        await self.proxy.lead_to(self._second)
        await client.closed()
        await self.simulator.finished(1)  # the first process has left the model


async def asks_for_tea(session):
    await session.wait_for_input("text")
    await session.session_resumption("h1")
    await session.send_calls(FunctionCall("order", TEA, id="c1"))
    await session.wait_for_close()


def asks_again(answers):
    """The model that has heard of no outcome: it makes the call again, and then another."""

    async def second(session):
        assert session.resumed_from == 1
        answers.extend(await session.call(FunctionCall("order", TEA, id="c2")))
        answers.extend(await session.call(FunctionCall("pay", {"amount": 5}, id="c3")))
        await session.say("Done.")
        await session.turn_complete()
        await session.wait_for_close()

    return second


async def begun(moves, client):
    """The user orders tea with A, and has said before that payments need no question."""
    await client.say("text", text="Order tea.")
    resumption = await client.until("resumption")
    assert await moves.first.says() == "A runs tea"
    async with Store(moves.store) as store:
        await store.preferences.write("ana", {"mode": "autonomous"})
    return resumption["token"]


async def history(moves, session):
    async with Store(moves.store) as store:
        calls = await store.executions(session=session, newest_first=False)
    return [(call.tool, call.call_id) for call in calls]


@pytest.mark.parametrize("where", ["postgresql"], indirect=True)
async def test_a_call_goes_on_where_it_runs_and_is_answered_once_where_the_user_is(where):
    answers = []
    async with Moves(where, asks_for_tea, asks_again(answers)) as moves:
        async with moves.client() as client:
            session = client.ready["session"]
            token = await begun(moves, client)
            await moves.move(client)
        async with moves.client(resume=token) as client:
            assert (client.ready["session"], client.ready["resumed"]) == (session, True)
            await client.until("tool", event="tool_start", tool="order")
            moves.first.serve()
            await client.until("turn_complete")
        assert [answer.response["result"] for answer in answers] == [
            "tea, ordered by A",
            "5 paid by B",
        ]
        assert await history(moves, session) == [("order", "c1"), ("order", "c2"), ("pay", "c3")]


@pytest.mark.parametrize("where", ["postgresql"], indirect=True)
async def test_a_call_of_a_process_that_is_killed_is_not_run_by_the_other(where):
    answers = []
    async with Moves(where, asks_for_tea, asks_again(answers)) as moves:
        async with moves.client() as client:
            session = client.ready["session"]
            token = await begun(moves, client)
            moves.first.kill()
            await moves.move(client)
        async with moves.client(resume=token) as client:
            await client.until("turn_complete")
        refused, paid = (answer.response for answer in answers)
        assert (refused["status"], refused["reason_code"]) == ("unknown_outcome", "repeated_call")
        assert paid["result"] == "5 paid by B"
        assert await history(moves, session) == [("order", "c1"), ("order", "c2"), ("pay", "c3")]


async def asks_to_pay(session):
    await session.wait_for_input("text")
    await session.call(FunctionCall("pay", {"amount": 5}, id="c1"))
    await session.session_resumption("h1")  # it knows that the call waits, and does not repeat it
    await session.wait_for_close()


async def has_paid(session):
    await session.wait_for_input("text", containing="5 paid by B", within_seconds=60)
    await session.say("Paid.")
    await session.turn_complete()
    await session.wait_for_close()


async def asked(client):
    """The user wants to pay; return the question of A, and the token to go on with."""
    await client.say("text", text="Pay.")
    question = await client.until("question")
    return question, (await client.until("resumption"))["token"]


@pytest.mark.parametrize("where", ["postgresql"], indirect=True)
@pytest.mark.parametrize("end", ["leaves", "dies"])
async def test_an_open_question_goes_on_where_the_user_is_without_another_call(where, end):
    async def is_told_to_ask(session):
        await session.wait_for_input("text", containing="approval_id", within_seconds=60)
        await session.say("Shall I?")
        await session.turn_complete()
        await has_paid(session)

    async with Moves(where, asks_to_pay, is_told_to_ask) as moves:
        async with moves.client() as client:
            before, token = await asked(client)
            if end == "dies":
                await is_written(moves, client)
                moves.first.kill()
            await moves.move(client)
        async with moves.client(resume=token) as client:
            again = await client.until("question")
            shown = ("id", "tool", "title", "details")
            assert [again[key] for key in shown] == [before[key] for key in shown]
            await client.until("turn_complete")
            await client.say("answer", question=before["id"], approve=True)
            await client.until("transcript", who="agent", text="Paid.")
            await client.say("answer", question=before["id"], approve=True)
            await client.until("problem", question=before["id"])
        assert await history(moves, client.ready["session"]) == [("pay", "c1")] * 3


async def is_written(moves, client):
    """Wait until the store has the call that waits, as long before the user answers."""
    async with Store(moves.store) as store:
        while not await store.executions(
            session=client.ready["session"], status="pending_approval"
        ):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("where", ["postgresql"], indirect=True)
async def test_a_question_that_moves_is_asked_aloud_again_and_a_yes_from_before_does_not_count(
    where,
):
    answers = []

    async def first(session):
        await session.wait_for_input("text")
        (pending,) = await session.call(FunctionCall("pay", {"amount": 5}, id="c1"))
        await session.say(pending.response["result"]["ask"])
        await session.turn_complete()
        await session.input_transcription("Yes.")
        await session.session_resumption("h1")
        await session.wait_for_close()

    async def second(session):
        (text,) = await session.wait_for_input("text", containing="approval_id", within_seconds=60)
        told = json.loads(text.text[text.text.index("{") :])["response"]["result"]
        approval, ask = told["approval_id"], told["ask"]
        answers.append(await confirms(session, approval, "c2"))
        await session.say(ask)
        await session.turn_complete()
        await session.input_transcription("Yes.")
        answers.append(await confirms(session, approval, "c3"))
        await session.say("Paid.")
        await session.turn_complete()
        await session.wait_for_close()

    async with Moves(where, first, second) as moves:
        async with moves.client() as client:
            _, token = await asked(client)
            await moves.move(client)
        async with moves.client(resume=token) as client:
            await client.until("transcript", who="agent", text="Paid.")
    assert [answer["status"] == "ok" for answer in answers] == [False, True]
    assert answers[1]["result"]["result"] == "5 paid by B"


async def confirms(session, approval, call_id):
    arguments = {"approval_id": approval, "decision": "yes"}
    (answer,) = await session.call(FunctionCall("confirm_action", arguments, id=call_id))
    return answer.response


@pytest.mark.parametrize("where", ["postgresql"], indirect=True)
async def test_a_call_that_is_made_again_where_the_user_is_shares_the_open_question(where):
    answers = []

    async def asks_to_pay_again(session):
        answers.extend(await session.call(FunctionCall("pay", {"amount": 5}, id="c2")))
        await session.say("Shall I?")
        await session.turn_complete()
        await has_paid(session)

    async with Moves(where, asks_to_pay, asks_to_pay_again) as moves:
        async with moves.client() as client:
            open_on_a, token = await asked(client)
            await moves.move(client)
        async with moves.client(resume=token) as client:
            open_on_b = await client.until("question")
            await client.until("turn_complete")
            await client.say("answer", question=open_on_b["id"], approve=True)
            await client.until("transcript", who="agent", text="Paid.")
        assert [answer.response["status"] for answer in answers] == ["pending_approval"]
        assert open_on_a["title"] == open_on_b["title"]
