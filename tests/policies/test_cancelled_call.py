"""A side effect that went on after a barge-in happens once, also if the model calls again."""

import asyncio
import math

import pytest

from leonidas_tools import AdvancedToolProcessor, RetryableError, Tool, ToolContext, ToolSession
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.calls.turns import Turns
from leonidas_tools.simulator import FunctionCall, LiveSimulator, Scenario
from tests.live.talking import Talk
from tests.processors.chains import made_by_hand, ready_made
from tests.promises.faults.play import Script, call, cancellation

KNOWN = {
    "status": "ok",
    "result": "charged 5",
    "message": "This is the result of an equal call that was cancelled after its effect had begun. "
    "Nothing was done now. Call again only if the user wants it done once more.",
    "retryable": False,
    "reason_code": "cancelled_call",
}
DUPLICATE = {
    "status": "ok",
    "result": "charged 5",
    "message": "This is the result of an equal call of the same turn, which ran once for both. "
    "Call again only if the user wants it done once more.",
    "retryable": False,
    "reason_code": "duplicate_call",
}
CHARGED = {"status": "ok", "result": "charged 5", "retryable": False}
FIVE = {"amount": 5}


class Till:
    """A tool that charges when it is let go on."""

    def __init__(self):
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.charged = []
        self.fails = []

    async def charge(self, amount: float) -> str:
        self.begun.set()
        await self.go_on.wait()
        if self.fails:
            raise self.fails.pop()
        self.charged.append(amount)
        return f"charged {amount:g}"

    def tool(self, effect="once", **options):
        return Tool(self.charge, effect=effect, **options)


async def cancelled(till, script, id_="1"):
    """Cancel a call while its side effect happens."""
    script.say(call("charge", FIVE, id=id_))
    await till.begun.wait()
    script.say(cancellation(id_), call("nothing", id="unknown"))
    await script.until_answered("unknown")


@pytest.mark.parametrize("chain_of", [ready_made, made_by_hand])
async def test_an_equal_call_gets_the_result_of_the_cancelled_one_and_the_next_runs(chain_of):
    till = Till()
    chain, _ = chain_of(till.tool())
    async with Script(chain) as script:
        await cancelled(till, script)
        script.say(call("charge", FIVE, id="2"))
        till.go_on.set()
        await script.until_answered("2")
        script.say(call("charge", FIVE, id="3"))
        heard = await script.until_answered("3")
    assert heard.by_id["2"] == [KNOWN]
    assert heard.by_id["3"] == [CHARGED]
    assert "1" not in heard.by_id
    assert till.charged == [5, 5]


async def test_a_call_that_ended_before_it_was_cancelled_gives_its_result_to_an_equal_one():
    till = Till()
    till.go_on.set()
    async with Script(AdvancedToolProcessor([till.tool()])) as script:
        script.say(call("charge", FIVE, id="1"))
        await script.until_answered("1")
        script.say(cancellation("1"), cancellation("1"), call("charge", {"amount": 5.0}, id="2"))
        await script.until_answered("2")
        script.say(call("charge", FIVE, id="3"))
        heard = await script.until_answered("3")
    assert (heard.by_id["2"], heard.by_id["3"]) == ([KNOWN], [CHARGED])
    assert till.charged == [5, 5]


async def test_a_result_goes_on_to_the_next_call_if_the_call_that_took_it_is_cancelled_too():
    till = Till()
    async with Script(AdvancedToolProcessor([till.tool()])) as script:
        await cancelled(till, script)
        script.say(call("charge", FIVE, id="2"), cancellation("2"), call("charge", FIVE, id="3"))
        till.go_on.set()
        await script.until_answered("3")
        script.say(cancellation("3"), call("charge", FIVE, id="4"))
        heard = await script.until_answered("4")
    assert heard.by_id["4"] == heard.by_id["3"] == [KNOWN]
    assert till.charged == [5]


async def test_two_cancelled_calls_answer_two_calls():
    till = Till()
    async with Script(AdvancedToolProcessor([till.tool(lane="")])) as script:
        till.go_on.set()
        for number in "12":
            script.say(call("charge", FIVE, id=number))
            await script.until_answered(number)
        script.say(cancellation("1"), cancellation("2"))
        for number in "345":
            script.say(call("charge", FIVE, id=number))
            heard = await script.until_answered(number)
    assert [heard.by_id[number] for number in "345"] == [[KNOWN], [KNOWN], [CHARGED]]


@pytest.mark.parametrize("after", ["another amount", "another tool"])
async def test_another_call_runs(after):
    till, other = Till(), Till()
    tools = [till.tool(), Tool(other.charge, name="refund", effect="once")]
    async with Script(AdvancedToolProcessor(tools)) as script:
        await cancelled(till, script)
        till.go_on.set()
        other.go_on.set()
        another = ("charge", {"amount": 6}) if after == "another amount" else ("refund", FIVE)
        script.say(call(*another, id="2"))
        heard = await script.until_answered("2")
    assert heard.by_id["2"][0]["result"] == f"charged {another[1]['amount']}"
    assert "message" not in heard.by_id["2"][0]


async def test_a_call_that_was_cancelled_before_it_began_answers_none():
    till = Till()
    async with Script(AdvancedToolProcessor([till.tool()])) as script:
        script.say(call("charge", {"amount": 1}, id="0"))
        await till.begun.wait()
        script.say(call("charge", FIVE, id="1"), cancellation("1"), call("charge", FIVE, id="2"))
        till.go_on.set()
        heard = await script.until_answered("0", "2")
    assert heard.by_id["2"] == [CHARGED]
    assert till.charged == [1, 5]


async def test_a_cancelled_call_that_failed_answers_none():
    till = Till()
    till.fails.append(RetryableError("The till is locked."))
    async with Script(AdvancedToolProcessor([till.tool(retry_attempts=0)])) as script:
        await cancelled(till, script)
        script.say(call("charge", FIVE, id="2"))
        till.go_on.set()
        heard = await script.until_answered("2")
    assert heard.by_id["2"] == [CHARGED]
    assert till.charged == [5]


async def test_the_outcome_of_a_cancelled_call_that_timed_out_is_unknown_to_an_equal_one():
    till = Till()
    async with Script(AdvancedToolProcessor([till.tool(timeout_seconds=0.05)])) as script:
        await cancelled(till, script)
        script.say(call("charge", FIVE, id="2"))
        heard = await script.until_answered("2")
    assert heard.by_id["2"][0]["status"] == "unknown_outcome"
    assert KNOWN["message"] in heard.by_id["2"][0]["message"]


async def test_a_cancelled_read_is_made_again():
    till = Till()
    async with Script(AdvancedToolProcessor([till.tool(effect="read")])) as script:
        await cancelled(till, script)
        till.go_on.set()
        script.say(call("charge", FIVE, id="2"))
        heard = await script.until_answered("2")
    assert heard.by_id["2"] == [CHARGED]


async def test_a_cancelled_call_that_was_undone_answers_none():
    undone, booked = asyncio.Event(), []

    async def book(ctx: ToolContext, day: str) -> str:
        booked.append(day)
        ctx.undo(undone.set)
        return day

    tool = Tool(book, effect="once", on_cancel="undo")
    async with Script(AdvancedToolProcessor([tool])) as script:
        script.say(call("book", {"day": "Friday"}, id="1"))
        await script.until_answered("1")
        script.say(cancellation("1"))
        await undone.wait()
        script.say(call("book", {"day": "Friday"}, id="2"))
        heard = await script.until_answered("2")
    assert heard.by_id["2"] == [{"status": "ok", "result": "Friday", "retryable": False}]
    assert booked == ["Friday", "Friday"]


async def test_the_next_stream_of_the_session_gets_the_result_of_a_call_that_went_on():
    till, session = Till(), ToolSession("kitchen")
    tools = AdvancedToolProcessor([till.tool()])
    async with tools:
        async with Script(tools.in_session(session)) as script:
            script.say(call("charge", FIVE, id="1"))
            await till.begun.wait()
            await script.leave()
        till.go_on.set()
        async with Script(tools.in_session(session)) as script:
            script.say(call("charge", FIVE, id="2"))
            heard = await script.until_answered("2")
    assert heard.by_id["2"] == [KNOWN]
    assert till.charged == [5]


async def test_nobody_is_asked_about_a_call_whose_effect_has_happened():
    till, asked = Till(), []

    async def channel(request):
        asked.append(request)
        return Decision.approve()

    tools = AdvancedToolProcessor([till.tool(requires_approval=True)], approval=channel)
    async with Script(tools) as script:
        await cancelled(till, script)
        till.go_on.set()
        script.say(call("charge", FIVE, id="2"))
        heard = await script.until_answered("2")
    assert heard.by_id["2"] == [KNOWN]
    assert (len(asked), till.charged) == (1, [5])


async def test_a_barge_in_charges_once_over_the_wire():
    till, answers = Till(), []
    loop = asyncio.get_running_loop()

    async def play(session):
        await session.wait_for_input("audio")
        await session.send_calls(FunctionCall("charge", FIVE, id="c1"))
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(till.begun.wait(), loop))
        await session.interrupt(cancel=True)
        loop.call_soon_threadsafe(till.go_on.set)
        for call_id in ("c2", "c3"):
            (answer,) = await session.call(FunctionCall("charge", FIVE, id=call_id))
            answers.append(answer.response)
        await session.say("Charged.")
        await session.turn_complete()

    tools = AdvancedToolProcessor([till.tool()], builtin_tools=False)
    async with LiveSimulator(Scenario(play), speed=math.inf) as simulator:
        await Talk(simulator, tools).run()
    assert answers == [KNOWN, CHARGED]
    assert till.charged == [5, 5]


@pytest.mark.parametrize(
    ("first", "second"), [(FIVE, {"amount": "5"}), ({"amount": "5"}, {"amount": 5, "note": ""})]
)
async def test_calls_are_equal_if_they_run_with_the_same_arguments(first, second):
    till = Till()

    async def charge(amount: float, note: str = "") -> str:
        return await till.charge(amount) + note

    async with Script(AdvancedToolProcessor([Tool(charge, effect="once")])) as script:
        script.say(call("charge", first, id="1"))
        await till.begun.wait()
        script.say(cancellation("1"), call("charge", second, id="2"))
        till.go_on.set()
        heard = await script.until_answered("2")
    assert heard.by_id["2"] == [KNOWN]
    assert till.charged == [5]


async def test_a_call_that_a_tool_or_a_program_makes_runs():
    till, session = Till(), ToolSession("kitchen")

    async def check_out(cart: str) -> str:
        return f"{cart}: {(await tools.execute('charge', FIVE, session=session)).message}"

    tools = AdvancedToolProcessor([till.tool(), Tool(check_out, effect="once")])
    async with Script(tools.in_session(session)) as script:
        await cancelled(till, script)
        till.go_on.set()
        script.say(call("check_out", {"cart": "blue"}, id="2"))
        await script.until_answered("2")
        assert (await tools.execute("charge", FIVE, session=session)).reason_code is None
        script.say(call("charge", FIVE, id="3"))
        heard = await script.until_answered("3")
    assert heard.by_id["2"][0]["result"] == "blue: None"
    assert heard.by_id["3"] == [KNOWN]
    assert till.charged == [5, 5, 5]


async def test_a_tool_that_calls_itself_does_not_wait_for_itself_when_it_is_cancelled():
    session, days = ToolSession("kitchen"), []
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def book(day: str) -> str:
        days.append(day)
        if len(days) == 1:
            begun.set()
            await go_on.wait()
            await tools.execute("book", {"day": day}, session=session)
            done.set()
        return day

    tools = AdvancedToolProcessor([Tool(book, effect="once")])
    async with Script(tools.in_session(session)) as script:
        script.say(call("book", {"day": "Friday"}, id="1"))
        await begun.wait()
        script.say(cancellation("1"), call("nothing", id="unknown"))
        await script.until_answered("unknown")
        go_on.set()
        async with asyncio.timeout(5):
            await done.wait()
        script.say(call("book", {"day": "Friday"}, id="2"))
        heard = await script.until_answered("2")
    assert heard.by_id["2"][0]["reason_code"] == "cancelled_call"
    assert days == ["Friday", "Friday"]


async def test_a_fallback_that_went_on_happens_once():
    till = Till()

    async def quote(amount: float) -> str:
        raise RetryableError("No quotes today.")

    quick = Tool(quote, effect="read", fallback_tools=["charge"], retry_attempts=0)
    async with Script(AdvancedToolProcessor([quick, till.tool()])) as script:
        script.say(call("quote", FIVE, id="1"))
        await till.begun.wait()
        script.say(cancellation("1"), call("quote", FIVE, id="2"))
        till.go_on.set()
        heard = await script.until_answered("2")
    assert heard.by_id["2"][0]["reason_code"] == "cancelled_call"
    assert till.charged == [5]


@pytest.mark.parametrize("chain_of", [ready_made, made_by_hand])
async def test_the_result_of_a_call_whose_undoing_failed_is_given_to_an_equal_one(chain_of):
    booked, undoing, go_on = [], asyncio.Event(), asyncio.Event()

    async def undo():
        undoing.set()
        await go_on.wait()
        raise OSError("The office is closed.")

    async def book(ctx: ToolContext, day: str) -> str:
        booked.append(day)
        ctx.undo(undo)
        return day

    chain, _ = chain_of(Tool(book, effect="once", on_cancel="undo"))
    async with Script(chain) as script:
        script.say(call("book", {"day": "Friday"}, id="1"))
        await script.until_answered("1")
        script.say(cancellation("1"), call("book", {"day": "Friday"}, id="2"))
        await undoing.wait()
        go_on.set()
        heard = await script.until_answered("2")
    assert heard.by_id["2"][0]["reason_code"] == "cancelled_call"
    assert booked == ["Friday"]


async def test_a_call_that_was_undone_answers_none_in_a_chain_of_stages():
    undone, booked = asyncio.Event(), []

    async def book(ctx: ToolContext, day: str) -> str:
        booked.append(day)
        ctx.undo(undone.set)
        return day

    chain, _ = made_by_hand(Tool(book, effect="once", on_cancel="undo"))
    async with Script(chain) as script:
        script.say(call("book", {"day": "Friday"}, id="1"))
        await script.until_answered("1")
        script.say(cancellation("1"), call("book", {"day": "Friday"}, id="2"))
        heard = await script.until_answered("2")
    assert heard.by_id["2"] == [{"status": "ok", "result": "Friday", "retryable": False}]
    assert (undone.is_set(), booked) == (True, ["Friday", "Friday"])


@pytest.mark.parametrize("cancels", ["while it runs", "after its result was taken"])
async def test_a_call_that_is_cancelled_twice_answers_one_call(cancels):
    till = Till()
    async with Script(AdvancedToolProcessor([till.tool()])) as script:
        await cancelled(till, script)
        if cancels == "while it runs":
            script.say(cancellation("1"))
        till.go_on.set()
        script.say(call("charge", FIVE, id="2"))
        await script.until_answered("2")
        if cancels != "while it runs":
            script.say(cancellation("1"))
        script.say(call("charge", FIVE, id="3"))
        heard = await script.until_answered("3")
    assert (heard.by_id["2"], heard.by_id["3"]) == ([KNOWN], [CHARGED])
    assert till.charged == [5, 5]


async def test_a_cancellation_means_no_call_of_an_earlier_stream_with_the_same_id():
    till, session = Till(), ToolSession("kitchen")
    till.go_on.set()

    async def look() -> str:
        return "seen"

    tools = AdvancedToolProcessor([till.tool(), Tool(look, effect="read")])
    async with tools:
        async with Script(tools.in_session(session)) as script:
            script.say(call("charge", FIVE, id="1"))
            await script.until_answered("1")
        async with Script(tools.in_session(session)) as script:
            script.say(call("look", id="1"))
            await script.until_answered("1")
            script.say(cancellation("1"), call("charge", FIVE, id="2"))
            heard = await script.until_answered("2")
    assert heard.by_id["2"] == [CHARGED]


async def test_calls_whose_arguments_are_too_deep_to_compare_are_not_equal():
    till = Till()
    deep = {}
    for _ in range(2_000):
        deep = {"in": deep}

    async def save(entry: dict) -> str:
        return await till.charge(entry["n"])

    async with Script(AdvancedToolProcessor([Tool(save, effect="once")])) as script:
        script.say(call("save", {"entry": {"n": 1, "in": deep}}, id="1"))
        await till.begun.wait()
        script.say(cancellation("1"), call("save", {"entry": {"n": 2, "in": deep}}, id="2"))
        till.go_on.set()
        await script.until_answered("2")
    assert till.charged == [1, 2]


@pytest.mark.parametrize("edited", [5, 6])
async def test_a_call_that_a_person_has_edited_happens_once(edited):
    till, asked = Till(), []

    async def channel(request):
        asked.append(request)
        return Decision.edit({"amount": edited})

    tools = AdvancedToolProcessor([till.tool(requires_approval=True)], approval=channel)
    async with Script(tools) as script:
        await cancelled(till, script)
        script.say(call("charge", FIVE, id="2"))
        till.go_on.set()
        heard = await script.until_answered("2")
    assert heard.by_id["2"][0]["reason_code"] == "cancelled_call"
    assert heard.by_id["2"][0]["result"]["result"] == f"charged {edited}"
    assert (len(asked), till.charged) == (1, [edited])


async def test_an_equal_call_of_one_that_was_cut_off_when_the_tools_closed_does_not_run():
    till, session = Till(), ToolSession("kitchen")
    tools = AdvancedToolProcessor([till.tool()])
    async with Script(tools.in_session(session)) as script:
        script.say(call("charge", FIVE, id="1"))
        await till.begun.wait()
        await script.leave()
    till.go_on.set()
    async with Script(tools.in_session(session)) as script:
        script.say(call("charge", FIVE, id="2"))
        await script.until_answered("2")
        script.say(call("charge", FIVE, id="3"))
        heard = await script.until_answered("3")
    assert heard.by_id["2"][0]["status"] == "unknown_outcome"
    assert heard.by_id["2"][0]["reason_code"] == "cancelled_call"
    assert heard.by_id["3"] == [CHARGED]


async def said_yes(script, session, *, name="charge", finished=True):
    """Ask for a charge, put its question, and report the user's yes."""
    script.say(call(name, FIVE, id="1"))
    await script.until_answered("1")
    (request,) = session.get(Approvals).pending()
    transcript = session.get(Transcript)
    transcript.model_spoke(request.title)
    transcript.turn_ended()
    transcript.user_said("Yes.")
    if finished:
        transcript.turn_ended()
    told = {"approval_id": request.id, "decision": "yes"}
    script.say(call("confirm_action", told, id="yes"))


async def charging_after_a_yes(till, script, session, *, name="charge"):
    """Wait until the charge that the user has approved runs."""
    await said_yes(script, session, name=name)
    await till.begun.wait()


async def test_a_yes_whose_report_is_cancelled_before_it_counts_is_not_asked_for_again():
    till, session = Till(), ToolSession("kitchen")
    tools = AdvancedToolProcessor([till.tool(requires_approval=True)])
    async with Script(tools.in_session(session)) as script:
        await said_yes(script, session, finished=False)
        await script.until_event("tool_start", "yes")
        script.say(cancellation("yes"), call("nothing", id="unknown"))
        await script.until_answered("unknown")
        session.get(Transcript).turn_ended()
        await till.begun.wait()
        script.say(call("charge", FIVE, id="2"))
        await script.until_event("tool_start", "2")
        till.go_on.set()
        heard = await script.until_answered("2")
    assert heard.by_id["2"][0]["reason_code"] == "cancelled_call"
    assert till.charged == [5]


async def test_no_call_waits_for_an_approved_one_that_was_cut_off_when_the_tools_closed():
    till, session = Till(), ToolSession("kitchen")
    tools = AdvancedToolProcessor([till.tool(requires_approval=True)])
    async with Script(tools.in_session(session)) as script:
        await charging_after_a_yes(till, script, session)
        await script.leave()
    async with Script(tools.in_session(session)) as script:
        script.say(call("charge", FIVE, id="2"))
        heard = await script.until_answered("2")
    assert heard.by_id["2"][0]["status"] == "unknown_outcome"
    assert heard.by_id["2"][0]["reason_code"] == "cancelled_call"
    assert till.charged == []


async def test_the_result_of_an_approved_call_is_told_if_a_person_stops_the_report_of_the_yes():
    till, session, told = Till(), ToolSession("kitchen"), []
    session.get(Approvals).on_result(lambda call, result: told.append((call.id, result.status)))
    tools = AdvancedToolProcessor([till.tool(requires_approval=True)])
    async with Script(tools.in_session(session)) as script:
        await charging_after_a_yes(till, script, session)
        script.say(cancellation("yes"), call("nothing", id="unknown"))
        await script.until_answered("unknown")
        await tools.cancel("yes", session=session)
        script.say(call("charge", FIVE, id="2"))
        heard = await script.until_answered("2")
    assert told == [("1", "unknown_outcome")]
    assert heard.by_id["2"][0]["status"] == "pending_approval"


async def test_nobody_is_asked_again_about_an_approved_fallback_that_goes_on():
    till, session = Till(), ToolSession("kitchen")

    async def quote(amount: float) -> str:
        raise RetryableError("No quotes today.")

    quick = Tool(quote, effect="read", fallback_tools=["charge"], retry_attempts=0)
    tools = AdvancedToolProcessor([quick, till.tool(requires_approval=True)])
    async with Script(tools.in_session(session)) as script:
        await charging_after_a_yes(till, script, session, name="quote")
        script.say(cancellation("yes"), call("quote", FIVE, id="2"))
        await script.until_event("tool_start", "2")
        till.go_on.set()
        heard = await script.until_answered("2")
    assert heard.by_id["2"][0]["reason_code"] == "cancelled_call"
    assert till.charged == [5]


async def test_an_equal_call_waits_for_one_that_a_tool_of_another_session_has_approved():
    till, kitchen, hold = Till(), ToolSession("kitchen"), asyncio.Event()

    async def wait(minutes: int) -> str:
        await hold.wait()
        return f"{minutes} minutes"

    async def supervise() -> str:
        desk = kitchen.get(Approvals)
        desk.decide(desk.pending()[0].id, Decision.approve())
        await till.begun.wait()
        return "approved"

    tools = AdvancedToolProcessor(
        [till.tool(requires_approval=True), Tool(wait, effect="once", lane="wait"), supervise]
    )
    async with tools, Script(tools.in_session(kitchen)) as script:
        script.say(call("charge", FIVE, id="1"), call("wait", {"minutes": 1}, id="2"))
        await script.until_answered("1")
        async with Script(tools.in_session(ToolSession("office"))) as office:
            office.say(call("nothing", id="1"), call("supervise", id="2"))
            await office.until_answered("2")
        script.say(call("charge", FIVE, id="3"))
        await script.until_event("tool_start", "3")
        till.go_on.set()
        hold.set()
        heard = await script.until_answered("3")
    assert heard.by_id["3"][0]["reason_code"] == "cancelled_call"
    assert till.charged == [5]


async def test_a_cancelled_call_that_a_person_has_retried_answers_none():
    till, session = Till(), ToolSession("kitchen")
    tools = AdvancedToolProcessor([till.tool(timeout_seconds=0.05)])
    async with Script(tools.in_session(session)) as script:
        script.say(call("charge", FIVE, id="1"))
        await script.until_answered("1")
        script.say(cancellation("1"), call("nothing", id="unknown"))
        await script.until_answered("unknown")
        till.go_on.set()
        assert (await tools.retry("1", session=session)).result == "charged 5"
        script.say(call("charge", FIVE, id="2"))
        heard = await script.until_answered("2")
    assert heard.by_id["2"] == [CHARGED]


async def made_twice(till, **options):
    """Make two equal calls at once, and then another one."""
    async with Script(AdvancedToolProcessor([till.tool(**options)])) as script:
        script.say(call("charge", FIVE, id="1"), call("charge", {"amount": 5.0}, id="2"))
        await till.begun.wait()
        till.go_on.set()
        await script.until_answered("1")
        await script.until_answered("2")
        script.say(call("charge", FIVE, id="3"))
        return await script.until_answered("3")


async def test_duplicates_of_a_turn_run_once():
    till = Till()
    heard = await made_twice(till)
    assert [heard.by_id[each] for each in "123"] == [[CHARGED], [DUPLICATE], [CHARGED]]
    assert till.charged == [5, 5]


async def test_duplicates_run_if_repeats_are_expected():
    till = Till()
    heard = await made_twice(till, polling=True)
    assert [heard.by_id[each] for each in "123"] == [[CHARGED]] * 3


async def test_a_duplicate_runs_if_the_first_did_nothing():
    till = Till()
    till.fails.append(RetryableError("the till is busy"))
    heard = await made_twice(till, retry_attempts=0)
    assert heard.by_id["2"] == [CHARGED]
    assert till.charged == [5, 5]


async def test_equal_calls_of_two_turns_both_run():
    till, session = Till(), ToolSession()
    tools = AdvancedToolProcessor([till.tool(lane="")])
    async with Script(tools.in_session(session)) as script:
        script.say(call("charge", FIVE, id="1"))
        await till.begun.wait()
        session.get(Turns).next()
        script.say(call("charge", FIVE, id="2"))
        till.go_on.set()
        await script.until_answered("1")
        heard = await script.until_answered("2")
    assert [heard.by_id[each] for each in "12"] == [[CHARGED], [CHARGED]]
