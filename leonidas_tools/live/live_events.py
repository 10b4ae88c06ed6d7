"""Events of the connection: status parts for the listener, events for subscribers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from genai_processors import context as context_lib

from leonidas_tools.live.spoken_turns import SpokenTurns
from leonidas_tools.processors.parts import StatusPart
from leonidas_tools.redaction import redact

if TYPE_CHECKING:
    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.runtime.runtime import ToolRuntime

LIVE_EVENT = "live_event"
"""Metadata key of what happened to the connection; only a `StatusPart` tells of it."""


def live_event(event: str, **data: Any) -> StatusPart:
    """Return a status part: JSON text of what happened.

    Example:
        >>> live_event("connection_lost", code=1006).text
        '{"event": "connection_lost", "code": 1006}'
    """
    body = {"event": event, **redact(data)}
    return StatusPart(
        json.dumps(body, ensure_ascii=False),
        mimetype="application/json",
        role="user",
        substream_name=context_lib.STATUS_STREAM,
        metadata={LIVE_EVENT: body},
    )


class LiveEvents:
    """Tells those who follow the tools' events what becomes of a live session.

    Args:
        runtime: Runs the calls, and has followers; `None` if the tools have no runtime.
        session: The session.
    """

    def __init__(self, runtime: ToolRuntime | None, session: ToolSession) -> None:
        self._stream = None if runtime is None else runtime.events
        self._session = session
        self._turns = SpokenTurns(self._tell_speech)

    def heard(self, part: ProcessorPart) -> None:
        """Handle a message of the model or its connection."""
        if isinstance(part, StatusPart) and (happened := part.metadata.get(LIVE_EVENT)):
            self.tell(**happened)
        else:
            self._turns.heard(part)

    def typed(self, part: ProcessorPart) -> None:
        """Handle a part of the user's side."""
        self._turns.typed(part)

    def close(self) -> None:
        """Tell that the session has ended."""
        self._turns.close()
        self.tell("session_ended")

    def tell(self, event: str, **data: Any) -> None:
        """Tell what has happened."""
        if self._stream is not None:
            self._stream.live(event, self._session, **data)

    def _tell_speech(self, **data: Any) -> None:
        if self._stream is not None:
            self._stream.publish("speech", session=self._session.id, **data)
