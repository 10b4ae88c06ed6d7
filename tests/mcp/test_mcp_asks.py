"""What a server asks the person while one of its tools runs, and a channel that answers."""

import asyncio
import json

import pytest

from leonidas_tools.approvals.request import Decision
from leonidas_tools.approvals.terminal import TerminalChannel
from leonidas_tools.errors import ToolDeniedError
from tests.mcp.asked import ASKED, SCHEMA, Person, said


async def test_a_question_reaches_the_person_and_the_answer_the_server(lab):
    person = Person(Decision.fill({"size": "m", "count": "2"}))
    bench = await lab(approval=person)
    result = await bench.call("order", what="pizza")
    assert (result.status, said(result)) == (
        "ok",
        {"what": "pizza", "action": "accept", "size": "M", "count": 2},
    )
    (request,) = person.asked
    assert (request.title, request.schema, request.tool) == (ASKED, SCHEMA, "order")
    assert json.loads(json.dumps(request.to_json()))["schema"] == SCHEMA


@pytest.mark.parametrize(
    ("decision", "action"),
    [(Decision.deny("no"), "decline"), (Decision.fill({"size": "S"}), "accept")],
)
async def test_the_server_hears_whether_it_was_answered(lab, decision, action):
    bench = await lab(approval=Person(decision))
    assert said(await bench.call("order", what="x"))["action"] == action


async def test_an_answer_that_does_not_fit_is_asked_for_again(lab):
    person = Person(Decision.fill({"size": "XL"}), Decision.fill({"size": "L"}))
    bench = await lab(approval=person)
    assert said(await bench.call("order", what="x"))["size"] == "L"
    assert person.asked[0].problem is None
    assert "'size' must be" in person.asked[1].problem


async def test_who_never_gives_an_answer_that_fits_has_given_none(lab):
    bench = await lab(approval=Person(*[Decision.approve()] * 3))
    assert said(await bench.call("order", what="x"))["action"] == "cancel"


async def test_the_time_of_the_person_is_not_that_of_the_tool(lab):
    answered = asyncio.Event()

    async def slow(request):
        await answered.wait()
        return Decision.fill({"size": "S"})

    bench = await lab(
        approval=slow, settings={"tools": {"order": {"timeout": "5s", "deadline": "5s"}}}
    )
    ordering = bench.start("order", what="x")
    await bench.until(1)
    done, _ = await asyncio.wait({ordering}, timeout=5.5)  # longer than the call may take
    assert not done
    answered.set()
    assert (await ordering).status == "ok"


async def test_a_question_has_a_time_of_its_own(lab):
    bench = await lab(approval=Person(), policies={"approval": {"deadline": "50ms"}})
    assert said(await bench.call("order", what="x"))["action"] == "cancel"


async def test_a_call_that_is_cancelled_takes_its_question_away(lab):
    bench = await lab(approval=Person())
    ordering = bench.start("order", what="x")
    (request,) = await bench.until(1)
    ordering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ordering
    await bench.until(0)
    with pytest.raises(ToolDeniedError, match="withdrawn"):
        bench.desk.decide(request.id, Decision.fill({"size": "S"}))
    assert said(await bench.call("orders")) == []


async def test_a_server_that_wants_a_password_is_named_and_the_user_warned(lab):
    person = Person(Decision.deny())
    bench = await lab(approval=person)
    assert said(await bench.call("login")) == "decline"
    assert person.asked[0].title == (
        "The server 'lab' asks: Please log in. (Password) Careful, this is secret: password."
    )


async def test_a_question_of_yes_or_no_is_answered_so(lab):
    bench = await lab(approval=Person(Decision.approve(), Decision.deny()))
    assert [said(await bench.call("wipe")) for _ in range(2)] == ["accept", "decline"]


async def test_several_questions_of_one_call_come_one_after_another(lab):
    person = Person(Decision.fill({"size": "S"}), Decision.fill({"city": "Porto"}))
    bench = await lab(approval=person)
    assert said(await bench.call("send")) == {
        "choice": {"action": "accept", "size": "S", "count": 1},
        "place": {"action": "accept", "city": "Porto"},
    }


async def test_questions_of_two_calls_are_open_at_once_and_none_holds_the_other(lab):
    bench = await lab(approval=Person())
    calls = [bench.start("order", what="x"), bench.start("send")]
    first, second = await bench.until(2)
    assert said(await bench.call("orders")) == []
    for request in (second, first):
        bench.desk.decide(request.id, Decision.fill({"size": "L"}))
    (place,) = [one for one in await bench.until(1) if "city" in one.schema["properties"]]
    bench.desk.decide(place.id, Decision.deny())
    assert [(await each).status for each in calls] == ["ok", "ok"]


async def test_a_server_that_asks_without_end_is_declined(lab, caplog):
    often = {"tools": {"wipe": {"polling": True}}}  # no loop
    bench = await lab(approval=Person(*[Decision.approve()] * 20), settings=often)
    answers = [said(await bench.call("wipe")) for _ in range(25)]
    assert answers == ["accept"] * 10 + ["decline"] * 15
    assert caplog.text.count("it asks more than 10 times a minute") == 10


async def test_a_server_that_may_not_ask_is_refused(lab):
    bench = await lab(approval=Person(), settings={"elicitation": False})
    result = await bench.call("order", what="x")
    assert result.status == "failed"
    assert "elicitation" in result.message
    assert "answer_question" not in bench.tools.registry


async def test_the_terminal_asks_for_one_thing_after_another(lab):
    lines, written = iter(["XL\n", "\n", "m\n", "3\n"]), []
    bench = await lab(approval=TerminalChannel(lambda: next(lines), written.append))
    assert said(await bench.call("order", what="x")) == {
        "what": "x", "action": "accept", "size": "M", "count": 3,
    }  # fmt: skip
    assert "".join(written).count(ASKED) == 2
    assert "'size' must be" in "".join(written)


async def test_silence_is_no_answer_to_a_question_that_no_rule_can_answer(lab):
    silence = {"deadline": "50ms", "on_expiry": "proceed"}
    bench = await lab(approval=Person(), policies={"approval": silence})
    assert said(await bench.call("wipe")) == "cancel"
