"""The event stream: numbers the events, keeps the last ones, and never waits for a reader."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.untrusted import UntrustedContent
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.listeners import Listeners
from leonidas_tools.monitoring.event_stream.schema import VERSION
from leonidas_tools.monitoring.event_stream.schema import kinds as known_kinds
from leonidas_tools.results.jsonable import utf8_text
from leonidas_tools.session.tasks import TaskList

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
    from typing import Any

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.monitoring.event_stream.schema import Event

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


class Subscription:
    """The unread events of one reader; if there are too many, only their number."""

    __slots__ = ("_changed", "_kinds", "_size", "_waiting", "missed", "session")

    def __init__(self, *, session: str | None, kinds: frozenset[str] | None, size: int) -> None:
        self.session = session
        self._kinds = kinds
        self._size = size
        self._waiting: deque[Mapping[str, Any]] = deque()
        self._changed = asyncio.Event()
        self.missed = 0
        """The number of lost events that are not reported to the reader yet."""

    def wants(self, event: Mapping[str, Any]) -> bool:
        """Return whether the reader wants the event; an event without a session is for all."""
        if self._kinds is not None and event["event"] not in self._kinds:
            return False
        return self.session is None or event.get("session", self.session) == self.session

    def put(self, event: Mapping[str, Any]) -> None:
        """Add an event; if the queue is full, drop all of its events and count them."""
        if not self.wants(event):
            return
        if self.missed:
            self.missed += 1
        elif len(self._waiting) >= self._size:
            self.missed = len(self._waiting) + 1
            self._waiting.clear()
        else:
            self._waiting.append(event)
        self._changed.set()

    def replay(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Add events from before the subscription."""
        self._waiting.extend(event for event in events if self.wants(event))

    async def changed(self) -> None:
        """Wait until there is an event to read, or a lost one to report."""
        while not self._waiting and not self.missed:
            self._changed.clear()
            await self._changed.wait()

    def take(self) -> Mapping[str, Any] | None:
        """Return the oldest waiting event; `None` if there is none."""
        return self._waiting.popleft() if self._waiting else None


_START = EventKind.START
_ASKED = EventKind.APPROVAL_REQUEST
_CONNECTED = frozenset({"connection_opened", "connection_renewed"})
_DISCONNECTED = frozenset({"connection_lost", "connection_refused"})
_USED = frozenset({"session_tokens", "session_cost", "currency"})


class EventStream:
    """All events, in order, for any number of readers.

    It is a sink: `Monitor` has one. Sequence numbers begin with the time in microseconds, so that
    they differ from those of an earlier process. Recording begins with the first subscription; the
    last events are then kept, for readers that reconnect. Everything runs in one thread.

    Args:
        calls: The running calls, as plain JSON.
        breakers: The state of every breaker that watches a tool, by its name.
        remembered: The number of events to keep.
        on_first_reader: Called when the first reader starts.

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
        on_first_reader: Callable[[], object] = bool,
    ) -> None:
        self._calls = calls
        self._on_first_reader = on_first_reader
        self._breakers = breakers
        self._last = time.time_ns() // 1000
        self._remembered: deque[Mapping[str, Any]] = deque(maxlen=remembered)
        self._recording = False
        self._subscriptions: tuple[Subscription, ...] = ()
        self._sessions: WeakSet[ToolSession] = WeakSet()
        self._live: dict[str, dict[str, Any]] = {}
        self.live_listeners = Listeners[str, "ToolSession", "dict[str, Any]"]("live events")
        """Callbacks with the kind, the session and the fields of each event of a live session."""

    def __call__(self, event: ToolEvent) -> None:
        """Add an event of a call."""
        if event.kind is _START:
            self.note(event.call.session)
        if self._recording:
            body = event.to_json()
            if event.kind is _ASKED:
                _add_question(body, event)
            elif event.kind is _START and (read := _untrusted(event.call.session)):
                body["untrusted"] = read
            self._put(body)

    def note(self, session: ToolSession) -> None:
        """Add a session that makes calls."""
        self._sessions.add(session)

    @property
    def is_recording(self) -> bool:
        """Return whether there is or was a reader, so that events are kept."""
        return self._recording

    def publish(self, kind: str, **data: Any) -> None:
        """Publish an event that belongs to no call.

        Args:
            kind: The value of `event`.
            data: Its fields, as plain JSON without secrets.
        """
        if self._recording:
            self._put({"event": kind, "at": time.time(), **data})

    def live(self, kind: str, session: ToolSession, **data: Any) -> None:
        """Publish an event of a live session or its connection.

        Args:
            kind: The value of `event`.
            session: The session.
            data: Its fields.
        """
        self._sessions.add(session)
        if kind == "session_ended":
            self._live.pop(session.id, None)
        else:
            self._live[session.id] = self._live_state(kind, session.id, data)
        self.live_listeners.notify(kind, session, data)
        self.publish(kind, session=session.id, **data)

    def sessions(self) -> list[ToolSession]:
        """Return the sessions that have made calls or are live, by their ids."""
        return sorted(self._sessions, key=lambda session: session.id)

    def subscribe(
        self,
        *,
        session: ToolSession | str | None = None,
        kinds: Collection[str] | None = None,
        after: int | str | None = None,
        size: int = 1000,
    ) -> AsyncGenerator[Event]:
        """Yield the current state as one `state`, and then every event.

        A reader that is too slow receives one `missed` with the number of lost events, and another
        `state`. Readers share the events and must not modify them.

        Args:
            session: Only events of this session, and those without a session.
            kinds: Only these kinds of events; `state` and `missed` are always sent.
            after: The number of the last event read; the later events replace the first `state`
                if all of them are still kept.
            size: The most unread events that are kept for the reader.

        Raises:
            ValueError: A kind of event is unknown.
        """
        chosen = None if kinds is None else frozenset(kinds)
        if unknown := (chosen or frozenset()) - known_kinds():
            raise ValueError(
                f"unknown kinds of events {sorted(unknown)}: choose from {sorted(known_kinds())}"
            )
        name = session if session is None or isinstance(session, str) else session.id
        return self._read(Subscription(session=name, kinds=chosen, size=size), after)

    async def _read(self, mine: Subscription, after: int | str | None) -> AsyncGenerator[Event]:
        """Yield the events of one reader."""
        if not self._recording:
            self._recording = True
            self._on_first_reader()
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
                    state = self._state(mine.session)  # before any further event
                    yield self._for_reader({"event": "missed", "count": missed})
                    yield state
                while (event := mine.take()) is not None:
                    yield cast("Event", event)
        finally:
            self._subscriptions = tuple(one for one in self._subscriptions if one is not mine)

    def _since(self, after: int | str) -> list[Mapping[str, Any]] | None:
        """Return the events after a number; `None` if not all of them are kept."""
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
        """Return the current state of one session or of all."""
        here = [one for one in self._sessions if session in (None, one.id)]
        desks = [desk for one in here if (desk := one.find(Approvals)) is not None]
        lists = {one.id: tasks for one in here if (tasks := one.find(TaskList)) is not None}
        return self._for_reader(
            {
                "event": "state",
                "calls": [call for call in self._calls() if session in (None, call["session"])],
                "approvals": [request.to_json() for desk in desks for request in desk.pending()],
                "tasks": {
                    name: [task.to_json() for task in tasks.tasks]
                    for name, tasks in lists.items()
                    if tasks.tasks
                },
                "untrusted": {one.id: read for one in here if (read := _untrusted(one))},
                "breakers": dict(self._breakers()),
                "live": [dict(one) for name, one in self._live.items() if session in (None, name)],
            }
        )

    def _for_reader(self, body: dict[str, Any]) -> Event:
        """Return an event for one reader, with the last sequence number again."""
        event = {"version": VERSION, "sequence": self._last, "at": time.time(), **body}
        return cast("Event", event)

    def _live_state(self, kind: str, session: str, data: Mapping[str, Any]) -> dict[str, Any]:
        new = {"session": session, "state": "connecting", "connection": None}
        known = self._live.get(session, new)
        if kind == "usage":
            return known | {key: data[key] for key in _USED & data.keys()}
        if kind in _CONNECTED:
            return {**known, "state": "connected", "connection": data["connection"]}
        return {**known, "state": "disconnected"} if kind in _DISCONNECTED else known


def _untrusted(session: ToolSession) -> list[str]:
    """Return the tools whose untrusted results a session has read."""
    content = session.find(UntrustedContent)
    return [] if content is None else list(content.tools)


def _add_question(body: dict[str, Any], event: ToolEvent) -> None:
    """Add the question to the event, so that a reader can show and answer it."""
    desk = event.call.session.find(Approvals)
    for request in desk.pending() if desk is not None else ():
        if request.id == body.get("approval_id"):
            body["request"] = request.to_json()


def to_sse(event: Mapping[str, Any]) -> str:
    """Return an event as a server-sent event; a browser returns its number as `Last-Event-ID`.

    Args:
        event: An event of the stream.

    Example:
        >>> print(to_sse({"sequence": 7, "event": "settings_changed"}), end="")
        id: 7
        event: settings_changed
        data: {"sequence":7,"event":"settings_changed"}
        <BLANKLINE>
    """
    data = utf8_text(_JSON.encode(event))
    return f"id: {event['sequence']}\nevent: {event['event']}\ndata: {data}\n\n"
