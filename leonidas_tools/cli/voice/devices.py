"""The machine's own microphone and speaker, through PortAudio."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from typing import TYPE_CHECKING, Any, Self

from leonidas_tools.cli.voice.interface import (
    FRAME_SECONDS,
    MICROPHONE_HERTZ,
    SPEAKER_HERTZ,
)
from leonidas_tools.cli.voice.jitter import JitterBuffer
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_FORM = {"channels": 1, "dtype": "int16"}
_MAX_WAIT_SECONDS = 10.0
"""Maximum seconds of recorded audio in the queue; beyond them, the oldest is dropped."""


def require_devices(*, microphone: bool, speaker: bool) -> None:
    """Check that the needed devices can be used."""
    library = _library()
    for kind, needed in (("input", microphone), ("output", speaker)):
        if needed:
            try:
                library.query_devices(kind=kind)
            except (ValueError, library.PortAudioError) as error:
                name = "microphone" if kind == "input" else "speaker"
                raise ConfigurationError(
                    f"there is no {name} ({error}): connect one, or name a WAV file with --{name}"
                ) from None


class DeviceMicrophone:
    """The machine's microphone."""

    def __init__(self) -> None:
        self._frames: asyncio.Queue[bytes] = asyncio.Queue(int(_MAX_WAIT_SECONDS / FRAME_SECONDS))
        self._stream: Any = None

    async def __aenter__(self) -> Self:
        """Start recording."""
        loop = asyncio.get_running_loop()

        def receive(sound: Any, *_: Any) -> None:
            frame = bytes(sound)
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                loop.call_soon_threadsafe(self._receive, frame)

        self._stream = _start_stream("RawInputStream", MICROPHONE_HERTZ, receive)
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop recording."""
        self._stream.close()

    def _receive(self, frame: bytes) -> None:
        if self._frames.full():
            self._frames.get_nowait()
        self._frames.put_nowait(frame)

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield the recorded frames, without an end."""
        while True:
            yield await self._frames.get()


class DeviceSpeaker(JitterBuffer):
    """The machine's speaker."""

    def __init__(self) -> None:
        super().__init__()
        self._stream: Any = None

    async def __aenter__(self) -> Self:
        """Start playing."""

        def fill(sound: Any, *_: Any) -> None:
            sound[:] = self.take(len(sound))

        self._stream = _start_stream("RawOutputStream", SPEAKER_HERTZ, fill)
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop playing."""
        self._stream.close()


def _start_stream(kind: str, hertz: int, callback: Any) -> Any:
    library = _library()
    try:
        stream = getattr(library, kind)(
            samplerate=hertz, blocksize=int(FRAME_SECONDS * hertz), callback=callback, **_FORM
        )
        stream.start()
    except (ValueError, library.PortAudioError) as error:
        name = "microphone" if kind == "RawInputStream" else "speaker"
        raise ConfigurationError(
            f"the {name} cannot be used ({error}): name a WAV file with --{name}, or pass "
            "--no-voice"
        ) from None
    return stream


def _library() -> Any:
    try:
        return importlib.import_module("sounddevice")
    except ImportError:
        raise ConfigurationError(
            "sounddevice is not installed: pip install 'leonidas-tools[audio]'"
        ) from None
    except OSError as error:  # the wheel for Linux contains no PortAudio
        raise ConfigurationError(
            f"{error}: install it (on Debian: apt-get install libportaudio2)"
        ) from None
