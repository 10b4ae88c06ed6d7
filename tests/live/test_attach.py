"""Tools attached to a plain google-genai session, on the real client, against the simulator."""

import asyncio
import contextlib

import pytest
from google import genai
from google.genai import errors, types

from leonidas_tools import AdvancedToolProcessor, ToolContext, tool
from leonidas_tools.simulator import (
    Call,
    Cancel,
    Close,
    Expect,
    FunctionCall,
    InputTranscription,
    LiveSimulator,
    Say,
    Scenario,
    TurnComplete,
    WaitForAnswers,
    WaitForInput,
)
from tests.live.talking import MODELS
from tests.tasks import other_tasks

MODEL = "gemini-3.8-live"


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@contextlib.asynccontextmanager
async def connected(simulator, tools, model=MODEL):
    client = genai.Client(api_key="x", http_options=simulator.http_options())
    config = types.LiveConnectConfig(
        response_modalities=["AUDIO"],
        tools=tools.declarations(model=model),
        output_audio_transcription=types.AudioTranscriptionConfig(),
        input_audio_transcription=types.AudioTranscriptionConfig(),
    )
    async with client.aio.live.connect(model=model, config=config) as session:
        yield session


def played(steps, generation="3.8-live"):
    return LiveSimulator(Scenario(steps), generation=generation)


async def test_calls_are_answered_while_the_own_loop_receives():
    tools = AdvancedToolProcessor(tools=[add])
    steps = [
        WaitForInput("text", containing="two"),
        Call([FunctionCall("add", {"a": 1, "b": 2}), FunctionCall("add", {"a": 3, "b": 4})]),
        WaitForAnswers(),
        Say("Three and seven.", audio_seconds=0),
        TurnComplete(),
    ]
    async with played(steps) as gemini, connected(gemini, tools) as session:
        async with tools.attach(session, model=MODEL):
            await session.send_realtime_input(text="Add one and two")
            received = [message async for message in session.receive()]
        assert [call.answers[-1].response["result"] for call in gemini.calls] == [3, 7]
        assert all(call.answered_once for call in gemini.calls)
    asked = [each.tool_call.function_calls for each in received if each.tool_call]
    assert [[call.name for call in calls] for calls in asked] == [["add", "add"]]
    assert received[-1].server_content.turn_complete


async def test_calls_are_answered_until_the_program_ends_the_session_after_a_shutdown():
    tools = AdvancedToolProcessor(tools=[add])
    steps = [
        WaitForInput("text"),
        Call.one("shutdown_system", {"reason": "The user says goodbye."}),
        WaitForAnswers(),
        Say("Goodbye!", audio_seconds=0),
        TurnComplete(),
        WaitForInput("text"),
        Call.one("add", {"a": 1, "b": 2}),
        WaitForAnswers(),
        TurnComplete(),
    ]
    async with played(steps) as gemini, connected(gemini, tools) as session:
        async with tools.attach(session, model=MODEL):
            for text in ("Goodbye", "One more thing: one and two"):
                await session.send_realtime_input(text=text)
                async for _ in session.receive():
                    pass
        assert [call.answers[-1].response["status"] for call in gemini.calls] == ["ok", "ok"]


@pytest.mark.parametrize("typed", ["realtime", "content"])
async def test_a_call_that_requires_approval_runs_after_the_user_has_typed_yes(typed):
    sent = []

    @tool(requires_approval=True)
    def send_money(amount: int) -> str:
        """Sends money."""
        sent.append(amount)
        return "sent"

    tools = AdvancedToolProcessor(tools=[send_money])
    steps = [
        Call.one("send_money", {"amount": 20}, id="asked"),
        Expect("asked", status="pending_approval"),
        Say("{answers.asked.result.ask}", audio_seconds=0),
        TurnComplete(),
        WaitForInput("text", containing="yes"),
        Call.one(
            "confirm_action",
            {"approval_id": "{answers.asked.result.approval_id}", "decision": "yes"},
            id="agreed",
        ),
        Expect("agreed", status="ok"),
        TurnComplete(),
    ]
    generation = "3.8-live" if typed == "realtime" else "2.5"
    async with (
        played(steps, generation) as gemini,
        connected(gemini, tools, MODELS[generation]) as session,
        tools.attach(session),
    ):
        async for _ in session.receive():
            pass
        assert sent == []
        if typed == "realtime":
            await session.send_realtime_input(text="Yes, please.")
        else:
            yes = types.Content(role="user", parts=[types.Part(text="Yes, please.")])
            await session.send_client_content(turns=yes)
        async for _ in session.receive():
            pass
    assert sent == [20]


async def test_a_spoken_yes_counts_and_a_missing_one_does_not():
    sent = []

    @tool(requires_approval=True)
    def send_money(amount: int) -> str:
        """Sends money."""
        sent.append(amount)
        return "sent"

    def asked(name):
        return [
            Call.one("send_money", {"amount": 20}, id=name),
            Expect(name, status="pending_approval"),
            Say(f"{{answers.{name}.result.ask}}", audio_seconds=0),
            TurnComplete(),
        ]

    def confirmed(name, by, status):
        arguments = {"approval_id": f"{{answers.{name}.result.approval_id}}", "decision": "yes"}
        return [
            Call.one("confirm_action", arguments, id=by),
            Expect(by, status=status),
            TurnComplete(),
        ]

    tools = AdvancedToolProcessor(tools=[send_money])
    steps = [
        *asked("first"),
        *confirmed("first", "unheard", "denied"),
        *asked("second"),
        InputTranscription("Yes, please."),
        *confirmed("second", "heard", "ok"),
    ]
    async with (
        played(steps) as gemini,
        connected(gemini, tools) as session,
        tools.attach(session, model=MODEL),
    ):
        for _ in range(4):
            async for _ in session.receive():
                pass
    assert sent == [20]


async def test_a_cancelled_call_is_not_answered():
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def search(ctx: ToolContext) -> str:
        """Searches."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    tools = AdvancedToolProcessor(tools=[search])

    steps = [
        Call.one("search", id="slow"),
        WaitForInput("text"),
        Cancel(["slow"]),
        TurnComplete(),
    ]
    async with played(steps) as gemini, connected(gemini, tools) as session:
        async with tools.attach(session, model=MODEL):
            receiving = asyncio.create_task(_drain(session))
            await started.wait()
            await session.send_realtime_input(text="Never mind.")
            await stopped.wait()
            await receiving
        (call,) = gemini.calls
        assert call.answers == ()


async def _drain(session):
    async for _ in session.receive():
        pass


async def test_what_is_no_open_session_is_refused_with_what_to_pass():
    client = genai.Client(api_key="made up")
    for wrong in ("session", client.aio.live.connect(model="gemini-3.8-live")):
        with pytest.raises(TypeError, match="inside its `async with`"):
            async with AdvancedToolProcessor(tools=[add]).attach(wrong):
                pass


async def test_leaving_the_block_gives_the_session_back_and_leaves_no_task():
    tools = AdvancedToolProcessor(tools=[add])
    async with (
        played([TurnComplete(), TurnComplete()]) as gemini,
        connected(gemini, tools) as session,
    ):
        before = other_tasks()
        own = dict(vars(session))
        async with tools.attach(session):
            await _drain(session)
            with pytest.raises(ValueError, match="are attached to"):
                async with tools.attach(session):
                    pass
        assert vars(session) == own
        assert other_tasks() == before
        await _drain(session)


async def test_a_lost_connection_is_raised_in_the_own_loop_only():
    tools = AdvancedToolProcessor(tools=[add])
    steps = [Call.one("add", {"a": 1, "b": 2}), Close(1011)]
    async with played(steps) as gemini, connected(gemini, tools) as session:
        with pytest.raises(errors.APIError):
            async with tools.attach(session, model=MODEL):
                await _drain(session)


async def test_a_tool_that_is_switched_off_is_declared_no_longer():
    tools = AdvancedToolProcessor(tools=[add])
    steps = [WaitForInput("text"), TurnComplete()]
    async with (
        played(steps) as gemini,
        connected(gemini, tools) as session,
        tools.attach(session, model=MODEL),
    ):
        assert "add" in gemini.declared()
        tools.settings.update({"tools.add.enabled": False})
        await gemini.until(lambda: bool(gemini.context_updates))
        assert "add" not in gemini.declared()
        await session.send_realtime_input(text="Thank you.")
        await _drain(session)


async def test_a_second_connection_can_go_on_with_the_conversation_of_the_first():
    tools = AdvancedToolProcessor(tools=[add])
    conversations = []
    for _ in range(2):
        steps = [Call.one("add", {"a": 1, "b": 2}), WaitForAnswers(), TurnComplete()]
        async with (
            played(steps) as gemini,
            connected(gemini, tools) as session,
            tools.attach(
                session, model=MODEL, conversation=conversations[0] if conversations else None
            ) as conversation,
        ):
            conversations.append(conversation)
            await _drain(session)
            assert [call.answered_once for call in gemini.calls] == [True]
    assert conversations[0] is conversations[1]
