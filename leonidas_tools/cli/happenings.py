"""The happenings of a live session, derived from its parts."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.events import EventKind
from leonidas_tools.live.live_events import LIVE_EVENT
from leonidas_tools.processors.answers import LATE_RESULT
from leonidas_tools.processors.parts import TOOL_EVENT, StatusPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from genai_processors.content_api import ProcessorPart
    from google.genai import types

_SPEAKERS = {"input_transcription": "user", "output_transcription": "agent"}
_SENTENCE_ENDS = (".", "?", "!", "…")
_PROGRESS = frozenset(
    {
        EventKind.PROGRESS,
        EventKind.RETRY,
        EventKind.FALLBACK,
        EventKind.UNDO,
        EventKind.APPROVAL_REQUEST,
        EventKind.APPROVAL_ANSWER,
    }
)
_COMMON_KEYS = frozenset({"event", "call_id", "tool", "session", "trace_id", "at"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Happening:
    """Something that happened in a session.

    Args:
        kind: `said`, `called`, `progress`, `retry`, `fallback`, `undo`, `approval_request`,
            `approval_answer`, `answered`, `late_result`, `cancelled`,
            `interrupted`, `turn_complete`, `go_away`, an event of the connection
            (`connection_opened`, `connection_lost`, `connection_renewed`, `tools_changed`,
            `malformed_function_call`), or a message of the program itself.
        at_seconds: The time since the session began.
        data: The details, as plain JSON.
    """

    kind: str
    at_seconds: float
    data: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return one object of `--json`."""
        return {"event": self.kind, "at": round(self.at_seconds, 3), **self.data}


class HappeningListener:
    """Converts parts to happenings, and joins words to sentences.

    Example:
        >>> from genai_processors.content_api import ProcessorPart
        >>> listener = HappeningListener(lambda: 0.0)
        >>> words = ["How", " are", " you?", " Well."]
        >>> parts = [ProcessorPart(word, substream_name="output_transcription") for word in words]
        >>> said = [each for part in parts for each in listener.receive(part)] + [*listener.pause()]
        >>> [each.data["text"] for each in said]
        ['How are you?', 'Well.']
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        declared: Callable[[], AbstractSet[str]] = frozenset,
    ) -> None:
        self._clock = clock
        self._declared = declared
        self._known_tools = declared()
        self._connection = 0
        self._began = clock()
        self._speaker = ""
        self._words = ""
        self._names: dict[str, str] = {}
        self._called_at: dict[str, float] = {}
        self._called_on: dict[str, int] = {}
        self._cached: set[str] = set()

    def happening(self, kind: str, **data: Any) -> Happening:
        """Return a happening at the current time."""
        return Happening(kind=kind, at_seconds=self._clock() - self._began, data=data)

    def receive(self, part: ProcessorPart) -> Iterator[Happening]:
        """Yield the happenings of a part."""
        if speaker := _SPEAKERS.get(part.substream_name):
            yield from self._speech(speaker, part.text)
        elif isinstance(part, StatusPart) and part.metadata.get(TOOL_EVENT):
            yield from self._event(json.loads(part.text))
        elif isinstance(part, StatusPart) and part.metadata.get(LIVE_EVENT):
            yield from self._live_event(json.loads(part.text))
        elif part.part.function_call is not None or part.part.function_response is not None:
            yield from self.pause()
            yield self._call(part)
        else:
            yield from self._turn(part)

    def pause(self) -> Iterator[Happening]:
        """Yield the remaining words, if no more follow."""
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
        if event.get("cached"):  # the answer itself, which follows, has no such mark
            self._cached.add(event["call_id"] or "")
        if event["event"] in _PROGRESS:
            told = {k: v for k, v in event.items() if k not in _COMMON_KEYS}
            kind = event["event"].removeprefix("tool_")
            yield self.happening(kind, id=event["call_id"], tool=event["tool"], **told)

    def _live_event(self, event: dict[str, Any]) -> Iterator[Happening]:
        kind = event.pop("event")
        if kind == "tools_changed":
            yield from self._tools(event)
            return
        yield from self.pause()
        yield self.happening(kind, **event)
        if kind == "connection_lost":
            self._connection = 0
        elif "connection" in event:
            self._connection = event["connection"]
            yield from self._tools({})

    def _tools(self, event: dict[str, Any]) -> Iterator[Happening]:
        """Yield the added and removed tools, also if a new connection declares others."""
        before, now = self._known_tools, self._declared()
        self._known_tools = now
        if before != now or event:
            added, removed = sorted(now - before), sorted(before - now)
            yield self.happening("tools_changed", added=added, removed=removed)

    def _call(self, part: ProcessorPart) -> Happening:
        call, response = part.part.function_call, part.part.function_response
        if call is not None:
            identifier = call.id or ""
            self._names[identifier] = call.name or ""
            self._called_at[identifier] = self._clock()
            self._called_on[identifier] = self._connection
            return self.happening("called", id=call.id, tool=call.name, arguments=call.args or {})
        if cancelled := part.tool_cancellation:
            return self.happening("cancelled", id=cancelled, tool=self._names.get(cancelled))
        assert response is not None
        if part.metadata.get(LATE_RESULT):  # of a call that has its answer already
            body = response.response or {}
            return self.happening("late_result", id=response.id, tool=response.name, response=body)
        return self._answer(response)

    def _answer(self, response: types.FunctionResponse) -> Happening:
        identifier = response.id or ""
        seconds = self._clock() - self._called_at.get(identifier, self._clock())
        # A response can go only to the connection of its call; a later one gets it as text.
        renewed = self._called_on.get(identifier, self._connection) != self._connection
        return self.happening(
            "answered",
            id=response.id,
            tool=response.name,
            seconds=round(seconds, 4),
            response=response.response or {},
            **({"cached": True} if identifier in self._cached else {}),
            **({"after_reconnect": True} if renewed else {}),
        )

    def _turn(self, part: ProcessorPart) -> Iterator[Happening]:
        for kind in ("interrupted", "turn_complete", "go_away"):
            if told := part.metadata.get(kind):
                yield from self.pause()
                yield self.happening(kind, **(told if isinstance(told, dict) else {}))
