"""The agent's task list: written and updated by the model, seen by the user, tied to calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from leonidas_tools import AdvancedToolProcessor, ToolContext, ToolError, ToolSession
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.session.tasks import Task, TaskList, TaskStatus
from leonidas_tools.toolboxes import tasks as toolbox

STATUSES = [status.value for status in TaskStatus]


class Told:
    def __init__(self, tools: AdvancedToolProcessor) -> None:
        self.events: list[ToolEvent] = []
        tools.monitor.subscribe(self.events.append)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [json.loads(json.dumps(e.to_json())) for e in self.events if e.kind == kind]


def look() -> str:
    return "seen"


def planning(*others: Any) -> AdvancedToolProcessor:
    return AdvancedToolProcessor([look, *toolbox.TOOLS, *others], builtin_tools=False)


def line(id_: str, title: str, status: str = "pending") -> dict[str, str]:
    return {"id": id_, "title": title, "status": status}


async def test_the_model_writes_a_list_and_says_how_far_it_is() -> None:
    tools = planning()
    written = await tools.execute("write_tasks", {"tasks": ["fly", "sleep"]})
    assert written.result == [line("1", "fly"), line("2", "sleep")]
    begun = await tools.execute("update_task", {"id": "1", "status": "in_progress"})
    assert begun.result == [line("1", "fly", "in_progress"), line("2", "sleep")]


async def test_a_new_list_keeps_what_is_known_of_its_tasks() -> None:
    tools = planning()
    await tools.execute("write_tasks", {"tasks": ["fly", "sleep"]})
    await tools.execute("update_task", {"id": "1", "status": "completed"})
    written = await tools.execute("write_tasks", {"tasks": ["pack", "fly", "fly"]})
    assert written.result == [line("3", "pack"), line("1", "fly", "completed")]


async def test_every_change_is_reported_as_json() -> None:
    tools = planning()
    told = Told(tools)
    await tools.execute("write_tasks", {"tasks": ["fly"]})
    await tools.execute("update_task", {"id": "1", "status": "failed"})
    (listed,), (updated,) = told.of("task_list"), told.of("task_update")
    assert listed["tasks"] == [line("1", "fly") | {"calls": []}]
    assert updated["task"] == line("1", "fly", "failed") | {"calls": []}
    assert (listed["tool"], updated["tool"]) == ("write_tasks", "update_task")
    assert listed["session"] == tools.session.id


async def test_calls_are_tied_to_the_task_in_progress() -> None:
    async def work(ctx: ToolContext) -> None:
        ctx.progress("half")

    tools = planning(work)
    await tools.execute("write_tasks", {"tasks": ["fly", "sleep"]})
    told = Told(tools)
    await tools.execute("look")
    for id_ in ("1", "2"):
        await tools.execute("update_task", {"id": id_, "status": "in_progress"})
        await tools.execute("work")
    await tools.execute("update_task", {"id": "2", "status": "completed"})
    await tools.execute("look")
    tied = [
        (e.kind.value, e.call.name, e.data.get("task"))
        for e in told.events
        if e.call.name in ("look", "work")
    ]
    assert tied == [
        ("tool_start", "look", None),
        ("tool_complete", "look", None),
        *[(f"tool_{kind}", "work", "1") for kind in ("start", "progress", "complete")],
        *[(f"tool_{kind}", "work", "2") for kind in ("start", "progress", "complete")],
        ("tool_start", "look", "1"),
        ("tool_complete", "look", "1"),
    ]
    tasks = tools.session.get(TaskList).tasks
    assert [len(task.calls) for task in tasks] == [2, 1]
    assert tasks[1].calls == (told.of("tool_complete")[4]["trace_id"],)


async def test_a_task_that_does_not_exist_is_said_to_be_unknown() -> None:
    tools = planning()
    await tools.execute("write_tasks", {"tasks": ["fly"]})
    result = await tools.execute("update_task", {"id": "9", "status": "completed"})
    assert result.to_response() == {
        "status": "not_found",
        "message": "There is no task '9'. Choose one of valid_options.",
        "retryable": False,
        "reason_code": "unknown_task",
        "valid_options": ["1"],
    }


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("update_task", {"id": "1", "status": "almost"}),
        ("write_tasks", {"tasks": [""]}),
        ("write_tasks", {"tasks": ["x"] * 51}),
    ],
)
async def test_nonsense_is_refused(name: str, arguments: dict[str, Any]) -> None:
    tools = planning()
    assert (await tools.execute(name, arguments)).status == "invalid_argument"
    assert tools.session.get(TaskList).tasks == []


async def test_each_session_has_a_list_of_its_own() -> None:
    tools, other = planning(), ToolSession()
    await tools.execute("write_tasks", {"tasks": ["fly"]})
    await tools.execute("write_tasks", {"tasks": ["cook"]}, session=other)
    assert [t.title for t in tools.session.get(TaskList).tasks] == ["fly"]
    assert [t.title for t in other.get(TaskList).tasks] == ["cook"]


async def test_a_call_keeps_its_task_to_its_end() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await go_on.wait()

    tools = planning(work)
    await tools.execute("write_tasks", {"tasks": ["fly", "sleep"]})
    await tools.execute("update_task", {"id": "1", "status": "in_progress"})
    told = Told(tools)
    working = asyncio.create_task(tools.execute("work"))
    async with asyncio.timeout(10):
        await begun.wait()
        await tools.execute("update_task", {"id": "1", "status": "completed"})
        go_on.set()
        await working
    assert {e.data.get("task") for e in told.events if e.call.name == "work"} == {"1"}


def test_an_application_can_follow_and_fill_the_list() -> None:
    tasks, told = TaskList(), []
    stop = tasks.on_change(lambda kind, data: told.append((kind, data)))
    tasks.put([Task(id="7", title="fly", status=TaskStatus.IN_PROGRESS)])
    assert tasks.current == "7"
    assert [task.id for task in tasks.write(["fly", "sleep"])] == ["7", "8"]
    tasks.update("7", "completed")
    stop()
    tasks.update("8", TaskStatus.IN_PROGRESS)
    assert [kind for kind, _ in told] == [
        EventKind.TASK_LIST, EventKind.TASK_LIST, EventKind.TASK_UPDATE,
    ]  # fmt: skip
    assert json.loads(json.dumps(told[2][1])) == {
        "task": line("7", "fly", "completed") | {"calls": []}
    }


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tasks = TaskList()

    @rule(titles=st.lists(st.sampled_from("abcd")))
    def write(self, titles: list[str]) -> None:
        before = {t.title: t for t in self.tasks.tasks}
        written = self.tasks.write(titles)
        assert [t.title for t in written] == list(dict.fromkeys(titles))
        assert all(before[t.title] == t for t in written if t.title in before)

    @rule(data=st.data(), status=st.sampled_from(STATUSES))
    def update(self, data: st.DataObject, status: str) -> None:
        if self.tasks.tasks:
            task = data.draw(st.sampled_from(self.tasks.tasks))
            self.tasks.update(task.id, status)
            if status == "in_progress":
                assert self.tasks.current == task.id

    @invariant()
    def the_current_task_is_in_progress(self) -> None:
        tasks = self.tasks.tasks
        going = {t.id for t in tasks if t.status is TaskStatus.IN_PROGRESS}
        assert len({t.id for t in tasks}) == len(tasks)
        assert (self.tasks.current in going) if going else self.tasks.current is None


TestMachine = Machine.TestCase


# --- tasks that name their calls ---------------------------------------------------------------


async def find(fails: bool = False) -> str:
    if fails:
        raise ToolError("No.")
    return "found"


async def book(fails: bool = False) -> str:
    return await find(fails)


def moves(told: Told) -> list[tuple[str, str]]:
    return [(event["task"]["id"], event["task"]["status"]) for event in told.of("task_update")]


async def trip() -> tuple[AdvancedToolProcessor, Told]:
    tools = planning(find, book)
    named = {"tasks": ["fly", "sleep"], "tools": [["find", "book"], ["book"]]}
    await tools.execute("write_tasks", named)
    return tools, Told(tools)


async def test_a_task_that_names_its_calls_follows_them_by_itself() -> None:
    tools, told = await trip()
    for name in ("look", "find", "book", "book"):
        await tools.execute(name)
    assert moves(told) == [
        ("1", "in_progress"),
        ("1", "completed"),
        ("2", "in_progress"),
        ("2", "completed"),
    ]
    tasks = tools.session.get(TaskList).tasks
    assert [len(task.calls) for task in tasks] == [2, 1]
    kinds = [e.kind.value for e in told.events if e.call.name == "find"]
    assert kinds == ["tool_start", "task_update", "tool_complete"]


async def test_a_call_that_fails_fails_its_task_and_a_repeat_brings_it_back() -> None:
    tools, told = await trip()
    await tools.execute("find", {"fails": True}, call_id="7")
    assert moves(told) == [("1", "in_progress"), ("1", "failed")]
    await tools.execute("find")
    await tools.execute("book")
    assert moves(told)[2:] == [("1", "in_progress"), ("1", "completed")]


async def test_wrong_arguments_leave_the_task_in_progress() -> None:
    tools, told = await trip()
    await tools.execute("find", {"fails": "perhaps"})
    assert moves(told) == [("1", "in_progress")]


async def test_two_tasks_that_take_the_same_tool_get_a_call_each() -> None:
    tools = planning(find)
    await tools.execute("write_tasks", {"tasks": ["a", "b"], "tools": [["find"], ["find"]]})
    told = Told(tools)
    await asyncio.gather(tools.execute("find"), tools.execute("find"))
    assert {task.status for task in tools.session.get(TaskList).tasks} == {"completed"}
    assert sorted(moves(told)) == sorted(
        (id_, status) for id_ in "12" for status in ("in_progress", "completed")
    )
