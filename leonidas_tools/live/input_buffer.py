"""Buffer the user's input: bounded, in order, and sent again after a lost connection."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.live.media import seconds_of

if TYPE_CHECKING:
    from genai_processors.content_api import ProcessorPart

REALTIME = "realtime"
"""Substream of live audio, video and text; upstream uses the same name."""

_UNCONFIRMED_SECONDS = 3.0
_SLOW_SECONDS = 1.0


@dataclass(kw_only=True, slots=True)
class _Input:
    """One input: its place in the order, and the number of the message that carried it last."""

    place: int
    part: ProcessorPart
    since: float = 0.0
    message: int = 0
    at: float = 0.0
    is_repeated: bool = False


class InputBuffer:
    """A buffer of the user's input for the model.

    At most `held_seconds` of audio and video wait; the oldest are dropped first. While they are
    sent, more may wait until the oldest has waited for that long: the server reads too slowly.

    Sent input is kept until its arrival is confirmed, because a lost network is detected late. It
    is kept for at most three seconds if the server is slow to confirm, else for at most
    `held_seconds`.
    """

    def __init__(self, held_seconds: float) -> None:
        self.dropped = 0
        """Number of audio and video parts dropped so far."""
        self.ended = False
        self._held_seconds = held_seconds
        self.is_repeated = False
        """True if the part taken last was already sent on an earlier connection."""
        self._places = itertools.count()
        self._waiting: deque[_Input] = deque()
        self._seconds = 0.0
        self._sent: deque[_Input] = deque()
        self._kept_seconds = _UNCONFIRMED_SECONDS

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, part: ProcessorPart, now: float, *, bounded: bool) -> None:
        """Add input of the user; `bounded` while it cannot be sent."""
        self._waiting.append(_Input(place=next(self._places), part=part, since=now))
        self._seconds += _seconds(part)
        while self._seconds > self._held_seconds and (bounded or self._is_late(now)):
            self._drop_oldest()

    def put_first(self, part: ProcessorPart) -> None:
        """Add a part before all waiting parts."""
        place = self._waiting[0].place - 1 if self._waiting else next(self._places)
        self._waiting.appendleft(_Input(place=place, part=part))

    def next_is(self, signal: str) -> bool:
        """Return whether the next part is that signal."""
        return bool(self._waiting) and bool(self._waiting[0].part.get_metadata(signal))

    def take(self, message: int, now: float) -> ProcessorPart:
        """Remove and return the next part, to send it with the message of that number."""
        return self._taken(0, message, now)

    def take_text(self, message: int, now: float) -> ProcessorPart | None:
        """Remove and return the next text part, which need not wait for the microphone."""
        for index, waiting in enumerate(self._waiting):
            if waiting.part.part.text:
                return self._taken(index, message, now)
        return None

    def confirm(self, message: int, round_trip_seconds: float = 0.0) -> None:
        """Record that all messages up to this number have arrived."""
        is_slow = round_trip_seconds > _SLOW_SECONDS
        self._kept_seconds = _UNCONFIRMED_SECONDS if is_slow else self._held_seconds
        while self._sent and self._sent[0].message <= message:
            self._sent.popleft()

    def give_back(self, *, media_only: bool) -> None:
        """Put back, in order, the parts that may not have arrived over a lost connection."""
        for sent in self._sent:
            if _seconds(sent.part) or not media_only:
                sent.is_repeated = True
                self._waiting.append(sent)
                self._seconds += _seconds(sent.part)
        self._waiting = deque(sorted(self._waiting, key=lambda each: each.place))
        self._sent.clear()

    def _taken(self, index: int, message: int, now: float) -> ProcessorPart:
        taken = self._waiting[index]
        del self._waiting[index]
        self._seconds -= _seconds(taken.part)
        self.is_repeated = taken.is_repeated
        taken.message, taken.at = message, now
        self._sent.append(taken)
        while self._sent[0].at < now - self._kept_seconds:
            self._sent.popleft()
        return taken.part

    def _is_late(self, now: float) -> bool:
        """Return whether the oldest audio or video has waited longer than input is held."""
        oldest = next((each for each in self._waiting if _seconds(each.part)), None)
        return oldest is not None and oldest.since < now - self._held_seconds

    def _drop_oldest(self) -> None:
        for index, waiting in enumerate(self._waiting):
            if seconds := _seconds(waiting.part):
                del self._waiting[index]
                self._seconds -= seconds
                self.dropped += 1
                return
        self._seconds = 0.0


def _seconds(part: ProcessorPart) -> float:
    """Return the seconds of live audio or video, or 0 for content, which is never dropped."""
    return seconds_of(part) if part.substream_name == REALTIME else 0.0
