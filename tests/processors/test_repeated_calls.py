"""A side effect happens once: a repeated call never runs again, whatever came in between."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leonidas_tools import (
    AdvancedToolProcessor,
    PythonFunctionProcessor,
    RetryableError,
    ToolSession,
    tool,
)
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.approvals.transcript import Transcript
from tests.processors.chains import made_by_hand, ready_made, statuses
from tests.promises.faults.play import Script, call, cancellation, play


class Till:
    """Charges, and counts what was charged outside of everything that it tests."""

    def __init__(self):
        self.charged = []
        self.looked = []

    def tools(self):
        @tool(effect="once")
        async def charge(amount: float, note: str | None = None, items: list | None = None) -> str:
            self.charged.append(amount)
            return f"charged {amount}"

        @tool(effect="read")
        async def look(n: int = 0) -> int:
            self.looked.append(n)
            return n

        return charge, look


FLOODS = {
    "nothing": list,
    "reads": lambda: [call("look", {"n": n}, id=f"r{n}") for n in range(5000)],
    "made-up cancellations": lambda: [cancellation(f"x{n}") for n in range(10_000)],
    "unknown tools": lambda: [call(f"no_{n}", id=f"u{n}") for n in range(5000)],
    "another call under its id": lambda: [call("charge", {"amount": 6}, id="1")],
    "its own cancellation": lambda: [cancellation("1")],
}
SAME = {
    "as it was": {"amount": 5, "note": "tea"},
    "in another order": {"note": "tea", "amount": 5},
    "a whole number as a float": {"amount": 5.0, "note": "tea"},
    "with null for what was left out": {"amount": 5, "note": "tea", "items": None},
}
FIRST = {"amount": 5, "note": "tea"}


@pytest.mark.parametrize(
    ("chain_of", "streams"), [(ready_made, 1), (ready_made, 2), (made_by_hand, 2)]
)
@pytest.mark.parametrize("flood", FLOODS)
async def test_a_repeated_call_does_not_run_again(chain_of, flood, streams):
    till, session = Till(), ToolSession("kitchen")
    chain, _ = chain_of(*till.tools())
    parts = [call("charge", FIRST, id="1"), *FLOODS[flood]()]
    again = [call("charge", FIRST, id="1")]
    if streams == 1:
        heard = await in_session(chain, session, [*parts, *again])
        results = [body.get("result") for id_, _, body in heard.answers if id_ == "1"]
        assert results.count("charged 5") == (flood != "its own cancellation")
        assert till.charged.count(5) <= 1
        return
    await in_session(chain, session, parts)
    heard = await in_session(chain, session, again)
    assert till.charged.count(5) <= 1
    assert len(heard.answers) == 1


async def in_session(chain, session, parts):
    if isinstance(chain, AdvancedToolProcessor):
        return await play(chain.in_session(session), parts, seconds=60)
    from leonidas_tools.processors import stream

    with stream.shared(session=session):
        return await play(chain, parts, seconds=60)


@pytest.mark.parametrize("arguments", SAME)
async def test_the_next_stream_of_the_session_answers_a_repeated_call_with_its_outcome(arguments):
    till, session = Till(), ToolSession("kitchen")
    tools = AdvancedToolProcessor(till.tools())
    async with tools:
        await in_session(tools, session, [call("charge", FIRST, id="1")])
        heard = await in_session(tools, session, [call("charge", SAME[arguments], id="1")])
    ((_, _, body),) = heard.answers
    assert body == {"status": "ok", "result": "charged 5", "retryable": False}
    assert till.charged == [5]


@pytest.mark.parametrize(
    "other",
    [call("charge", {"amount": 6}, id="1"), call("look", id="1"), call("charge", FIRST, id="2")],
)
async def test_another_call_of_a_later_stream_runs_also_under_a_used_id(other):
    till, session = Till(), ToolSession("kitchen")
    tools = AdvancedToolProcessor(till.tools())
    async with tools:
        await in_session(tools, session, [call("charge", FIRST, id="1")])
        for _ in range(2):
            heard = await in_session(tools, session, [other])
            assert len(heard.answers) == 1
    assert len(till.charged) + len(set(till.looked)) == 2


async def test_within_a_stream_an_id_stands_for_one_call():
    till = Till()
    parts = [call("charge", FIRST, id="1"), call("charge", {"amount": 6}, id="1")]
    heard = await play(AdvancedToolProcessor(till.tools()), parts)
    assert (till.charged, len(heard.answers)) == ([5], 1)


async def test_a_repeated_call_whose_first_one_still_runs_is_answered_at_once():
    go_on, begun = asyncio.Event(), asyncio.Event()
    session = ToolSession("kitchen")

    @tool(effect="once")
    async def charge() -> str:
        begun.set()
        await go_on.wait()
        return "charged"

    tools = AdvancedToolProcessor([charge])
    async with tools, Script(tools.in_session(session)) as first:
        first.say(call("charge", id="1"))
        await begun.wait()
        heard = await in_session(tools, session, [call("charge", id="1")])
        ((_, _, body),) = heard.answers
        assert (body["status"], body["reason_code"]) == ("unknown_outcome", "repeated_call")
        go_on.set()
        await first.until_answered("1")
    assert statuses(first.heard) == {"1": "ok"}


async def test_an_id_whose_call_still_runs_is_not_taken_again_however_many_came_in_between():
    taken, go_on, runs = asyncio.Event(), asyncio.Event(), []

    @tool(effect="idempotent", lane="put")
    async def put(n: int) -> int:
        runs.append(n)
        await go_on.wait()
        return n

    @tool(effect="read")
    async def mark() -> None:
        taken.set()

    async def parts():
        for part in (call("put", {"n": 1}, id="1"), *FLOODS["reads"]()):
            yield part
        for part in (call("put", {"n": 1}, id="1"), call("put", {"n": 2}, id="1"), call("mark")):
            yield part
        await taken.wait()
        go_on.set()

    heard = await play(AdvancedToolProcessor([*Till().tools(), put, mark]), parts(), seconds=60)
    assert (runs, len(heard.by_id["1"])) == ([1], 1)


@pytest.mark.parametrize("chain_of", [ready_made, made_by_hand])
async def test_a_repeated_call_that_was_refused_is_answered_with_the_refusal(chain_of):
    till, session = Till(), ToolSession("kitchen")
    charge, _ = till.tools()
    tools, _ = chain_of(charge.with_options(status="maintenance"))
    for _ in range(2):
        heard = await in_session(tools, session, [call("charge", FIRST, id="1")])
        assert statuses(heard) == {"1": "disabled"}


@pytest.mark.parametrize("failures", [1, 2])
async def test_a_repeated_call_that_a_person_tried_again_is_answered_with_its_newest_outcome(
    failures,
):
    runs, session = [], ToolSession("kitchen")

    @tool(effect="once")
    async def charge() -> str:
        runs.append(None)
        if len(runs) <= failures:
            raise ConnectionError
        return "charged"

    async with AdvancedToolProcessor([charge]) as tools:
        await in_session(tools, session, [call("charge", id="1")])
        for _ in range(failures):
            await tools.retry("1", session=session)
        heard = await in_session(tools, session, [call("charge", id="1")])
    ((_, _, body),) = heard.answers
    assert (body["status"], body["result"], len(runs)) == ("ok", "charged", failures + 1)


@pytest.mark.parametrize("way", ["voice", "elsewhere"])
async def test_a_repeated_call_that_was_approved_meanwhile_is_answered_with_its_outcome(way):
    till, session = Till(), ToolSession("kitchen")
    settings = {"tools": {"charge": {"requires_approval": True}}}
    async with AdvancedToolProcessor(till.tools(), settings) as tools:
        heard = await in_session(tools, session, [call("charge", FIRST, id="1")])
        ((_, _, asked),) = heard.answers
        approval, approvals = asked["result"]["approval_id"], session.get(Approvals)
        if way == "voice":
            transcript = session.get(Transcript)
            transcript.model_spoke(asked["result"]["ask"])
            transcript.turn_ended()
            transcript.user_said("Yes.")
            transcript.turn_ended()
            yes = {"approval_id": approval, "decision": "yes"}
            await in_session(tools, session, [call("confirm_action", yes, id="2")])
        else:
            ended = asyncio.Event()
            approvals.on_result(lambda *_: ended.set())
            approvals.decide(approval, Decision.approve())
            await ended.wait()
        heard = await in_session(tools, session, [call("charge", FIRST, id="1")])
    ((_, _, body),) = heard.answers
    assert (body["status"], till.charged) == ("ok", [5])


@pytest.mark.parametrize("way", ["tried again", "approved"])
async def test_a_call_repeated_while_it_runs_again_is_not_answered_with_its_old_result(way):
    runs, begun, go_on = [], asyncio.Event(), asyncio.Event()
    session = ToolSession("kitchen")

    @tool(effect="once", requires_approval=way == "approved")
    async def charge() -> str:
        runs.append(None)
        if way == "tried again" and len(runs) == 1:
            raise ConnectionError
        begun.set()
        await go_on.wait()
        return "charged"

    async with AdvancedToolProcessor([charge]) as tools:
        ended = asyncio.Event()
        session.get(Approvals).on_result(lambda *_: ended.set())
        await in_session(tools, session, [call("charge", id="1")])
        if way == "approved":
            (question,) = session.get(Approvals).pending()
            session.get(Approvals).decide(question.id, Decision.approve())
        else:
            tools.retry("1", session=session)
        await begun.wait()
        meanwhile = await in_session(tools, session, [call("charge", id="1")])
        go_on.set()
        await ended.wait()
        afterwards = await in_session(tools, session, [call("charge", id="1")])
    ((_, _, body),) = meanwhile.answers
    assert (body["status"], body["reason_code"]) == ("unknown_outcome", "repeated_call")
    ((_, _, body),) = afterwards.answers
    assert body["status"] == "ok"


async def test_a_read_that_the_settings_call_once_does_not_run_again():
    till, session = Till(), ToolSession("kitchen")
    settings = {"tools": {"look": {"effect": "once"}}}
    async with AdvancedToolProcessor(till.tools(), settings) as tools:
        for _ in range(2):
            await in_session(tools, session, [call("look", {"n": 1}, id="1")])
    assert till.looked == [1]


@pytest.mark.parametrize("chain_of", [ready_made, made_by_hand])
@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_fallback_with_a_side_effect_does_not_run_again(effect, chain_of):
    till, session = Till(), ToolSession("kitchen")

    @tool(effect=effect, retry_attempts=0, fallback_tools=["charge"])
    async def debit(amount: float) -> None:
        raise RetryableError("no account")

    tools, _ = chain_of(*till.tools(), debit)
    for _ in range(2):
        heard = await in_session(tools, session, [call("debit", {"amount": 5}, id="1")])
        assert [body["result"] for *_, body in heard.answers] == ["charged 5"]
    assert till.charged == [5]


async def test_a_category_alone_does_not_run_a_repeated_call_again():
    till, session = Till(), ToolSession("kitchen")
    category = PythonFunctionProcessor(till.tools())
    for chain in (category.to_processor(), category.to_processor()):
        heard = await in_session(chain, session, [call("charge", FIRST, id="1")])
        assert [body["result"] for *_, body in heard.answers] == ["charged 5"]
    assert till.charged == [5]


@pytest.mark.parametrize("levels", [500, 5000, 100_000])
async def test_arguments_that_are_nested_too_deep_to_compare_do_not_run_twice(levels):
    till, session = Till(), ToolSession("kitchen")
    deep: list = []
    for _ in range(levels):
        deep = [deep]

    def again():
        part = call("charge", FIRST, id="1")
        part.part.function_call.args["items"] = deep
        return part

    async with AdvancedToolProcessor(till.tools()) as tools:
        for _ in range(2):
            await in_session(tools, session, [again(), again()])
    assert len(till.charged) <= 1


@pytest.mark.parametrize("items", [{1: "tea", "two": "cups"}, {("tea", 2): True}], ids=str)
async def test_arguments_that_are_no_json_end_no_stream_and_do_not_run_twice(items):
    till, session = Till(), ToolSession("kitchen")

    def again():
        part = call("charge", FIRST, id="1")
        part.part.function_call.args["items"] = [items]
        return part

    async with AdvancedToolProcessor(till.tools()) as tools:
        for _ in range(2):
            heard = await in_session(tools, session, [again(), call("look", id="2")])
            assert statuses(heard) == {"1": "ok", "2": "ok"}
    assert till.charged == [5]


async def test_after_a_restart_the_durable_store_answers_a_repeated_call(tmp_path):
    till = Till()
    store = {"enabled": True, "url": str(tmp_path / "kept.db"), "durable": True}
    bodies = []
    for arguments in (FIRST, *SAME.values(), {"amount": 6}):
        async with AdvancedToolProcessor(till.tools(), {"store": store}) as tools:
            session = ToolSession("kitchen")
            heard = await in_session(tools, session, [call("charge", arguments, id="1")])
            bodies += [(body["status"], body["result"]) for *_, body in heard.answers]
    assert till.charged == [5, 6]
    assert bodies == [("ok", "charged 5")] * 5 + [("ok", "charged 6")]


@st.composite
def plays(draw):
    """Streams of one session: calls by id and amount, cancellations, and other parts."""
    part = st.one_of(
        st.tuples(st.just("charge"), st.integers(0, 3), st.integers(0, 2)),
        st.tuples(st.just("look"), st.integers(0, 3), st.integers(0, 2)),
        st.tuples(st.just("cancel"), st.integers(0, 5), st.just(0)),
    )
    return draw(st.lists(st.lists(part, max_size=8), min_size=1, max_size=4))


@settings(max_examples=60, deadline=None, database=None)
@given(streams=plays())
def test_repeated_calls_have_their_side_effect_once(streams):
    till = Till()
    made = {
        (number, amount) for parts in streams for what, number, amount in parts if what == "charge"
    }

    async def session():
        tools, kitchen = AdvancedToolProcessor(till.tools()), ToolSession("kitchen")
        async with tools:
            for parts in streams:
                await in_session(tools, kitchen, [part_of(*each) for each in parts])

    asyncio.run(session())
    assert len(till.charged) <= len(made)
    for amount in range(3):
        assert till.charged.count(amount) <= sum(charged == amount for _, charged in made)


def part_of(what, number, amount):
    if what == "cancel":
        return cancellation(str(number))
    return call(what, {"amount" if what == "charge" else "n": amount}, id=str(number))


async def test_a_call_with_too_large_arguments_gets_no_result_of_another_one_with_its_id():
    lit = []

    @tool(effect="once")
    async def light(note: str = "") -> str:
        lit.append(note)
        return "lit"

    tools = AdvancedToolProcessor([light], {"policies": {"max_argument_bytes": 500}})
    session, heard = ToolSession(), []
    for arguments in ({}, {"note": "x" * 500}, {"note": "y" * 500}):
        answers = await in_session(tools, session, [call("light", arguments, id="1")])
        heard.append(statuses(answers))
    assert heard == [{"1": "ok"}, {"1": "invalid_argument"}, {"1": "invalid_argument"}]
    assert lit == [""]
