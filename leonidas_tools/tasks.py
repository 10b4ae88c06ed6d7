"""What the agent has set out to do in a conversation, task by task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.errors import ToolError
from leonidas_tools.events import EventKind

if TYPE_CHECKING:
    from leonidas_tools.calls import ToolCall
    from leonidas_tools.events import Sink, ToolEvent

_MOST_CALLS = 100
_WRITERS = frozenset({"write_tasks", "update_task"})


class TaskStatus(StrEnum):
    """How far a task is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One line of the list.

    Args:
        id: Names it within its session.
        title: What is to be done.
        status: How far it is.
        calls: The trace ids of the calls that were made for it, the last hundred.
    """

    id: str
    title: str
    status: TaskStatus = TaskStatus.PENDING
    calls: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The task as plain JSON."""
        return {**asdict(self), "status": self.status.value, "calls": list(self.calls)}


Listener: TypeAlias = Callable[[EventKind, Mapping[str, Any]], None]
"""Told of each change: its kind, and the list or the task as plain JSON."""


class TaskList:
    """The tasks of a session. Calls belong to the task that was begun last and is in progress.

    Example:
        >>> from leonidas_tools.calls import ToolSession
        >>> tasks = ToolSession("kitchen").get(TaskList)
        >>> [task.id for task in tasks.write(["Find a flight", "Book it"])]
        ['1', '2']
        >>> tasks.update("1", "in_progress").title, tasks.current
        ('Find a flight', '1')
    """

    def __init__(self) -> None:
        self.current: str | None = None
        """The id of the task that calls are made for."""
        self._tasks: dict[str, Task] = {}
        self._listeners: tuple[Listener, ...] = ()
        self._begun: list[str] = []
        self._last_id = 0

    @property
    def tasks(self) -> list[Task]:
        """The tasks, in their order."""
        return list(self._tasks.values())

    def write(self, titles: Sequence[str]) -> list[Task]:
        """Replaces the list; a task that is on it already stays as it is.

        Args:
            titles: What is to be done, in order.
        """
        before = {task.title: task for task in self._tasks.values()}
        tasks = [before.get(title) or self._new(title) for title in dict.fromkeys(titles)]
        self.put(tasks)
        return tasks

    def put(self, tasks: Sequence[Task]) -> None:
        """Replaces the list by tasks that were kept elsewhere, or before."""
        self._tasks = {task.id: task for task in tasks}
        known = [int(task.id) for task in tasks if task.id.isdecimal()]
        self._last_id = max([self._last_id, *known])
        self._follow()
        self._tell(EventKind.TASK_LIST, {"tasks": [task.to_json() for task in tasks]})

    def update(self, id: str, status: TaskStatus | str) -> Task:  # noqa: A002 - the field's word
        """Notes how far a task is.

        Raises:
            ToolError: There is no such task.
        """
        task = self._tasks.get(id)
        if task is None:
            raise ToolError(
                f"There is no task {id!r}.",
                status="not_found",
                reason_code="unknown_task",
                valid_options=list(self._tasks),
            )
        task = self._tasks[id] = replace(task, status=TaskStatus(status))
        if id in self._begun:
            self._begun.remove(id)
        self._begun.append(id)
        self._follow()
        self._tell(EventKind.TASK_UPDATE, {"task": task.to_json()})
        return task

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Tells someone of every change from now on; returns a function that ends that."""
        self._listeners = (*self._listeners, listener)

        def unsubscribe() -> None:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

        return unsubscribe

    def tie(self, call: ToolCall, sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
        """Ties a call that begins to the task in progress: its events name the task.

        Args:
            call: The call.
            sinks: Who hears of its events.
        """
        current = self.current
        if current is None or call.name in _WRITERS:
            return sinks
        task = self._tasks[current]
        calls = (*task.calls, call.trace_id)[-_MOST_CALLS:]
        self._tasks[current] = replace(task, calls=calls)

        def tell(event: ToolEvent) -> None:
            tied = replace(event, data={**event.data, "task": current})
            for sink in sinks:
                sink(tied)

        return (tell,)

    def _new(self, title: str) -> Task:
        self._last_id += 1
        return Task(id=str(self._last_id), title=title)

    def _follow(self) -> None:
        """Looks which task is the one in progress."""
        going = {t.id for t in self._tasks.values() if t.status is TaskStatus.IN_PROGRESS}
        self._begun = [each for each in self._begun if each in going]
        self.current = self._begun[-1] if self._begun else next(iter(sorted(going)), None)

    def _tell(self, kind: EventKind, data: Mapping[str, Any]) -> None:
        for listener in self._listeners:
            listener(kind, data)
