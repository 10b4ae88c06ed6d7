"""The speech settings of a session: set by the speech tools, read by the audio output."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_REMEMBERED = 100
_SLOWEST, _FASTEST = 0.5, 2.0
_LOUDEST = 2.0


HEARD = ("rate", "volume", "voice", "paused_until", "emphasis")
"""The speech settings that have an audible effect."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeechSettings:
    """Settings of the speech output.

    Raises:
        ValueError: A value is out of range.
    """

    rate: float = 1.0  # 0.5 to 2.0; 1.0 is the normal rate of the voice
    volume: float = 1.0  # 0.0 to 2.0; 1.0 is the normal volume of the voice
    voice: str | None = None  # `None` for the voice of the session
    paused_until: float = 0.0  # no audio before this time (`time.monotonic`, seconds)
    emphasis: tuple[str, ...] = ()  # words to stress the next time they are spoken

    def __post_init__(self) -> None:
        if not _SLOWEST <= self.rate <= _FASTEST:
            raise ValueError(f"A rate of {self.rate!r} is not from {_SLOWEST} to {_FASTEST}")
        if not 0.0 <= self.volume <= _LOUDEST:
            raise ValueError(f"A volume of {self.volume!r} is not from 0.0 to {_LOUDEST}")
        if not math.isfinite(self.paused_until):
            raise ValueError(f"A pause until {self.paused_until!r} has no end")


class SpeechState:
    """The speech settings of one session, with their history and listeners.

    Example:
        >>> speech = SpeechState()
        >>> heard = []
        >>> _ = speech.on_change(heard.append)
        >>> speech.set(rate=1.5).rate
        1.5
        >>> heard[-1].rate, speech.roll_back().rate
        (1.5, 1.0)
    """

    def __init__(self) -> None:
        self.current = SpeechSettings()
        self._history: deque[SpeechSettings] = deque(maxlen=_REMEMBERED)
        self._listeners: list[tuple[Callable[[SpeechSettings], None], frozenset[str]]] = []

    @property
    def paused_seconds(self) -> float:
        """Return the remaining seconds of a pause."""
        return max(0.0, self.current.paused_until - time.monotonic())

    def set(self, **changes: Any) -> SpeechSettings:
        """Change some settings and keep the others.

        Raises:
            ValueError: A value is out of range; nothing is changed.
        """
        settings = replace(self.current, **changes)
        self._history.append(self.current)
        return self._become(settings)

    def pause(self, seconds: float) -> SpeechSettings:
        """Pause the speech for a number of seconds."""
        return self.set(paused_until=time.monotonic() + seconds)

    def resume(self) -> SpeechSettings:
        """End a pause."""
        return self.set(paused_until=0.0)

    def emphasized(self, words: str) -> SpeechSettings:
        """Drop the emphasis of spoken words, so that `roll_back` cannot restore it."""
        self._history = deque((_without(s, words) for s in self._history), maxlen=_REMEMBERED)
        return self._become(_without(self.current, words))

    def roll_back(self) -> SpeechSettings:
        """Restore the settings before the last change."""
        return self._become(self._history.pop() if self._history else SpeechSettings())

    def on_change(
        self,
        listener: Callable[[SpeechSettings], None],
        *,
        heard: Collection[str] = HEARD,
    ) -> Callable[[], None]:
        """Call `listener` with the new settings; return a function that unsubscribes.

        Args:
            listener: Receives the settings, such as the audio output.
            heard: The names of the settings that the listener applies.
        """
        entry = (listener, frozenset(heard))
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry)

    def is_heard(self, setting: str) -> bool:
        """Return whether a listener applies a setting, so that a change has an audible effect."""
        return any(setting in heard for _, heard in self._listeners)

    def _become(self, settings: SpeechSettings) -> SpeechSettings:
        self.current = settings
        for listener, _ in tuple(self._listeners):
            listener(settings)
        return settings


def _without(settings: SpeechSettings, words: str) -> SpeechSettings:
    return replace(settings, emphasis=tuple(w for w in settings.emphasis if w != words))
