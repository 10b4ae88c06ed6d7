"""Times in words, in the language of the phrase that named them."""

from __future__ import annotations

import re
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from leonidas_tools.results.texts import say
from leonidas_tools.toolboxes.reminders.phrases import readable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime
    from zoneinfo import ZoneInfo

    from leonidas_tools.results.texts import MessageText

Language: TypeAlias = Literal["en", "pt", "zh"]

_PORTUGUESE = re.compile(
    r"\b(?:amanha|hoje|daqui|dentro de|em|as|ao|meia|manha|tarde|noite|dias?|horas?|minutos?|"
    r"semanas?|mes|meses|anos?|tod[oa]s?|cada|proxim[oa]|segunda|terca|quarta|quinta|sexta|sabado|"
    r"domingo|janeiro|fevereiro|marco|abril|maio|junho|julho|agosto|setembro|outubro|novembro|"
    r"dezembro)\b"
)
_HAN = re.compile(r"[\u4e00-\u9fff]")
_WEEKDAYS = (
    "segunda-feira", "terça-feira", "quarta-feira", "quinta-feira", "sexta-feira", "sábado",
    "domingo",
)  # fmt: skip
_MONTHS = (
    "janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro",
    "outubro", "novembro", "dezembro",
)  # fmt: skip
_PARTS: Mapping[Language, tuple[tuple[int, str], ...]] = MappingProxyType(
    {
        "en": (
            (5, "{clock} at night"),
            (12, "{clock} in the morning"),
            (18, "{clock} in the afternoon"),
            (22, "{clock} in the evening"),
            (24, "{clock} at night"),
        ),
        "pt": (
            (6, "{clock} da madrugada"),
            (12, "{clock} da manhã"),
            (19, "{clock} da tarde"),
            (24, "{clock} da noite"),
        ),
        "zh": (
            (6, "凌晨{clock}"),
            (12, "上午{clock}"),
            (13, "中午{clock}"),
            (18, "下午{clock}"),
            (24, "晚上{clock}"),
        ),
    }
)
"""Parts of the day, each with the hour at which it ends."""


def language_of(phrase: str) -> Language:
    """Return the language of a phrase; English if it has no words.

    Example:
        >>> language_of("amanhã às 8"), language_of("明天8点"), language_of("2026-03-04T08:00")
        ('pt', 'zh', 'en')
    """
    if _HAN.search(phrase):
        return "zh"
    return "pt" if _PORTUGUESE.search(readable(phrase)) else "en"


def say_in(language: Language, key: str, **values: Any) -> MessageText:
    """Return a text in a language."""
    return say(key if language == "en" else f"{key}_{language}", **values)


def spoken_time(
    moment: datetime, now: datetime, zone: ZoneInfo, language: Language = "en"
) -> MessageText:
    """Return a time in words, with the part of the day."""
    local, today = moment.astimezone(zone), now.astimezone(zone).date()
    part = next(text for end, text in _PARTS[language] if local.hour < end)
    clock = part.format(clock=f"{local.hour % 12 or 12}:{local.minute:02}")
    if language == "pt":
        clock = f"{'à' if local.hour % 12 == 1 else 'às'} {clock}"
    if local.date() == today:
        return say_in(language, "when_today", clock=clock)
    if local.date() == today + timedelta(days=1):
        return say_in(language, "when_tomorrow", clock=clock)
    day = _spoken_day(local.date(), language, with_year=local.year != today.year)
    return say_in(language, "when_on", day=day, clock=clock)


def _spoken_day(day: date, language: Language, *, with_year: bool) -> str:
    match language:
        case "pt":
            year = f" de {day.year}" if with_year else ""
            return f"{_WEEKDAYS[day.weekday()]}, {day.day} de {_MONTHS[day.month - 1]}{year}"
        case "zh":
            year = f"{day.year}年" if with_year else ""
            return f"{year}{day.month}月{day.day}日星期{'一二三四五六日'[day.weekday()]}"
        case _:
            year = f", {day.year}" if with_year else ""
            return f"{day:%A}, {day:%B} {day.day}{year}"
