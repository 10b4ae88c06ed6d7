"""Plan work of several steps as a task list for the user."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from leonidas_tools.agent.malformed_json import json_values
from leonidas_tools.agent.models.model import (
    DEFAULT_PARAMETERS,
    Declared,
    Message,
    Model,
    ModelParameters,
    Usage,
    answer,
)
from leonidas_tools.results.texts import AS_IT_IS, Wording
from leonidas_tools.session.tasks import Task, TaskStatus

if TYPE_CHECKING:
    from collections.abc import Sequence


_MAX_TITLE_LENGTH = 200
_MAX_TOOLS = 20
_TITLES = ("title", "task", "step", "description", "name", "content")
_LISTS = ("tasks", "plan", "steps")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedTask:
    """A task of a plan."""

    title: str
    tools: Sequence[str] = ()  # one for each call


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A plan.

    Args:
        tasks: The tasks in order; empty if the model has planned none.
        usage: The token usage of the plan.
    """

    tasks: Sequence[PlannedTask] = ()
    usage: Usage = field(default_factory=Usage)


@dataclass
class Planner:
    """Plans tasks with a model, and plans again when a task has failed.

    `ReActAgent(model, tools, planner=…)` writes the tasks into the task list of its session. The
    user sees them, and calls update their status automatically.

    Args:
        model: The model that plans.
        max_tasks: The maximum number of tasks; further tasks are dropped.
        max_replans: The maximum number of new plans in a run.
        parameters: The parameters of the model.
    """

    model: Model
    _: KW_ONLY
    max_tasks: int = 10
    max_replans: int = 2
    parameters: ModelParameters = DEFAULT_PARAMETERS

    def __post_init__(self) -> None:
        if self.max_tasks < 1 or self.max_replans < 0:
            raise ValueError(
                f"max_tasks must be 1 or more and max_replans 0 or more, not {self.max_tasks}, "
                f"{self.max_replans}"
            )

    async def plan(
        self,
        task: str,
        tools: Sequence[Declared] = (),
        *,
        so_far: Sequence[Task] = (),
        wording: Wording = AS_IT_IS,
    ) -> Plan:
        """Return a plan.

        Args:
            task: The task to plan.
            tools: The available tools.
            so_far: The tasks of the previous plan, of which some have failed.
            wording: The texts of the settings.

        Raises:
            ModelError: The model does not answer.
        """
        listed = "\n".join(f"- {tool.name}: {tool.description}" for tool in tools)
        prompt = wording.text("agent_plan_ask", task=task, tools=listed or "-", most=self.max_tasks)
        if so_far:
            done = "\n".join(f"- {each.status.value}: {each.title}" for each in so_far)
            prompt = f"{prompt}\n\n{wording.text('agent_plan_again', tasks=done)}"
        said = await answer(self.model, [Message.user(prompt)], (), self.parameters)
        known = {tool.name for tool in tools}
        tasks = [each for found in _items(said.text) if (each := _parse_task(found, known))]
        return Plan(tasks=tasks[: self.max_tasks], usage=said.usage)


def format_plan(tasks: Sequence[Task]) -> str:
    """Return the tasks that are not completed as text for the model."""
    left = [task for task in tasks if task.status is not TaskStatus.COMPLETED]
    return "\n".join(
        f"{number}. {task.title}" + (f" ({', '.join(task.tools)})" if task.tools else "")
        for number, task in enumerate(left, start=1)
    )


def _items(text: str) -> Sequence[Any]:
    """Return the tasks in the text of the model: JSON, or one line for each."""
    for value in json_values(text):
        found = value
        if isinstance(value, dict):
            found = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
        if isinstance(found, list) and found:
            return found
    lines = (line.strip() for line in text.splitlines())
    return [line.lstrip("-*0123456789.) ").strip() for line in lines if line[:1] in "-*0123456789"]


def _parse_task(value: Any, known: set[str]) -> PlannedTask | None:
    if isinstance(value, str):
        value = {"title": value}
    if not isinstance(value, dict):
        return None
    title = next((t for key in _TITLES if isinstance(t := value.get(key), str) and t.strip()), None)
    if title is None:
        return None
    tools = value.get("tools", value.get("tool", ()))
    named = [tools] if isinstance(tools, str) else tools if isinstance(tools, list) else []
    used = [name for name in named if isinstance(name, str) and name in known]
    return PlannedTask(title=title.strip()[:_MAX_TITLE_LENGTH], tools=tuple(used[:_MAX_TOOLS]))
