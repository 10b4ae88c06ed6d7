"""A run becomes one line for fine-tuning, in the format that OpenAI checks, without secrets."""

import asyncio
import json
from typing import Annotated

import pytest
from pydantic import TypeAdapter

from leonidas_tools import Secret, ToolRuntime, tool
from leonidas_tools.agent import (
    Delegation,
    Evaluated,
    Fragment,
    Orchestrator,
    ReActAgent,
    ScriptedModel,
    trajectory,
    trajectory_line,
)
from leonidas_tools.calls.events import EventKind

PIN = "4711-zebra"


@tool(effect="read", name="bank/balance")
def balance(account: str, pin: Annotated[str, Secret()]) -> str:
    """Tells the balance of an account."""
    return f"{account}: 70 euros, opened with {pin}"


def run(model, task, **options):
    return asyncio.run(ReActAgent(model, ToolRuntime([balance]), **options).run(task))


def checked(result):
    """The line, if it is what the API of OpenAI takes."""
    # Imported here: every worker collects all tests, and this costs a second.
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

    line = trajectory_line(result)
    assert line.endswith("\n")
    assert line.count("\n") == 1
    body = json.loads(line)
    assert body == json.loads(json.dumps(trajectory(result)))
    TypeAdapter(list[ChatCompletionMessageParam]).validate_python(body["messages"])
    TypeAdapter(list[ChatCompletionToolParam]).validate_python(body.get("tools", []))
    return body


def test_a_run_is_a_line_of_messages_with_their_calls_and_the_tools():
    asks = {"text": "I look.", "calls": [("bank_balance", {"account": "a", "pin": PIN}, "c1")]}
    body = checked(run(ScriptedModel([asks, "You have 70 euros."]), "How much?"))
    asked, called, answered, said = body["messages"]
    assert asked == {"role": "user", "content": "How much?"}
    (call,) = called["tool_calls"]
    assert (called["content"], call["id"], call["function"]["name"]) == (
        *("I look.", "c1", "bank_balance"),
    )
    assert json.loads(call["function"]["arguments"]) == {"account": "a", "pin": "***"}
    assert (answered["role"], answered["tool_call_id"]) == ("tool", "c1")
    assert said == {"role": "assistant", "content": "You have 70 euros."}
    names = [each["function"]["name"] for each in body["tools"]]
    assert "bank_balance" in names
    assert "confirm_action" not in names


def asking(pin, *, calls_functions):
    """A model that asks with a PIN, by a function or by text, and answers with it."""
    arguments = {"account": "a", "pin": pin}
    by_text = f"Action: bank_balance\nAction Input: {json.dumps(arguments)}"
    asks = {"calls": [("bank_balance", arguments)]} if calls_functions else by_text
    answer = f"Final Answer: with {PIN} and the key sk-abcdefghijklmnopqrstuvwxyz012345: 70."
    return ScriptedModel([asks, answer], calls_functions=calls_functions)


@pytest.mark.parametrize("calls_functions", [True, False])
def test_secrets_are_masked_wherever_they_are_said(calls_functions):
    body = checked(run(asking(PIN, calls_functions=calls_functions), f"How much? It is {PIN}."))
    written = json.dumps(body)
    assert PIN not in written
    assert "sk-abcdef" not in written
    assert "How much? It is ***." in written
    assert ("tools" in body) is calls_functions


def test_secrets_of_a_fragment_are_masked_in_the_work_that_it_is_a_part_of():
    manager, teller = (
        Fragment(name="manager", description="Leads.", fragments=["teller"], model="manager"),
        Fragment(name="teller", description="Tells.", tools=["bank/balance"], model="teller"),
    )
    hands_to_teller = {"calls": [("teller", {"task": f"Ask with {PIN}."})]}
    models = {
        "manager": ScriptedModel([hands_to_teller, f"70, with {PIN}."]),
        "teller": asking(PIN, calls_functions=True),
    }
    hands_on = {"calls": [("manager", {"task": f"How much? The PIN is {PIN}."})]}
    judged = json.dumps({"done": True, "missing": "", "lesson": f"The PIN is {PIN}."})
    model = ScriptedModel([hands_on, f"70, by {PIN}.", judged])
    lead = Orchestrator(model, [balance], fragments=[manager, teller], models=models)
    steps = []
    task = f"How much? It is {PIN}."
    result = asyncio.run(lead.run(task, on_step=steps.append))
    body = checked(result)
    assert body["messages"][1] == {"role": "user", "content": "How much? It is ***."}
    assert PIN not in json.dumps(body)
    assert "70, with ***." in body["messages"][3]["content"]
    (lesson,) = [step.lesson for step in steps if isinstance(step, Evaluated)]
    assert lesson == "The PIN is ***."


async def test_secrets_of_delegated_work_are_masked_in_its_progress_and_its_result():
    arguments = {"account": "a", "pin": PIN}
    asks = {"text": f"I look with {PIN}.", "calls": [("bank_balance", arguments)]}
    delegation = Delegation(ScriptedModel([asks, f"70, with {PIN}."]), progress_seconds=0)
    told = []
    async with ToolRuntime([balance, *delegation.tools]) as tools:
        tools.monitor.subscribe(told.append)
        result = await tools.execute("delegate", {"task": "How much?"})
    progress = [event.data["message"] for event in told if event.kind is EventKind.PROGRESS]
    assert (progress, result.result["answer"]) == (["I look with ***."], "70, with ***.")


class NoTools:
    """A choice that finds none to fit."""

    async def choose(self, task, tools):
        return ()


async def test_a_secret_of_a_tool_that_the_model_was_not_told_of_is_masked():
    tools = ToolRuntime([balance])
    agent = ReActAgent(asking(PIN, calls_functions=True), tools, tool_choice=NoTools())
    body = checked(await agent.run(f"How much? It is {PIN}."))
    assert PIN not in json.dumps(body)


def test_a_short_secret_is_masked_under_its_name_in_a_call_by_text():
    body = checked(run(asking("47", calls_functions=False), "How much?"))
    assert '{"account": "a", "pin": "***"}' in body["messages"][2]["content"]


@pytest.mark.parametrize("calls_functions", [True, False])
def test_a_run_without_calls_has_the_tools_that_its_model_could_have_called(calls_functions):
    body = checked(run(ScriptedModel(["Hello."], calls_functions=calls_functions), "Hi."))
    names = [each["function"]["name"] for each in body.get("tools", [])]
    assert ("bank_balance" in names) is calls_functions


def test_a_run_of_an_agent_without_tools_has_none():
    model = ScriptedModel(["Hello."])
    body = checked(run(model, "Hi.", instructions="Be kind.", enable_tools=False))
    assert body == {
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hi."},
            {"role": "assistant", "content": "Hello."},
        ]
    }
