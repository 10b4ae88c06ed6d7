"""Reminders of a user: set, list, cancel and snooze them; they fire when due."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import Field

from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls.call import ToolResult
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import StoreError, ToolError
from leonidas_tools.results.jsonable import utf8_text
from leonidas_tools.results.texts import say
from leonidas_tools.session.user_data import (
    MAX_REMINDERS,
    Reminder,
    TooManyEntriesError,
    UserData,
    require_table,
)
from leonidas_tools.toolboxes.reminders.clock import serve
from leonidas_tools.toolboxes.reminders.repeats import WrongRuleError, first_of, normalize_rule
from leonidas_tools.toolboxes.reminders.settings import RemindersSettings
from leonidas_tools.toolboxes.reminders.speech import language_of, say_in, spoken_time
from leonidas_tools.toolboxes.reminders.when import (
    PastTimeError,
    UnreadableTimeError,
    When,
    read_time,
)
from leonidas_tools.tools.tool import Tool, tool
from leonidas_tools.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from leonidas_tools.store.reminders import ReminderTable
    from leonidas_tools.toolboxes.reminders.speech import Language

_MAX_SPOKEN = 3
_MAX_LISTED = 50
_WORDS = {"once": None, "daily": "FREQ=DAILY", "weekly": "FREQ=WEEKLY"}

Title = Annotated[str, Field(min_length=1, max_length=200)]
Time = Annotated[str, Field(min_length=1, max_length=200)]


class ReminderTools:
    """The reminder tools."""

    def __init__(self, settings: RemindersSettings) -> None:
        self._zone = settings.zone

    @tool(category="system", effect="once", tags=["reminders"])
    async def system_reminder(
        self,
        title: Title,
        datetime: Time,
        ctx: ToolContext,
        message: Annotated[str, Field(max_length=2000)] = "",
        repeat: Annotated[str, Field(max_length=300)] = "once",
    ) -> ToolResult:
        """Remind the user of something at a time, once or repeatedly.

        Args:
            title: What to remind of, in a few words.
            datetime: When: ISO 8601, or the user's words in English, Portuguese or Chinese, such
                as "tomorrow at 8", "daqui a 5 minutos", "每天早上八点".
            message: What else to say then.
            repeat: once, daily, weekly, or a rule of RFC 5545 such as FREQ=MONTHLY;BYMONTHDAY=1.
        """
        title = _clean(title)
        if not title:
            said = say("blank_reminder")
            raise ToolError(said, status="invalid_argument", reason_code="blank_reminder")
        # In a thread, since a rule with few occurrences takes long to search.
        when = await asyncio.to_thread(_repeating, self._read(datetime), repeat, self._zone)
        keeper, user = _keeper(ctx), user_of(ctx.session)
        with _convert_errors():
            reminder = await keeper.create(
                user,
                title=title,
                message=_clean(message),
                zone=self._zone.key,
                start=when.at.timestamp(),
                rrule=when.rrule or "",
            )
        ctx.undo(keeper.delete, user, reminder.id)
        key = "reminder_repeats" if reminder.rrule else "reminder_set"
        return self._result(reminder, key, datetime)

    @tool(category="system", effect="read", tags=["reminders"])
    async def list_reminders(self, ctx: ToolContext) -> ToolResult:
        """List the reminders of the user that are still to come, the next first."""
        with _convert_errors():
            coming = await _keeper(ctx).coming(user_of(ctx.session))
        if not coming:
            message = say("no_reminders")
            return ToolResult.no_results(message, speech=message)
        listed = "; ".join(
            say("listed_reminder", title=each.title, when=self._format_time(each))
            for each in coming[:_MAX_SPOKEN]
        )
        if len(coming) == 1:
            speech = say("one_reminder", listed=listed)
        else:
            key = "some_reminders" if len(coming) <= _MAX_SPOKEN else "many_reminders"
            speech = say(key, listed=listed, count=len(coming))
        shown = [self._describe(each) for each in coming[:_MAX_LISTED]]
        return ToolResult(result={"total": len(coming), "reminders": shown}, speech=speech)

    @tool(category="system", effect="idempotent", tags=["reminders"])
    async def cancel_reminder(self, reminder_id: str, ctx: ToolContext) -> ToolResult:
        """Cancel a reminder of the user, with all its repetitions.

        Args:
            reminder_id: Its id, as list_reminders gives it.
        """
        keeper = _keeper(ctx)
        with _convert_errors():
            reminder = _require(await keeper.delete(user_of(ctx.session), reminder_id), reminder_id)
        ctx.undo(keeper.restore, user_of(ctx.session), reminder)
        return ToolResult(
            result={"id": reminder.id, "title": reminder.title},
            speech=say("reminder_cancelled", title=reminder.title),
        )

    @tool(category="system", effect="idempotent", tags=["reminders"])
    async def snooze_reminder(
        self, reminder_id: str, ctx: ToolContext, until: Time = "in 10 minutes"
    ) -> ToolResult:
        """Remind the user of something again later; its repetitions stay as they are.

        Args:
            reminder_id: Its id, as list_reminders or the reminder itself gives it.
            until: When: ISO 8601, or the user's words, such as "in 10 minutes".
        """
        keeper, user = _keeper(ctx), user_of(ctx.session)
        when = self._read(until)
        if when.rrule is not None:
            raise _unreadable(UnreadableTimeError(until))
        with _convert_errors():
            before = _require(await keeper.read(user, reminder_id), reminder_id)
            ctx.undo(keeper.restore, user, before)
            after = await keeper.snooze(user, reminder_id, when.at.timestamp())
        return self._result(_require(after, reminder_id), "reminder_snoozed", until)

    def _read(self, text: str) -> When:
        try:
            return read_time(text, datetime.now(UTC), self._zone)
        except UnreadableTimeError as error:
            raise _unreadable(error) from error
        except PastTimeError as error:
            message = say("past_time")
            raise ToolError(message, status="invalid_argument", reason_code="past_time") from error
        except WrongRuleError as error:
            raise _wrong_rule(error) from error

    def _result(self, reminder: Reminder, key: str, phrase: str) -> ToolResult:
        language = language_of(phrase)
        when = self._format_time(reminder, language)
        speech = say_in(language, key, when=when, title=reminder.title)
        return ToolResult(result=self._describe(reminder), speech=speech)

    def _format_time(self, reminder: Reminder, language: Language = "en") -> str:
        moment = datetime.fromtimestamp(reminder.due or reminder.at, UTC)
        return spoken_time(moment, datetime.now(UTC), self._zone, language)

    def _describe(self, reminder: Reminder) -> dict[str, Any]:
        moment = datetime.fromtimestamp(reminder.due or reminder.at, self._zone)
        return {
            "id": reminder.id,
            "title": reminder.title,
            "message": reminder.message,
            "due": moment.isoformat(timespec="seconds"),
            "timezone": reminder.zone,
            "repeats": reminder.rrule or None,
        }


def _repeating(when: When, repeat: str, zone: ZoneInfo) -> When:
    """Return a time with the requested repetition."""
    word = repeat.strip().casefold()
    try:
        rule = _WORDS[word] if word in _WORDS else normalize_rule(repeat)
        if rule is None or rule == when.rrule:
            return when
        at = when.at
        if "BY" in rule:  # the first time must match the rule
            just_before = datetime.fromtimestamp(at.timestamp() - 1, zone)
            at = first_of(rule, at, zone, after=just_before)
    except WrongRuleError as error:
        raise _wrong_rule(error) from error
    if when.rrule is not None:
        raise _wrong_rule(WrongRuleError(repeat))
    return When(at=at, rrule=rule)


def _keeper(ctx: ToolContext) -> ReminderTable:
    return require_table(ctx.session.get(UserData).reminders, "reminders_need_store")


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Convert errors of the store into errors for the model."""
    try:
        yield
    except TooManyEntriesError as error:
        message = say("too_many_reminders", most=MAX_REMINDERS)
        raise ToolError(message, status="limited", reason_code="too_many_reminders") from error
    except StoreError as error:
        message = say("reminders_unavailable")
        raise ToolError(message, status="unavailable", reason_code="store_unavailable") from error


def _require(reminder: Reminder | None, reminder_id: str) -> Reminder:
    if reminder is None:
        raise ToolError(
            say("unknown_reminder", reminder=reminder_id),
            status="not_found",
            reason_code="unknown_reminder",
            retry_hint=say("unknown_reminder_hint"),
        )
    return reminder


def _unreadable(error: UnreadableTimeError) -> ToolError:
    return ToolError(
        say("unreadable_time", rest=error.rest),
        status="invalid_argument",
        reason_code="unreadable_time",
        retry_hint=say("unreadable_time_hint"),
    )


def _wrong_rule(error: WrongRuleError) -> ToolError:
    return ToolError(
        say("unreadable_repeat", rest=str(error)),
        status="invalid_argument",
        reason_code="unreadable_repeat",
        retry_hint=say("unreadable_repeat_hint"),
    )


def _clean(text: str) -> str:
    """Return a text on one line, without characters that a database refuses."""
    return " ".join(utf8_text(text).replace("\0", "").split())


def _make(settings: RemindersSettings) -> Sequence[Tool[..., Any]]:
    tools = ReminderTools(settings)
    return (
        tools.system_reminder,
        tools.list_reminders,
        tools.cancel_reminder,
        tools.snooze_reminder,
    )


TOOLBOX = Toolbox(
    summary="Reminders of the user: set, list, cancel and snooze them; they fire when due.",
    make=_make,
    settings=RemindersSettings,
    serve=serve,
    access=frozenset({"network", "programs", "store"}),
)
