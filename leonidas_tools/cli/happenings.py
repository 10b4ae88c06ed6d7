"""The parts of a live session as what happened in it: said, called, answered, cancelled."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leonidas_tools.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from genai_processors.content_api import ProcessorPart

_SPEAKERS = {"input_transcription": "user", "output_transcription": "agent"}
_SENTENCE_ENDS = (".", "?", "!", "…")
_PROGRESS = frozenset({EventKind.PROGRESS, EventKind.RETRY, EventKind.FALLBACK, EventKind.UNDO})
_COMMON_KEYS = frozenset({"event", "call_id", "tool", "session", "trace_id", "at"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Happening:
    """Something that happened in a session.

    Args:
        kind: `said`, `called`, `progress`, `retry`, `fallback`, `undo`, `answered`, `cancelled`,
            `interrupted`, `turn_complete`, or what the program itself has to say.
        at_seconds: When, since the session began.
        data: What there is to say about it, as plain JSON.
    """

    kind: str
    at_seconds: float
    data: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As one object of `--json`."""
        return {"event": self.kind, "at": round(self.at_seconds, 3), **self.data}


class Listener:
    """Turns parts into happenings; words become sentences.

    Args:
        clock: Tells the time in seconds.

    Example:
        >>> from genai_processors.content_api import ProcessorPart
        >>> listener = Listener(lambda: 0.0)
        >>> words = ["How", " are", " you?", " Well."]
        >>> parts = [ProcessorPart(word, substream_name="output_transcription") for word in words]
        >>> said = [each for part in parts for each in listener.hear(part)] + [*listener.pause()]
        >>> [each.data["text"] for each in said]
        ['How are you?', 'Well.']
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._speaker = ""
        self._words = ""
        self._names: dict[str, str] = {}
        self._called_at: dict[str, float] = {}

    def happening(self, kind: str, **data: Any) -> Happening:
        """Something that happens now."""
        return Happening(kind=kind, at_seconds=self._clock() - self._began, data=data)

    def hear(self, part: ProcessorPart) -> Iterator[Happening]:
        """What a part says has happened."""
        if speaker := _SPEAKERS.get(part.substream_name):
            yield from self._speech(speaker, part.text)
        elif part.metadata.get("tool_event"):
            yield from self._event(json.loads(part.text))
        elif part.part.function_call is not None or part.part.function_response is not None:
            yield from self.pause()
            yield self._call(part)
        else:
            yield from self._turn(part)

    def pause(self) -> Iterator[Happening]:
        """The words that are left, when nobody goes on with them."""
        text, self._words = self._words.strip(), ""
        if text:
            yield self.happening("said", who=self._speaker, text=text)

    def _speech(self, speaker: str, words: str) -> Iterator[Happening]:
        if speaker != self._speaker or (
            self._words.endswith(_SENTENCE_ENDS) and not words[:1].strip()
        ):
            yield from self.pause()
        self._speaker = speaker
        self._words += words

    def _event(self, event: dict[str, Any]) -> Iterator[Happening]:
        if event["event"] in _PROGRESS:
            told = {k: v for k, v in event.items() if k not in _COMMON_KEYS}
            kind = event["event"].removeprefix("tool_")
            yield self.happening(kind, id=event["call_id"], tool=event["tool"], **told)

    def _call(self, part: ProcessorPart) -> Happening:
        call, response = part.part.function_call, part.part.function_response
        if call is not None:
            identifier = call.id or ""
            self._names[identifier] = call.name or ""
            self._called_at[identifier] = self._clock()
            return self.happening("called", id=call.id, tool=call.name, arguments=call.args or {})
        if cancelled := part.tool_cancellation:
            return self.happening("cancelled", id=cancelled, tool=self._names.get(cancelled))
        assert response is not None
        seconds = self._clock() - self._called_at.get(response.id or "", self._clock())
        return self.happening(
            "answered",
            id=response.id,
            tool=response.name,
            seconds=round(seconds, 4),
            response=response.response or {},
        )

    def _turn(self, part: ProcessorPart) -> Iterator[Happening]:
        for kind in ("interrupted", "turn_complete", "go_away"):
            if part.metadata.get(kind):
                yield from self.pause()
                yield self.happening(kind)
