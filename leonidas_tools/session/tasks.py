"""The task list of an agent in a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls.call import ResultStatus
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.listeners import Listeners
from leonidas_tools.errors import ToolError
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from leonidas_tools.calls.call import ToolCall
    from leonidas_tools.calls.events import Sink, ToolEvent

_MAX_CALLS = 100
_WRITERS = frozenset({"write_tasks", "update_task"})


class TaskStatus(StrEnum):
    """The status of a task."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


_FIRST = [TaskStatus.IN_PROGRESS, TaskStatus.PENDING, TaskStatus.FAILED]
"""The statuses in the order in which tasks that name the same tool get its calls."""
_FAILED = frozenset(
    {
        ResultStatus.FAILED,
        ResultStatus.TIMEOUT,
        ResultStatus.UNAVAILABLE,
        ResultStatus.UNKNOWN_OUTCOME,
        ResultStatus.CANCELLED,
        ResultStatus.DENIED,
        ResultStatus.DISABLED,
        ResultStatus.NOT_FOUND,
    }
)
"""Statuses that fail a task; after others (arguments, a question, a limit) the model retries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One line of the list.

    Args:
        id: The id of the task within its session.
        title: The work to be done.
        status: Its status.
        calls: The trace ids of the last hundred calls made for the task.
        tools: The tools that the task needs, one for each call. If there are any, their calls
            update the status.
        done: The tools whose calls succeeded.
    """

    id: str
    title: str
    status: TaskStatus = TaskStatus.PENDING
    calls: Sequence[str] = ()
    tools: Sequence[str] = ()
    done: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the task as plain JSON."""
        body = {**asdict(self), "status": self.status.value, "calls": list(self.calls)}
        lists = {"tools": list(self.tools), "done": list(self.done)}
        for key, value in lists.items():
            if value:
                body[key] = value
            else:
                del body[key]
        return body


Listener: TypeAlias = Callable[[EventKind, Mapping[str, Any]], None]
"""Receives each change: its kind, and the list or the task as plain JSON."""


class TaskList:
    """The tasks of a session; calls belong to the latest task that is in progress.

    Example:
        >>> from leonidas_tools.calls.call import ToolSession
        >>> tasks = ToolSession("kitchen").get(TaskList)
        >>> [task.id for task in tasks.write(["Find a flight", "Book it"])]
        ['1', '2']
        >>> tasks.update("1", "in_progress").title, tasks.current
        ('Find a flight', '1')
    """

    def __init__(self) -> None:
        self.current: str | None = None
        """The id of the task that calls belong to."""
        self._tasks: dict[str, Task] = {}
        self._listeners = Listeners[EventKind, Mapping[str, Any]]("tasks")
        self._begun: list[str] = []
        self._last_id = 0
        self._running: dict[str, list[str]] = {}

    @property
    def tasks(self) -> list[Task]:
        """Return the tasks, in order."""
        return list(self._tasks.values())

    def write(
        self, titles: Sequence[str], tools: Sequence[Sequence[str]] | None = None
    ) -> list[Task]:
        """Replace the list, and keep the tasks with the same titles.

        Args:
            titles: The titles of the tasks, in order.
            tools: For each task, the tools that it needs; their calls then update its status.
        """
        before = {task.title: task for task in self._tasks.values()}
        taken: dict[str, Sequence[str]] = dict.fromkeys(titles, ())
        for title, names in zip(titles, tools or (), strict=False):
            taken[title] = taken[title] or tuple(names)
        tasks = [
            self._set_tools(before.get(title) or self._new(title), names)
            for title, names in taken.items()
        ]
        self.put(tasks)
        return tasks

    def put(self, tasks: Sequence[Task]) -> None:
        """Replace the list with stored tasks."""
        self._tasks = {task.id: task for task in tasks}
        known = [int(task.id) for task in tasks if task.id.isdecimal()]
        self._last_id = max([self._last_id, *known])
        self._follow()
        self._listeners.notify(EventKind.TASK_LIST, {"tasks": [task.to_json() for task in tasks]})

    def update(self, id: str, status: TaskStatus | str) -> Task:  # noqa: A002 - the field's word
        """Set the status of a task.

        Raises:
            ToolError: There is no such task.
        """
        task = self._tasks.get(id)
        if task is None:
            raise ToolError(
                say("unknown_task", task=id),
                status="not_found",
                reason_code="unknown_task",
                valid_options=list(self._tasks),
            )
        task = self._tasks[id] = replace(task, status=TaskStatus(status))
        if id in self._begun:
            self._begun.remove(id)
        self._begun.append(id)
        self._follow()
        self._listeners.notify(EventKind.TASK_UPDATE, {"task": task.to_json()})
        return task

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after every change; return a function that unsubscribes."""
        return self._listeners.subscribe(listener)

    def tie(self, call: ToolCall, sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
        """Assign a new call to its task; return sinks that add the task to the call's events."""
        if call.name in _WRITERS:
            return sinks
        named = self._waiting_for(call.name)
        current = self.current if named is None else named
        if current is None:
            return sinks
        task = self._tasks[current]
        calls = (*task.calls, call.trace_id)[-_MAX_CALLS:]
        self._tasks[current] = replace(task, calls=calls)
        if named is not None:
            self._running.setdefault(named, []).append(call.name)

        def tell(event: ToolEvent) -> None:
            moved = None if named is None else self._move(named, event)
            tied = replace(event, data={**event.data, "task": current})
            for sink in sinks:
                if moved is not None and event.ends_call:
                    sink(moved)  # nothing happens to a call after its end
                sink(tied)
                if moved is not None and not event.ends_call:
                    sink(moved)

        return (tell,)

    def _waiting_for(self, tool: str) -> str | None:
        """Return the id of the task that a call of a tool belongs to, if a task names the tool."""
        waiting = [
            task
            for task in self._tasks.values()
            if task.status is not TaskStatus.COMPLETED
            and task.tools.count(tool) > [*task.done, *self._running.get(task.id, ())].count(tool)
        ]
        return min(waiting, key=lambda task: _FIRST.index(task.status)).id if waiting else None

    def _move(self, id_: str, event: ToolEvent) -> ToolEvent | None:
        """Update a task that names a tool after an event of its call; return the event to emit."""
        result, name = event.result, event.call.name
        if result is not None and name in self._running.get(id_, ()):
            self._running[id_].remove(name)
        task = self._tasks.get(id_)
        if task is None:
            return None
        if result is not None and result.ok:
            task = self._tasks[id_] = replace(task, done=(*task.done, name))
        status = _status_after(task, event)
        if status is task.status or task.status is TaskStatus.COMPLETED:
            return None
        data = {"task": self.update(id_, status).to_json()}
        return replace(event, kind=EventKind.TASK_UPDATE, result=None, seconds=None, data=data)

    def _set_tools(self, task: Task, tools: Sequence[str]) -> Task:
        return replace(task, tools=tuple(tools)) if tools else task

    def _new(self, title: str) -> Task:
        self._last_id += 1
        return Task(id=str(self._last_id), title=title)

    def _follow(self) -> None:
        """Determine the task in progress."""
        going = {t.id for t in self._tasks.values() if t.status is TaskStatus.IN_PROGRESS}
        self._begun = [each for each in self._begun if each in going]
        self.current = self._begun[-1] if self._begun else next(iter(sorted(going)), None)


def _status_after(task: Task, event: ToolEvent) -> TaskStatus:
    """Return the status of a task after an event of a call of one of its tools."""
    result = event.result
    if event.kind is EventKind.START:
        return TaskStatus.IN_PROGRESS
    if result is None:
        return task.status
    if result.ok:
        is_done = len(task.done) >= len(task.tools) and task.status is not TaskStatus.FAILED
        return TaskStatus.COMPLETED if is_done else task.status
    if event.kind is EventKind.CANCEL:
        return TaskStatus.PENDING  # the call was cancelled, and the task is not done
    return TaskStatus.FAILED if result.status in _FAILED else task.status
