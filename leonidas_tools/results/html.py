"""Show plain values as an HTML table, for notebooks."""

from __future__ import annotations

from html import escape
from json import dumps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LONGEST_CELL = 500


def html_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as an HTML table with the keys of the first row as its head.

    All text is escaped: names, descriptions and results may come from others.

    Example:
        >>> html_table([{"tool": "<b>", "effect": "read"}])
        '<table><tr><th>tool</th><th>effect</th></tr><tr><td>&lt;b&gt;</td><td>read</td></tr></table>'
    """
    lines = list(rows)
    head = list(lines[0]) if lines else []
    return "".join(
        [
            "<table>",
            _row("th", head),
            *(_row("td", [row.get(name, "") for name in head]) for row in lines),
            "</table>",
        ]
    )


def _row(cell: str, values: Iterable[Any]) -> str:
    return f"<tr>{''.join(f'<{cell}>{_text(value)}</{cell}>' for value in values)}</tr>"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else dumps(value, ensure_ascii=False, default=str)
    if len(text) > _LONGEST_CELL:
        text = f"{text[:_LONGEST_CELL]}…"
    return escape(text)
