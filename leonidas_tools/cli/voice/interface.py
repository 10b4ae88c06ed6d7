"""The interface of microphones and speakers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FRAME_SECONDS = 0.02
MICROPHONE_HERTZ = 16_000
SPEAKER_HERTZ = 24_000
BYTES_PER_SAMPLE = 2
MICROPHONE_FRAME_BYTES = int(FRAME_SECONDS * MICROPHONE_HERTZ) * BYTES_PER_SAMPLE
SPEAKER_FRAME_BYTES = int(FRAME_SECONDS * SPEAKER_HERTZ) * BYTES_PER_SAMPLE


class Device(Protocol):
    """A device that is open inside `async with`."""

    async def __aenter__(self) -> Self:
        """Open the device."""
        ...

    async def __aexit__(self, *error: object) -> None:
        """Close the device."""
        ...


class Microphone(Device, Protocol):
    """Records the user: 16-bit mono at 16 kHz."""

    def frames(self) -> AsyncIterator[bytes]:
        """Yield frames of 20 ms in real time, until the input ends."""
        ...


class Speaker(Device, Protocol):
    """Plays the model's audio to the user: 16-bit mono at 24 kHz."""

    def play(self, sound: bytes) -> None:
        """Queue audio to be played after the queued audio; return at once."""
        ...

    def flush(self) -> None:
        """Drop the audio that is not played yet."""
        ...

    async def drain(self) -> None:
        """Wait until all audio is played."""
        ...
