"""A question that nobody has answered goes on with its conversation, in another process too."""

import asyncio
import time
from types import SimpleNamespace
from typing import Annotated

import pytest

from leonidas_tools import (
    Approvals,
    Decision,
    Secret,
    SessionPolicy,
    ToolRuntime,
    ToolSession,
    tool,
)
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.errors import ToolDeniedError
from leonidas_tools.rules.rule import Mode
from leonidas_tools.session.resumption import Resumption
from leonidas_tools.store import outbox
from leonidas_tools.store.queries import find_execution

FIVE = {"amount": 5}


class Bank:
    """A process: a runtime with the store of all, and the conversation as it goes on in it."""

    def __init__(self, where, paid, *, description="Pay.", extra=(), channel=None, **policies):
        @tool(effect="once", requires_approval=True, description=description)
        async def pay(amount: int) -> str:
            paid.append(amount)
            return f"{amount} paid"

        @tool(effect="once", requires_approval=True)
        async def withdraw(amount: int, pin: Annotated[str, Secret]) -> str:
            paid.append(amount)
            return f"{amount} withdrawn with {pin}"

        store = {"enabled": True, "url": where, "durable": True}
        settings = {"store": store, "policies": policies}
        self.runtime = ToolRuntime([pay, withdraw, *extra], settings, approval=channel)
        self.told = asyncio.Queue()
        self._leave = None

    async def __aenter__(self):
        await self.runtime.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self.runtime.__aexit__(*error)

    def begin(self, *, user="ana"):
        """Go on with the conversation, as a live session does."""
        self.session = ToolSession("kitchen", user=user)
        self.session.get(Resumption).use("h1", at=time.time())
        self.desk = self.session.get(Approvals)
        tell = self.told.put_nowait
        self.desk.on_result(lambda _, result: tell(result))
        self._leave = self.runtime.notices.join(self.session, lambda _, result: tell(result))
        return self

    async def ask(self, call_id="c1", name="pay", **more):
        """Let the model call; return the id of the question."""
        given = {**FIVE, **more}
        result = await self.runtime.execute(name, given, session=self.session, call_id=call_id)
        assert result.status == "pending_approval"
        return result.result["approval_id"]

    async def leave(self):
        """End the conversation here, as a live session does."""
        self._leave()
        self.desk.withdraw_all()
        await self.flush()

    async def flush(self):
        await self.runtime.store.flush(timeout_seconds=60)

    async def yes(self, approval):
        """Answer yes; return what the model is told."""
        self.desk.decide(approval, Decision.approve())
        return await self.told.get()

    async def asks_nothing(self):
        """Return whether a conversation that has begun asks nothing again."""
        left = await self.runtime.store.left_questions(self.session)
        return left == [] and self.desk.pending() == []


@pytest.fixture
def paid():
    return []


async def test_a_question_is_asked_again_by_itself_and_its_yes_lets_the_call_run_once(where, paid):
    async with Bank(where, paid) as a, Bank(where, paid) as b:
        asked = await a.begin().ask()
        (before,) = a.desk.pending()
        await a.leave()
        told = await b.begin().told.get()
        (again,) = b.desk.pending()
        assert (told.status, told.result["approval_id"]) == ("pending_approval", asked)
        assert (again.id, again.hash, again.title) == (asked, before.hash, before.title)
        assert paid == []
        assert (await b.yes(asked)).result["result"] == "5 paid"
        assert paid == [5]
        with pytest.raises(ToolDeniedError):
            b.desk.decide(asked, Decision.approve())
        await b.leave()
        assert await a.begin().asks_nothing()


async def test_a_question_is_stored_without_waiting_for_more_to_store(where, paid, monkeypatch):
    monkeypatch.setattr(outbox, "_GATHERING_SECONDS", 3600)
    async with Bank(where, paid) as a, Bank(where, paid) as b:
        a.session = ToolSession("kitchen", user="ana")
        asked = await a.ask()
        async with asyncio.timeout(60):
            while not (found := await b.runtime.store.approvals.find(session="kitchen")):
                await asyncio.sleep(0)
        assert [each.id.rpartition("-")[2] for each in found] == [asked]


async def test_a_yes_as_soon_as_the_question_is_shown_again_lets_the_call_run_once(where, paid):
    async with Bank(where, paid) as a, Bank(where, paid) as b:
        asked = await a.begin().ask()
        await a.leave()
        b.begin()
        b.desk.on_change(lambda: b.desk.pending() and b.desk.decide(asked, Decision.approve()))
        assert (await b.told.get()).status == "pending_approval"
        assert (await b.told.get()).result["result"] == "5 paid"
        await b.leave()
        assert await a.begin().asks_nothing()
    assert paid == [5]


async def test_a_question_is_asked_again_where_the_conversation_comes_back_to_its_process(
    file, paid
):
    async with Bank(str(file), paid) as a:
        asked = await a.begin().ask()
        await a.leave()
        assert (await a.begin().told.get()).result["approval_id"] == asked
        assert (await a.yes(asked)).result["result"] == "5 paid"
        await a.leave()
        assert await a.begin().asks_nothing()
    assert paid == [5]


async def test_a_question_moves_as_often_as_its_conversation(file, paid):
    async with Bank(str(file), paid) as a, Bank(str(file), paid) as b:
        asked = await a.begin().ask()
        await a.leave()
        for bank in (b, a, b):
            assert (await bank.begin().told.get()).result["approval_id"] == asked
            await bank.leave()
        await a.begin().told.get()
        assert (await a.yes(asked)).result["result"] == "5 paid"
        await a.leave()
        assert await b.begin().asks_nothing()


async def test_a_question_is_asked_again_while_its_process_does_not_know_that_the_user_has_left(
    where, paid
):
    async with Bank(where, paid) as a, Bank(where, paid) as b:
        asked = await a.begin().ask()
        await a.flush()
        await b.begin().told.get()
        assert (await b.yes(asked)).result["result"] == "5 paid"
        await b.flush()
        assert (await a.yes(asked)).result["result"] == "5 paid"  # of a page that still shows it
    assert paid == [5]


@pytest.mark.parametrize(
    ("first", "second", "ran"),
    [
        (Decision.deny(), Decision.approve(), []),
        (Decision.edit({"amount": 7}), Decision.approve(), [7]),
        (Decision.approve(), Decision.edit({"amount": 7}), [5]),
    ],
)
@pytest.mark.parametrize("is_left_first", [True, False])
async def test_of_two_answers_in_two_processes_the_first_one_counts(
    where, paid, first, second, ran, is_left_first
):
    async with Bank(where, paid) as a, Bank(where, paid) as b:
        asked = await a.begin().ask()
        await a.flush()
        await b.begin().told.get()
        one, other = (a, b) if is_left_first else (b, a)
        one.desk.decide(asked, first)
        await one.told.get()
        await one.flush()
        other.desk.decide(asked, second)
        told = await other.told.get()
    assert (told.status, told.reason_code) == ("denied", "withdrawn")
    assert paid == ran


@pytest.fixture
def expire(monkeypatch):
    """Lets a question that was asked after this expire: `expire(bank, id)`."""
    timers = []

    def noted(self, seconds, *call, **more):
        timers.append(call)
        return call_later(self, seconds, *call, **more)

    def expired(bank, asked):
        (call,) = [each for each in timers if bank.desk.question(asked) in each]
        call[0](*call[1:])

    call_later = asyncio.BaseEventLoop.call_later
    monkeypatch.setattr(asyncio.BaseEventLoop, "call_later", noted)
    return expired


async def test_a_question_that_expires_where_it_was_is_still_answered_where_it_is(
    file, paid, expire
):
    async with Bank(str(file), paid) as a, Bank(str(file), paid) as b:
        asked = await a.begin().ask()
        await a.flush()
        await b.begin().told.get()
        expire(a, asked)
        assert (await a.told.get()).reason_code == "approval_expired"
        await a.flush()
        assert (await b.yes(asked)).result["result"] == "5 paid"
    assert paid == [5]


@pytest.mark.parametrize("answer", [None, Decision.deny(), Decision.edit({"amount": 7})])
async def test_silence_where_a_question_was_is_no_yes_once_it_is_asked_elsewhere(
    where, paid, answer, expire
):
    proceeds = {"approval": {"on_expiry": "proceed"}}
    async with Bank(where, paid, **proceeds) as a, Bank(where, paid, **proceeds) as b:
        asked = await a.begin().ask()
        transcript = a.session.get(Transcript)
        transcript.model_spoke(a.desk.pending()[0].title)
        transcript.turn_ended()
        await a.flush()
        await b.begin().told.get()
        if answer is not None:
            b.desk.decide(asked, answer)
            await b.told.get()
        await b.flush()
        expire(a, asked)
        told = await a.told.get()
    assert (told.status, told.reason_code) == ("denied", "withdrawn")
    assert 5 not in paid


async def test_a_call_that_the_model_makes_again_shares_the_question(file, paid):
    async with Bank(str(file), paid) as a, Bank(str(file), paid) as b:
        asked = await a.begin().ask()
        await a.leave()
        await b.begin().told.get()
        assert await b.ask("c2") == asked
        assert (await b.yes(asked)).result["result"] == "5 paid"
    assert paid == [5]


async def test_a_call_is_asked_about_here_where_an_equal_one_elsewhere_is_only_asked_about(
    file, paid, monkeypatch
):
    asks = asyncio.Event()

    async def answers_later(_):
        await asks.wait()

    async def asked_meanwhile(*arguments):
        asks.set()
        await there
        await a.flush()
        return await find_execution(*arguments)

    monkeypatch.setattr("leonidas_tools.store.durable.find_execution", asked_meanwhile)
    async with Bank(str(file), paid, channel=answers_later) as a, Bank(str(file), paid) as b:
        there = asyncio.create_task(a.begin().ask())
        while not await b.runtime.store.executions():
            await asyncio.sleep(0)
        asked = await b.begin().ask()
        assert [each.id for each in b.desk.pending()] == [asked]


async def test_a_question_is_not_asked_again_where_the_model_has_been_faster(file, paid):
    async with Bank(str(file), paid) as a, Bank(str(file), paid) as b:
        await a.begin().ask()
        await a.leave()
        asked = b.begin().ask("c2")
        b._leave()
        assert (await b.yes(await asked)).result["result"] == "5 paid"
        await b.leave()
        assert await b.begin().asks_nothing()


@pytest.mark.parametrize("answer", [Decision.approve(), Decision.deny()])
async def test_a_question_that_was_answered_is_not_asked_again(file, paid, answer):
    async with Bank(str(file), paid) as a, Bank(str(file), paid) as b:
        asked = await a.begin().ask()
        a.desk.decide(asked, answer)
        await a.told.get()
        await a.leave()
        assert await b.begin().asks_nothing()


async def test_a_question_that_has_expired_is_not_asked_again(file, paid, monkeypatch):
    async with Bank(str(file), paid) as a, Bank(str(file), paid) as b:
        await a.begin().ask()
        await a.leave()
        later = SimpleNamespace(time=lambda: time.time() + 3600)
        monkeypatch.setattr("leonidas_tools.store.approvals.time", later)
        assert await b.begin().asks_nothing()


async def test_silence_after_a_move_is_no_yes(file, paid):
    proceeds = {"approval": {"on_expiry": "proceed"}}
    async with Bank(str(file), paid, **proceeds) as a, Bank(str(file), paid, **proceeds) as b:
        await a.begin().ask()
        await a.leave()
        await b.begin().told.get()
        assert [each.on_expiry for each in b.desk.pending()] == ["cancel"]


async def test_what_would_run_unasked_now_does_not_run_because_the_conversation_moves(file, paid):
    async with Bank(str(file), paid) as a, Bank(str(file), paid) as b:
        await a.begin().ask()
        await a.leave()
        await b.runtime.store.preferences.write("ana", {"mode": Mode.AUTONOMOUS.value})
        told = await b.begin().told.get()
        assert b.session.get(SessionPolicy).mode_or(Mode.ASK) is Mode.AUTONOMOUS
        assert (told.status, told.reason_code) == ("denied", "withdrawn")
    assert paid == []


async def test_another_definition_of_the_tool_is_not_asked_about_under_the_old_question(file, paid):
    async with (
        Bank(str(file), paid) as a,
        Bank(str(file), paid, description="Pay at once.") as b,
    ):
        await a.begin().ask()
        await a.leave()
        told = await b.begin().told.get()
        assert (told.status, told.reason_code) == ("denied", "withdrawn")
        assert b.desk.pending() == []


async def test_a_question_about_a_secret_is_not_asked_again_for_no_hash_of_it_is_kept(file, paid):
    async with Bank(str(file), paid) as a, Bank(str(file), paid) as b:
        await a.begin().ask(name="withdraw", pin="4711")
        await a.leave()
        (kept,) = await a.runtime.store.approvals.find()
        assert (kept.arguments["pin"], kept.fingerprint) == ("***", None)
        assert await b.begin().asks_nothing()


async def test_another_user_is_asked_nothing(file, paid):
    async with Bank(str(file), paid) as a, Bank(str(file), paid) as b:
        await a.begin().ask()
        await a.leave()
        assert await b.begin(user="eve").asks_nothing()


async def test_a_call_that_another_call_has_made_ends_with_it_and_is_not_asked_about_again(
    file, paid
):
    @tool(effect="read")
    async def works() -> str:
        return (await a.runtime.execute("pay", FIVE, session=a.session, call_id="c2")).status

    async with Bank(str(file), paid, extra=[works]) as a, Bank(str(file), paid) as b:
        a.begin()
        result = await a.runtime.execute("works", {}, session=a.session, call_id="c1")
        assert result.result == "pending_approval"
        await a.leave()
        assert await b.begin().asks_nothing()
