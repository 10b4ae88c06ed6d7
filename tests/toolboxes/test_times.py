"""Times are read in three languages, as the clock of the user's zone has them."""

import csv
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from leonidas_tools.toolboxes.reminders.repeats import (
    WrongRuleError,
    first_of,
    next_of,
    normalize_rule,
)
from leonidas_tools.toolboxes.reminders.when import PastTimeError, UnreadableTimeError, read_time

LISBON, NEW_YORK = ZoneInfo("Europe/Lisbon"), ZoneInfo("America/New_York")
SHANGHAI, LORD_HOWE = ZoneInfo("Asia/Shanghai"), ZoneInfo("Australia/Lord_Howe")
WEDNESDAY = datetime(2026, 3, 4, 15, tzinfo=LISBON)
TABLE = Path(__file__).with_name("times.tsv")


def read(phrase, now=WEDNESDAY, zone=LISBON):
    """Return what a phrase means, as the table writes it."""
    try:
        when = read_time(phrase, now, zone)
    except UnreadableTimeError as error:
        return f"? {error.rest}"
    except PastTimeError:
        return "past"
    seconds = f":{when.at:%S}" if when.at.second else ""
    return f"{when.at:%Y-%m-%d %H:%M}{seconds}" + (f" {when.rrule}" if when.rrule else "")


def test_phrases_mean_what_the_table_says():
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) >= 900
    found = {row["phrase"]: read(row["phrase"]) for row in rows}
    # a lone question mark stands for any part that is not understood
    found |= {row["phrase"]: found[row["phrase"]][:1] for row in rows if row["want"] == "?"}
    assert found == {row["phrase"]: row["want"] for row in rows}


DAYLIGHT = [
    # the night in which 01:00 becomes 02:00 in Lisbon
    (LISBON, "2026-03-28 23:30", "in 2 hours", "2026-03-29 02:30"),
    (LISBON, "2026-03-28 23:30", "daqui a duas horas", "2026-03-29 02:30"),
    (LISBON, "2026-03-28 23:30", "两个小时后", "2026-03-29 02:30"),
    (LISBON, "2026-03-28 23:30", "in 120 minutes", "2026-03-29 02:30"),
    (LISBON, "2026-03-28 23:30", "in 7200 seconds", "2026-03-29 02:30"),
    (LISBON, "2026-03-28 15:00", "in 1 day", "2026-03-29 15:00"),
    (LISBON, "2026-03-28 15:00", "in 24 hours", "2026-03-29 16:00"),
    (LISBON, "2026-03-28 15:00", "in 1 day and 2 hours", "2026-03-29 17:00"),
    (LISBON, "2026-03-28 15:00", "tomorrow at 01:30", "2026-03-29 02:30"),
    (LISBON, "2026-03-28 15:00", "2026-03-29T01:30", "2026-03-29 02:30"),
    (LISBON, "2026-03-28 15:00", "2026-03-29T01:30Z", "2026-03-29 02:30"),
    # the night in which 02:00 becomes 01:00 in Lisbon
    (LISBON, "2026-10-24 23:30", "in 2 hours", "2026-10-25 01:30"),
    (LISBON, "2026-10-24 23:30", "in 3 hours", "2026-10-25 01:30"),
    (LISBON, "2026-10-24 15:00", "in 24 hours", "2026-10-25 14:00"),
    (LISBON, "2026-10-24 15:00", "in 1 day", "2026-10-25 15:00"),
    (NEW_YORK, "2026-03-08 01:30", "in 1 hour", "2026-03-08 03:30"),
    (NEW_YORK, "2026-03-07 12:00", "tomorrow at 2:30 am", "2026-03-08 03:30"),
    (NEW_YORK, "2026-11-01 00:30", "in 2 hours", "2026-11-01 01:30"),
    (NEW_YORK, "2026-10-31 12:00", "tomorrow at 1:30 am", "2026-11-01 01:30"),
    (LORD_HOWE, "2026-10-03 12:00", "明天凌晨2点15分", "2026-10-04 02:45"),
    (SHANGHAI, "2026-03-28 23:30", "两个小时后", "2026-03-29 01:30"),
    (LISBON, "2026-01-31 10:00", "in 1 month", "2026-02-28 10:00"),
    (LISBON, "2028-02-29 10:00", "in 1 year", "2029-02-28 10:00"),
    (LISBON, "2026-12-31 23:00", "tomorrow at 9", "2027-01-01 09:00"),
    (LISBON, "2026-12-31 23:00", "in 2 hours", "2027-01-01 01:00"),
    (LISBON, "2026-04-30 10:00", "on the 31st", "2026-05-31 09:00"),
]


@pytest.mark.parametrize(("zone", "now", "phrase", "want"), DAYLIGHT)
def test_a_change_of_the_clock_moves_no_hour(zone, now, phrase, want):
    present = datetime.fromisoformat(now).replace(tzinfo=zone)
    assert read(phrase, present, zone) == want


def test_the_hour_that_occurs_twice_is_distinguished():
    present = datetime(2026, 10, 24, 23, 30, tzinfo=LISBON)
    first, second = (read_time(f"in {n} hours", present, LISBON).at for n in (2, 3))
    assert (second.astimezone(UTC) - first.astimezone(UTC)).total_seconds() == 3600
    assert read_time("amanhã às 01:30", present, LISBON).at.timestamp() == first.timestamp()


TWICE = [
    ("2026-10-25T01:45+01:00", "in 30 minutes", "2026-10-25T01:15+00:00"),
    ("2026-10-25T01:45+01:00", "at 1:30 am", "2026-10-25T01:30+00:00"),
    ("2026-10-25T01:15+00:00", "at 1:30 am", "2026-10-25T01:30+00:00"),
    ("2026-10-25T01:15+00:00", "in 30 minutes", "2026-10-25T01:45+00:00"),
    ("2026-10-25T01:45+00:00", "at 1:30 am", "2026-10-26T01:30+00:00"),
    ("2026-10-25T01:45+01:00", "2026-10-25T01:30+00:00", "2026-10-25T01:30+00:00"),
]


@pytest.mark.parametrize(("now", "phrase", "want"), TWICE)
def test_in_the_hour_that_occurs_twice_a_time_is_later_than_now(now, phrase, want):
    present = datetime.fromisoformat(now).astimezone(UTC)
    moment = read_time(phrase, present, LISBON).at
    assert moment.astimezone(UTC) == datetime.fromisoformat(want).astimezone(UTC)


def test_the_zone_of_the_present_does_not_matter():
    assert read("tomorrow at 8", WEDNESDAY.astimezone(SHANGHAI)) == "2026-03-05 08:00"
    assert read("tomorrow at 8", WEDNESDAY, SHANGHAI) == "2026-03-05 08:00"
    assert read("at 8", WEDNESDAY, SHANGHAI) == "2026-03-05 08:00"  # it is 23:00 there


def series(rule, start, count, zone=LISBON):
    """Return the first occurrences of a rule."""
    at = datetime.fromisoformat(start).replace(tzinfo=zone)
    found, after = [], at
    while len(found) < count and (after := next_of(rule, at, zone, after=after)) is not None:
        found.append(f"{after:%m-%d %H:%M}")
    return found


RULES = [
    ("FREQ=DAILY", "2026-03-28 01:30", ["03-29 02:30", "03-30 01:30", "03-31 01:30"]),
    ("FREQ=DAILY", "2026-10-24 01:30", ["10-25 01:30", "10-26 01:30", "10-27 01:30"]),
    ("FREQ=DAILY", "2026-03-28 08:00", ["03-29 08:00", "03-30 08:00", "03-31 08:00"]),
    ("FREQ=HOURLY;INTERVAL=12", "2026-03-28 15:00", ["03-29 04:00", "03-29 16:00", "03-30 04:00"]),
    ("FREQ=HOURLY", "2026-10-25 00:30", ["10-25 01:30", "10-25 01:30", "10-25 02:30"]),
    (
        "FREQ=MINUTELY;INTERVAL=90",
        "2026-03-29 00:00",
        ["03-29 02:30", "03-29 04:00", "03-29 05:30"],
    ),
    ("FREQ=WEEKLY;BYDAY=MO,WE", "2026-03-25 08:00", ["03-30 08:00", "04-01 08:00", "04-06 08:00"]),
    (
        "FREQ=MONTHLY;BYMONTHDAY=31",
        "2026-01-31 09:00",
        ["03-31 09:00", "05-31 09:00", "07-31 09:00"],
    ),
    ("FREQ=MONTHLY;BYDAY=-1FR", "2026-01-30 09:00", ["02-27 09:00", "03-27 09:00", "04-24 09:00"]),
    ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "2028-02-29 09:00", ["02-29 09:00"] * 3),
    ("FREQ=DAILY;COUNT=3", "2026-03-01 09:00", ["03-02 09:00", "03-03 09:00"]),
    ("FREQ=HOURLY;COUNT=3", "2026-03-01 09:00", ["03-01 10:00", "03-01 11:00"]),
    ("FREQ=DAILY;UNTIL=20260303", "2026-03-01 09:00", ["03-02 09:00", "03-03 09:00"]),
    ("FREQ=HOURLY;UNTIL=20260301T110000", "2026-03-01 09:00", ["03-01 10:00", "03-01 11:00"]),
    ("FREQ=DAILY;UNTIL=20260302T090000Z", "2026-03-01 09:00", ["03-02 09:00"]),
    ("FREQ=MINUTELY;INTERVAL=7", "2016-01-01 00:00", ["01-01 00:07", "01-01 00:14", "01-01 00:21"]),
]


@pytest.mark.parametrize(("rule", "start", "want"), RULES)
def test_a_rule_keeps_the_time_of_day_and_counts_hours_as_they_pass(rule, start, want):
    assert series(normalize_rule(rule), start, 3)[: len(want)] == want


WRONG_RULES = [
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;COUNT=1000",
    "FREQ=DAILY;INTERVAL=7;BYDAY=TU",
    "FREQ=WEEKLY;BYDAY=99MO",
    "",
    "daily at 8",
    "FREQ=SECONDLY",
    "FREQ=DAILY;FREQ=WEEKLY",
    "FREQ=DAILY;BYHOUR=3",
    "FREQ=DAILY;INTERVAL=0",
    "FREQ=DAILY;INTERVAL=99999",
    "FREQ=DAILY;COUNT=0",
    "FREQ=DAILY;COUNT=9999",
    "FREQ=DAILY;COUNT=3;UNTIL=20300101",
    "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=DAILY\nDTSTART:20200101T000000",
    "FREQ=DAILY;X-EVIL=1",
    "FREQ=WEEKLY;BYDAY=XX",
    "FREQ=DAILY;BYMONTHDAY=" + ",".join(["1"] * 200),
    "FREQ=\u0661DAILY",
]


@pytest.mark.parametrize("rule", WRONG_RULES)
def test_a_rule_that_is_wrong_is_refused(rule):
    with pytest.raises(WrongRuleError):
        normalize_rule(rule)


NEVER = [
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=DAILY;UNTIL=20200101",
    "FREQ=MONTHLY;BYMONTHDAY=99",
    "FREQ=DAILY;UNTIL=99999999",
]


@pytest.mark.parametrize("rule", NEVER)
def test_a_rule_that_never_comes_true_is_refused_and_holds_nothing_up(rule):
    with pytest.raises(WrongRuleError):
        first_of(normalize_rule(rule), WEDNESDAY, LISBON)


AT_NIGHT = [
    ("2026-03-04 23:30", "at 1", "2026-03-05 01:00"),
    ("2026-03-05 01:00", "at 3", "2026-03-05 03:00"),
    ("2026-03-05 01:00", "at 6", "2026-03-05 06:00"),
    ("2026-03-05 01:00", "tomorrow at 3", "2026-03-06 15:00"),
    ("2026-03-04 20:00", "at 5", "2026-03-05 17:00"),
    ("2026-03-04 20:00", "at 6", "2026-03-05 06:00"),
    ("2026-03-04 10:00", "at 3", "2026-03-04 15:00"),
    ("2026-03-04 23:30", "this evening at 8", "past"),
    ("2026-03-04 23:30", "tonight at 8", "past"),
    ("2026-03-31 23:30", "at the end of the month", "past"),
]


@pytest.mark.parametrize(("now", "phrase", "want"), AT_NIGHT)
def test_an_hour_without_am_or_pm_is_of_the_waking_day(now, phrase, want):
    assert read(phrase, datetime.fromisoformat(now).replace(tzinfo=LISBON)) == want


HOSTILE = [
    "a" * 10_000,
    "in " + "1 hour " * 28,
    "9" * 190 + " minutes",
    "in 1e5 hours",
    "0 0 0 0 0 0 0 0 0 0",
    "at at at at at at",
    "2026-99-99T99:99",
    "2026-03-05T08:00:00+99:00",
    "\x00",
    "١٢:٣٠",
    "tomorrow" * 20,
    "in 99999 years",
    "9999-12-31T23:59",
    "0001-01-01",
    "二" * 190,
    "十" * 190,
    "每每每每天",
    "( | .* \\d+ [",
]


@pytest.mark.parametrize("phrase", HOSTILE)
def test_hostile_phrases_end_in_a_clear_error_or_a_time_to_come(phrase):
    try:
        when = read_time(phrase, WEDNESDAY, LISBON)
    except (UnreadableTimeError, PastTimeError):
        pass
    else:
        assert when.at > WEDNESDAY
