"""Conversion of audio between the formats of the client and the model."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import soxr

if TYPE_CHECKING:
    import numpy.typing as npt

    from leonidas_tools.gateway.wire import SoundFormat

    Samples: TypeAlias = npt.NDArray[np.int16]

_SPOKEN_HERTZ = 24_000
_MIN_HERTZ, _MAX_HERTZ = 8_000, 48_000
"""Limits of the model's sample rate; a lower rate would become too much audio for the client."""
_RATE = re.compile(r"rate=(\d{4,5})(?!\d)", re.ASCII)
_LITTLE = np.dtype("<i2")


def decode(frame: bytes) -> bytes:
    """Return µ-law as 16-bit PCM."""
    samples = _decoding_table()[np.frombuffer(frame, np.uint8)]
    return samples.astype(_LITTLE, copy=False).tobytes()


class SoundToClient:
    """Converts the model's audio to the format of a client."""

    def __init__(self, sound: SoundFormat) -> None:
        self._sound = sound
        self._resampled = _Resampled(_SPOKEN_HERTZ, sound.hertz)

    def take(self, data: bytes, mime_type: str) -> bytes:
        """Convert the next audio; a resampler buffers up to 75 ms of it.

        Args:
            data: 16-bit PCM.
            mime_type: Its type, with the rate; a rate that no speech has is ignored.
        """
        named = _RATE.search(mime_type)
        hertz = int(named[1]) if named else _SPOKEN_HERTZ
        if not _MIN_HERTZ <= hertz <= _MAX_HERTZ:
            hertz = _SPOKEN_HERTZ
        if hertz != self._resampled.given_hertz:
            self._resampled = _Resampled(hertz, self._sound.hertz)
        whole = data[: len(data) // 2 * 2]
        return self._encode(self._resampled.take(np.frombuffer(whole, _LITTLE)))

    def finish(self) -> bytes:
        """Return the buffered audio, at the end of a turn."""
        return self._encode(self._resampled.finish())

    def drop(self) -> None:
        """Drop the buffered audio, at an interruption."""
        self._resampled.finish()

    def _encode(self, samples: Samples) -> bytes:
        if self._sound.encoding == "mulaw":
            return _encoding_table()[samples.view(np.uint16)].tobytes()
        return samples.astype(_LITTLE, copy=False).tobytes()


class _Resampled:
    def __init__(self, given_hertz: int, taken_hertz: int) -> None:
        self.given_hertz = given_hertz
        self._stream = (
            None
            if given_hertz == taken_hertz
            else soxr.ResampleStream(given_hertz, taken_hertz, 1, dtype="int16", quality="HQ")
        )

    def take(self, samples: Samples) -> Samples:
        samples = samples.astype(np.int16, copy=False)
        return samples if self._stream is None else self._stream.resample_chunk(samples)

    def finish(self) -> Samples:
        rest = np.zeros(0, np.int16)
        if self._stream is not None:
            rest = self._stream.resample_chunk(rest, last=True)
            self._stream.clear()
        return rest


# G.711 as tables: from each byte to its sample, and from each sample to its byte.

_BIAS = 33
_CLIP = 8159
_SEGMENT_ENDS = (0x3F, 0x7F, 0xFF, 0x1FF, 0x3FF, 0x7FF, 0xFFF, 0x1FFF)


@cache
def _decoding_table() -> Samples:
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    magnitude = (((code & 0x0F) << 3) + 4 * _BIAS << (code >> 4 & 0x07)) - 4 * _BIAS
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


@cache
def _encoding_table() -> npt.NDArray[np.uint8]:
    samples = np.arange(1 << 16, dtype=np.uint16).view(np.int16).astype(np.int32) >> 2
    magnitude = np.minimum(np.abs(samples), _CLIP) + _BIAS
    segment = np.searchsorted(_SEGMENT_ENDS, magnitude).astype(np.int32)
    code = np.where(segment > 7, 0x7F, segment << 4 | magnitude >> segment + 1 & 0x0F)  # noqa: PLR2004
    return (code ^ np.where(samples < 0, 0x7F, 0xFF)).astype(np.uint8)
