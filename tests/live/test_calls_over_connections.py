"""Calls over several connections: none is lost, none runs twice, and each has one answer."""

import asyncio
import logging

import pytest
from google.genai import types

from leonidas_tools import AdvancedToolProcessor, RetryableError, tool
from leonidas_tools.simulator import Call, FunctionCall, Quirks, Send, WaitForInput
from tests.live.talking import (
    Desk,
    answer_to,
    frame,
    held,
    is_call,
    on_elastic_time,
    outcomes_told,
    passes,
    responses_in,
    sent_by_client,
    typed,
)

FAILED = {"status": "failed", "message": "The result cannot be sent.", "retryable": False}
PICTURE = types.FunctionResponsePart(
    inline_data=types.FunctionResponseBlob(data=b"picture", mime_type="image/png")
)


def call(name="f", call_id="c1", **args):
    return FunctionCall(name, args, id=call_id, undeclared=True)


async def drops_a_call(session):
    """The first connection, which is lost while a call is under way."""
    await session.session_resumption("handle")
    await session.send_calls(call())
    await session.wait_for_input("audio", count=2)
    await session.drop()


def answers_after_the_drop(response, **fields):
    async def user(talk):
        yield frame()
        (asked,) = await talk.called()
        yield frame(1)
        await talk.told("connection_renewed")
        yield answer_to(asked, response, **fields)

    return user


def answers_all(count, response_of, *, together=False):
    """A user who answers so many calls, each as it comes, or all when they are there."""

    async def user(talk):
        yield frame()
        for number in range(count):
            calls = await talk.called(count if together else number + 1)
            yield answer_to(calls[number], response_of(calls[number].part.function_call.name))

    return user


async def confirmed(session):
    """Waits until the client surely knows that all it has sent before has arrived."""
    for _ in range(2):  # the pong comes before the second question
        await session.say("Yes?")
        await session.wait_for_input("text", containing="yes")


async def says_yes(talk):
    """A user who thinks, and then types yes, whenever the model asks."""
    yield frame()
    for number in range(2):
        await talk.hears(lambda part: part.part.text == "Yes?", number + 1)
        await passes(0.5)
        yield typed("yes")


async def test_a_call_without_an_id_is_answered_with_ours_where_an_answer_must_have_one():
    async def only(session):
        await session.wait_for_input("audio")
        await session.send_calls(call())
        await session.wait_for_answers()

    simulator, talk = await held(
        [only],
        profile="unknown",
        user=answers_all(1, lambda _: {"output": 1}),
        server={"quirks": Quirks(call_ids=False)},
    )
    (heard,) = [part.part.function_call for part in talk.heard if is_call(part)]
    assert responses_in(simulator) == [[{"id": heard.id, "name": "f", "response": {"output": 1}}]]


async def test_the_answer_that_follows_interim_ones_says_that_it_is_the_last():
    async def only(session):
        await session.wait_for_input("audio")
        (answer,) = await session.call(call())
        assert answer.response == {"output": 2}

    async def user(talk):
        yield frame()
        (asked,) = await talk.called()
        yield answer_to(asked, {"output": 1}, will_continue=True)
        await talk.simulator.until(lambda: talk.simulator.calls[0].answers)
        yield answer_to(asked, {"output": 2})

    simulator, _ = await held(
        [only], user=user, generation="3.8-live", server={"generation": "3.8-live"}
    )
    assert [each["will_continue"] for (each,) in responses_in(simulator)] == [True, False]


async def test_an_outcome_that_is_no_json_is_sent_as_a_failure_after_a_drop():
    async def second(session):
        await session.wait_for_input("text", containing="results")

    simulator, _ = await held(
        [drops_a_call, second], user=answers_after_the_drop({"output": {1, 2}})
    )
    assert outcomes_told(simulator) == [{"id": "c1", "name": "f", "response": FAILED}]
    assert len(simulator.setups) == 2


async def test_an_answer_that_cannot_be_sent_does_not_ruin_those_beside_it(caplog):
    async def only(session):
        await session.wait_for_input("audio")
        await session.send_calls(call("g", "good"), call("f", "bad"), call("g", "better"))
        await session.wait_for_answers()

    with caplog.at_level(logging.ERROR):
        simulator, _ = await held(
            [only],
            user=answers_all(3, lambda name: {"output": 1 if name == "g" else {1}}, together=True),
        )
    assert {a["id"]: a["response"] for each in responses_in(simulator) for a in each} == {
        "good": {"output": 1},
        "better": {"output": 1},
        "bad": FAILED,
    }
    assert all(record.answered_once for record in simulator.calls)
    assert "An outgoing message cannot be sent" in caplog.text


async def test_the_pictures_of_an_outcome_reach_the_model_after_a_drop():
    async def second(session):
        await session.wait_for_input("video")

    simulator, _ = await held(
        [drops_a_call, second],
        user=answers_after_the_drop({"output": "see the picture"}, parts=[PICTURE]),
    )
    ((connection, content),) = sent_by_client(simulator, "client_content")
    picture = content["turns"][0]["parts"][1]["inlineData"]
    assert (connection, picture) == (2, {"data": "cGljdHVyZQ==", "mime_type": "image/png"})


@pytest.mark.parametrize("others", [0, 70])  # more than the connection keeps the answers of
@on_elastic_time
async def test_an_id_that_comes_again_after_a_resume_is_answered_from_memory(others):
    desk = Desk()
    desk.open()

    async def first(session):
        await session.call(FunctionCall("book", {"seat": 4}, id="fc-17"))
        for number in range(others):
            await session.call(FunctionCall("look", {"seat": number}, id=f"fc-{number + 18}"))
        await confirmed(session)
        await session.session_resumption("handle")
        await session.drop()

    async def second(session):
        (answer,) = await session.call(FunctionCall("book", {"seat": 4}, id="fc-17"))
        assert answer.response["result"] == "seat 4"

    await held([first, second], desk.tools(), user=says_yes)
    assert desk.booked == [4]


@on_elastic_time
async def test_a_cancelled_id_that_comes_again_after_a_resume_does_not_run_again():
    desk = Desk()

    async def first(session):
        await session.session_resumption("handle")
        await session.send_calls(FunctionCall("book", {"seat": 4}, id="fc-17"))
        await session.wait_for_input("text", containing="called")
        await session.cancel("fc-17")
        await session.drop()

    async def second(session):
        (answer,) = await session.call(FunctionCall("book", {"seat": 4}, id="fc-17"))
        assert answer.response["status"] == "unknown_outcome"
        (answer,) = await session.call(FunctionCall("book", {"seat": 5}, id="fc-18"))
        assert answer.response["result"] == "seat 5"

    async def user(talk):
        yield frame()
        await talk.called()
        yield typed("called")
        await talk.told("connection_renewed")
        yield frame(1)
        await talk.called(2)
        desk.open()

    await held([first, second], desk.tools(), user=user)
    assert desk.booked == [4, 5]


@pytest.mark.parametrize(("effect", "results"), [("read", [1, 2]), ("once", [1, 1])])
@on_elastic_time
async def test_a_read_repeated_after_its_outcome_was_given_runs_again(effect, results):
    runs = []

    @tool(effect=effect)
    def count() -> int:
        """Counts its calls."""
        runs.append(None)
        return len(runs)

    found = []

    async def first(session):
        await session.session_resumption("handle")
        (answer,) = await session.call(FunctionCall("count", id="a"))
        found.append(answer.response["result"])
        await confirmed(session)
        await session.drop()

    async def second(session):
        (answer,) = await session.call(FunctionCall("count", id="b"))
        found.append(answer.response["result"])

    tools = AdvancedToolProcessor(tools=[count], builtin_tools=False)
    simulator, _ = await held([first, second], tools, user=says_yes)
    assert found == results
    assert outcomes_told(simulator) == []


@on_elastic_time
async def test_a_read_that_falls_back_to_a_side_effect_is_not_repeated():
    booked = []

    @tool(effect="once")
    def book(seat: int) -> str:
        """Books a seat."""
        booked.append(seat)
        return f"seat {seat}"

    @tool(effect="read", retry_attempts=0, fallback_tools=["book"])
    def look(seat: int) -> None:
        """Looks for a seat."""
        raise RetryableError("down")

    async def first(session):
        await session.session_resumption("handle")
        await session.call(FunctionCall("look", {"seat": 4}, id="a"))
        await confirmed(session)
        await session.drop()

    async def second(session):
        (answer,) = await session.call(FunctionCall("look", {"seat": 4}, id="b"))
        assert answer.response["result"] == "seat 4"

    tools = AdvancedToolProcessor(tools=[look, book], builtin_tools=False)
    await held([first, second], tools, user=says_yes)
    assert booked == [4]


class Counter:
    """A tool with a side effect, which counts what it has done."""

    def __init__(self):
        self.runs = 0

    def tools(self):
        @tool(effect="once")
        def book(seat: int) -> int:
            """Books a seat."""
            self.runs += 1
            return self.runs

        return AdvancedToolProcessor(tools=[book], builtin_tools=False)


def booking(results, call_id, *, handle_after, say=None):
    """A connection on which the model books seat 4, first of all or after the user has spoken."""

    async def connection(session):
        await session.session_resumption(f"before-{call_id}")
        if say is not None:
            # What the client has to tell comes first, and it learns that it has arrived.
            await session.wait_for_input("audio", count=80)
            await say(session)
        (answer,) = await session.call(FunctionCall("book", {"seat": 4.0}, id=call_id))
        results.append(answer.response["result"])
        if handle_after:
            await session.session_resumption(f"after-{call_id}")
            await session.wait_for_input("audio")
        await session.drop()

    return connection


async def keeps_talking(talk):
    number = 0
    while len(talk.simulator.connections) < 4:
        yield frame(number)
        number += 1
        await asyncio.sleep(0.01)


async def transcribed(session):
    await session.input_transcription("Book it again.")


async def interrupts(session):
    await session.say("Hm.")
    await session.interrupt(cancel=False)


async def activity(session):
    await session.send({"voiceActivity": {"type": "ACTIVITY_START"}})


async def last(session):
    await session.wait_for_input("audio")


@pytest.mark.parametrize("handles", [(True, True), (True, False), (False, True), (False, False)])
async def test_a_call_made_again_on_each_new_connection_has_its_side_effect_once(handles):
    results, counter = [], Counter()
    scripts = [
        booking(results, "a", handle_after=handles[0]),
        booking(results, "b", handle_after=handles[1]),
        booking(results, "c", handle_after=handles[0]),
        last,
    ]
    await held(scripts, counter.tools(), user=keeps_talking)
    assert (results, counter.runs) == ([1, 1, 1], 1)


@pytest.mark.parametrize("say", [transcribed, interrupts, activity])
@pytest.mark.parametrize("handle_after", [True, False])
async def test_the_same_call_is_a_new_one_once_the_user_has_spoken(say, handle_after):
    results, counter = [], Counter()
    scripts = [
        booking(results, "a", handle_after=handle_after),
        booking(results, "b", handle_after=handle_after, say=say),
        booking(results, "c", handle_after=handle_after),
        last,
    ]
    await held(scripts, counter.tools(), user=keeps_talking)
    assert (results, counter.runs) == ([1, 2, 2], 2)


@on_elastic_time
async def test_of_two_calls_that_were_the_same_the_newest_is_the_one_that_is_repeated():
    results, counter = [], Counter()

    def booking(call_id, *, again):
        async def connection(session):
            await session.wait_for_input("audio")
            if again:
                await session.input_transcription("Book it again.")
            (answer,) = await session.call(FunctionCall("book", {"seat": 4}, id=call_id))
            results.append(answer.response["result"])
            await confirmed(session)
            await session.session_resumption(f"after-{call_id}")
            await session.drop()

        return connection

    async def last(session):
        (answer,) = await session.call(FunctionCall("book", {"seat": 4}, id="c"))
        results.append(answer.response["result"])

    async def user(talk):
        asked = 0
        for number in range(2):
            yield frame(number)
            for _ in range(2):
                asked += 1
                await talk.hears(lambda part: part.part.text == "Yes?", asked)
                await passes(0.5)
                yield typed("yes")
            await talk.told("connection_renewed", number + 1)

    scripts = [booking("a", again=False), booking("b", again=True), last]
    await held(scripts, counter.tools(), user=user)
    assert (results, counter.runs) == ([1, 2, 2], 2)


@pytest.mark.parametrize("in_model_turn_first", [True, False])
async def test_a_call_that_has_its_id_in_one_of_its_two_forms_only_is_heard_once(
    in_model_turn_first,
):
    body = {"name": "f", "args": {"x": 1}}
    turn = {"serverContent": {"modelTurn": {"role": "model", "parts": [{"functionCall": body}]}}}
    forms = [turn, {"toolCall": {"functionCalls": [body | {"id": "c1"}]}}]
    steps = [Send(form) for form in (forms if in_model_turn_first else reversed(forms))]

    async def user(talk):
        yield frame()
        await talk.called(2)

    script = [WaitForInput("audio"), *steps, Call((call("g", "c2"),))]
    _, talk = await held([script], user=user, server={"strict": False})
    names = [part.part.function_call.name for part in talk.heard if is_call(part)]
    assert names == ["f", "g"]


@pytest.mark.parametrize(
    "said",
    [
        {"turnComplete": True},
        {"turnComplete": True, "interactionStatus": "IN_PROGRESS"},
        {"turnComplete": True, "interrupted": True},
    ],
)
async def test_an_unreadable_call_is_reported_however_the_turn_ends(said):
    reason = {"turnCompleteReason": "MALFORMED_FUNCTION_CALL"}

    async def user(talk):
        yield frame()
        await talk.told("malformed_function_call")

    script = [WaitForInput("audio"), Send({"serverContent": said | reason})]
    async with asyncio.timeout(10):
        _, talk = await held([script], user=user)
    assert [event["event"] for event in talk.events] == [
        "connection_opened", "malformed_function_call",
    ]  # fmt: skip


async def test_a_function_of_the_configuration_is_declared_and_answered_as_its_model_takes_it():
    async def only(session):
        await session.wait_for_input("audio")
        (answer,) = await session.call(FunctionCall("mine", id="c1"))
        assert answer.scheduling == "SILENT"

    async def user(talk):
        yield frame()
        (asked,) = await talk.called()
        yield answer_to(asked, {"output": 1}, scheduling="SILENT")

    mine = types.FunctionDeclaration(name="mine", behavior="NON_BLOCKING")
    simulator, _ = await held(
        [only],
        generation="2.5",
        user=user,
        config={"tools": [types.Tool(function_declarations=[mine])]},
        server={"generation": "2.5"},
    )
    assert simulator.declared()["mine"]["behavior"] == "NON_BLOCKING"


async def test_a_call_of_a_tool_that_is_just_switched_off_is_answered_as_it_was_declared():
    @tool(behavior="BLOCKING", scheduling="INTERRUPT")
    def look() -> str:
        """Looks."""
        return "seen"

    tools = AdvancedToolProcessor(tools=[look], builtin_tools=False)

    async def only(session):
        await session.wait_for_input("audio")
        tools.settings.update({"tools.look.enabled": False})
        await session.call(FunctionCall("look"))

    server = {"generation": "3.8-live"}
    simulator, _ = await held([only], tools, generation="3.8-live", server=server)
    ((answer,),) = responses_in(simulator)
    assert "scheduling" not in answer


async def test_what_a_model_cannot_do_is_left_out_of_the_tools_of_the_configuration():
    async def only(session):
        await session.wait_for_input("audio")

    mine = types.FunctionDeclaration(name="mine", behavior="NON_BLOCKING")
    simulator, _ = await held(
        [only],
        generation="3.1",
        config={"tools": [types.Tool(function_declarations=[mine])]},
        server={"generation": "3.1"},
    )
    assert simulator.declared() == {"mine": {"name": "mine"}}
