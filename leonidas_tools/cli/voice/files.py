"""WAV files as microphone and speaker, in real time."""

from __future__ import annotations

import asyncio
import contextlib
import wave
from typing import TYPE_CHECKING, Self

from leonidas_tools.cli.voice.interface import (
    BYTES_PER_SAMPLE,
    FRAME_SECONDS,
    MICROPHONE_FRAME_BYTES,
    MICROPHONE_HERTZ,
    SPEAKER_FRAME_BYTES,
    SPEAKER_HERTZ,
)
from leonidas_tools.cli.voice.jitter import JitterBuffer
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.files.reading import open_file, why_unreadable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path


class _AlwaysOpen:
    """A microphone without a device."""

    async def __aenter__(self) -> Self:
        """Do nothing."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Do nothing."""


class FileMicrophone(_AlwaysOpen):
    """A microphone that plays a WAV file once, in real time.

    The file has 16-bit mono at 16 kHz.
    """

    def __init__(self, path: Path) -> None:
        self._sound = _read(path)

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield the audio of the file; the last frame is padded with silence."""
        starts = range(0, len(self._sound), MICROPHONE_FRAME_BYTES)
        async with contextlib.aclosing(_ticks()) as ticks:
            for start in starts:
                await anext(ticks)
                frame = self._sound[start : start + MICROPHONE_FRAME_BYTES]
                yield frame.ljust(MICROPHONE_FRAME_BYTES, b"\0")


class SilentMicrophone(_AlwaysOpen):
    """A microphone that records silence, without an end."""

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield silence."""
        async with contextlib.aclosing(_ticks()) as ticks:
            async for _ in ticks:
                yield bytes(MICROPHONE_FRAME_BYTES)


class FileSpeaker(JitterBuffer):
    """A speaker that writes its output, silence included, to a WAV file.

    An existing file is overwritten.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the file."""
        try:
            raw = self._stack.enter_context(self._path.open("wb"))
        except OSError as error:
            why = error.strerror or error
            message = f"cannot be written ({why}): name a file in a folder you can write to"
            raise ConfigurationError(message, file=self._path) from None
        file = self._stack.enter_context(wave.open(raw))  # noqa: SIM115 - the stack is one
        file.setnchannels(1)
        file.setsampwidth(BYTES_PER_SAMPLE)
        file.setframerate(SPEAKER_HERTZ)
        playing = asyncio.create_task(self._play(file))
        self._stack.push_async_callback(asyncio.wait, [playing])
        self._stack.callback(playing.cancel)
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the file."""
        await self._stack.aclose()

    async def _play(self, file: wave.Wave_write) -> None:
        async with contextlib.aclosing(_ticks()) as ticks:
            async for _ in ticks:
                file.writeframesraw(self.take(SPEAKER_FRAME_BYTES))


async def _ticks() -> AsyncGenerator[None]:
    """Yield every 20 ms; after a delay, catch up."""
    loop = asyncio.get_running_loop()
    at = loop.time()
    while True:
        await asyncio.sleep(at - loop.time())
        yield
        at += FRAME_SECONDS


def _read(path: Path) -> bytes:
    try:
        with open_file(path) as opened, wave.open(opened) as file:
            form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            if form != (1, BYTES_PER_SAMPLE, MICROPHONE_HERTZ):
                raise ConfigurationError(
                    f"has {_form_text(*form)}, but 16-bit mono at {MICROPHONE_HERTZ} Hz is "
                    "needed: convert it",
                    file=path,
                )
            frames: bytes = file.readframes(file.getnframes())
            return frames
    except OSError as error:
        raise ConfigurationError(why_unreadable(error), file=path) from None
    except (wave.Error, EOFError) as error:
        message = (
            f"is not a WAV file of PCM ({str(error) or 'it ends too soon'}): name another file"
        )
        raise ConfigurationError(message, file=path) from None


def _form_text(channels: int, width: int, hertz: int) -> str:
    return f"{8 * width}-bit with {channels} channel{'s' * (channels != 1)} at {hertz} Hz"
