"""The stream: numbers what happens, remembers the last of it, and never waits for a reader."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet, ref

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.calls.events import EventKind
from leonidas_tools.monitoring.event_stream.schema import VERSION
from leonidas_tools.monitoring.event_stream.schema import kinds as known_kinds
from leonidas_tools.monitoring.event_stream.subscription import Subscription
from leonidas_tools.session.tasks import TaskList

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.monitoring.event_stream.schema import Event

_START = EventKind.START
_ASKED = EventKind.APPROVAL_REQUEST
_CONNECTED = frozenset({"connection_opened", "connection_renewed"})
_DISCONNECTED = frozenset({"connection_lost", "connection_refused"})


def _nobody() -> None:
    return None


class EventStream:
    """Everything that happens, in order, for any number of readers.

    It is a sink: `Monitor` has one. Numbers begin with the time in microseconds, so that none of
    an earlier process is taken for one of this. Until somebody subscribes for the first time,
    nothing is written down; from then on the last events are remembered, for readers that come
    back. All of it happens in one thread.

    Args:
        calls: The running calls, as plain JSON.
        breakers: The state of every breaker that watches a tool, by its name.
        remembered: How many events are remembered.

    Example:
        >>> import asyncio
        >>> from leonidas_tools.calls.call import ToolCall
        >>> from leonidas_tools.calls.events import EventKind, ToolEvent
        >>> async def listen() -> list[str]:
        ...     events, heard = EventStream(), []
        ...     async for event in events.subscribe():
        ...         heard.append(event["event"])
        ...         if heard[-1] == "state":
        ...             events(ToolEvent(kind=EventKind.START, call=ToolCall(name="search")))
        ...         else:
        ...             return heard
        >>> asyncio.run(listen())
        ['state', 'tool_start']
    """

    def __init__(
        self,
        *,
        calls: Callable[[], Iterable[Mapping[str, Any]]] = tuple,
        breakers: Callable[[], Mapping[str, str]] = dict,
        remembered: int = 1000,
    ) -> None:
        self._calls = calls
        self._breakers = breakers
        self._last = time.time_ns() // 1000
        self._remembered: deque[Mapping[str, Any]] = deque(maxlen=remembered)
        self._recording = False
        self._subscriptions: tuple[Subscription, ...] = ()
        self._sessions: WeakSet[ToolSession] = WeakSet()
        self._latest: Callable[[], ToolSession | None] = _nobody
        self._live: dict[str, dict[str, Any]] = {}

    def __call__(self, event: ToolEvent) -> None:
        """Take in what has happened to a call."""
        if event.kind is _START and event.call.session is not self._latest():
            self._latest = ref(event.call.session)  # else every call would look for it in the set
            self._sessions.add(event.call.session)
        if self._recording:
            body = event.to_json()
            if event.kind is _ASKED:
                _add_question(body, event)
            self._put(body)

    def publish(self, kind: str, **data: Any) -> None:
        """Take in something that has happened to no call.

        Args:
            kind: Its `event`.
            data: What there is to say about it, as plain JSON without secrets.
        """
        if self._recording:
            self._put({"event": kind, "at": time.time(), **data})

    def live(self, kind: str, session: ToolSession, **data: Any) -> None:
        """Take in what has happened to a live session or its connection.

        Args:
            kind: Its `event`.
            session: The session.
            data: What there is to say about it.
        """
        self._sessions.add(session)
        if kind == "session_ended":
            self._live.pop(session.id, None)
        else:
            self._live[session.id] = self._lives_on(kind, session.id, data)
        self.publish(kind, session=session.id, **data)

    def subscribe(
        self,
        *,
        session: ToolSession | str | None = None,
        kinds: Collection[str] | None = None,
        after: int | str | None = None,
        size: int = 1000,
    ) -> AsyncGenerator[Event]:
        """Return how things are now, as one `state`, and then all that happens.

        A reader that is too slow is told by one `missed` for how many events there was no room,
        and by another `state` how things are then. The events are not to be changed: others read
        the same ones.

        Args:
            session: Only what happens in this session, and to all of them.
            kinds: Only these kinds of events; `state` and `missed` always come.
            after: The number of the last event that was read: what has happened since comes in
                place of the `state`, if all of it is remembered.
            size: How many events may wait for the reader.

        Raises:
            ValueError: There is no such kind of event.
        """
        chosen = None if kinds is None else frozenset(kinds)
        if unknown := (chosen or frozenset()) - known_kinds():
            raise ValueError(
                f"unknown kinds of events {sorted(unknown)}: choose from {sorted(known_kinds())}"
            )
        name = session if session is None or isinstance(session, str) else session.id
        return self._read(Subscription(session=name, kinds=chosen, size=size), after)

    async def _read(self, mine: Subscription, after: int | str | None) -> AsyncGenerator[Event]:
        """Yield all that one reader is told."""
        self._recording = True
        self._subscriptions = (*self._subscriptions, mine)
        since = None if after is None else self._since(after)
        try:
            if since is None:
                yield self._state(mine.session)
            else:
                mine.replay(since)
            while True:
                await mine.changed()
                if missed := mine.missed:
                    mine.missed = 0
                    state = self._state(mine.session)  # before anything more can happen
                    yield self._told({"event": "missed", "count": missed})
                    yield state
                while (event := mine.take()) is not None:
                    yield cast("Event", event)
        finally:
            self._subscriptions = tuple(one for one in self._subscriptions if one is not mine)

    def _since(self, after: int | str) -> list[Mapping[str, Any]] | None:
        """Return what has happened since an event; `None` where not all of it is remembered."""
        if not str(after).isascii() or not str(after).isdecimal():
            return None
        number, kept = int(after), self._remembered
        oldest = kept[0]["sequence"] if kept else self._last + 1
        if not oldest - 1 <= number <= self._last:
            return None
        return [event for event in kept if event["sequence"] > number]

    def _put(self, body: dict[str, Any]) -> None:
        self._last += 1
        event = {"version": VERSION, "sequence": self._last, **body}
        self._remembered.append(event)
        for subscription in self._subscriptions:
            subscription.put(event)

    def _state(self, session: str | None) -> Event:
        """Return how things are now, in one session or in all."""
        here = [one for one in self._sessions if session in (None, one.id)]
        desks = [desk for one in here if (desk := one.find(Approvals)) is not None]
        lists = {one.id: tasks for one in here if (tasks := one.find(TaskList)) is not None}
        return self._told(
            {
                "event": "state",
                "calls": [call for call in self._calls() if session in (None, call["session"])],
                "approvals": [request.to_json() for desk in desks for request in desk.pending()],
                "tasks": {
                    name: [task.to_json() for task in tasks.tasks]
                    for name, tasks in lists.items()
                    if tasks.tasks
                },
                "breakers": dict(self._breakers()),
                "live": [dict(one) for name, one in self._live.items() if session in (None, name)],
            }
        )

    def _told(self, body: dict[str, Any]) -> Event:
        """Return what is for one reader alone: it has the number of what happened last."""
        event = {"version": VERSION, "sequence": self._last, "at": time.time(), **body}
        return cast("Event", event)

    def _lives_on(self, kind: str, session: str, data: Mapping[str, Any]) -> dict[str, Any]:
        new = {"session": session, "state": "connecting", "connection": None}
        known = self._live.get(session, new)
        if kind in _CONNECTED:
            return {**known, "state": "connected", "connection": data["connection"]}
        return {**known, "state": "disconnected"} if kind in _DISCONNECTED else known


def _add_question(body: dict[str, Any], event: ToolEvent) -> None:
    """Add the question to the event, so that a reader can show and answer it."""
    desk = event.call.session.find(Approvals)
    for request in desk.pending() if desk is not None else ():
        if request.id == body.get("approval_id"):
            body["request"] = request.to_json()
