"""The clock of reminders: fires reminders when due, and shows and posts them."""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import shutil
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls.call import ToolCall, ToolResult
from leonidas_tools.errors import StoreError
from leonidas_tools.files.certificates import trusted_certificates
from leonidas_tools.redaction import described
from leonidas_tools.redaction.http_logs import unlogged_requests
from leonidas_tools.redaction.visible import visible, visible_logger
from leonidas_tools.results.texts import say
from leonidas_tools.toolboxes.reminders.repeats import WrongRuleError, next_of
from leonidas_tools.toolboxes.reminders.speech import spoken_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leonidas_tools.session.user_data import Reminder
    from leonidas_tools.store.reminders import ReminderTable
    from leonidas_tools.toolboxes.reminders.settings import RemindersSettings
    from leonidas_tools.tools.toolbox import ToolboxHost

logger = visible_logger(__name__)

_LATE_SECONDS = 60.0
"""Maximum delay of a reminder that is not reported as missed, in seconds."""
_MAX_WAIT_SECONDS = 30.0
"""Maximum seconds between looks: other processes may change reminders, or the clock be set."""
_AFTER_ERROR_SECONDS = 5.0
_KEPT_SECONDS = 7 * 86_400.0
"""Seconds during which a past reminder can still be snoozed."""
_PROGRAM = "notify-send"
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
_DESKTOP_SECONDS = 10.0
_ATTEMPTS = 3
_DELAY_SECONDS = 1.0
_SERVER_ERROR = 500


async def serve(settings: RemindersSettings, host: ToolboxHost) -> None:
    """Fire reminders until cancelled; do nothing if the host has no reminders."""
    if host.reminders is not None:
        await ReminderClock(settings, host, host.reminders).run()


class ReminderClock:
    """Fires reminders when due, and announces them in the conversation of the user."""

    def __init__(
        self,
        settings: RemindersSettings,
        host: ToolboxHost,
        keeper: ReminderTable,
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
        """Fire reminders until cancelled."""
        ends = [
            self._keeper.on_change(self._changed.set),
            self._notices.on_join(lambda _: self._changed.set()),
        ]
        try:
            while True:
                self._changed.clear()
                await self._wait(await self._look_and_report())
        finally:
            for end in ends:
                end()
            for delivery in self._deliveries:
                delivery.cancel()
            if self._deliveries:
                await asyncio.wait(self._deliveries)

    async def look(self) -> None:
        """Fire reminders that are due, and announce fired reminders not announced yet.

        Raises:
            StoreError: The store is unavailable.
        """
        now = self._now()
        for reminder in await self._keeper.due(now):
            await self._fire(reminder, now)
        users = set[str | None]()
        for session in self._notices.sessions:  # the latest session of each user is first
            if user_of(session) in users:
                continue
            users.add(user_of(session))
            for reminder in await self._keeper.undelivered(user_of(session)):
                if await self._keeper.mark_delivered(reminder):
                    self._announce(reminder, session, now)

    async def _look_and_report(self) -> float:
        """Call `look`, and return the seconds to wait before the next call."""
        try:
            await self.look()
            next_due = await self._keeper.next_due()
            if next_due is None:
                await self._keeper.forget(self._now() - _KEPT_SECONDS)
        except StoreError as error:
            if not self._is_failing:
                logger.warning("Reminders are paused until the store is available: %s", error)
            self._is_failing = True
            return _AFTER_ERROR_SECONDS
        self._is_failing = False
        left = _MAX_WAIT_SECONDS if next_due is None else next_due - self._now()
        return min(max(left, 0.0), _MAX_WAIT_SECONDS)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _fire(self, reminder: Reminder, now: float) -> None:
        """Record that a reminder fires, and start its delivery."""
        following = _next_time(reminder, now)
        at = reminder.at if following is None else following
        if await self._keeper.fire(reminder, at=at, due=following):
            task = asyncio.create_task(
                deliver(_as_json(reminder, reminder.due, now), self._settings),
                name=f"deliver reminder {reminder.id}",
            )
            self._deliveries.add(task)
            task.add_done_callback(self._deliveries.discard)

    def _announce(self, reminder: Reminder, session: Any, now: float) -> None:
        """Announce a fired reminder in a session of the user."""
        zone = ZoneInfo(reminder.zone)
        value = _as_json(reminder, reminder.undelivered, now)
        if value["missed"]:
            moment = datetime.fromtimestamp(reminder.undelivered or now, UTC)
            when = spoken_time(moment, datetime.fromtimestamp(now, UTC), zone)
            speech = say("reminder_missed", when=when, title=reminder.title)
        else:
            speech = say("reminder_due", title=reminder.title)
        call = ToolCall(name="system_reminder", id=f"reminder-{reminder.id}", session=session)
        result = ToolResult(result=value, message=say("tell_reminder"), speech=speech)
        self._notices.tell(call, result)


def _next_time(reminder: Reminder, now: float) -> float | None:
    """Return the next time of a firing reminder, and skip past times; `None` if there is none."""
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
    """Return a fired reminder as JSON, to announce and post."""
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


async def deliver(reminder: Mapping[str, Any], settings: RemindersSettings) -> None:
    """Show and post a reminder, and log failures.

    Args:
        reminder: The JSON to post: the id, title, message, time and so on.
        settings: The settings with the destinations.
    """
    ways = []
    if settings.desktop:
        ways.append(_show(str(reminder["title"]), str(reminder["message"])))
    if settings.webhook is not None:
        ways.append(_post(reminder, settings.webhook, settings.webhook_timeout))
    for result in await asyncio.gather(*ways, return_exceptions=True):
        if isinstance(result, Exception):
            logger.warning("A reminder could not be delivered: %s", described(result))


async def _show(title: str, message: str) -> None:
    """Show a notification if there is a desktop."""
    program = shutil.which(_PROGRAM)
    if program is None or not any(os.environ.get(name) for name in _DISPLAYS):
        return
    texts = [visible(title), html.escape(visible(message))]  # the body is parsed as markup
    process = await asyncio.create_subprocess_exec(
        program,
        "--app-name=Leonidas",
        "--",
        *(text.replace("\0", "") for text in texts),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_DESKTOP_SECONDS):
            code = await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if code:
        logger.warning("%s has failed with %s: is a desktop running?", _PROGRAM, code)


async def _post(reminder: Mapping[str, Any], address: str, timeout_seconds: float) -> None:
    """Post a reminder, with at most 3 attempts if the server fails or is unreachable."""
    import httpx2

    async with httpx2.AsyncClient(
        verify=await trusted_certificates(), timeout=timeout_seconds, trust_env=False
    ) as client:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with unlogged_requests():
                    answer = await client.post(address, json=dict(reminder))
            except httpx2.TransportError as error:
                failure = type(error).__name__
            else:
                if answer.status_code < _SERVER_ERROR:
                    if not answer.is_success:
                        logger.warning(
                            "The webhook of reminders responds with %s", answer.status_code
                        )
                    return
                failure = f"status {answer.status_code}"
            if attempt < _ATTEMPTS:
                await asyncio.sleep(_DELAY_SECONDS * attempt)
    logger.warning("The webhook of reminders cannot be reached: %s", failure)
