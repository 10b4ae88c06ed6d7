"""The queue of sound, and of parts that need not wait for it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genai_processors.content_api import ProcessorPart


@dataclass(kw_only=True, slots=True)
class Sound:
    """Some sound of the model.

    Args:
        part: The part it came in.
        hertz: Samples per second.
        data: Whole samples, less what has been handed on.
    """

    part: ProcessorPart
    hertz: int
    data: memoryview


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The end of some sound: nothing of it may be heard later.

    Args:
        part: What says so; `None` for the end of the stream.
        failure: What the stream ended with.
    """

    part: ProcessorPart | None = None
    failure: Exception | None = None


class PartQueue:
    """Parts in their order; while the sound is held, the others overtake it.

    Example:
        >>> from genai_processors.content_api import ProcessorPart
        >>> queue = PartQueue()
        >>> queue.put(Mark()), queue.put(ProcessorPart("Hello"))
        (None, None)
        >>> queue.next(held=True).text, queue.next(held=True)
        ('Hello', None)
        >>> queue.next(held=False)
        Mark(part=None, failure=None)
    """

    def __init__(self) -> None:
        self._count = 0
        self._sounds: deque[tuple[int, Sound | Mark]] = deque()
        self._others: deque[tuple[int, ProcessorPart]] = deque()

    @property
    def has_sound(self) -> bool:
        """Return whether there is sound, or an end of it."""
        return bool(self._sounds)

    def put(self, item: Sound | Mark | ProcessorPart) -> None:
        """Put something at the end."""
        self._count += 1
        if isinstance(item, Sound | Mark):
            self._sounds.append((self._count, item))
        else:
            self._others.append((self._count, item))

    def put_back(self, sound: Sound) -> None:
        """Put what is left of a sound where it was taken from."""
        self._sounds.appendleft((0, sound))

    def next(self, *, held: bool) -> Sound | Mark | ProcessorPart | None:
        """Take what comes next."""
        sounds = () if held else self._sounds
        if sounds and (not self._others or sounds[0][0] < self._others[0][0]):
            return self._sounds.popleft()[1]
        return self._others.popleft()[1] if self._others else None

    def drop_sound(self) -> None:
        """Forget all sound; what marked its end is kept, in its place."""
        marks = [(n, m.part) for n, m in self._sounds if isinstance(m, Mark) and m.part is not None]
        self._others = deque(sorted([*self._others, *marks], key=lambda each: each[0]))
        self._sounds.clear()
