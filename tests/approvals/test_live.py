"""Approval in a live session: transcripts, late results, interruptions, reconnects."""

import asyncio
import math

import pytest
from genai_processors.content_api import ProcessorPart

from leonidas_tools import AdvancedToolProcessor, ToolSession, tool
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.simulator import FunctionCall, LiveSimulator, Scenario
from tests.live.talking import Talk, outcomes_told
from tests.live.test_session import Conversation
from tests.promises.faults.play import call, cancellation

ASKED = {"to": "Ana"}
QUESTION = "Shall I do this: send, to Ana?"


def tools_that_send(sent, **more):
    @tool(requires_approval=True)
    async def send(to: str) -> str:
        """Sends."""
        sent.append(to)
        return f"sent to {to}"

    return AdvancedToolProcessor(tools=[send], builtin_tools=False, **more)


async def ask(session, call_id="c1"):
    """The model wants to send, and puts the question; returns the question's id."""
    await session.input_transcription("Send it to Ana.")
    (asked,) = await session.call(_call("send", ASKED, call_id))
    assert asked.response["status"] == "pending_approval"
    await session.say(asked.response["result"]["ask"])
    await session.turn_complete()
    return asked.response["result"]["approval_id"]


async def confirm(session, approval_id, call_id="c2"):
    arguments = {"approval_id": approval_id, "decision": "yes"}
    (answer,) = await session.call(_call("confirm_action", arguments, call_id))
    return answer.response


def _call(name, arguments, call_id):
    return FunctionCall(name, arguments, id=call_id)


async def test_a_spoken_yes_lets_the_tool_run():
    sent, answers = [], []

    async def play(session):
        await session.wait_for_input("audio")
        approval = await ask(session)
        await session.input_transcription("Yes")
        await session.input_transcription(", go ahead.")
        answers.append(await confirm(session, approval))
        await session.turn_complete()

    async with LiveSimulator(Scenario(play), speed=math.inf) as simulator:
        await Talk(simulator, tools_that_send(sent)).run()
    assert answers[0]["status"] == "ok"
    assert sent == ["Ana"]


async def test_a_question_outlives_an_interruption():
    sent, answers = [], []

    async def play(session):
        await session.wait_for_input("audio")
        await session.input_transcription("Send it to Ana.")
        (asked,) = await session.call(_call("send", ASKED, "c1"))
        await session.say("Shall I")
        await session.input_transcription("Yes!")
        await session.interrupt()
        await session.turn_complete()
        approval = asked.response["result"]["approval_id"]
        answers.append(await confirm(session, approval))
        await session.say(asked.response["result"]["ask"])
        await session.turn_complete()
        await session.input_transcription("Yes!")
        answers.append(await confirm(session, approval, "c3"))

    async with LiveSimulator(Scenario(play), speed=math.inf) as simulator:
        await Talk(simulator, tools_that_send(sent)).run()
    assert [answer.get("reason_code") for answer in answers] == ["not_asked", None]
    assert sent == ["Ana"]


async def test_a_live_yes_counts_only_for_the_question_that_was_asked():
    sent, codes = [], []

    async def play(session):
        await session.wait_for_input("audio")
        first, second = await session.call(
            _call("send", ASKED, "c1"), _call("send", {"to": "Mallory"}, "c2")
        )
        ana, mallory = (each.response["result"]["approval_id"] for each in (first, second))

        async def confirms(approval, call_id):
            codes.append((await confirm(session, approval, call_id)).get("reason_code"))

        await confirms(ana, "c3")  # the model answers at once, for the user
        await session.say("Shall I do this: send, to Mallory?")
        await session.input_transcription("Send it to Ana, yes.")  # the request, heard late
        await session.turn_complete()
        await confirms(ana, "c4")
        await session.input_transcription("Yes.")
        await confirms(mallory, "c5")
        await session.say(QUESTION)
        await session.turn_complete()
        await session.input_transcription("No! Cancel it.")
        await session.say("All right.")
        await session.turn_complete()
        await session.input_transcription("Okay, thanks.")
        await confirms(ana, "c6")

    async with LiveSimulator(Scenario(play), speed=math.inf) as simulator:
        await Talk(simulator, tools_that_send(sent)).run()
    assert codes == ["no_transcript", "not_asked", "waits", "contradicted"]
    assert sent == []


async def test_a_question_outlives_its_connection_and_a_yes_counts_once():
    sent, approvals, answers = [], [], []

    async def first(session):
        await session.wait_for_input("audio")
        await session.session_resumption("h1")
        approvals.append(await ask(session))
        await session.session_resumption("h2")
        await session.drop()

    async def second(session):
        await session.input_transcription("Yes.")
        answers.append(await confirm(session, approvals[0], "c2"))
        await session.say("It is sent.")
        await session.input_transcription("Yes, yes.")
        answers.append(await confirm(session, approvals[0], "c3"))
        await session.turn_complete()

    async with LiveSimulator(Scenario(connections=[first, second]), speed=math.inf) as simulator:
        await Talk(simulator, tools_that_send(sent)).run(connections=2)
    assert [(a["status"], a.get("reason_code")) for a in answers] == [
        ("ok", None),
        ("denied", "approval_used"),
    ]
    assert sent == ["Ana"]


async def test_a_decision_made_elsewhere_reaches_the_model_in_the_way_it_supports():
    sent, told = [], []
    session_of_tools = ToolSession()
    desk = session_of_tools.get(Approvals)

    async def play(session):
        await session.wait_for_input("audio")
        approval = await ask(session)
        desk.decide(approval, Decision.approve())
        await session.wait_for_input("text", containing="sent to Ana")
        await session.say("It was sent.")
        await session.turn_complete()

    async with LiveSimulator(Scenario(play), speed=math.inf) as simulator:
        talk = Talk(simulator, tools_that_send(sent), session=session_of_tools)
        await talk.run()
        told = outcomes_told(simulator)
    assert sent == ["Ana"]
    (outcome,) = told
    assert (outcome["id"], outcome["name"]) == ("c1", "send")
    assert outcome["response"]["result"]["result"] == "sent to Ana"
    late = [part for part in talk.heard if part.metadata.get("late_result")]
    assert [part.part.function_response.id for part in late] == ["c1"]
    assert len(simulator.calls) == 1
    assert simulator.calls[0].answered_once


async def test_who_hangs_up_has_agreed_to_nothing():
    sent = []
    session_of_tools = ToolSession()
    desk = session_of_tools.get(Approvals)
    policies = {"approval": {"deadline": "300ms", "on_expiry": "proceed"}}

    async def play(session):
        await session.wait_for_input("audio")
        await ask(session)

    async with LiveSimulator(Scenario(play), speed=math.inf) as simulator:
        tools = tools_that_send(sent, config={"policies": policies})
        await Talk(simulator, tools, session=session_of_tools).run()
    assert desk.pending() == []
    await asyncio.sleep(0.4)  # longer than the question would have been open
    assert sent == []


async def test_typed_text_is_an_answer_and_another_model_gets_late_results_as_text():
    sent, session = [], ToolSession()
    desk = session.get(Approvals)
    tools = tools_that_send(sent)
    async with Conversation(session=session, processor_of_tools=tools) as talk:
        for call_id in ("c1", "c3"):
            talk.model.say(call("send", ASKED, id=call_id))
            await talk.model.until_answered(call_id)
            (request,) = desk.pending()
            if call_id == "c3":
                desk.decide(request.id, Decision.deny("not today"))
                continue
            talk.model.say(ProcessorPart(QUESTION, role="model"))
            await talk.until(lambda heard: any(part.part.text == QUESTION for part in heard))
            talk.speak(ProcessorPart("Yes.", role="user"))
            await talk.model.until(lambda taken: any(p.part.text == "Yes." for p in taken))
            told = {"approval_id": request.id, "decision": "yes"}
            talk.model.say(call("confirm_action", told, id="c2"))
            await talk.model.until_answered("c2")
        await talk.model.until(lambda taken: any("not today" in (p.part.text or "") for p in taken))
    assert sent == ["Ana"]
    assert [(name, body["status"]) for _, name, body in talk.model.answers] == [
        ("send", "pending_approval"),
        ("confirm_action", "ok"),
        ("send", "pending_approval"),
    ]


async def test_what_is_typed_while_the_model_asks_aloud_is_no_answer():
    sent, session = [], ToolSession()
    desk = session.get(Approvals)
    tools = tools_that_send(sent)
    async with Conversation(session=session, processor_of_tools=tools) as talk:
        talk.model.say(call("send", ASKED, id="c1"))
        await talk.model.until_answered("c1")
        (request,) = desk.pending()
        talk.model.say(ProcessorPart(b"\0\0", mimetype="audio/pcm;rate=24000", role="model"))
        talk.model.say(ProcessorPart(QUESTION, role="model", substream_name="output_transcription"))
        await talk.until(lambda heard: any(part.part.text == QUESTION for part in heard))
        talk.speak(ProcessorPart("Yes.", role="user"))
        await talk.model.until(lambda taken: any(p.part.text == "Yes." for p in taken))
        told = {"approval_id": request.id, "decision": "yes"}
        talk.model.say(call("confirm_action", told, id="c2"))
        await talk.model.until_answered("c2")
    assert sent == []
    assert talk.model.answers[-1][2]["reason_code"] == "not_asked"


async def approve_by_voice(talk, session, name, arguments):
    """Make a call, ask its question, hear a yes, and let the model report it."""
    talk.model.say(call(name, arguments, id="c1"))
    await talk.model.until_answered("c1")
    (request,) = session.get(Approvals).pending()
    talk.model.say(ProcessorPart(request.title, role="model"))
    await talk.until(lambda heard: any(part.part.text == request.title for part in heard))
    talk.speak(ProcessorPart("Yes.", role="user"))
    await talk.model.until(lambda taken: any(p.part.text == "Yes." for p in taken))
    told = {"approval_id": request.id, "decision": "yes"}
    talk.model.say(call("confirm_action", told, id="c2"))


async def test_a_yes_to_a_question_no_longer_awaited_is_still_reported():
    begun, may_end = asyncio.Event(), asyncio.Event()
    session = ToolSession()

    @tool(requires_approval=True)
    async def slow() -> str:
        begun.set()
        await may_end.wait()
        return "done at last"

    tools = AdvancedToolProcessor(tools=[slow], builtin_tools=False)
    async with Conversation(session=session, processor_of_tools=tools) as talk:
        await approve_by_voice(talk, session, "slow", {})
        await begun.wait()
        talk.model.say(cancellation("c2"))
        await talk.until(lambda heard: any(part.tool_cancellation for part in heard))
        may_end.set()
        await talk.model.until(
            lambda taken: any("done at last" in (p.part.text or "") for p in taken)
        )


async def test_the_result_of_an_approved_call_is_told_if_the_answer_with_it_is_cancelled():
    sent, session = [], ToolSession()
    tools = tools_that_send(sent)
    async with Conversation(session=session, processor_of_tools=tools) as talk:
        await approve_by_voice(talk, session, "send", ASKED)
        await talk.model.until_answered("c2")
        talk.model.say(cancellation("c2"))
        await talk.model.until(
            lambda taken: any("sent to Ana" in (p.part.text or "") for p in taken)
        )
    assert sent == ["Ana"]


class Payments:
    """A payment that needs approval, and goes on when it is let."""

    def __init__(self):
        self.begun, self.go_on, self.paid = asyncio.Event(), asyncio.Event(), []

    def tools(self):
        @tool(requires_approval=True)
        async def pay(to: str) -> str:
            self.begun.set()
            await self.go_on.wait()
            self.paid.append(to)
            return f"paid {to}"

        return AdvancedToolProcessor([pay], builtin_tools=False)


@pytest.mark.parametrize("ends", ["before the cancellation", "before the next call", "after it"])
async def test_a_payment_that_goes_on_after_a_barge_in_into_its_approval_is_not_asked_again(ends):
    payments, session = Payments(), ToolSession()
    async with Conversation(session=session, processor_of_tools=payments.tools()) as talk:
        await approve_by_voice(talk, session, "pay", ASKED)
        await payments.begun.wait()
        if ends == "before the cancellation":
            payments.go_on.set()
            await talk.model.until_answered("c2")
        talk.model.say(cancellation("c2"))
        await talk.until(lambda heard: any(part.tool_cancellation for part in heard))
        if ends == "before the next call":
            payments.go_on.set()
            await talk.model.until(
                lambda taken: any("paid Ana" in (p.part.text or "") for p in taken)
            )
        talk.model.say(call("pay", ASKED, id="c3"))
        payments.go_on.set()
        await talk.model.until_answered("c3")
    answers = {call_id: body for call_id, _, body in talk.model.answers}
    assert answers["c3"]["reason_code"] == "cancelled_call"
    assert answers["c3"]["result"]["result"] == "paid Ana"
    assert payments.paid == ["Ana"]


async def test_an_equal_call_waits_for_a_payment_that_a_person_has_approved_elsewhere():
    payments, session = Payments(), ToolSession()
    async with Conversation(session=session, processor_of_tools=payments.tools()) as talk:
        talk.model.say(call("pay", ASKED, id="c1"))
        await talk.model.until_answered("c1")
        desk = session.get(Approvals)
        desk.decide(desk.pending()[0].id, Decision.approve())
        await payments.begun.wait()
        talk.model.say(call("pay", ASKED, id="c2"))
        await talk.until(lambda heard: sum(part.function_call is not None for part in heard) == 2)
        payments.go_on.set()
        await talk.model.until_answered("c2")
        talk.model.say(call("pay", ASKED, id="c3"))
        await talk.model.until_answered("c3")
    answers = {call_id: body for call_id, _, body in talk.model.answers}
    assert answers["c2"]["result"]["result"] == "paid Ana"
    assert answers["c3"]["status"] == "pending_approval"
    assert payments.paid == ["Ana"]


async def test_the_model_reads_what_a_person_has_decided_after_a_failure():
    runs = []

    @tool(requires_approval=False)
    async def send(to: str) -> str:
        """Sends."""
        runs.append(to)
        if len(runs) == 1:
            raise ConnectionError
        return f"sent to {to}"

    tools = AdvancedToolProcessor(tools=[send], builtin_tools=False)
    loop = asyncio.get_running_loop()

    async def play(session):
        await session.wait_for_input("audio")
        await session.input_transcription("Send it to Ana.")
        (failed,) = await session.call(_call("send", ASKED, "c1"))
        assert failed.response["status"] == "failed"
        await session.say("That failed.")
        await session.turn_complete()
        loop.call_soon_threadsafe(tools.retry, "c1")  # the simulator has a thread of its own
        await session.wait_for_input("text", containing="sent to Ana")
        await session.say("It was sent.")
        await session.turn_complete()

    async with LiveSimulator(Scenario(play), speed=math.inf) as simulator:
        await Talk(simulator, tools).run()
    assert runs == ["Ana", "Ana"]
    (told,) = outcomes_told(simulator)
    assert told["response"] == {
        "status": "ok",
        "result": "sent to Ana",
        "message": "'send' was retried at the user's request.",
        "retryable": False,
    }
