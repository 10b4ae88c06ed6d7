"""The store: calls, approvals, preferences, and the users' data of tools, across restarts."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Self

from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls.call import validate_status
from leonidas_tools.calls.events import EventKind
from leonidas_tools.errors import StoreError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.store import queries
from leonidas_tools.store.address import database_url
from leonidas_tools.store.approvals import ApprovalTable
from leonidas_tools.store.cached_results import CachedResults
from leonidas_tools.store.conversations import ConversationTable
from leonidas_tools.store.database import Database
from leonidas_tools.store.durable import DurableStart
from leonidas_tools.store.memories import MemoryTable
from leonidas_tools.store.notes import NoteTable
from leonidas_tools.store.outbox import Outbox
from leonidas_tools.store.preferences import PreferenceTable
from leonidas_tools.store.recorder import Recorder, name_of, user_name_of
from leonidas_tools.store.reminders import ReminderTable
from leonidas_tools.store.results import ResultTable
from leonidas_tools.store.retention import Retention
from leonidas_tools.store.rows import INTERRUPTED, STARTED, ReplayEvent, StoreStatus
from leonidas_tools.store.sessions import SessionBinding
from leonidas_tools.store.tasks import TaskTable
from leonidas_tools.store.usage import UsageTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from leonidas_tools.calls.call import ResultStatus, Run, ToolCall, ToolResult, ToolSession
    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.settings.tool_configuration import ToolConfiguration
    from leonidas_tools.store.approvals import LeftQuestion
    from leonidas_tools.store.rows import Approval, Execution, KeptResult, SessionSummary
    from leonidas_tools.tools.registry import AnyTool

logger = visible_logger(__name__)

_OPENING_SECONDS = _CLOSING_SECONDS = 5.0
_FLUSHING_SECONDS = 1.0
_MAX_REPLAYED = 10_000
_RESULT_KEPT = "result_kept"
"""The kind of event for a result that is too long for the model."""
_OF_APPROVALS = (EventKind.APPROVAL_REQUEST.value, EventKind.APPROVAL_ANSWER.value)


class Store:
    """Stores calls, approvals, preferences, and the users' data of tools, without delaying calls.

    Tools keep task lists, notes, memories, reminders and long results.

    With `store: {enabled: true}` in the settings, an `AdvancedToolProcessor` has one as its
    `store`. To connect one yourself, subscribe its `sink`,
    `tools.monitor.subscribe(store.sink)`, and pass its policies,
    `AdvancedToolProcessor(policies=store.policies)`. If the database is not writable, calls
    continue by default: the `status` has the error, and the methods raise `StoreError`.

    Args:
        where: A path, an address such as `postgresql://user:password@host/name`, or settings; by
            default a file in the user's data directory.

    Raises:
        ConfigurationError: The address is invalid, or its driver is not installed.

    Example:
        >>> import tempfile
        >>> async def count_calls(folder: str) -> int:
        ...     async with Store(f"{folder}/kept.db") as store:
        ...         return len(await store.executions(tool="get_weather"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(count_calls(folder))
        0
    """

    def __init__(self, where: str | Path | StoreSettings | None = None) -> None:
        self.settings = settings = where if isinstance(where, StoreSettings) else StoreSettings()
        url = database_url(settings.url if isinstance(where, StoreSettings) else where)
        self._database = Database(url, durable=settings.durable)
        run = secrets.token_hex(8)
        self._outbox = Outbox(
            self._database,
            run=run,
            max_entries=settings.max_waiting,
            max_bytes=settings.max_waiting_bytes,
        )
        self._recorder = Recorder(run, self._outbox.calls, max_value_bytes=settings.max_value_bytes)
        self._retention = Retention(
            self._database,
            keep_seconds=settings.keep_for,
            keep_calls=settings.keep_calls,
            durable=settings.durable,
        )
        self.preferences = PreferenceTable(self._database)
        """The preferences of users."""
        self.approvals = ApprovalTable(self._database, self._recorder)
        """Approval questions and their answers."""
        self.tasks = TaskTable(self._database)
        """The agent's task lists."""
        self.memories = MemoryTable(self._database)
        """Memories of users, found by their meaning."""
        self.notes = NoteTable(self._database)
        """Notes of users."""
        self.reminders = ReminderTable(self._database)
        """Reminders of users."""
        self.results = ResultTable(
            self._database,
            max_bytes=settings.max_results_bytes,
            keep_seconds=settings.keep_results_for,
        )
        """Results that are too long for the model, by handle."""
        self.cached_results = CachedResults(self._database)
        """Cached results of reads, shared by all processes."""
        self.conversations = ConversationTable(self._database, self._outbox, run=run)
        """The conversations of users, counted across all processes."""
        self.usage = UsageTable(self._database, self._outbox)
        """The tokens of live sessions."""
        self._sessions = SessionBinding(self, self._database, self._outbox, self._recorder)
        self._durable = DurableStart(
            self._database,
            self._outbox,
            self._recorder,
            self._sessions,
            self.approvals,
            refuses=settings.unwritable == "refuse",
        )

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Return the policies that load and store the state of sessions."""
        return (self._sessions, self._durable) if self.settings.durable else (self._sessions,)

    def begin(self, session: ToolSession) -> None:
        """Load a session's state and its user's preferences ahead of the first call."""
        self._sessions.begin(session)

    @property
    def status(self) -> StoreStatus:
        """Return the status of the store."""
        calls, records, aside = self._outbox.calls, self._outbox.records, self._database.set_aside
        return StoreStatus(
            where=self._database.shown,
            ok=self._outbox.error is None,
            error=self._outbox.error,
            waiting=len(calls),
            waiting_bytes=calls.size,
            written=calls.written,
            dropped=calls.dropped,
            cut=calls.cut,
            refused=calls.refused,
            not_durable=self._durable.not_written,
            records_waiting=len(records),
            records_dropped=records.dropped + records.refused,
            set_aside=None if aside is None else str(aside),
            lost=self._database.lost,
        )

    def sink(self, event: ToolEvent) -> None:
        """Record an event; return at once."""
        try:
            self._recorder(event)
        except Exception as error:  # noqa: BLE001 - the store must not break a call
            logger.warning("An event of a call is not stored: %s", type(error).__name__)
        self._outbox.wake()

    async def begun(self, call: ToolCall, *, timeout_seconds: float = 2.0) -> bool:
        """Wait until the start of a call is on disk; concurrent waits share one transaction.

        Args:
            call: The call.
            timeout_seconds: How long to wait, so that a broken disk does not block calls.

        Returns:
            Whether the start is on disk.
        """
        return await self._durable.written(call, timeout_seconds)

    def resume_with(
        self,
        outcome: Callable[[ToolCall], Run | None],
        may_be_once: Callable[[AnyTool, ToolConfiguration], bool],
    ) -> None:
        """Set the functions of a runtime with which the store judges calls.

        Args:
            outcome: Returns a function that waits for a call that continues after its process
                ended; `None` for a call that ends with its process.
            may_be_once: Returns whether a call of a tool, or of a fallback in its place, may have
                an effect that happens only once.
        """
        self._durable.outcome = outcome
        self._recorder.may_be_once = may_be_once

    async def unfinished(self, session: ToolSession) -> list[Execution]:
        """Return the `once` calls of a session that a crash interrupted, oldest first.

        Args:
            session: A session with the id and the user of the session that made the calls.
        """
        await queries.mark_interrupted(self._database, run=self._recorder.run)
        return await queries.find_unfinished(
            self._database,
            session=name_of(session.id),
            user=user_name_of(user_of(session)),
        )

    async def left_questions(self, session: ToolSession) -> list[LeftQuestion]:
        """Return the unanswered questions of a session that can be asked again.

        Args:
            session: A session with the id and the user of the session that asked them.
        """
        await self._flush_pending()
        return await self.approvals.left(name_of(session.id), user=user_name_of(user_of(session)))

    async def store_outcome(self, before: Execution, call: ToolCall, result: ToolResult) -> bool:
        """Store the outcome of a call that continued after its process ended.

        Args:
            before: The call, as `unfinished` returned it.
            call: The same call, with its tool and its session.
            result: Its result.

        Returns:
            Whether the outcome is stored; `False` if the call already has a final one.
        """
        return await self._durable.store_outcome(before, call, result)

    async def executions(  # noqa: PLR0913 - each is one filter
        self,
        *,
        tool: str | None = None,
        status: ResultStatus | str | None = None,
        session: str | None = None,
        user: str | None = None,
        since: float | None = None,
        until: float | None = None,
        text: str | None = None,
        limit: int | None = 100,
        newest_first: bool = True,
    ) -> list[Execution]:
        """Return the matching calls.

        Args:
            tool: Only calls of this tool.
            status: Only calls with this status; `started` and `interrupted` are possible, too.
            session: Only calls of this session.
            user: Only calls of this user, in the form of `Execution.user`.
            since: Only calls that began at this time or later, in seconds since the epoch.
            until: Only calls that began at this time or earlier.
            text: Only calls with this text in the tool, arguments, result, message or reason.
            limit: The maximum number of calls; `None` for all.
            newest_first: Whether the newest call is the first.

        Raises:
            StoreError: The calls cannot be read.
            ToolValidationError: The status is unknown.
        """
        wanted = None if status is None else validate_status(status, STARTED, INTERRUPTED)
        await self._flush_pending()
        return await queries.find_executions(
            self._database,
            tool=tool,
            status=wanted,
            session=session,
            user=user,
            since=since,
            until=until,
            text=text,
            limit=limit,
            newest_first=newest_first,
        )

    async def sessions(
        self, *, user: str | None = None, limit: int | None = 100
    ) -> list[SessionSummary]:
        """Return the sessions, the latest first.

        Args:
            user: Only sessions of this user, in the form of `SessionSummary.user`.
            limit: The maximum number of sessions; `None` for all.
        """
        await self._flush_pending()
        return await queries.find_sessions(self._database, user=user, limit=limit)

    async def replay(
        self, session: str, *, user: str | None = None, limit: int = _MAX_REPLAYED
    ) -> list[ReplayEvent]:
        """Return the events of a session, in the order in which they happened.

        Args:
            session: The id of the session.
            user: Only events of this user, in the form of `Execution.user`; sessions of several
                users can have one id.
            limit: Only the newest calls, questions, long results and counted turns, at most this
                many of each.
        """
        calls = await self.executions(session=session, user=user, limit=limit)
        questions = await self.approvals.find(session=session, user=user, limit=limit)
        long_results = await self.results.find(session=session, user=user, limit=limit)
        turns = await self.usage.replay(session, user=user, limit=limit)
        events = _build_events(calls[::-1], questions[::-1], long_results[::-1])
        return sorted([*events, *turns[::-1]], key=lambda event: event.at)

    async def interrupted(self, *, acknowledged: bool = False) -> list[Execution]:
        """Return the calls that were running when their process died, the oldest first.

        They are not run again. Inform a person of each that `may_have_happened`.

        Args:
            acknowledged: Whether to include calls that a person has acknowledged.
        """
        await self._flush_pending()
        await queries.mark_interrupted(self._database, run=self._recorder.run)
        return await queries.find_interrupted(self._database, acknowledged=acknowledged)

    async def acknowledge(self, calls: Iterable[Execution]) -> None:
        """Mark interrupted calls as acknowledged by a person.

        Args:
            calls: Calls that `interrupted` returned.
        """
        await queries.acknowledge(self._database, [call.id for call in calls])

    async def prune(self) -> int:
        """Delete rows that are too old or too many, and return their number; runs hourly."""
        return await self._retention.prune()

    async def flush(self, *, timeout_seconds: float = 5.0) -> bool:
        """Wait until all events are written; return whether they are.

        Args:
            timeout_seconds: How long to wait.
        """
        return await self._outbox.flush(timeout_seconds)

    async def __aenter__(self) -> Self:
        """Open the database and start writing; retry in the background if it cannot be opened.

        Raises:
            ConfigurationError: The database has a newer version than this library.
        """
        try:
            async with asyncio.timeout(_OPENING_SECONDS):
                await self._database.open()
        except StoreError as error:
            self._outbox.fail(error)
        except TimeoutError:
            self._outbox.fail(StoreError("The store does not respond"))
        self._outbox.start()
        self._retention.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Write the queues and close the database."""
        await self._retention.close()
        await self._sessions.close()
        await self.cached_results.close()
        await self._outbox.close(_CLOSING_SECONDS)
        await self._database.close()

    async def _flush_pending(self) -> None:
        if len(self._outbox):
            await self.flush(timeout_seconds=_FLUSHING_SECONDS)


def _build_events(
    calls: Sequence[Execution],
    approvals: Sequence[Approval] = (),
    results: Sequence[KeptResult] = (),
) -> list[ReplayEvent]:
    """Return the events, in the order in which they happened."""
    known = {approval.id.rpartition("-")[2] for approval in approvals}
    events = [event for call in calls for event in _call_events(call, known)]
    events += [event for approval in approvals for event in _approval_events(approval)]
    events += [_result_event(result) for result in results]
    return sorted(events, key=lambda event: event.at)


def _call_events(call: Execution, known: Collection[str]) -> Iterator[ReplayEvent]:
    about = {"tool": call.tool, "trace_id": call.trace_id}
    start = EventKind.START.value
    yield ReplayEvent(at=call.started, kind=start, data={"arguments": call.arguments}, **about)
    for step in call.steps:
        if step.kind in _OF_APPROVALS and step.data.get("approval_id") in known:
            continue  # the row of the approval has more details
        at = call.started + step.after_seconds
        yield ReplayEvent(at=at, kind=step.kind, data=step.data, **about)
    if call.ended is not None and call.ending is not None:
        body = {"status": call.status, "seconds": call.seconds, "result": call.result}
        body |= {"message": call.message, "reason": call.reason}
        yield ReplayEvent(at=call.ended, kind=call.ending, data=_drop_none(body), **about)


def _approval_events(approval: Approval) -> Iterator[ReplayEvent]:
    about = {"tool": approval.tool, "trace_id": approval.trace_id}
    asked = {"question": approval.message, "arguments": approval.arguments, "rule": approval.rule}
    kind = EventKind.APPROVAL_REQUEST.value
    yield ReplayEvent(at=approval.requested, kind=kind, data=_drop_none(asked), **about)
    if approval.decided is not None:
        body = {
            "decision": approval.answer or approval.decision,
            "by": approval.decided_by,
            "channel": approval.channel,
            "arguments": approval.edited,
            "note": approval.note,
        }
        kind = EventKind.APPROVAL_ANSWER.value
        yield ReplayEvent(at=approval.decided, kind=kind, data=_drop_none(body), **about)


def _result_event(result: KeptResult) -> ReplayEvent:
    data = {"handle": result.handle, "mime_type": result.mime_type, "size": result.size}
    return ReplayEvent(at=result.created, kind=_RESULT_KEPT, tool="", trace_id="", data=data)


def _drop_none(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None}
