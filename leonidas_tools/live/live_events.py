"""Events of a live session: status parts for the listener, events for subscribers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from genai_processors import context as context_lib

from leonidas_tools.live.media import seconds_of
from leonidas_tools.live.part_queue import is_speech
from leonidas_tools.processors.parts import StatusPart
from leonidas_tools.redaction import redact, redact_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.runtime.runtime import ToolRuntime


Speaker: TypeAlias = Literal["user", "agent"]

LIVE_EVENT = "live_event"
"""Metadata key of a connection event; only that of a `StatusPart` is read."""
_MAX_CHARACTERS = 2000
_TYPED_IN = ("", "realtime")


def live_event(event: str, **data: Any) -> StatusPart:
    """Return a status part with a connection event as JSON text.

    Example:
        >>> live_event("connection_lost", code=1006).text
        '{"event": "connection_lost", "code": 1006}'
    """
    body = {"event": event, **redact(data)}
    return status_part(body, {LIVE_EVENT: body})


def status_part(event: Mapping[str, Any], metadata: dict[str, Any]) -> StatusPart:
    """Return a status part with an event as JSON text."""
    return StatusPart(
        json.dumps(event, ensure_ascii=False),
        mimetype="application/json",
        role="user",
        substream_name=context_lib.STATUS_STREAM,
        metadata=metadata,
    )


def read_typed_text(part: ProcessorPart) -> str | None:
    """Return the text that the user has typed; return `None` or "" for other parts."""
    is_users = part.role != "model" and part.substream_name in _TYPED_IN
    return part.part.text if is_users else None


@dataclass(kw_only=True, slots=True)
class _SpokenTurn:
    words: str = ""
    sound_seconds: float = 0.0


class _SpokenTurns:
    """Calls `tell` when a turn begins and when it ends."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell
        self._turns: dict[Speaker, _SpokenTurn] = {}

    def typed(self, part: ProcessorPart) -> None:
        """Handle a part of the user's input."""
        if text := read_typed_text(part):
            self._turn("user").words += text
            self._end("user")

    def heard(self, part: ProcessorPart) -> None:
        """Handle a part of the model's output."""
        text, stream = part.part.text or "", part.substream_name
        if stream == "input_transcription":
            if text:
                self._add("user", text)
            if part.metadata.get("finished"):
                self._end("user")
        elif is_speech(part):
            self._end("user")
            self._turn("agent").sound_seconds += seconds_of(part)
        elif text and (stream == "output_transcription" or (not stream and not part.part.thought)):
            self._end("user")
            self._add("agent", text)
        elif part.metadata.get("interrupted"):
            self._end("agent", interrupted=True)
        elif part.metadata.get("turn_complete"):
            self.close()

    def close(self) -> None:
        """End both turns."""
        self._end("user")
        self._end("agent")

    def _turn(self, who: Speaker) -> _SpokenTurn:
        if who not in self._turns:
            self._turns[who] = _SpokenTurn()
            self._tell(who=who, state="began")
        return self._turns[who]

    def _add(self, who: Speaker, words: str) -> None:
        turn = self._turn(who)
        turn.words = (turn.words + words)[:_MAX_CHARACTERS]

    def _end(self, who: Speaker, *, interrupted: bool = False) -> None:
        turn = self._turns.pop(who, None)
        if turn is None:
            return
        more: dict[str, Any] = {}
        if turn.sound_seconds:
            more["sound_seconds"] = round(turn.sound_seconds, 3)
        if interrupted:
            more["interrupted"] = True
        self._tell(who=who, state="ended", text=redact_text(turn.words.strip()), **more)


class LiveEvents:
    """Publishes the events of a live session to the subscribers of the tools' events."""

    def __init__(self, runtime: ToolRuntime | None, session: ToolSession) -> None:
        self._stream = None if runtime is None else runtime.events
        self._session = session
        self._turns = _SpokenTurns(self._tell_speech)

    def heard(self, part: ProcessorPart) -> None:
        """Handle a message of the model or its connection."""
        if isinstance(part, StatusPart) and (happened := part.metadata.get(LIVE_EVENT)):
            self.tell(**happened)
        else:
            self._turns.heard(part)

    def typed(self, part: ProcessorPart) -> None:
        """Handle a part of the user's input."""
        self._turns.typed(part)

    def close(self, reason: str | None = None) -> None:
        """End both turns, and publish `session_ended`."""
        self._turns.close()
        self.tell("session_ended", **({} if reason is None else {"reason": reason}))

    def tell(self, event: str, **data: Any) -> None:
        """Publish an event of the session."""
        if self._stream is not None:
            self._stream.live(event, self._session, **data)

    def _tell_speech(self, **data: Any) -> None:
        if self._stream is not None:
            self._stream.publish("speech", session=self._session.id, **data)
