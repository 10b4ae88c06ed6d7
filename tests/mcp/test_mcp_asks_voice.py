"""What a server asks while one of its tools runs, put by the model and answered by voice."""

import asyncio
import json
import math

import pytest
from genai_processors import processor

from leonidas_tools.approvals.request import Decision
from leonidas_tools.simulator import FunctionCall, LiveSimulator, Scenario
from tests.live.talking import Talk
from tests.mcp.asked import ASKED, SCHEMA, Lab, Person, said

pytestmark = pytest.mark.slow


async def test_by_voice_the_model_asks_and_the_answer_lets_the_call_go_on(lab):
    bench = await lab()
    pending = await bench.call("order", what="pizza")
    (request,) = bench.desk.pending()
    assert (pending.status, pending.reason_code) == ("pending_approval", "needs_answer")
    assert pending.result == {"question_id": request.id, "ask": ASKED, "answers": SCHEMA}
    assert "answer_question" in pending.message
    bench.hear("A large one, two of them.")
    answers = {"size": "L", "count": 2}
    result = await bench.call("answer_question", question_id=request.id, answers=answers)
    assert result.result.keys() == {"question_id", "tool", "result"}
    assert said(result) == {"what": "pizza", "action": "accept", "size": "L", "count": 2}
    assert said(await bench.call("orders")) == ["pizza"]
    again = await bench.call("answer_question", question_id=request.id, answers=answers)
    assert (again.status, again.reason_code) == ("denied", "approval_used")


async def test_what_is_declared_before_a_server_asks_is_enough_to_answer_it(lab):
    bench, changes = await lab(), []
    (declared,) = bench.tools.declarations()
    names = {function.name for function in declared.function_declarations}
    assert {"answer_question", "confirm_action"} <= names
    bench.tools.on_declarations_change(lambda: changes.append("changed"))
    question = (await bench.call("order", what="x")).result["question_id"]
    bench.hear("Large.")
    told = {"question_id": question, "answers": {"size": "L"}}
    assert (await bench.call("answer_question", **told)).status == "ok"
    assert ((declared,), changes) == ((*bench.tools.declarations(),), [])


async def test_an_answer_counts_only_if_the_user_has_spoken_since(lab):
    bench = await lab()
    bench.hear("Large, please.")
    question = (await bench.call("order", what="x")).result["question_id"]
    told = {"question_id": question, "answers": {"size": "L"}}
    result = await bench.call("answer_question", **told)
    assert (result.status, result.reason_code) == ("pending_approval", "not_answered")
    assert said(await bench.call("orders")) == []
    bench.hear("Large.")
    assert (await bench.call("answer_question", **told)).status == "ok"


@pytest.mark.parametrize(("settings", "status"), [({}, "ok"), ({"untrusted": True}, "denied")])
async def test_a_trusted_model_does_not_answer_an_untrusted_server_by_itself(lab, settings, status):
    bench = await lab(settings=settings, policies={"approval": {"trust_model": True}})
    question = (await bench.call("order", what="x")).result["question_id"]
    told = {"question_id": question, "answers": {"size": "L"}}
    assert (await bench.call("answer_question", **told)).status == status
    assert len(bench.desk.pending()) == (status == "denied")


@pytest.mark.parametrize("words", ["What was that?", "Ana.", "Yes, but not now.", "Okay, nein."])
@pytest.mark.parametrize("answers", [{"agreed": True}, {}, {"name": "yes"}])
async def test_an_answer_that_agrees_counts_only_if_the_user_was_heard_to_agree(
    lab, words, answers
):
    bench = await lab()
    question = (await bench.call("agree")).result["question_id"]
    told = {"question_id": question, "answers": answers}
    bench.hear(words)
    result = await bench.call("answer_question", **told)
    assert (result.status, result.reason_code) == ("pending_approval", "doubtful")
    assert "not clearly said yes" in result.message
    bench.hear("Yes.")
    assert said(await bench.call("answer_question", **told))["action"] == "accept"


async def test_a_yes_to_another_question_agrees_to_nothing_that_a_server_asks(lab):
    bench = await lab()
    question = (await bench.call("agree")).result["question_id"]
    told = {"question_id": question, "answers": {"agreed": True}}
    bench.transcript.model_spoke("Shall I play some music?")
    bench.transcript.turn_ended()
    bench.transcript.user_said("Yes.")
    bench.transcript.turn_ended()
    result = await bench.call("answer_question", **told)
    assert (result.status, result.reason_code) == ("pending_approval", "doubtful")
    bench.hear("Yes.")
    assert said(await bench.call("answer_question", **told))["agreed"] is True


@pytest.mark.parametrize(
    ("asked", "answers", "status"),
    [
        ("Okay. {}", {"agreed": True}, "ok"),
        ("The server wants to know: {}", {"agreed": True}, "pending_approval"),
        ("{} Is that okay?", {"agreed": True}, "pending_approval"),
        ("{} Or shall I refuse?", {"agreed": True}, "pending_approval"),
        ("It asks: {} I would not. Shall I decline?", {"agreed": True}, "pending_approval"),
        ("Shall I say no to this: {}", {"agreed": True}, "pending_approval"),
        ("{}", {"agreed": False}, "pending_approval"),
        ("{}", {"agreed": False, "name": "Ana"}, "pending_approval"),
    ],
)
async def test_a_yes_agrees_to_what_the_model_has_asked_last_and_to_nothing_else(
    lab, asked, answers, status
):
    bench = await lab()
    question = (await bench.call("agree")).result["question_id"]
    bench.transcript.model_spoke(asked.format("Delete all orders?"))
    bench.transcript.turn_ended()
    bench.transcript.user_said("Yes.")
    bench.transcript.turn_ended()
    result = await bench.call("answer_question", question_id=question, answers=answers)
    assert result.status == status


async def test_an_answer_that_agrees_to_nothing_needs_no_yes(lab):
    bench = await lab()
    question = (await bench.call("agree")).result["question_id"]
    bench.hear("My name is Ana, and leave the orders alone.")
    answers = {"name": "Ana", "agreed": False}
    result = await bench.call("answer_question", question_id=question, answers=answers)
    assert said(result) == {"action": "accept", **answers}


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ("Surprise me.", "L"),
        ("Small.", "L"),
        ("Small or large?", "S"),
        ("Anything but large.", "L"),
    ],
)
async def test_the_model_cannot_choose_for_the_user(lab, words, size):
    bench = await lab()
    question = (await bench.call("order", what="x")).result["question_id"]
    told = {"question_id": question, "answers": {"size": size}}
    bench.hear(words)
    result = await bench.call("answer_question", **told)
    assert (result.status, result.reason_code) == ("pending_approval", "not_chosen")
    assert "has not clearly named that choice" in result.message
    assert result.result["question_id"] == question
    assert said(await bench.call("orders")) == []
    again = await bench.call("answer_question", **told)  # what was said before counts no more
    assert (again.status, said(await bench.call("orders"))) == ("pending_approval", [])
    bench.hear("The third one.")
    told["answers"] = {"size": "L"}
    assert said(await bench.call("answer_question", **told))["size"] == "L"


async def test_the_model_cannot_make_up_a_number(lab):
    bench = await lab()
    question = (await bench.call("order", what="x")).result["question_id"]
    bench.hear("A large one, two of them.")
    told = {"question_id": question, "answers": {"size": "L", "count": 200}}
    result = await bench.call("answer_question", **told)
    assert (result.status, result.reason_code) == ("pending_approval", "not_said")
    assert "has not said that number" in result.message
    assert said(await bench.call("orders")) == []
    bench.hear("Large, two.")
    told["answers"]["count"] = 2
    assert said(await bench.call("answer_question", **told))["count"] == 2


async def test_a_no_is_the_answer_to_what_is_asked_for_a_yes_or_a_no(lab):
    bench = await lab()
    question = (await bench.call("agree")).result["question_id"]
    told = {"question_id": question, "answers": {"name": "Ana", "agreed": False}}
    bench.hear("No.")
    assert (await bench.call("answer_question", **told)).status == "pending_approval"
    bench.hear("No.")
    told["answers"] = {"agreed": False}
    result = said(await bench.call("answer_question", **told))
    assert (result["action"], result["agreed"]) == ("accept", False)


async def test_what_does_not_fit_leaves_the_question_open(lab):
    bench = await lab()
    question = (await bench.call("order", what="x")).result["question_id"]
    bench.hear("Huge!")
    result = await bench.call("answer_question", question_id=question, answers={"size": "XXL"})
    assert (result.status, {*result.valid_options}) == ("invalid_argument", {"S", "M", "L"})
    result = await bench.call("confirm_action", approval_id=question, decision="yes")
    assert (result.status, result.reason_code) == ("denied", "wants_answers")
    assert len(bench.desk.pending()) == 1


async def test_who_does_not_want_to_answer_need_not(lab):
    bench = await lab()
    question = (await bench.call("order", what="x")).result["question_id"]
    result = await bench.call("answer_question", question_id=question, declined=True)
    assert said(result)["action"] == "decline"


async def test_the_next_question_of_a_call_answers_the_answer(lab):
    bench = await lab()
    first = (await bench.call("send")).result["question_id"]
    bench.hear("Small.")
    asked = await bench.call("answer_question", question_id=first, answers={"size": "S"})
    assert (asked.status, asked.result["ask"]) == (
        "pending_approval",
        "The server 'lab' asks: Where to? (City)",
    )
    bench.hear("To Porto.")
    second = asked.result["question_id"]
    result = await bench.call("answer_question", question_id=second, answers={"city": "Porto"})
    assert said(result)["place"] == {"action": "accept", "city": "Porto"}


async def test_a_yes_or_no_is_confirmed_by_voice_like_an_approval(lab):
    bench = await lab()
    pending = await bench.call("wipe")
    assert pending.result["ask"] == "The server 'lab' asks: Are you sure?"
    bench.hear("Yes.")
    told = {"approval_id": pending.result["approval_id"], "decision": "yes"}
    assert said(await bench.call("confirm_action", **told)) == "accept"
    pending = await bench.call("wipe")
    bench.hear("No!")
    told = {"approval_id": pending.result["approval_id"], "decision": "yes"}
    assert said(await bench.call("confirm_action", **told)) == "decline"


async def test_an_answer_given_elsewhere_and_a_timeout_are_sent_late(lab):
    bench = await lab()
    question = (await bench.call("order", what="x")).result["question_id"]
    decide = bench.desk.decide
    answer = Decision.fill({"size": "S"})
    name, late = await bench.late_result(lambda: decide(question, answer, by="console"))
    assert (name, said(late)["action"]) == ("order", "accept")
    bench = await lab(policies={"approval": {"deadline": "50ms"}})
    await bench.call("order", what="x")
    name, late = await bench.late_result(lambda: None)
    assert (name, said(late)["action"]) == ("order", "cancel")


async def test_when_the_conversation_ends_its_calls_end_too(lab):
    bench = await lab()
    question = (await bench.call("order", what="x")).result["question_id"]
    bench.desk.withdraw_all()
    result = await bench.call("answer_question", question_id=question, answers={"size": "S"})
    assert (result.status, result.reason_code) == ("denied", "withdrawn")
    assert said(await bench.call("orders")) == []


async def test_no_event_and_no_log_holds_what_was_answered(lab, caplog):
    caplog.set_level("DEBUG")
    bench = await lab(approval=Person(Decision.fill({"password": "hunter2hunter2"})))
    assert said(await bench.call("login")) == "accept"
    told = json.dumps([event.to_json() for event in bench.events], default=str)
    assert "approval_id" in told
    assert "hunter2" not in told + caplog.text


async def test_in_a_live_session_the_question_outlives_an_interruption(mark):
    bench, answers = Lab(env=mark), []

    async def play(session):
        await session.wait_for_input("audio")
        await session.input_transcription("Order a pizza.")
        (asked,) = await session.call(FunctionCall("order", {"what": "pizza"}, id="c1"))
        await session.say("The server 'lab' asks")
        await session.input_transcription("A small one!")
        await session.interrupt()
        await session.turn_complete()
        told = {"question_id": asked.response["result"]["question_id"], "answers": {"size": "S"}}
        (answer,) = await session.call(FunctionCall("answer_question", told, id="c2"))
        answers.append(answer.response)
        await session.turn_complete()

    async with bench, LiveSimulator(Scenario(play), speed=math.inf) as simulator:
        talk = Talk(simulator, bench.tools)
        async with asyncio.timeout(60), processor.context():  # not `run`: the server's tasks stay
            async for _ in talk.agent(talk._says(1)):
                pass
    assert answers[0]["status"] == "ok"
    assert json.loads(answers[0]["result"]["result"])["size"] == "S"
