"""What a server asks the person while one of its tools runs."""

import asyncio
import json
import math

import pytest
from genai_processors import processor

from leonidas_tools import AdvancedToolProcessor, ToolSession
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.approvals.terminal import TerminalChannel
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.errors import ToolDeniedError
from leonidas_tools.live.simulator import FunctionCall, LiveSimulator, Scenario
from tests.live.talking import Talk
from tests.mcp.conftest import script

ASKED = "The server 'lab' asks: Which size? (Size: S, M, L; Count?)"
SCHEMA = {
    "type": "object",
    "properties": {
        "size": {"title": "Size", "type": "string", "enum": ["S", "M", "L"]},
        "count": {"title": "Count", "type": "integer", "default": 1},
    },
    "required": ["size"],
    "additionalProperties": False,
}


class Person:
    """A channel: somebody who answers as the test says; what was asked is kept."""

    def __init__(self, *decisions):
        self.asked = []
        self.decisions = list(decisions)

    async def __call__(self, request):
        self.asked.append(request)
        if not self.decisions:
            await asyncio.Event().wait()
        return self.decisions.pop(0)


class Lab:
    """A chain with one server that asks, and one conversation."""

    def __init__(self, server="asking.py", *, policies=None, env=None, **options):
        settings = script(server, env=env or {}, **options.pop("settings", {}))
        config = {"mcp_servers": {"lab": settings}, "policies": policies or {}}
        self.tools = AdvancedToolProcessor(config=config, builtin_tools=False, **options)
        self.events = []
        self.tools.monitor.subscribe(self.events.append)
        self.session = ToolSession("lab")
        self.desk = self.session.get(Approvals)
        self.transcript = self.session.get(Transcript)

    async def __aenter__(self):
        await self.tools.__aenter__()
        assert await self.tools.ready(60), self.tools.mcp_servers.status()
        return self

    async def __aexit__(self, *error):
        await self.tools.__aexit__(*error)

    async def call(self, name, /, **arguments):
        async with asyncio.timeout(60):
            return await self.tools.execute(name, arguments, session=self.session)

    def start(self, name, /, **arguments):
        return asyncio.create_task(self.call(name, **arguments))

    async def until(self, count):
        """Waits until so many questions are open, and returns them."""
        changed = asyncio.Event()
        unsubscribe = self.desk.on_change(changed.set)
        async with asyncio.timeout(60):
            while len(self.desk.pending()) != count:
                changed.clear()
                await changed.wait()
        unsubscribe()
        return self.desk.pending()

    def hear(self, words):
        """The model puts the question, and the user answers it."""
        self.transcript.model_spoke()
        self.transcript.user_said(words)
        self.transcript.turn_ended()

    async def late_result(self, cause):
        """What has become of a call, told after `cause` was called."""
        told = asyncio.get_running_loop().create_future()
        unsubscribe = self.desk.on_result(lambda call, result: told.set_result((call, result)))
        cause()
        async with asyncio.timeout(60):
            call, result = await told
        unsubscribe()
        return call.name, result


@pytest.fixture
async def lab(mark):
    """Makes chains: `await lab(…)`; ends them after the test."""
    open_labs = []

    async def start(*args, **options):
        made = await Lab(*args, env=mark, **options).__aenter__()
        open_labs.append(made)
        return made

    yield start
    for each in open_labs:
        await each.__aexit__(None, None, None)


def said(result):
    """What the server has made of the answer; as text, where it says nothing else."""
    value = result.result
    if isinstance(value, dict) and "tool" in value:
        value = value["result"]
    if isinstance(value, dict) and value.keys() == {"result"}:
        value = value["result"]
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value


# --- somebody who waits ------------------------------------------------------------------------


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
    answers = [said(await bench.call("wipe")) for _ in range(12)]
    assert answers == ["accept"] * 10 + ["decline"] * 2
    assert "it asks more than 10 times a minute" in caplog.text


async def test_what_may_not_ask_is_told_so(lab):
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


# --- by voice ----------------------------------------------------------------------------------


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


async def test_an_answer_given_elsewhere_and_the_end_of_time_are_told_late(lab):
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


# --- the older protocol, over stdio ------------------------------------------------------------


async def test_a_server_of_the_older_protocol_is_answered_too(lab):
    bench = await lab("older.py", approval=Person(Decision.fill({"name": "Ana"})))
    assert said(await bench.call("ask")) == {"action": "accept", "content": {"name": "Ana"}}


async def test_a_page_to_open_is_asked_about_with_its_host(lab):
    person = Person(Decision.approve())
    bench = await lab("older.py", approval=person)
    assert said(await bench.call("page")) == {"action": "accept"}
    (request,) = person.asked
    assert request.title == "The server 'lab' asks you to open a page at pay.example: Pay"
    assert request.details["url"] == "https://pay.example/x"


async def test_two_questions_at_once_are_both_answered(lab):
    names = (Decision.fill({"name": "Ana"}), Decision.fill({"name": "Ben"}))
    bench = await lab("older.py", approval=Person(*names))
    result = (await bench.call("ask_two")).result
    assert result.count('"accept"') == 2


async def test_a_question_that_the_server_takes_back_is_closed_and_its_call_goes_on(lab):
    bench = await lab("older.py", approval=Person())
    assert said(await bench.call("take_back")) == "never mind"
    assert bench.desk.pending() == []


async def test_where_two_conversations_call_nobody_is_asked(lab, caplog):
    bench = await lab("older.py", approval=Person())
    holding = bench.start("hold")
    other = ToolSession("other")
    while not bench.tools.mcp_servers.status()[0]["calls"]:
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        result = await bench.tools.execute("ask", session=other)
    assert said(result) == {"action": "decline"}
    assert "it is not known whose call it is about" in caplog.text
    holding.cancel()


async def test_a_server_that_dies_takes_its_question_away(lab):
    bench = await lab("older.py")
    question = (await bench.call("die")).result["question_id"]
    name, late = await bench.late_result(lambda: bench.tools.mcp_servers.configure({}))
    assert (name, late.status) == ("die", "not_found")
    with pytest.raises(ToolDeniedError, match="withdrawn"):
        bench.desk.question(question)
