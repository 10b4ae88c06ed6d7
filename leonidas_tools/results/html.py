"""Show results as HTML, for notebooks."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from json import dumps
from typing import TYPE_CHECKING, Any

from leonidas_tools.results.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from leonidas_tools.calls.call import Media

_MAX_CELL_LENGTH = 500
_ELEMENTS = {
    "image/png": '<img src="{source}">',
    "image/jpeg": '<img src="{source}">',
    "image/gif": '<img src="{source}">',
    "image/webp": '<img src="{source}">',
    "audio/wav": '<audio controls src="{source}"></audio>',
    "audio/mpeg": '<audio controls src="{source}"></audio>',
}
"""HTML of the media types that are shown; SVG is not, since it can contain scripts."""


def html_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as an HTML table with the keys of the first row as its header.

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


def html_media(media: Iterable[Media]) -> str:
    """Return images and audio as HTML; other media by their type and size.

    Example:
        >>> from leonidas_tools.calls.call import Media
        >>> html_media([Media(mime_type="image/png", data=b"0")])
        '<p><img src="data:image/png;base64,MA=="></p>'
    """
    return "".join(f"<p>{_element(each)}</p>" for each in media)


def _element(media: Media) -> str:
    element = _ELEMENTS.get(media.mime_type)
    if element is None:
        return escape(f"{media.mime_type}, {len(media.data)} bytes")
    return element.format(source=f"data:{media.mime_type};base64,{b64encode(media.data).decode()}")


def _row(cell: str, values: Iterable[Any]) -> str:
    return f"<tr>{''.join(f'<{cell}>{_text(value)}</{cell}>' for value in values)}</tr>"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else dumps(value, ensure_ascii=False, default=str)
    return escape(shorten(text, _MAX_CELL_LENGTH))
