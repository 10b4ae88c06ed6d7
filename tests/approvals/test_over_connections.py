"""Approval over a lost connection: a yes belongs to one question, and lets a call run once."""

import math

import pytest

from leonidas_tools.simulator import FunctionCall, LiveSimulator, Scenario
from tests.approvals.test_live import ASKED, confirm, tools_that_send
from tests.live.talking import Talk


async def drops(session):
    await session.drop()


async def goes_away(session):
    await session.go_away(0.2, close=True)


async def hears(session, text, *, finished=True):
    """The model hears the user, and says whether that was all."""
    said = {"text": text, **({"finished": True} if finished else {})}
    await session.send({"serverContent": {"inputTranscription": said}})


ENDS = pytest.mark.parametrize("end", [drops, goes_away])


async def talked(tools, *connections):
    scenario = Scenario(connections=list(connections))
    async with LiveSimulator(scenario, speed=math.inf) as simulator:
        await Talk(simulator, tools).run(connections=len(connections))
    assert [each for each in simulator.outcomes if each.status == "failed"] == []
    return simulator


async def ask(session):
    """The model wants to send, and asks; returns the id of the question."""
    await hears(session, "Send it to Ana.")
    (asked,) = await session.call(FunctionCall("send", ASKED, id="c1"))
    await session.say(asked.response["result"]["ask"])
    await session.turn_complete()
    return asked.response["result"]["approval_id"]


async def asks_again(session, approval):
    await session.say("Shall I do this: send, to Ana?")
    await session.turn_complete()
    await hears(session, "Yes.")
    return await confirm(session, approval, "c9")


def codes(answers):
    return [answer.get("reason_code") or answer["status"] for answer in answers]


@ENDS
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ([("Yes.", True)], [], ["ok"]),
        ([], [("Yes.", True)], ["ok"]),
        ([("Yes", False)], [], ["doubtful", "ok"]),
        ([("Yes,", False)], [(" go ahead.", True)], ["doubtful", "ok"]),
        ([("Yes", False)], [(", but not to Ana.", True)], ["contradicted"]),
        ([("Ye", False)], [("s.", True)], ["doubtful", "ok"]),
        ([("No!", True)], [("Yes, thanks.", True)], ["contradicted"]),
        ([("No", False)], [("Okay.", True)], ["contradicted"]),
        ([("Yes.", True)], [("No, wait.", True)], ["contradicted"]),
        pytest.param([], [], ["not_answered", "ok"], marks=pytest.mark.slow),
    ],
)
async def test_what_is_said_before_and_after_a_connection_is_lost_is_one_answer(
    end, before, after, told
):
    sent, approvals, answers = [], [], []

    async def first(session):
        await session.wait_for_input("audio")
        approvals.append(await ask(session))
        for text, finished in before:
            await hears(session, text, finished=finished)
        await session.session_resumption("h1")
        await end(session)

    async def second(session):
        for text, finished in after:
            await hears(session, text, finished=finished)
        answers.append(await confirm(session, approvals[0]))
        if len(told) > 1:
            answers.append(await asks_again(session, approvals[0]))

    await talked(tools_that_send(sent), first, second)
    assert codes(answers) == told
    assert sent == ["Ana"] * (told[-1] == "ok")


@ENDS
async def test_a_question_cut_off_by_a_lost_connection_is_asked_again(end):
    sent, approvals, answers = [], [], []

    async def first(session):
        await session.wait_for_input("audio")
        await hears(session, "Send it to Ana.")
        (asked,) = await session.call(FunctionCall("send", ASKED, id="c1"))
        approvals.append(asked.response["result"]["approval_id"])
        await session.session_resumption("h1")
        await session.say("Shall I do this: send,")
        await end(session)

    async def second(session):
        await session.say(" to Ana?")
        await session.turn_complete()
        await hears(session, "Yes.")
        answers.append(await confirm(session, approvals[0]))
        answers.append(await asks_again(session, approvals[0]))

    await talked(tools_that_send(sent), first, second)
    assert (codes(answers), sent) == (["not_asked", "ok"], ["Ana"])


@ENDS
@pytest.mark.parametrize("call_id", ["c1", "c7"])
async def test_a_call_that_waits_and_is_made_again_is_asked_about_once(end, call_id):
    sent, approvals, answers = [], [], []

    async def first(session):
        await session.wait_for_input("audio")
        approvals.append(await ask(session))
        await session.session_resumption("h1")
        await end(session)

    async def second(session):
        (asked,) = await session.call(FunctionCall("send", ASKED, id=call_id))
        approvals.append(asked.response["result"]["approval_id"])
        answers.append(await asks_again(session, approvals[1]))

    await talked(tools_that_send(sent), first, second)
    assert (approvals[0], codes(answers), sent) == (approvals[1], ["ok"], ["Ana"])


@ENDS
@pytest.mark.parametrize("call_id", ["c2", "c7"])
async def test_a_yes_that_is_reported_again_after_the_loss_has_the_outcome_and_runs_once(
    end, call_id
):
    sent, approvals, answers = [], [], []

    async def first(session):
        await session.wait_for_input("audio")
        approvals.append(await ask(session))
        await hears(session, "Yes.")
        await session.session_resumption("h1")
        answers.append(await confirm(session, approvals[0]))
        await end(session)

    async def second(session):
        answers.append(await confirm(session, approvals[0], call_id))

    simulator = await talked(tools_that_send(sent), first, second)
    assert (codes(answers), sent) == (["ok", "ok"], ["Ana"])
    assert simulator.calls[-1].answered_once


@ENDS
@pytest.mark.parametrize("call_id", ["c1", "c7"])
async def test_a_call_made_again_after_its_yes_is_answered_with_its_outcome(end, call_id):
    sent, approvals, answers = [], [], []

    async def first(session):
        await session.wait_for_input("audio")
        approvals.append(await ask(session))
        await hears(session, "Yes.")
        await session.session_resumption("h1")
        answers.append(await confirm(session, approvals[0]))
        await end(session)

    async def second(session):
        (again,) = await session.call(FunctionCall("send", ASKED, id=call_id))
        answers.append(again.response)

    await talked(tools_that_send(sent), first, second)
    assert (codes(answers), sent) == (["ok", "ok"], ["Ana"])
