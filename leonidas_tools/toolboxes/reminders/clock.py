"""Fire reminders when they are due, and tell of those that were missed."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls.call import ToolCall, ToolResult
from leonidas_tools.errors import StoreError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import say
from leonidas_tools.toolboxes.reminders.delivery import deliver
from leonidas_tools.toolboxes.reminders.repeats import WrongRuleError, next_of
from leonidas_tools.toolboxes.reminders.spoken import spoken_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.session.reminders import Reminder, ReminderKeeper
    from leonidas_tools.toolboxes.reminders.settings import RemindersSettings
    from leonidas_tools.tools.toolbox import ToolboxHost

logger = visible_logger(__name__)

_LATE_SECONDS = 60.0
"""Delay within which a reminder is not called missed."""
_LONGEST_WAIT_SECONDS = 30.0
"""Another process may change reminders, and the clock of the system may be set."""
_AFTER_ERROR_SECONDS = 5.0
_KEPT_SECONDS = 7 * 86_400.0
"""Time during which a reminder that is over can be snoozed."""


async def serve(settings: RemindersSettings, host: ToolboxHost) -> None:
    """Fire reminders until it is cancelled."""
    if host.reminders is not None:
        await ReminderClock(settings, host, host.reminders).run()


class ReminderClock:
    """Fires reminders, and tells of them.

    Args:
        settings: Where reminders go.
        host: The conversations to be told.
        keeper: The reminders.
        now: The time, in seconds since the epoch.
    """

    def __init__(
        self,
        settings: RemindersSettings,
        host: ToolboxHost,
        keeper: ReminderKeeper,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._notices = host.notices
        self._keeper = keeper
        self._now = now
        self._changed = asyncio.Event()
        self._deliveries: set[asyncio.Task[None]] = set()
        self._is_failing = False

    async def run(self) -> None:
        """Fire reminders until it is cancelled."""
        ends = [
            self._keeper.on_change(self._changed.set),
            self._notices.on_join(lambda _: self._changed.set()),
        ]
        try:
            while True:
                self._changed.clear()
                await self._wait(await self._looked())
        finally:
            for end in ends:
                end()
            for delivery in self._deliveries:
                delivery.cancel()
            if self._deliveries:
                await asyncio.wait(self._deliveries)

    async def look(self) -> None:
        """Fire what is due, and tell what is untold.

        Raises:
            StoreError: The reminders cannot be reached.
        """
        now = self._now()
        for reminder in await self._keeper.due(now):
            await self._fire(reminder, now)
        users = set[str | None]()
        for session in self._notices.sessions:  # the latest conversation of a user is told
            if user_of(session) in users:
                continue
            users.add(user_of(session))
            for reminder in await self._keeper.untold(user_of(session)):
                if await self._keeper.tell(reminder):
                    self._tell(reminder, session, now)

    async def _looked(self) -> float:
        """Look, and return how long to wait before the next look."""
        try:
            await self.look()
            next_due = await self._keeper.next_due()
            if next_due is None:
                await self._keeper.forget(self._now() - _KEPT_SECONDS)
        except StoreError as error:
            if not self._is_failing:
                logger.warning("Reminders wait until the store can be used: %s", error)
            self._is_failing = True
            return _AFTER_ERROR_SECONDS
        self._is_failing = False
        left = _LONGEST_WAIT_SECONDS if next_due is None else next_due - self._now()
        return min(max(left, 0.0), _LONGEST_WAIT_SECONDS)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _fire(self, reminder: Reminder, now: float) -> None:
        """Note that a reminder fires, and deliver it."""
        following = _following(reminder, now)
        at = reminder.at if following is None else following
        if await self._keeper.fire(reminder, at=at, due=following):
            task = asyncio.create_task(
                deliver(_as_json(reminder, reminder.due, now), self._settings),
                name=f"deliver reminder {reminder.id}",
            )
            self._deliveries.add(task)
            task.add_done_callback(self._deliveries.discard)

    def _tell(self, reminder: Reminder, session: Any, now: float) -> None:
        """Tell the conversation of a user."""
        zone = ZoneInfo(reminder.zone)
        told = _as_json(reminder, reminder.untold, now)
        if told["missed"]:
            moment = datetime.fromtimestamp(reminder.untold or now, UTC)
            when = spoken_time(moment, datetime.fromtimestamp(now, UTC), zone)
            speech = say("reminder_missed", when=when, title=reminder.title)
        else:
            speech = say("reminder_due", title=reminder.title)
        call = ToolCall(name="system_reminder", id=f"reminder-{reminder.id}", session=session)
        result = ToolResult(result=told, message=say("tell_reminder"), speech=speech)
        self._notices.tell(call, result)


def _following(reminder: Reminder, now: float) -> float | None:
    """Return the next time of a reminder that fires; times that are over are left out."""
    if not reminder.rrule:
        return None
    zone = ZoneInfo(reminder.zone)
    start = datetime.fromtimestamp(reminder.start, zone)
    after = datetime.fromtimestamp(max(reminder.at, now), zone)
    try:
        found = next_of(reminder.rrule, start, zone, after=after)
    except WrongRuleError:
        logger.warning("The rule of the reminder %r cannot be read: it ends", reminder.id)
        return None
    return None if found is None else found.timestamp()


def _as_json(reminder: Reminder, fired: float | None, now: float) -> dict[str, Any]:
    """Return a reminder that has fired, as it is told and posted."""
    moment = now if fired is None else fired
    local = datetime.fromtimestamp(moment, ZoneInfo(reminder.zone))
    return {
        "id": reminder.id,
        "title": reminder.title,
        "message": reminder.message,
        "due": local.isoformat(timespec="seconds"),
        "missed": now - moment > _LATE_SECONDS,
        "repeats": reminder.rrule or None,
    }
