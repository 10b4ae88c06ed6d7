"""SVG charts for notebooks: a timeline of a session, a histogram of durations.

The colours have enough contrast on white and on black, so that stored charts suit both themes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final, TypeAlias

from leonidas_tools.results.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leonidas_tools.monitoring.histogram import DurationHistogram

Span: TypeAlias = "tuple[float, float, str]"
"""The start and the end in seconds, and a label, which may be empty."""

_INK: Final = "#808080"
_COLOURS: Final = ("#3b82f6", "#d97706", "#16a34a", "#db2777", "#8b5cf6", "#0d9488")
_WIDTH: Final = 760
_LEFT: Final = 110
_RIGHT: Final = 20
_ROW: Final = 30
_BAR: Final = 16
_MAX_TICKS: Final = 10
_MAX_BARS: Final = 12
_MAX_LABEL_LENGTH: Final = 40
_LETTER: Final = 5.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart that notebooks show.

    Args:
        svg: The chart as SVG.
    """

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg


def timeline(lanes: Mapping[str, Sequence[Span]]) -> Chart:
    """Draw spans of time, a row for each lane, over one axis in seconds.

    Args:
        lanes: The spans by the name of their lane. A span of no length is drawn as a thin mark.

    Example:
        >>> chart = timeline({"speech": [(0.0, 1.5, "Hello")], "calls": [(0.4, 1.1, "search")]})
        >>> chart.svg.count("<rect")
        2
    """
    seconds = max((end for spans in lanes.values() for _, end, _ in spans), default=0.0) or 1.0
    height = len(lanes) * _ROW + 50
    parts = _axis(seconds, height, "seconds since the start")
    for row, (name, spans) in enumerate(lanes.items()):
        y = 10 + row * _ROW
        parts.append(_text(_LEFT - 8, y + 13, name, "end"))
        colour, free = _COLOURS[row % len(_COLOURS)], 0.0
        for start, end, label in spans:
            x, width = _x(start, seconds), max(_x(end, seconds) - _x(start, seconds), 2.0)
            title = f"<title>{_escape_label(label)} {start:.2f} to {end:.2f} s</title>"
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="2" '
                f'fill="{colour}">{title}</rect>'
            )
            if label and x >= free:  # else it would cover the previous label
                free = x + _LETTER * min(len(label), _MAX_LABEL_LENGTH)
                parts.append(_text(x, y + _BAR + 10, label, "start", size=9))
    return Chart(svg=_svg(height, parts))


def durations(histogram: DurationHistogram) -> Chart:
    """Draw a histogram of durations, with the median and the 95th percentile.

    Args:
        histogram: The durations of calls, such as `tools.monitor.durations("get_weather")`.
    """
    shown = histogram.bars(_MAX_BARS) or [(0.001, 0)]
    most = max((count for _, count in shown), default=0) or 1
    height, floor, step = 220, 160, (_WIDTH - _LEFT - _RIGHT) / len(shown)
    parts = [
        _line(_LEFT, floor, _WIDTH - _RIGHT, floor),
        _text(_LEFT - 8, 14, "calls", "end"),
        _text(_LEFT - 8, floor, "0", "end"),
        _text(_LEFT - 8, 32, str(most), "end"),
    ]
    for index, (edge, count) in enumerate(shown):
        x, tall = _LEFT + index * step, (floor - 28) * count / most
        name = f"≤ {_duration(edge)}" if math.isfinite(edge) else "longer"
        parts.append(
            f'<rect x="{x + 2:.1f}" y="{floor - tall:.1f}" width="{step - 4:.1f}" '
            f'height="{tall:.1f}" rx="2" fill="{_COLOURS[0]}">'
            f"<title>{name}: {count}</title></rect>"
        )
        parts.append(_text(x + step / 2, floor + 16, name, "middle", size=10))
    parts.append(_text((_LEFT + _WIDTH) / 2, floor + 36, "duration of a call", "middle"))
    middle, late = histogram.percentile(50), histogram.percentile(95)
    if middle is not None and late is not None:
        text = f"p50 {_duration(middle)} · p95 {_duration(late)} · {histogram.count} calls"
        parts.append(_text(_WIDTH - _RIGHT, 14, text, "end"))
    return Chart(svg=_svg(height, parts))


def _axis(seconds: float, height: int, name: str) -> list[str]:
    floor = height - 36
    parts = [
        _line(_LEFT, floor, _WIDTH - _RIGHT, floor),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, height - 6, name, "middle"),
    ]
    step = _tick(seconds)
    for number in range(int(seconds / step) + 1):
        at = number * step
        x = _x(at, seconds)
        parts.append(
            f'<line x1="{x:.1f}" y1="{floor}" x2="{x:.1f}" y2="{floor + 4}" stroke="{_INK}"/>'
        )
        parts.append(_text(x, floor + 16, f"{at:g}", "middle", size=10))
    return parts


def _tick(seconds: float) -> float:
    """Return the distance of marks on an axis: 1, 2 or 5 times a power of ten."""
    decade = 10.0 ** math.floor(math.log10(seconds / _MAX_TICKS))
    return next(
        decade * factor for factor in (1, 2, 5, 10) if seconds / (decade * factor) <= _MAX_TICKS
    )


def _x(at: float, seconds: float) -> float:
    return _LEFT + at / seconds * (_WIDTH - _LEFT - _RIGHT)


def _duration(seconds: float) -> str:
    if seconds < 1e-3:  # noqa: PLR2004 - a millisecond
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1}" x2="{x2:.1f}" y2="{y2}" stroke="{_INK}"/>'


def _text(x: float, y: float, text: str, anchor: str, size: int = 12) -> str:
    place = f'x="{x:.1f}" y="{y}" text-anchor="{anchor}"'
    font = f'font-family="sans-serif" font-size="{size}" fill="{_INK}"'
    return f"<text {place} {font}>{_escape_label(text)}</text>"


def _escape_label(text: str) -> str:
    cut = shorten(text, _MAX_LABEL_LENGTH)
    # XML allows no control characters, not even escaped ones.
    return escape("".join(letter if letter.isprintable() else "·" for letter in cut))


def _svg(height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}">{"".join(parts)}</svg>'
    )
