"""The live session on the real client, against the simulator."""

import asyncio
import gc
import math
import threading
import weakref
from pathlib import Path

import pytest
from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from genai_processors.core.live_model import LiveProcessor
from google.genai import errors, types

from leonidas_tools import (
    AdvancedToolProcessor,
    GeminiLiveProcessor,
    LiveToolSession,
    ToolContext,
    ToolSession,
    tool,
)
from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator import (
    Call,
    Close,
    Drop,
    Expect,
    FunctionCall,
    GenerationComplete,
    LiveSimulator,
    Quirks,
    Say,
    Scenario,
    TurnComplete,
    WaitForAnswers,
    WaitForInput,
)
from tests.live.talking import held
from tests.tasks import other_tasks

DEMO = Path(__file__).parents[2] / "config" / "scenarios" / "demo.yaml"
SILENCE = b"\0" * 640


@tool(effect="read", lane="add")
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def model(simulator, tools):
    return LiveProcessor(
        api_key="x",
        model_name="gemini-live-x",
        realtime_config=types.LiveConnectConfig(
            response_modalities=["AUDIO"],
            tools=tools.declarations(),
            output_audio_transcription=types.AudioTranscriptionConfig(),
        ),
        http_options=simulator.http_options(),
    )


def frame():
    return ProcessorPart(SILENCE, mimetype="audio/pcm;rate=16000", substream_name="realtime")


class Talk:
    """A conversation with the simulator: hangs up when the scenario has been played."""

    def __init__(self, simulator, tools, **options):
        self.simulator = simulator
        options.setdefault("settle_seconds", 0.05)
        self.agent = LiveToolSession(model(simulator, tools), tools, **options)
        self.heard = []

    async def run(self, *, hang_up=True):
        async with asyncio.timeout(30), processor.context():
            async for part in self.agent(self._microphone(hang_up)):
                self.heard.append(part)
        return self

    @property
    def said(self):
        return "".join(p.text for p in self.heard if p.substream_name == "output_transcription")

    @property
    def listed(self):
        """Names of what the listener was told of calls."""
        return [p for p in self.heard if p.substream_name == "function_call"]

    async def _microphone(self, hang_up):
        yield frame()
        if hang_up:
            await self.simulator.finished()
        else:
            await asyncio.Event().wait()


async def played(steps, *tools, quirks=None, **options):
    """Plays a scenario to its end: strictly, so that a breach of the protocol is an error."""
    advanced = AdvancedToolProcessor(tools=[add, *tools])
    async with LiveSimulator(Scenario(steps), quirks=quirks, speed=math.inf) as simulator:
        talk = await Talk(simulator, advanced, **options).run()
        outcome = await simulator.finished()
    assert outcome.ok, outcome
    assert simulator.violations == ()
    assert [record for record in simulator.calls if not record.answered_once] == []
    assert other_tasks() == set()
    return simulator, talk


def envelopes(simulator):
    return {record.id: record.answers[0].response for record in simulator.calls if record.answers}


async def test_a_call_is_answered_and_the_model_speaks_of_it():
    steps = [
        WaitForInput("audio"),
        Say("Let me see."),
        Call.one("add", {"a": 1, "b": 2}, id="c1"),
        WaitForAnswers(),
        Say(" It is {answers.c1.result}."),
        GenerationComplete(),
        TurnComplete(),
    ]
    simulator, talk = await played(steps)
    assert envelopes(simulator) == {"c1": {"status": "ok", "result": 3, "retryable": False}}
    assert simulator.calls[0].answers[0].name == "add"
    assert talk.said == "Let me see. It is 3."
    asked, given = talk.listed
    assert asked.function_call.id == given.function_response.id == "c1"
    places = [talk.heard.index(asked), talk.heard.index(given)]
    assert places == sorted(places)


async def test_a_call_of_a_very_long_id_is_answered_under_that_id():
    asked = Call.one("add", {"a": 1, "b": 2}, id="c" * 2_000)
    simulator, _ = await played([WaitForInput("audio"), asked, WaitForAnswers(), TurnComplete()])
    assert [body["result"] for body in envelopes(simulator).values()] == [3]


async def test_the_setup_declares_the_tools():
    simulator, _ = await played([WaitForInput("audio"), Say("Hello."), TurnComplete()])
    declared = simulator.setups[0]["tools"][0]["functionDeclarations"]
    assert {"add", "think", "set_speech_rate"} <= {one["name"] for one in declared}


async def test_many_calls_in_one_message_are_each_answered_once():
    numbers = range(20)
    calls = tuple(FunctionCall("add", {"a": n, "b": 1}, id=f"c{n}") for n in numbers)
    simulator, _ = await played([WaitForInput("audio"), Call(calls), WaitForAnswers()])
    assert {i: e["result"] for i, e in envelopes(simulator).items()} == {
        f"c{n}": n + 1 for n in numbers
    }


async def test_what_goes_wrong_is_answered_too():
    @tool(effect="read")
    async def boom() -> None:
        raise ValueError("hunter2")

    @tool(effect="read")
    async def odd() -> set:
        return {1}

    steps = [
        WaitForInput("audio"),
        Call.one("boom", id="boom"),
        Call.one("odd", id="odd"),
        Call.one("ad", {"a": 1}, id="unknown", undeclared=True),
        Call.one("add", {"a": "x"}, id="bad"),
        Expect("boom", status="failed"),
        Expect("odd", status="ok", response={"result": [1]}),
        Expect("unknown", status="not_found"),
        Expect("bad", status="invalid_argument"),
    ]
    simulator, _ = await played(steps, boom, odd)
    assert "hunter2" not in str(simulator.messages)


async def test_a_call_without_an_id_does_not_end_the_session():
    steps = [
        WaitForInput("audio"),
        Call.one("add", {"a": 1, "b": 2}, id=None),
        WaitForAnswers(),
        Call.one("add", {"a": 2, "b": 2}, id="c2"),
        WaitForAnswers(),
        Say("{answers.c2.result}"),
        TurnComplete(),
    ]
    _, talk = await played(steps)
    assert talk.said == "4"


async def test_a_call_delivered_twice_runs_once():
    ran = []

    @tool(effect="once")
    async def charge() -> str:
        ran.append(1)
        return "charged"

    twice = (FunctionCall("charge", {}, id="c1"),)
    steps = [WaitForInput("audio"), Call(twice), Call(twice), WaitForAnswers(), Call(twice)]
    await played([*steps, Say("Done."), TurnComplete()], charge)
    assert ran == [1]


async def test_a_cancelled_call_is_stopped_and_gets_no_answer():
    begun, stopped = threading.Event(), asyncio.Event()

    @tool(effect="read")
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def play(session):
        await session.wait_for_input("audio")
        await session.send_calls(FunctionCall("endless", {}, id="c1"))
        await asyncio.to_thread(begun.wait, 10)
        await session.interrupt()
        await session.cancel("c1")
        await session.turn_complete()
        await session.send_calls(FunctionCall("add", {"a": 1, "b": 2}, id="c2"))
        await session.wait_for_answers("c2")

    simulator, talk = await played(play, endless)
    assert stopped.is_set()
    assert simulator.calls[0].answers == ()
    assert [p.tool_cancellation for p in talk.listed if p.tool_cancellation] == ["c1"]
    assert any(part.get_metadata("interrupted") for part in talk.heard)


async def test_the_end_of_the_input_waits_for_the_answer_and_the_last_words():
    hung_up, begun = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def slow(ctx: ToolContext) -> str:
        begun.set()
        await hung_up.wait()
        return "late"

    steps = [
        WaitForInput("audio"),
        Call.one("slow", id="c1"),
        WaitForAnswers(),
        Say("It was {answers.c1.result}."),
        TurnComplete(),
    ]
    tools = AdvancedToolProcessor(tools=[slow])

    async def microphone():
        yield frame()
        await begun.wait()
        asyncio.get_running_loop().call_soon(hung_up.set)

    async with LiveSimulator(Scenario(steps), speed=math.inf) as simulator:
        talk = Talk(simulator, tools, settle_seconds=10)
        async with asyncio.timeout(20), processor.context():
            async for part in talk.agent(microphone()):
                talk.heard.append(part)
        assert (await simulator.finished()).ok
    assert talk.said == "It was late."
    assert simulator.calls[0].answered_once


async def test_shutdown_system_ends_the_session_after_the_last_words():
    steps = [
        WaitForInput("audio"),
        Call.one("shutdown_system", {"reason": "goodbye"}, id="c1"),
        WaitForAnswers(),
        Say("Goodbye."),
        TurnComplete(),
    ]
    async with LiveSimulator(Scenario(steps), speed=math.inf) as simulator:
        talk = Talk(simulator, AdvancedToolProcessor(), settle_seconds=10)
        await talk.run(hang_up=False)  # the microphone stays open
        assert (await simulator.finished()).ok
    assert talk.said == "Goodbye."


@pytest.mark.parametrize("ending", [Drop(), Close(1011, reason="internal"), Close(1008)])
async def test_a_lost_connection_is_raised_where_it_can_be_caught(ending):
    begun, stopped = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def play(session):
        await session.wait_for_input("audio")
        await session.send_calls(FunctionCall("endless", {}, id="c1"))
        await asyncio.to_thread(stopped_waiting.wait)
        await ending.play(session)

    stopped_waiting = threading.Event()
    tools = AdvancedToolProcessor(tools=[endless])
    caught = []
    async with LiveSimulator(play, strict=False, speed=math.inf) as simulator:
        talk = Talk(simulator, tools)

        async def silence():
            yield frame()
            await begun.wait()
            stopped_waiting.set()
            await asyncio.Event().wait()

        async with asyncio.timeout(20), processor.context():
            try:
                async for part in talk.agent(silence()):
                    talk.heard.append(part)
            except (errors.APIError, OSError) as error:
                caught.append(error)
            after = await asyncio.sleep(0, "goes on")
    assert len(caught) == 1
    assert after == "goes on"
    async with asyncio.timeout(10):
        await stopped.wait()
    assert other_tasks() == set()


async def test_a_server_that_closes_in_good_order_ends_the_session():
    async with LiveSimulator(
        Scenario([WaitForInput("audio"), Say("Bye."), TurnComplete(), Close()]), speed=math.inf
    ) as simulator:
        talk = await Talk(simulator, AdvancedToolProcessor()).run(hang_up=False)
    assert talk.said == "Bye."


async def test_a_session_that_cannot_begin_is_raised_where_it_can_be_caught():
    async with LiveSimulator(Scenario([Say("x")]), speed=math.inf) as simulator:
        options = simulator.http_options()
    tools = AdvancedToolProcessor()
    gone = LiveProcessor(api_key="x", model_name="m", http_options=options)
    agent = LiveToolSession(gone, tools)

    async def silence():
        await asyncio.Event().wait()
        yield

    async def converse():
        async with asyncio.timeout(20), processor.context():
            async for _ in agent(silence()):
                pass

    with pytest.raises(OSError, match=r"."):
        await converse()
    assert other_tasks() == set()


async def test_newer_servers_do_not_wait_for_tools_that_are_declared_so():
    go_on = asyncio.Event()

    @tool(effect="read", behavior="NON_BLOCKING", scheduling="WHEN_IDLE")
    async def slow() -> str:
        await go_on.wait()
        return "done"

    async def play(session):
        await session.wait_for_input("audio")
        await session.send_calls(FunctionCall("slow", {}, id="c1"))
        await session.say("Meanwhile.")
        await session.turn_complete()
        loop.call_soon_threadsafe(go_on.set)
        await session.wait_for_answers("c1")

    loop = asyncio.get_running_loop()
    simulator, talk = await played(play, slow, quirks=Quirks(default_behavior="NON_BLOCKING"))
    assert simulator.calls[0].answers[0].scheduling == "WHEN_IDLE"
    assert talk.said == "Meanwhile."


async def test_the_demo_passes_without_a_pause():
    from leonidas_tools.toolboxes import demo

    @tool(effect="read")
    async def get_current_time(timezone: str) -> dict:
        """The time in a time zone (stands in for the MCP server's tool)."""
        return {"timezone": timezone, "datetime": "2025-01-02T03:04:05"}

    tools = AdvancedToolProcessor(tools=[*demo.TOOLS, get_current_time])
    async with LiveSimulator(DEMO, speed=math.inf) as simulator:
        talk = await Talk(simulator, tools).run()
        outcome = await simulator.finished()
    assert outcome.ok, outcome
    assert simulator.violations == ()
    assert [record.id for record in simulator.calls if not record.answered_once] == []
    assert "2025-01-02" in talk.said
    assert tools.monitor.ledger.to_json()["protocol_errors"] == 0


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([Expect(id="sum", status="failed")], "the status is 'ok', not 'failed'"),
        ([Call.one("missing")], "declared no function 'missing'"),
    ],
)
async def test_a_failed_step_ends_the_session_with_its_own_error_alone(steps, said, caplog):
    runs = []

    @tool
    def count() -> int:
        """Count."""
        runs.append(1)
        return len(runs)

    tools = AdvancedToolProcessor(tools=[count])
    script = [Call.one("count", id="sum"), WaitForAnswers(), *steps]
    gemini = LiveSimulator(Scenario(script))

    async def recipe():
        async with gemini:
            live = GeminiLiveProcessor(
                "gemini-3.8-live", tools=tools, api_key="x", http_options=gemini.http_options()
            )
            async for _ in LiveToolSession(live, tools)("Count."):
                pass

    with pytest.raises(SimulatorError, match=said) as raised:
        await recipe()
    assert raised.value.__suppress_context__
    assert (len(runs), len(gemini.connections)) == (1, 1)
    assert [record for record in caplog.records if record.name.startswith("leonidas_tools")] == []


async def test_what_a_failed_tool_had_in_its_variables_is_freed_while_the_conversation_lasts():
    class Load:
        """Something large."""

    loads = []

    @tool(effect="once")
    async def fail(kind: str) -> str:
        """Fails."""
        load = Load()
        loads.append(weakref.ref(load))
        try:
            raise ValueError("behind it")
        except ValueError as error:
            if kind == "group":
                raise ExceptionGroup("several", [error]) from None
            raise RuntimeError("in front of it") from error

    async def script(session):
        await session.call(FunctionCall("fail", {"kind": "chain"}))
        await session.call(FunctionCall("fail", {"kind": "group"}))

    tools = AdvancedToolProcessor(tools=[fail], builtin_tools=False)
    session = ToolSession()
    _, talk = await held([script], tools, session=session)
    gc.collect()
    assert [load() for load in loads] == [None, None]
    assert [
        part.part.function_response.response["status"]
        for part in talk.heard
        if part.part.function_response
    ] == ["failed"] * 2
