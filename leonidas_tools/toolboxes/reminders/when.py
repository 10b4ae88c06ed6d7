"""`read_time`: parse an ISO time, or a phrase in English, Portuguese or Chinese."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from dateutil.relativedelta import relativedelta
from dateutil.rrule import weekdays

from leonidas_tools.toolboxes.reminders import phrases
from leonidas_tools.toolboxes.reminders.repeats import WORKING_DAYS, first_of

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_USUAL = time(9)
_MAX_LENGTH = 200
_MAX_AMOUNT = 100_000
_NOON = 12
_HALF = 30
_QUARTER = 15
_EARLIEST, _LATEST = 6, 22
"""Hours between which people are awake: `at 3` means 15:00."""
_MAX_DAY = 31


class UnreadableTimeError(Exception):
    """Raised for a phrase without a clear meaning; `rest` is the part not understood."""

    def __init__(self, rest: str) -> None:
        self.rest = rest
        super().__init__(rest)


class PastTimeError(Exception):
    """Raised for a time in the past."""


@dataclass(frozen=True, kw_only=True, slots=True)
class When:
    """A time, with its repetition.

    Args:
        at: The time, in the time zone of the user.
        rrule: The recurrence rule of RFC 5545; `None` for a time that does not repeat.
    """

    at: datetime
    rrule: str | None = None


def read_time(text: str, now: datetime, zone: ZoneInfo) -> When:
    """Return the time that a text describes.

    Hours and minutes from now are counted in elapsed time, days and longer by the calendar. If a
    clock change skips a time of day, the result is later by the length of the change. If a time
    of day occurs twice, the result is the first of the two.

    Args:
        text: ISO 8601, or a phrase.
        now: The current time, with a time zone.
        zone: The time zone of the user.

    Raises:
        UnreadableTimeError: The text is not a time, or is ambiguous.
        PastTimeError: The time is in the past.

    Example:
        >>> from zoneinfo import ZoneInfo
        >>> lisbon = ZoneInfo("Europe/Lisbon")
        >>> now = datetime(2026, 3, 4, 15, tzinfo=lisbon)
        >>> read_time("明天8点", now, lisbon).at.isoformat()
        '2026-03-05T08:00:00+00:00'
    """
    if len(text) > _MAX_LENGTH:
        raise UnreadableTimeError(f"{text[:20]}…")
    now = now.astimezone(zone)
    moment = _iso(text.strip(), zone)
    if moment is not None:
        if _is_over(moment, now):
            raise PastTimeError
        return When(at=moment)
    return _PhraseReading(phrases.readable(text), now, zone).result()


def localize(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return a local time in a time zone, moved on if a clock change skips it."""
    return wall.replace(tzinfo=zone, fold=0).astimezone(UTC).astimezone(zone)


def _is_over(moment: datetime, now: datetime) -> bool:
    """Return whether a time is past; in one time zone, Python would compare local times."""
    return moment.astimezone(UTC) <= now.astimezone(UTC)


def _iso(text: str, zone: ZoneInfo) -> datetime | None:
    if not re.match(r"\d{4}-?\d\d-?\d\d(?:$|[T ])", text):
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError as error:
        raise UnreadableTimeError(text) from error
    if read.tzinfo is not None:
        return read.astimezone(zone)
    if len(text) <= len("2026-01-01"):
        read = datetime.combine(read.date(), _USUAL)
    return localize(read, zone)


@dataclass(slots=True)
class _PhraseReading:
    """State of parsing a phrase; `rest` is the part not yet parsed."""

    rest: str
    now: datetime
    zone: ZoneInfo
    day: date | None = None
    clock: time | None = None
    part: str | None = None
    rule: list[str] = field(default_factory=list)
    is_exact: bool = False
    is_elapsed: bool = False
    rolls: bool = True

    def result(self) -> When:
        if unclear := re.search(phrases.UNCLEAR, self.rest):
            raise UnreadableTimeError(unclear[0].strip())
        self._repeat()
        moment = self._offset()
        self._day()
        if moment is None or self.rest_is_left():
            self._clock()
        if self.rest_is_left():
            raise UnreadableTimeError(self.rest.strip())
        if moment is not None:
            return self._time_after(moment)
        if self.day is None and self.clock is None and self.part is None and not self.rule:
            raise UnreadableTimeError(self.rest.strip() or "nothing")
        return self._moment()

    def rest_is_left(self) -> bool:
        return bool(re.sub(r"[\s\-]+", "", phrases.EMPTY.sub(" ", self.rest)))

    def take(self, pattern: str) -> re.Match[str] | None:
        """Find a pattern in the rest, and remove it."""
        match = re.search(pattern, self.rest)
        if match is not None:
            self.rest = f"{self.rest[: match.start()]} {self.rest[match.end() :]}"
        return match

    # --- repeats -----------------------------------------------------------------------------

    def _repeat(self) -> None:
        for pattern, rule in _REPEATS:
            match = self.take(pattern)
            if match is not None:
                self.rule = [rule]
                self.rest = f"{self.rest} {match.groupdict().get('part') or ''}"
                return
        if match := self.take(_EVERY_AMOUNT):
            amount = int(match["amount"] or match["amount2"] or match["amount3"] or 2)
            unit = _unit(match["unit"] or match["unit2"] or match["unit3"])
            self.rule = [f"FREQ={_FREQUENCIES[unit]};INTERVAL={_check_amount(amount)}"]
        elif match := self.take(_EVERY_WEEKDAY):
            weekdays = re.finditer(phrases.WEEKDAY, match[0])
            codes = [phrases.CODES[_weekday(each[0])] for each in weekdays]
            self.rule = [f"FREQ=WEEKLY;BYDAY={','.join(codes)}"]
        elif match := self.take(
            rf"每个?{phrases.HAN_WEEK}(?P<days>[{phrases.HAN_DAYS}]+(?:[和跟、与]{phrases.HAN_WEEK}?[{phrases.HAN_DAYS}])*)"
        ):
            codes = [
                phrases.CODES[_han_weekday(each)]
                for each in re.findall(f"[{phrases.HAN_DAYS}]", match["days"])
            ]
            self.rule = [f"FREQ=WEEKLY;BYDAY={','.join(codes)}"]

    # --- spans from now ----------------------------------------------------------------------

    def _offset(self) -> datetime | None:
        for pattern in phrases.OFFSETS:
            match = self.take(pattern)
            if match is not None:
                return self._add_span(match["span"])
        return None

    def _add_span(self, span: str) -> datetime:
        elapsed, calendar = timedelta(), relativedelta()
        for each in re.finditer(rf"({phrases.NUMBER})\s*({phrases.UNIT})", span):
            amount, unit = float(each[1].replace(",", ".")), _unit(each[2])
            _check_amount(amount)
            if unit in ("second", "minute", "hour"):
                elapsed += timedelta(**{f"{unit}s": amount})
                self.is_elapsed = True
            elif amount != int(amount):
                raise UnreadableTimeError(each[0])
            else:
                calendar += relativedelta(**{f"{unit}s": int(amount)})
        try:
            wall = self.now.replace(tzinfo=None) + calendar
            moment = localize(wall, self.zone) if calendar else self.now
            return (moment.astimezone(UTC) + elapsed).astimezone(self.zone)
        except (OverflowError, ValueError) as error:
            raise UnreadableTimeError(span) from error

    def _time_after(self, moment: datetime) -> When:
        """Return a time relative to now, at a time of day if the phrase names one."""
        if self.day is not None or ((self.clock or self.part) and self.is_elapsed):
            raise UnreadableTimeError(str(self.day or self.clock or self.part))
        if self.clock or self.part:
            moment = self._at(moment.date())
        if _is_over(moment, self.now):
            raise PastTimeError
        return When(at=moment, rrule=self._complete_rule(moment))

    # --- days --------------------------------------------------------------------------------

    def _day(self) -> None:
        today = self.now.date()
        if self._near_day(today) or self._day_of_month(today):
            return
        if self._weekday(today):
            self._check_date(today)
        elif not self._week(today):
            self._date(today)

    def _near_day(self, today: date) -> bool:
        for pattern, days in phrases.DAYS:
            if self.take(pattern):
                self.day, self.rolls = today + timedelta(days=days), False
                if re.search(pattern, self.rest):
                    raise self._unreadable()
                return True
        return False

    def _check_date(self, today: date) -> None:
        """Read a date after a weekday; both must be the same day."""
        weekday = self.day
        if self.rule == ["FREQ=MONTHLY"]:
            raise self._unreadable()
        if self._date(today) and f"{self.day:%A}" != f"{weekday:%A}":
            raise UnreadableTimeError(f"{weekday:%A} {self.day}")

    def _unreadable(self) -> UnreadableTimeError:
        return UnreadableTimeError(self.rest.strip())

    def _day_of_month(self, today: date) -> bool:
        """Read a day that is counted in a month, or a month that is named as this or the next."""
        counted = self._take_day_number()
        if self.rule == ["FREQ=MONTHLY"]:
            if counted is None:
                return False
            nth, weekday = counted
            by = f"MONTHDAY={nth}" if weekday is None else f"DAY={nth}{phrases.CODES[weekday]}"
            self.rule = [f"FREQ=MONTHLY;BY{by}"]
            return True
        month = self._month(today, is_counted=counted is not None)
        if counted is not None and (month is None or self.rule):
            raise self._unreadable()
        if month is None:
            return False
        if counted is not None:
            self.day = _nth_date(month, *counted)
        else:
            self.day = self._date_by_number(month, today)
        self.rolls = False
        return True

    def _date_by_number(self, month: date, today: date) -> date:
        """Return a day of a month by its number; without one, today's in the next month."""
        for pattern in phrases.DAY_OF_MONTH:
            if match := self.take(pattern):
                return _build_date(month.year, month.month, int(match["day"]))
        if month < today:
            raise self._unreadable()
        return _shift(today, months=1)

    def _take_day_number(self) -> tuple[int, int | None] | None:
        """Take the number of a day of a month, with its weekday if it is counted by weekdays."""
        for nth, words in phrases.NTH:
            if match := self.take(rf"(?:{words})(?:{_HAN_WEEKDAY}|(?P<day>{phrases.WEEKDAY}))"):
                return nth, _han_weekday(match["han"]) if match["han"] else _weekday(match["day"])
        return (-1, None) if self.take(phrases.LAST_DAY) else None

    def _month(self, today: date, *, is_counted: bool) -> date | None:
        """Take a month, and return its first day."""
        first = today.replace(day=1)
        if self.take(phrases.NEXT_MONTH):
            return _shift(first, months=1)
        if self.take(phrases.THIS_MONTH):
            return first
        if is_counted and (match := self.take(phrases.NAMED_MONTH)):
            month = _month(match["name"]) if match["name"] else int(match["month"])
            year = int(match["year"]) if match["year"] else None
            return _next_date(first, year, month, 1)
        return None

    def _weekday(self, today: date) -> bool:
        han = (
            rf"(?P<week>下+|这|本)?个?(?:{phrases.HAN_WEEK}(?={phrases.HAN_WEEK}))?"
            rf"{phrases.HAN_WEEK}(?P<day>[{phrases.HAN_DAYS}])"
        )
        western = (
            rf"\b(?:(?P<week>next) |(?:this |coming |proxim[oa] |este |esta |na |no )?)"
            rf"(?P<day>{phrases.WEEKDAY})(?: que vem)?"
        )
        match = self.take(han)
        number = _han_weekday(match["day"]) if match else None
        if match is None and (match := self.take(western)):
            number = _weekday(match["day"])
        if match is None or number is None:
            return False
        week = match["week"] or ""
        weeks = 1 if week == "next" or self.take(_NEXT_WEEK) else week.count("下")
        if weeks or week in ("这", "本"):
            monday = today - timedelta(days=today.weekday())
            self.day, self.rolls = monday + timedelta(days=number, weeks=weeks), False
        else:
            self.day = today + timedelta(days=(number - today.weekday()) % 7)
        return True

    def _week(self, today: date) -> bool:
        for pattern, step in _NEXT:
            if self.take(pattern):
                if "BYDAY" in "".join(self.rule):
                    raise self._unreadable()
                self.day, self.rolls = today + step, False
                return True
        return False

    def _date(self, today: date) -> bool:
        for pattern in _DATES:
            match = self.take(pattern)
            if match is None:
                continue
            said = match.groupdict()
            year = int(said["year"]) if said.get("year") else None
            name = said.get("name")
            month = int(said["month"]) if said.get("month") else None
            month = _month(name) if name else month
            day = int(said["day"])
            if said.get("first"):
                day, month = _day_and_month(int(said["first"]), day)
            if self.rule and self.rule[0] == "FREQ=MONTHLY" and month is None:
                if not 1 <= day <= _MAX_DAY:
                    raise UnreadableTimeError(str(day))
                self.rule = [f"FREQ=MONTHLY;BYMONTHDAY={day}"]
                return False
            self.day = _next_date(today, year, month, day)
            self.rolls = False
            return True
        return False

    # --- times of day ------------------------------------------------------------------------

    def _clock(self) -> None:
        unclear = re.search(r"\b(?:in|daqui a|dentro de) \d{1,2}[:.]\d\d\b", self.rest)
        if unclear:  # either a duration or a time of day
            raise UnreadableTimeError(unclear[0])
        for name, pattern in phrases.PARTS:
            match = self.take(pattern)
            if match is not None:
                self.part = name
                break
        if self.part in ("noon", "midnight") and self.take(r"\be meia\b"):
            self.clock, self.is_exact = time(phrases.PART_TIMES[self.part][0], _HALF), True
        for pattern in phrases.CLOCKS:
            match = self.take(pattern)
            if match is not None:
                self._set_clock(match.groupdict())
                return
        bare = re.fullmatch(r"\D*?\b(\d{1,2})\b\D*", phrases.EMPTY.sub(" ", self.rest).strip())
        if bare and (self.day or self.part or self.rule):
            self.rest = self.rest.replace(bare[1], " ", 1)
            self._set_clock({"hour": bare[1]})

    def _set_clock(self, said: dict[str, str | None]) -> None:
        hour, minute = int(said.get("hour") or said.get("half") or 0), int(said.get("minute") or 0)
        if said.get("half") or said.get("halves"):
            minute = _HALF
        minute = _QUARTER * int(said.get("quarters") or 0) or minute
        if (said.get("hour") or "").startswith("0") or (said.get("formal") and hour >= _EARLIEST):
            self.is_exact = True
        quarter = said.get("quarter") or said.get("until")
        if quarter:
            amount = _QUARTER if quarter == "quarter" else int(quarter.split()[0])
            before = said.get("until") or said.get("side") in ("to", "before")
            hour, minute = (hour - 1, 60 - amount) if before else (hour, amount)
            hour = _NOON if hour == 0 else hour
        hour = self._hour(hour, (said.get("suffix") or "")[:1])
        try:
            self.clock = time(hour % 24 if hour == 24 else hour, minute)  # noqa: PLR2004
        except ValueError as error:
            raise UnreadableTimeError(f"{hour}:{minute:02}") from error

    def _hour(self, hour: int, suffix: str) -> int:
        """Return the hour on a 24-hour clock, from `am` or `pm` and the part of the day."""
        if suffix:
            if not 1 <= hour <= _NOON:
                raise UnreadableTimeError(f"{hour} {suffix}m")
            hour = hour % _NOON + (_NOON if suffix == "p" else 0)
        elif self.part is None:
            self.is_exact = self.is_exact or hour == 0 or hour > _NOON
            return hour + _NOON if self._is_of_the_afternoon(hour) else hour
        self.is_exact = True
        return hour if self.part is None else self._hour_of_part(hour, self.part, suffix)

    def _hour_of_part(self, hour: int, part: str, suffix: str) -> int:
        """Return the hour in a part of the day; one after midnight is of the next day."""
        is_on_12 = not suffix and hour <= _NOON
        hours = (hour % _NOON, hour % _NOON + _NOON) if is_on_12 else (hour,)
        fitting = [each for each in hours if each in phrases.PART_HOURS[part]]
        if not fitting:
            raise UnreadableTimeError(f"{part} {hour}")
        if part in ("tonight", "night", "midnight") and fitting[0] < _EARLIEST and self.day:
            self.day += timedelta(days=1)
        return fitting[0]

    def _is_of_the_afternoon(self, hour: int) -> bool:
        """Return whether an hour without am or pm is not the one of the night.

        At night, the next hour is meant if no day is named.
        """
        at_night = not _EARLIEST <= self.now.hour < _LATEST and self.day is None and not self.rule
        return not self.is_exact and hour < _EARLIEST and not at_night

    # --- together ----------------------------------------------------------------------------

    def _moment(self) -> When:
        if self.rule:
            return self._read_repeating()
        day = self.day or self.now.date()
        if self.part == "midnight" and not self.rolls:
            day += timedelta(days=1 if day == self.now.date() else 0)
        moment = self._at(day)
        if _is_over(moment, self.now):
            # If the time occurs twice, the second may still be in the future.
            moment = moment.replace(fold=1)
        if _is_over(moment, self.now):
            moment = self._later(day)
        return When(at=moment)

    def _later(self, day: date) -> datetime:
        """Return the next matching time after the first, which is in the past."""
        clock = self.clock
        today = day == self.now.date()
        if today and clock and not self.is_exact and clock.hour < _NOON:
            evening = localize(
                datetime.combine(day, clock.replace(hour=clock.hour + _NOON)), self.zone
            )
            if not _is_over(evening, self.now):
                return evening
        if not self.rolls:
            raise PastTimeError
        return self._at(day + timedelta(days=7 if self.day else 1))

    def _at(self, day: date) -> datetime:
        usual = time(*phrases.PART_TIMES[self.part]) if self.part else _USUAL
        return localize(datetime.combine(day, self.clock or usual), self.zone)

    def _read_repeating(self) -> When:
        rule = self.rule[0]
        if "HOURLY" in rule or "MINUTELY" in rule:
            if self.day or self.clock or self.part:
                raise UnreadableTimeError(str(self.clock or self.part or self.day))
            at = first_of(rule, self.now.astimezone(UTC), self.zone)
            return When(at=at, rrule=rule)
        start = self._at(self.day or self.now.date())
        rule = self._complete_rule(start) or rule
        fits = not _is_over(start, self.now) and "BY" not in rule
        at = start if fits else first_of(rule, start, self.zone, after=self.now)
        return When(at=at, rrule=rule)

    def _complete_rule(self, moment: datetime) -> str | None:
        if not self.rule:
            return None
        rule = self.rule[0]
        if rule.startswith("FREQ=WEEKLY") and "BYDAY" not in rule and self.day is not None:
            return f"{rule};BYDAY={phrases.CODES[moment.weekday()]}"
        return rule


_HAN_WEEKDAY = rf"{phrases.HAN_WEEK}(?P<han>[{phrases.HAN_DAYS}])"
_FREQUENCIES = {
    "second": "SECONDLY",
    "minute": "MINUTELY",
    "hour": "HOURLY",
    "day": "DAILY",
    "week": "WEEKLY",
    "month": "MONTHLY",
    "year": "YEARLY",
}
_PART = r"(?P<part>morning|afternoon|evening|night|manha|tarde|noite)s?\b"
_REPEATS = (
    (r"\b(?:todo|todos os)(?= dias? \d)", "FREQ=MONTHLY"),
    (r"\b(?:every|each)(?= (?:the )?\d{1,2}(?:st|nd|rd|th)(?: at\b|\s*$))", "FREQ=MONTHLY"),
    (
        (
            r"\b(?:every|each) (?:weekday|working day|workday)s?\b|"
            r"\b(?:on )?(?:weekdays|working days)\b|"
            r"\b(?:from )?monday (?:to|through) friday\b|"
            r"\b(?:todo dia util|(?:todos os |nos |em )?dias uteis)\b|"
            r"\bde segunda a sexta(?:-feira)?\b|"
            rf"每?个?工作日|(?:每个?)?{phrases.HAN_WEEK}1[到至]{phrases.HAN_WEEK}?5"
        ),
        f"FREQ=WEEKLY;BYDAY={WORKING_DAYS}",
    ),
    (
        (
            r"\b(?:every weekend|at weekends|on weekends)\b|"
            r"\b(?:(?:aos |nos |todos os )?fins de semana|todo fim de semana)\b|每个?周末"
        ),
        "FREQ=WEEKLY;BYDAY=SA,SU",
    ),
    (rf"\b(?:every|each|toda|todas as) {_PART}", "FREQ=DAILY"),
    (
        (
            r"\b(?:every day|each day|daily|everyday)\b|\b(?:todos os dias|todo dia|diariamente)\b|"
            r"每天|每日|天天|每(?=早|晚)"
        ),
        "FREQ=DAILY",
    ),
    (
        (
            r"\b(?:every week|each week|weekly)\b|"
            r"\b(?:todas as semanas|toda semana|semanalmente)\b|"
            rf"每个?{phrases.HAN_WEEK}(?![{phrases.HAN_DAYS}])"
        ),
        "FREQ=WEEKLY",
    ),
    (
        (
            r"\b(?:every month|each month|monthly)\b|"
            r"\b(?:todos os meses|todo mes|(?:de |em )?cada mes|mensalmente)\b|"
            r"每个?月"
        ),
        "FREQ=MONTHLY",
    ),
    (
        (
            r"\b(?:every year|each year|yearly|annually)\b|"
            r"\b(?:todos os anos|todo ano|anualmente)\b|"
            r"每年"
        ),
        "FREQ=YEARLY",
    ),
    (r"\b(?:every|each) minute\b|\b(?:a )?cada minuto\b|每分钟", "FREQ=MINUTELY"),
    (r"\b(?:every hour|each hour|hourly)\b|\b(?:toda hora|a cada hora)\b|每个?小时", "FREQ=HOURLY"),
    (r"\bevery other day\b|\bdia sim,? dia nao\b|每隔1天", "FREQ=DAILY;INTERVAL=2"),
    (
        rf"\bevery other week\b|\bevery other(?= (?:{phrases.WEEKDAY}))|每隔1周",
        "FREQ=WEEKLY;INTERVAL=2",
    ),
)
_EVERY_AMOUNT = (
    rf"\b(?:every|(?:a )?cada) (?P<amount>\d+) (?P<unit>{phrases.UNIT})|"
    rf"\bde (?P<amount2>\d+) em \d+ (?P<unit2>{phrases.UNIT})|"
    rf"每隔?(?P<amount3>\d+)(?P<unit3>{phrases.UNIT})"
)
_ONE_DAY = rf"(?:{phrases.WEEKDAY})"
_EVERY_WEEKDAY = (
    rf"\b(?:every|each|on|toda|todas as|todo|todos os|as|aos) (?:{_ONE_DAY})"
    rf"(?:(?:\s*,\s*| and | e )(?:as |aos )?(?:{_ONE_DAY}))+|"
    rf"\b(?:every|each|toda|todas as|todo|todos os) (?:{_ONE_DAY})|"
    rf"\b(?:on |as |aos )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days|segundas|tercas|quartas|"
    rf"quintas|sextas|sabados|domingos)\b(?:(?:-| )feiras)?"
)
_NEXT_WEEK = r"\bnext week\b|\b(?:[dn]a )?(?:proxima semana|semana que vem)\b|下个?(?:周|星期|礼拜)"
_NEXT = (
    (_NEXT_WEEK, timedelta(7)),
    (r"\bnext year\b|\b(?:no )?(?:proximo ano|ano que vem)\b|明年", relativedelta(years=1)),
)
_YEAR = r"(?P<year>\d{4})"
_ORDINAL = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_DATES = (
    rf"(?:{_YEAR}年)?(?P<month>\d{{1,2}})月(?P<day>\d{{1,2}})[日号]?",
    rf"\b(?:on )?(?:the )?(?P<name>{phrases.MONTH})\.? {_ORDINAL}\b(?!:)(?:,? {_YEAR}\b)?",
    (
        rf"\b(?:on |dia )?(?:the )?{_ORDINAL} (?:of |de )?(?P<name>{phrases.MONTH})\b"
        rf"(?:,? (?:de )?{_YEAR}\b)?"
    ),
    rf"\b{_YEAR}[/.](?P<month>\d{{1,2}})[/.](?P<day>\d{{1,2}})\b",
    rf"\b(?P<first>\d{{1,2}})/(?P<day>\d{{1,2}})(?:/{_YEAR})?\b",
    rf"\b(?P<first>\d{{1,2}})\.(?P<day>\d{{1,2}})\.{_YEAR}\b",
    r"\b(?:every|each) (?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)\b",
    *phrases.DAY_OF_MONTH,
)


def _check_amount(amount: float) -> float:
    if not 0 < amount <= _MAX_AMOUNT:
        raise UnreadableTimeError(f"{amount:g}")
    return amount


def _unit(word: str) -> str:
    return next(unit for unit, words in phrases.UNITS.items() if re.fullmatch(words, word))


def _weekday(word: str) -> int:
    fitting = (n for n, words in enumerate(phrases.WEEKDAYS) if re.fullmatch(words, word))
    return next(fitting)


def _han_weekday(char: str) -> int:
    return 6 if char in "日天" else int(char) - 1


def _month(word: str) -> int:
    fitting = (n for n, words in enumerate(phrases.MONTHS, 1) if re.fullmatch(words, word))
    return next(fitting)


def _nth_date(first: date, nth: int, weekday: int | None) -> date:
    """Return the last day of a month, or its nth weekday; -1 is the last."""
    if weekday is None:
        return _shift(first, day=31)
    return _shift(first, day=31 if nth < 0 else 1, weekday=weekdays[weekday](nth))


def _shift(start: date, /, **parts: Any) -> date:
    """Return a date moved by the calendar."""
    moved: date = start + relativedelta(**parts)
    return moved


def _day_and_month(first: int, second: int) -> tuple[int, int]:
    """Return the day and the month of two numbers, or raise if their order is ambiguous."""
    if first == second or (first > _NOON >= second):
        return first, second
    if second > _NOON >= first:
        return second, first
    raise UnreadableTimeError(f"{first}/{second}")


def _build_date(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError as error:
        raise UnreadableTimeError(f"{year}-{month}-{day}") from error


def _next_date(today: date, year: int | None, month: int | None, day: int) -> date:
    """Return a date; if the year or the month is missing, return the next such date."""
    if year is not None and month is not None:
        return _build_date(year, month, day)
    if not 1 <= day <= _MAX_DAY:
        raise UnreadableTimeError(str(day))
    for months in range(0, 12 * 9, 12 if month else 1):
        first = today.replace(day=1) + relativedelta(months=months)
        try:
            found = date(first.year, month or first.month, day)
        except ValueError:
            continue
        if found >= today:
            return found
    raise UnreadableTimeError(f"{month}-{day}")
