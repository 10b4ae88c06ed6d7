"""An event as a server sends it to a browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


def to_sse(event: Mapping[str, Any]) -> str:
    """The event as a server-sent event; its number is what a browser gives as `Last-Event-ID`.

    Args:
        event: An event of the stream.

    Example:
        >>> print(to_sse({"sequence": 7, "event": "settings_changed"}), end="")
        id: 7
        event: settings_changed
        data: {"sequence":7,"event":"settings_changed"}
        <BLANKLINE>
    """
    return f"id: {event['sequence']}\nevent: {event['event']}\ndata: {_JSON.encode(event)}\n\n"
