import asyncio

import pytest

from leonidas_tools import ToolError, ToolRuntime, ToolSession, tool
from leonidas_tools.agent import (
    Planner,
    ReActAgent,
    Reflection,
    Reflector,
    ReflectorDecision,
    adjust_llm_parameters,
)
from leonidas_tools.agent.models import (
    Answer,
    EndReason,
    ModelCall,
    ModelParameters,
    ScriptedModel,
)
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.errors import ModelError


@tool
def execute_code(code: str) -> str:
    """Runs code."""
    if "fixed" not in code:
        raise ToolError(f"NameError in {code!r}")
    return f"ran {code}"


@tool(effect="read")
def look(name: str) -> str:
    """Looks."""
    if name == "nowhere":
        raise ToolError("There is nothing.")
    if name == "busy":
        raise ToolError("Too busy.", retryable=True)
    return f"seen {name}"


def run(agent, **options):
    return asyncio.run(agent.run("Do it.", **options))


def looks(name):
    return {"calls": [("look", {"name": name})]}


def test_code_that_failed_is_corrected_and_run_again():
    fixing = ScriptedModel(["Try `x`:\n```python\nstill broken\n```", "```python\nfixed\n```"])
    model = ScriptedModel([{"calls": [("execute_code", {"code": "broken"})]}, "Done."])
    result = run(ReActAgent(model, [execute_code], reflector=Reflector(fixing)))
    turn = result.turns[0]
    assert turn.results[0].result == "ran fixed"
    assert "was corrected and run again" in turn.results[0].message
    assert [(each.code, each.result.ok) for each in turn.corrections] == [
        ("still broken", False),
        ("fixed", True),
    ]
    assert "NameError in 'broken'" in fixing.asked[0].messages[0].text
    assert result.turns[1].corrections == ()
    assert "ran fixed" in model.asked[1].messages[-1].text


def test_correcting_is_bounded():
    fixing = ScriptedModel([lambda m: f"try {len(m[0].text)}"], repeat=True)
    model = ScriptedModel([{"calls": [("execute_code", {"code": "broken"})]}, "Sorry."])
    result = run(ReActAgent(model, [execute_code], reflector=Reflector(fixing, max_corrections=1)))
    assert (result.answer, len(fixing.asked)) == ("Sorry.", 1)
    assert result.turns[0].results[0].status == "failed"


@pytest.mark.parametrize(
    "fixing",
    [None, ScriptedModel([ModelError("down", reason="server")]), ScriptedModel(["broken"])],
    ids=["no model", "no answer", "the same code"],
)
def test_without_a_correction_the_failure_stands(fixing):
    model = ScriptedModel([{"calls": [("execute_code", {"code": "broken"})]}, "Sorry."])
    result = run(ReActAgent(model, [execute_code], reflector=Reflector(fixing)))
    assert (result.answer, result.turns[0].results[0].status) == ("Sorry.", "failed")


def test_only_a_failure_of_code_is_corrected():
    fixing = ScriptedModel([])
    model = ScriptedModel(
        [{"calls": [("look", {"name": "nowhere"}), ("execute_code", {"code": 3})]}, "Sorry."]
    )
    result = run(ReActAgent(model, [look, execute_code], reflector=Reflector(fixing)))
    assert (result.answer, fixing.asked) == ("Sorry.", [])


def test_a_correction_needs_approval_where_the_code_does():
    ran = []

    @tool(requires_approval=True)
    def run_it(code: str) -> str:
        """Runs code."""
        ran.append(code)
        raise ToolError("broken")

    fixing = ScriptedModel(["fixed"])
    agent = ReActAgent(
        ScriptedModel([{"calls": [("run_it", {"code": "x"})]}, "Sorry."]),
        ToolRuntime([run_it], {"policies": {"mode": "read_only"}}, builtin_tools=False),
        reflector=Reflector(fixing, code_tools=["run_it"]),
    )
    assert run(agent).answer == "Sorry."
    assert (ran, fixing.asked) == ([], [])


def test_a_loop_has_another_try_and_is_then_stopped():
    model = ScriptedModel([looks("here")], repeat=True)
    result = run(ReActAgent(model, [look], max_iterations=20, reflector=Reflector()))
    assert (result.status, result.reason) == ("stopped", "loop")
    assert [turn.decision for turn in result.turns] == ["continue"] * 4 + ["retry", "stop"]
    assert "Try another way" in model.asked[5].messages[-1].text
    assert model.asked[5].parameters.temperature == 0.9


def test_turns_without_any_success_are_stopped():
    names = iter("abcdefgh")

    @tool(effect="read")
    def fail(name: str) -> None:
        """Fails."""
        raise ToolError(name)

    model = ScriptedModel([lambda _: {"calls": [("fail", {"name": next(names)})]}], repeat=True)
    result = run(ReActAgent(model, [fail], reflector=Reflector(max_failures=2)))
    assert (result.status, result.reason, len(result.turns)) == ("stopped", "failing", 2)


async def test_two_denials_are_enough():
    @tool(requires_approval=True)
    def pay(amount: int) -> None:
        """Pays."""

    session = ToolSession()
    session.get(SessionPolicy).mode = "read_only"
    amounts = iter(range(9))
    model = ScriptedModel([lambda _: {"calls": [("pay", {"amount": next(amounts)})]}], repeat=True)
    agent = ReActAgent(model, [pay], reflector=Reflector())
    result = await agent.run("Pay.", session=session)
    assert (result.status, result.reason, len(result.turns)) == ("stopped", "denied", 2)


def test_what_may_help_is_tried_again():
    model = ScriptedModel([looks("busy"), "Later."])
    result = run(ReActAgent(model, [look], reflector=Reflector()))
    assert [turn.decision for turn in result.turns] == ["retry", None]


def test_a_completed_plan_is_reported_to_the_model():
    planner = Planner(ScriptedModel(['[{"title": "Look", "tools": ["look"]}]']))
    model = ScriptedModel([looks("here"), "Done."])
    result = run(ReActAgent(model, [look], planner=planner, reflector=Reflector()))
    assert [turn.decision for turn in result.turns] == ["complete", None]
    assert "All tasks of the plan are completed" in model.asked[1].messages[-1].text


def test_what_cannot_be_read_is_asked_for_more_exactly():
    model = ScriptedModel(["Thought: hm", "Final Answer: 3"], calls_functions=False)
    run(ReActAgent(model, [look], reflector=Reflector()))
    assert [asked.parameters.temperature for asked in model.asked] == [None, 0.2]


def test_an_answer_that_was_cut_off_gets_more_room():
    cut = Answer(text='Action: look\nAction Input: {"na', end=EndReason.LENGTH)
    model = ScriptedModel([cut, "Final Answer: 3"], calls_functions=False)
    agent = ReActAgent(
        model, [look], reflector=Reflector(), parameters=ModelParameters(max_output_tokens=100)
    )
    assert run(agent).answer == "3"
    assert [asked.parameters.max_output_tokens for asked in model.asked] == [100, 200]


def test_the_model_may_adjust_its_own_parameters():
    call = ("adjust_llm_parameters", {"temperature": 0.1, "max_output_tokens": 500})
    wrong = ("adjust_llm_parameters", {"temperature": 7})
    model = ScriptedModel([{"calls": [call]}, {"calls": [wrong]}, "Done."])
    result = run(ReActAgent(model, [adjust_llm_parameters]))
    assert [turn.results[0].status for turn in result.turns[:2]] == ["ok", "invalid_argument"]
    last = model.asked[-1].parameters
    assert (last.temperature, last.max_output_tokens, last.top_p) == (0.1, 500, None)


def test_a_custom_reflector_decides():
    class Hasty(Reflector):
        def reflect(self, turns, parameters, tasks=()):
            return Reflection(decision=ReflectorDecision.STOP, reason="hasty")

    calls = Answer(calls=[ModelCall(id="a", name="look", arguments={"name": "here"})])
    result = run(ReActAgent(ScriptedModel([calls]), [look], reflector=Hasty()))
    assert (result.status, result.reason) == ("stopped", "hasty")
