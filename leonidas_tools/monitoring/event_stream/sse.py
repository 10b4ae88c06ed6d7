"""Server-sent events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from leonidas_tools.results.jsonable import utf8_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


def to_sse(event: Mapping[str, Any]) -> str:
    """Return an event as a server-sent event; a browser returns its number as `Last-Event-ID`.

    Args:
        event: An event of the stream.

    Example:
        >>> print(to_sse({"sequence": 7, "event": "settings_changed"}), end="")
        id: 7
        event: settings_changed
        data: {"sequence":7,"event":"settings_changed"}
        <BLANKLINE>
    """
    data = utf8_text(_JSON.encode(event))
    return f"id: {event['sequence']}\nevent: {event['event']}\ndata: {data}\n\n"
