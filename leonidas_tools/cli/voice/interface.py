"""What the program needs of a microphone and a speaker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

FRAME_SECONDS = 0.02
MICROPHONE_HERTZ = 16_000
SPEAKER_HERTZ = 24_000
BYTES_PER_SAMPLE = 2
MICROPHONE_FRAME_BYTES = int(FRAME_SECONDS * MICROPHONE_HERTZ) * BYTES_PER_SAMPLE
SPEAKER_FRAME_BYTES = int(FRAME_SECONDS * SPEAKER_HERTZ) * BYTES_PER_SAMPLE


class Device(Protocol):
    """Something that is open between entering and leaving."""

    async def __aenter__(self) -> Self:
        """Opens it."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes it."""
        ...


class Microphone(Device, Protocol):
    """Hears the user: 16-bit mono at 16 kHz."""

    def frames(self) -> AsyncIterator[bytes]:
        """Frames of 20 ms, as fast as they are spoken, until there are no more."""
        ...


class Speaker(Device, Protocol):
    """Lets the user hear the model: 16-bit mono at 24 kHz."""

    def play(self, sound: bytes) -> None:
        """Plays a sound after what is waiting; returns at once."""
        ...

    def flush(self) -> None:
        """Drops what is not played yet."""
        ...

    async def drained(self) -> None:
        """Waits until all is played."""
        ...
