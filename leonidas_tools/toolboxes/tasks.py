"""A task list that the agent writes and the user sees."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from leonidas_tools.calls.context import ToolContext
from leonidas_tools.calls.events import EventKind
from leonidas_tools.session.tasks import TaskList
from leonidas_tools.tools.tool import Tool, tool

_MAX_TASKS = 50
_MAX_TOOLS = 20


@tool(
    category="action",
    effect="idempotent",
    tags=["plan", "todo"],
    after_untrusted="allow",
)
async def write_tasks(
    tasks: Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=_MAX_TASKS)],
    ctx: ToolContext,
    tools: Annotated[
        list[Annotated[list[str], Field(max_length=_MAX_TOOLS)]], Field(max_length=_MAX_TASKS)
    ]
    | None = None,
) -> list[dict[str, Any]]:
    """Write the list of tasks for work of several steps; the user sees it.

    The list replaces the previous one; tasks that were on it keep their status.

    Args:
        tasks: What is to be done, in order, a few words for each.
        tools: For each task in the same order, the names of the tools it takes, once for each call.
            The status of such a task follows its calls by itself; else call update_task.
    """
    list_ = ctx.session.get(TaskList)
    ctx.undo(list_.put, list_.tasks)
    written = [task.to_json() for task in list_.write(tasks, tools)]
    ctx.emit(EventKind.TASK_LIST, {"tasks": written})
    return _short(written)


@tool(
    category="action",
    effect="idempotent",
    tags=["plan", "todo"],
    after_untrusted="allow",
)
async def update_task(
    id: str,  # noqa: A002 - what the model calls it
    status: Literal["pending", "in_progress", "completed", "failed"],
    ctx: ToolContext,
) -> list[dict[str, Any]]:
    """Set the status of a task: in_progress before it starts, completed or failed afterwards.

    Args:
        id: The id of the task.
        status: The new status.
    """
    list_ = ctx.session.get(TaskList)
    ctx.undo(list_.put, list_.tasks)
    ctx.emit(EventKind.TASK_UPDATE, {"task": list_.update(id, status).to_json()})
    return _short([task.to_json() for task in list_.tasks])


def _short(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tasks for the model, without their calls."""
    return [{key: task[key] for key in ("id", "title", "status")} for task in tasks]


TOOLS: tuple[Tool[..., Any], ...] = (write_tasks, update_task)
