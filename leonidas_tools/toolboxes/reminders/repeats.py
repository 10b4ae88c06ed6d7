"""Recurrence rules of RFC 5545 for reminders."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from dateutil.rrule import rrulestr

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zoneinfo import ZoneInfo

WORKING_DAYS = "MO,TU,WE,TH,FR"

_MAX_LENGTH = 300
_MAX_OCCURRENCES = 1000
_MAX_INTERVAL = 10_000
_HORIZON = timedelta(days=366 * 12)
_CHANGE = timedelta(hours=3)
"""Upper bound of the time by which a clock is set back."""
_MAX_IN_CHANGE = 8
_BY_THE_HOUR = ("HOURLY", "MINUTELY")
_FREQUENCIES = ("MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_NUMBERS = r"[+-]?\d{1,3}(?:,[+-]?\d{1,3})*"
_DAYS = r"(?:[+-]?\d{1,2})?(?:MO|TU|WE|TH|FR|SA|SU)"
_PARTS = {
    "FREQ": "|".join(_FREQUENCIES),
    "INTERVAL": r"\d{1,5}",
    "COUNT": r"\d{1,4}",
    "UNTIL": r"\d{8}(?:T\d{6}Z?)?",
    "WKST": "MO|TU|WE|TH|FR|SA|SU",
    "BYDAY": f"{_DAYS}(?:,{_DAYS})*",
    "BYMONTHDAY": _NUMBERS,
    "BYYEARDAY": _NUMBERS,
    "BYWEEKNO": _NUMBERS,
    "BYMONTH": _NUMBERS,
    "BYSETPOS": _NUMBERS,
}
_BY: Mapping[str, set[str]] = {
    "MINUTELY": set(),
    "HOURLY": set(),
    "DAILY": {"BYDAY"},
    "WEEKLY": {"BYDAY"},
    "MONTHLY": {"BYDAY", "BYMONTHDAY", "BYMONTH", "BYSETPOS"},
}
"""The `BY` parts allowed for a frequency; a frequency not listed allows all."""


class WrongRuleError(Exception):
    """Raised for a rule that is invalid or has no occurrence; the text is the wrong part."""


def normalize_rule(text: str) -> str:
    """Return a rule in normalized form.

    A rule cannot repeat within a minute. It cannot name times of day, as the start sets them.

    Raises:
        WrongRuleError: The rule is invalid or not supported.

    Example:
        >>> normalize_rule("RRULE:freq=weekly;byday=mo,we")
        'FREQ=WEEKLY;BYDAY=MO,WE'
    """
    plain = text.strip().upper().removeprefix("RRULE:").strip(";")
    if len(plain) > _MAX_LENGTH:
        raise WrongRuleError(f"{plain[:20]}…")
    parts: dict[str, str] = {}
    for each in plain.split(";"):
        name, _, value = each.partition("=")
        if name in parts or not re.fullmatch(_PARTS.get(name, "(?!)"), value, re.ASCII):
            raise WrongRuleError(each)
        parts[name] = value
    _check(parts, plain)
    return ";".join(f"{name}={value}" for name, value in parts.items())


def _check(parts: Mapping[str, str], plain: str) -> None:
    """Refuse rules that may have no occurrence, since the search would take seconds."""
    frequency = parts.get("FREQ", "")
    by = {name for name in parts if name.startswith("BY")}
    wrong = [f"{name}={parts[name]}" for name in by - _BY.get(frequency, by)]
    if not 1 <= int(parts.get("INTERVAL", 1)) <= _MAX_INTERVAL:
        wrong.append(f"INTERVAL={parts['INTERVAL']}")
    if not 1 <= int(parts.get("COUNT", 1)) <= _MAX_OCCURRENCES:
        wrong.append(f"COUNT={parts['COUNT']}")
    if frequency in ("DAILY", "WEEKLY") and re.search(r"\d", parts.get("BYDAY", "")):
        wrong.append(f"BYDAY={parts['BYDAY']}")
    if not frequency or {"COUNT", "UNTIL"} <= parts.keys():
        wrong.append(plain)
    if frequency == "DAILY" and {"INTERVAL", "BYDAY"} <= parts.keys():
        wrong.append(plain)
    if wrong:
        raise WrongRuleError("; ".join(wrong))


def first_of(
    rule: str, start: datetime, zone: ZoneInfo, *, after: datetime | None = None
) -> datetime:
    """Return the first occurrence after a time.

    Hours and minutes are counted in elapsed time, days and longer by the calendar of the zone.

    Args:
        rule: A checked rule.
        start: The start of the recurrence.
        zone: The time zone of the user.
        after: The time after which to search; by default the start.

    Raises:
        WrongRuleError: The rule has no occurrence within twelve years.
    """
    found = next_of(rule, start, zone, after=start if after is None else after)
    if found is None:
        raise WrongRuleError(rule)
    return found


def next_of(rule: str, start: datetime, zone: ZoneInfo, *, after: datetime) -> datetime | None:
    """Return the next occurrence after a time; `None` if there is none within twelve years.

    Args:
        rule: A checked rule.
        start: The start of the recurrence.
        zone: The time zone of the user.
        after: The time after which to search.

    Raises:
        WrongRuleError: The rule is invalid.
    """
    parts = dict(each.split("=") for each in rule.split(";"))
    if parts["FREQ"] in _BY_THE_HOUR:
        return _by_the_hour(parts, start, zone, after)
    first = start.astimezone(zone).replace(tzinfo=None, microsecond=0)
    since = after.astimezone(zone).replace(tzinfo=None)
    try:
        repeats = _walls(parts, first, since, zone)
    except (ValueError, OverflowError, TypeError) as error:
        raise WrongRuleError(rule) from error
    for wall in repeats:
        moment = wall.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)
        if moment > after:
            return moment
    return None


def _by_the_hour(
    parts: dict[str, str], start: datetime, zone: ZoneInfo, after: datetime
) -> datetime | None:
    """Return the next occurrence of a rule that counts elapsed time."""
    unit = timedelta(hours=1) if parts["FREQ"] == "HOURLY" else timedelta(minutes=1)
    step = unit * int(parts.get("INTERVAL", 1))
    first = start.astimezone(UTC)
    number = max((after - first) // step + 1, 0)
    found = first + number * step
    if "COUNT" in parts and number >= int(parts["COUNT"]):
        return None
    if "UNTIL" in parts and found > _until(parts["UNTIL"], zone).astimezone(UTC):
        return None
    return found.astimezone(zone)


def _walls(
    parts: dict[str, str], first: datetime, since: datetime, zone: ZoneInfo
) -> list[datetime]:
    """Return candidates for the next occurrence, as local times."""
    ends = {"COUNT", "UNTIL"}
    plain = ";".join(f"{name}={value}" for name, value in parts.items() if name not in ends)
    last = max(first, since) + _HORIZON
    if "UNTIL" in parts:
        last = min(last, _until(parts["UNTIL"], zone).astimezone(zone).replace(tzinfo=None))
    repeats = rrulestr(plain, dtstart=first).replace(until=last)
    if "COUNT" in parts:
        return [each for each in islice(repeats, int(parts["COUNT"])) if each >= since - _CHANGE]
    return list(repeats.xafter(since - _CHANGE, inc=True, count=_MAX_IN_CHANGE))


def _until(text: str, zone: ZoneInfo) -> datetime:
    """Return the end of a rule from the value of `UNTIL`."""
    clock = text[8:].rstrip("Z") or "T235959"
    end = datetime.strptime(f"{text[:8]}{clock}", "%Y%m%dT%H%M%S")  # noqa: DTZ007
    return end.replace(tzinfo=UTC if text.endswith("Z") else zone)
