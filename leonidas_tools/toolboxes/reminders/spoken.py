"""Times of reminders as they are said."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


def spoken_time(moment: datetime, now: datetime, zone: ZoneInfo) -> str:
    """Return a moment as it is said, such as `tomorrow at 8:00`."""
    local, today = moment.astimezone(zone), now.astimezone(zone).date()
    clock = f"{local.hour}:{local.minute:02}"
    if local.date() == today:
        return say("when_today", clock=clock)
    if local.date() == today + timedelta(days=1):
        return say("when_tomorrow", clock=clock)
    day = f"{local:%A}, {local:%B} {local.day}"
    if local.year != today.year:
        day += f", {local.year}"
    return say("when_on", day=day, clock=clock)
