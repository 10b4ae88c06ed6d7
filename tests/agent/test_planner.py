import asyncio

import pytest

from leonidas_tools import ToolError, ToolRuntime, ToolSession, tool
from leonidas_tools.agent import Planner, ReActAgent
from leonidas_tools.agent.models import FunctionDeclaration, ScriptedModel
from leonidas_tools.errors import ModelError
from leonidas_tools.session.tasks import TaskList

TOOLS = [FunctionDeclaration(name="look"), FunctionDeclaration(name="write")]


@tool(effect="read")
def look(name: str) -> str:
    """Looks."""
    if name == "nowhere":
        raise ToolError("There is nothing.")
    return f"seen {name}"


def titles(plan):
    return [(task.title, list(task.tools)) for task in plan.tasks]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('[{"title": "Look", "tools": ["look"]}]', [("Look", ["look"])]),
        ('```json\n[{"title": "Look", "tools": "look"},]\n```', [("Look", ["look"])]),
        ('{"tasks": [{"task": "Look"}, "Write it"]}', [("Look", []), ("Write it", [])]),
        ('Sure! ["Look", "Write"]', [("Look", []), ("Write", [])]),
        ('[{"step": "Look", "tools": ["fly", "look", 3]}]', [("Look", ["look"])]),
        ("1. Look\n2. Write\n", [("Look", []), ("Write", [])]),
        ("- Look\n- Write\n", [("Look", []), ("Write", [])]),
        ('[{"title": "Look"', [("Look", [])]),
        ("I have no idea.", []),
        ("", []),
    ],
)
async def test_a_plan_is_read_out_of_what_the_model_writes(said, expected):
    assert titles(await Planner(ScriptedModel([said])).plan("Do it.", TOOLS)) == expected


async def test_a_plan_has_a_bounded_length():
    planner = Planner(ScriptedModel([str([f"Step {n}" for n in range(20)])]), max_tasks=3)
    assert len((await planner.plan("Do it.")).tasks) == 3
    with pytest.raises(ValueError, match="max_tasks"):
        Planner(ScriptedModel([]), max_tasks=0)


def run(agent, **options):
    session = ToolSession()
    result = asyncio.run(agent.run("Do it.", session=session, **options))
    return result, [(task.title, task.status.value) for task in session.get(TaskList).tasks]


PLAN = '[{"title": "Look", "tools": ["look", "look"]}, {"title": "Tell"}]'


def test_calls_move_the_tasks_of_the_plan():
    moved = []
    script = [
        {"calls": [("look", {"name": "here"})]},
        {"calls": [("look", {"name": "there"})]},
        "Done.",
    ]
    model = ScriptedModel(script)
    agent = ReActAgent(model, [look], planner=Planner(ScriptedModel([PLAN])))
    session = ToolSession()
    session.get(TaskList).on_change(
        lambda _, data: moved.append([t["status"] for t in data.get("tasks", [data.get("task")])])
    )
    result = asyncio.run(agent.run("Do it.", session=session))
    assert result.ok
    assert moved[-4:] == [["pending"] * 2, ["in_progress"], ["completed"], ["completed"]]
    assert "1. Look (look, look)\n2. Tell" in model.asked[0].messages[-1].text
    assert result.usage.total > sum(turn.usage.total for turn in result.turns)


def test_it_plans_again_where_a_task_has_failed():
    first = '[{"title": "Look here", "tools": ["look"]}, {"title": "Look", "tools": ["look"]}]'
    second = '[{"title": "Look there", "tools": ["look"]}]'
    planning = ScriptedModel([first, second])
    model = ScriptedModel(
        [
            {"calls": [("look", {"name": "here"})]},
            {"calls": [("look", {"name": "nowhere"})]},
            {"calls": [("look", {"name": "there"})]},
            "Done.",
        ]
    )
    result, tasks = run(ReActAgent(model, [look], planner=Planner(planning)))
    assert result.ok
    assert tasks == [("Look here", "completed"), ("Look there", "completed")]
    assert "- failed: Look" in planning.asked[1].messages[-1].text
    assert "1. Look there" in model.asked[2].messages[-1].text


def test_planning_again_is_bounded():
    planning = ScriptedModel(['[{"title": "Look", "tools": ["look"]}]'], repeat=True)
    model = ScriptedModel(
        [lambda m: {"calls": [("look", {"name": "nowhere"})]}] * 4 + ["Nothing is there."]
    )
    run(ReActAgent(model, [look], planner=Planner(planning, max_replans=1)))
    assert len(planning.asked) == 2


def test_without_a_plan_it_works_all_the_same():
    agent = ReActAgent(ScriptedModel(["Done."]), planner=Planner(ScriptedModel(["Hm."])))
    assert run(agent)[0].answer == "Done."


def test_a_planner_that_cannot_be_reached_fails_the_run():
    planning = ScriptedModel([ModelError("down", reason="connection")])
    result, _ = run(ReActAgent(ScriptedModel([]), planner=Planner(planning)))
    assert (result.status, result.reason, result.turns) == ("failed", "connection", ())


async def test_the_plan_is_an_event():
    agent = ReActAgent(
        ScriptedModel(["Done."]),
        ToolRuntime([look], builtin_tools=False),
        planner=Planner(ScriptedModel([PLAN])),
    )
    async with agent.runtime as tools:
        reader = tools.events.subscribe(kinds=["task_list", "task_update"])
        await anext(reader)
        await agent.run("Do it.")
        events = [await anext(reader), await anext(reader)]
        await reader.aclose()
    assert [event["event"] for event in events] == ["task_list", "task_update"]
    assert [task["title"] for task in events[0]["tasks"]] == ["Look", "Tell"]
    assert (events[1]["task"]["title"], events[1]["task"]["status"]) == ("Tell", "completed")
