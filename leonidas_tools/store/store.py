"""The store: calls, approvals, preferences, tasks and long results, kept over restarts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from leonidas_tools.calls.call import known_status
from leonidas_tools.errors import StoreError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.store import queries
from leonidas_tools.store.address import database_url
from leonidas_tools.store.approvals import ApprovalTable
from leonidas_tools.store.backlog import Backlog
from leonidas_tools.store.database import Database
from leonidas_tools.store.durable import Beginnings, DurableStart
from leonidas_tools.store.errands import Errands
from leonidas_tools.store.preferences import PreferenceTable
from leonidas_tools.store.recorder import Recorder
from leonidas_tools.store.replay import replayed
from leonidas_tools.store.results import ResultTable
from leonidas_tools.store.retention import Retention
from leonidas_tools.store.rows import INTERRUPTED, STARTED
from leonidas_tools.store.sessions import KeptSessions
from leonidas_tools.store.status import StoreStatus
from leonidas_tools.store.tasks import TaskTable
from leonidas_tools.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from leonidas_tools.calls.call import ResultStatus, ToolCall, ToolResult, ToolSession
    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.store.rows import Execution, ReplayEvent, SessionSummary

logger = visible_logger(__name__)

_OPENING_SECONDS = _CLOSING_SECONDS = 5.0
_DURABLE_SECONDS, _FLUSHING_SECONDS = 2.0, 1.0
_MOST_REPLAYED = 10_000


class Store:
    """Keeps what happens, beside the calls and never in their way.

    `store: {enabled: true}` in the settings has an `AdvancedToolProcessor` hold one, as its
    `store`. By hand: its `sink` hears of events, `tools.monitor.subscribe(store.sink)`; its
    `policies` are for `AdvancedToolProcessor(policies=store.policies)`. No call suffers from a
    database that cannot be written to: the `status` says it, and what is asked of the store raises
    `StoreError`.

    Args:
        where: A path, an address such as `postgresql://user:password@host/name`, or settings; a
            file in the user's data directory when left out.

    Raises:
        ConfigurationError: The address is none, or its driver is not installed.

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
        settings = where if isinstance(where, StoreSettings) else StoreSettings()
        url = database_url(settings.url if isinstance(where, StoreSettings) else where)
        self.settings = settings
        self._database = Database(url, durable=settings.durable)
        self._backlog = Backlog(
            max_calls=settings.max_waiting, max_bytes=settings.max_waiting_bytes
        )
        self._recorder = Recorder(self._backlog, max_value_bytes=settings.max_value_bytes)
        self._errands = Errands(most=settings.max_waiting, max_bytes=settings.max_waiting_bytes)
        self._writer = Writer(self._database, self._backlog, self._errands, run=self._recorder.run)
        self._retention = Retention(
            self._database, keep_seconds=settings.keep_for, keep_calls=settings.keep_calls
        )
        self._beginnings = Beginnings(self._recorder, self._backlog, self._writer)
        self._is_dropping = False
        self.preferences = PreferenceTable(self._database)
        """What users like."""
        self.approvals = ApprovalTable(self._database, self._recorder)
        """Questions whether a call may run."""
        self.tasks = TaskTable(self._database)
        """The agent's task lists."""
        self.results = ResultTable(
            self._database,
            max_bytes=settings.max_results_bytes,
            keep_seconds=settings.keep_results_for,
        )
        """Results that are too long for the model."""
        self._sessions = KeptSessions(self, self._writer)

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Return the policies that load and store what sessions need."""
        if not self.settings.durable:
            return (self._sessions,)
        refuses = self.settings.unwritable == "refuse"
        return (self._sessions, DurableStart(self, refuses=refuses))

    def begin(self, session: ToolSession) -> None:
        """Read what is kept of a session that begins, and of its user, ahead of its first call."""
        self._sessions.begin(session)

    @property
    def status(self) -> StoreStatus:
        """Return how the store is."""
        backlog, writer, aside = self._backlog, self._writer, self._database.set_aside
        return StoreStatus(
            where=self._database.url.render_as_string(hide_password=True),
            ok=writer.error is None,
            error=writer.error,
            waiting=len(backlog),
            waiting_bytes=backlog.size,
            written=writer.written,
            dropped=backlog.dropped,
            cut=backlog.cut,
            refused=writer.refused,
            not_durable=self._beginnings.not_written,
            records_waiting=len(self._errands),
            records_dropped=self._errands.dropped,
            set_aside=None if aside is None else str(aside),
            lost=self._database.lost,
        )

    def sink(self, event: ToolEvent) -> None:
        """Take note of an event, and returns at once."""
        dropped = self._backlog.dropped
        try:
            self._recorder(event)
        except Exception as error:  # noqa: BLE001 - what keeps a call must not break it
            logger.warning("An event of a call is not kept: %s", type(error).__name__)
        if self._backlog.dropped > dropped and not self._is_dropping:
            self._is_dropping = True
            logger.warning("Calls are not kept: more happen than the store can write")
        elif self._is_dropping and not len(self._backlog):
            self._is_dropping = False
        self._writer.wake()

    async def begun(self, call: ToolCall, *, timeout_seconds: float = _DURABLE_SECONDS) -> bool:
        """Wait until the start of a call is on disk; many that wait share one transaction.

        Args:
            call: The call.
            timeout_seconds: How long to wait; without it a broken disk would hold up calls.

        Returns:
            Whether it is.
        """
        return await self._beginnings.written(call, timeout_seconds)

    async def earlier(
        self, call: ToolCall, *, timeout_seconds: float = _DURABLE_SECONDS
    ) -> ToolResult | None:
        """Return the answer to a call that its session has made before, also in another process.

        Args:
            call: A running call; its id, tool and arguments are compared.
            timeout_seconds: How long to wait for the database.

        Returns:
            `None` for a new call.

        Raises:
            StoreError: That cannot be read.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._beginnings.earlier(call, self._database)
        except TimeoutError:
            raise StoreError("The store does not answer") from None

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
        """Return the calls that fit.

        Args:
            tool: Only those of this tool.
            status: Only those that ended so; `started` and `interrupted` are others.
            session: Only those of this conversation.
            user: Only those of this user.
            since: Only those that began at this time or later, in seconds since the epoch.
            until: Only those that began at this time or earlier.
            text: Only those that have this in their tool's name, arguments or result.
            limit: How many at most; `None` for all.
            newest_first: Whether the last is the first.

        Raises:
            StoreError: They cannot be read.
            ToolValidationError: There is no such status.
        """
        wanted = None if status is None else known_status(status, STARTED, INTERRUPTED)
        await self._flushed()
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
        """Return the conversations, the latest first.

        Args:
            user: Only those of this user.
            limit: How many at most; `None` for all.
        """
        await self._flushed()
        return await queries.find_sessions(self._database, user=user, limit=limit)

    async def replay(self, session: str) -> list[ReplayEvent]:
        """Return what happened in a conversation, in the order in which it happened.

        Args:
            session: Its id.

        Raises:
            StoreError: It cannot be read.
        """
        calls = await self.executions(session=session, limit=_MOST_REPLAYED)
        asked = await self.approvals.find(session=session, limit=_MOST_REPLAYED)
        long = await self.results.find(session=session, limit=_MOST_REPLAYED)
        return replayed(calls[::-1], asked[::-1], long[::-1])

    async def interrupted(self, *, acknowledged: bool = False) -> list[Execution]:
        """Return the calls that had begun when their process died, the oldest first.

        Nothing runs again by itself. Of those that `may_have_happened` somebody should be told.

        Args:
            acknowledged: Whether also those that somebody has taken note of.

        Raises:
            StoreError: They cannot be read.
        """
        await self._flushed()
        await queries.mark_interrupted(self._database, run=self._recorder.run)
        return await queries.find_interrupted(self._database, acknowledged=acknowledged)

    async def acknowledge(self, calls: Iterable[Execution]) -> None:
        """Note that somebody knows that these calls were interrupted.

        Args:
            calls: Some of those that `interrupted` returned.

        Raises:
            StoreError: It cannot be written.
        """
        await queries.acknowledge(self._database, [call.id for call in calls])

    async def prune(self) -> int:
        """Throw away what is too old or too much, and says how many rows; happens once an hour.

        Raises:
            StoreError: The database cannot be written to.
        """
        return await self._retention.prune()

    async def flush(self, *, timeout_seconds: float = 5.0) -> bool:
        """Wait until all that has happened is written, and says whether it is.

        Args:
            timeout_seconds: How long to wait.
        """
        return await self._writer.flush(timeout_seconds)

    async def __aenter__(self) -> Self:
        """Open the database, and begins to write; one that cannot be opened is tried again.

        Raises:
            ConfigurationError: The database is of a newer version than is known here.
        """
        try:
            async with asyncio.timeout(_OPENING_SECONDS):
                await self._database.open()
        except StoreError as error:
            self._writer.fail(error)
        except TimeoutError:
            self._writer.fail(StoreError("The store does not answer"))
        self._writer.start()
        self._retention.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Write what waits, and lets go."""
        await self._retention.close()
        await self._sessions.close()
        await self._writer.close(_CLOSING_SECONDS)
        await self._database.close()

    async def _flushed(self) -> None:
        if len(self._backlog) or len(self._errands):
            await self.flush(timeout_seconds=_FLUSHING_SECONDS)
