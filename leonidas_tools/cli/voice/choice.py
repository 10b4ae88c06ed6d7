"""Choose the microphone and the speaker of a session."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from leonidas_tools.cli.voice.devices import DeviceMicrophone, DeviceSpeaker, require_devices
from leonidas_tools.cli.voice.files import FileMicrophone, FileSpeaker
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from leonidas_tools.cli.voice.interface import Microphone, Speaker


@dataclass(frozen=True, kw_only=True, slots=True)
class VoiceOptions:
    """The options of the command line."""

    wanted: bool | None = None  # `None` for the default
    microphone: Path | None = None  # a WAV file instead of the device
    speaker: Path | None = None  # a WAV file instead of the device

    def choose(self, *, by_default: bool) -> ChosenVoice:
        """Return the voice of a session."""
        microphone: Microphone | None = None
        speaker: Speaker | None = None
        if self.microphone is not None:
            microphone = FileMicrophone(self.microphone)
        if self.speaker is not None:
            speaker = FileSpeaker(self.speaker)
        ends = microphone is not None
        if self.wanted is None and (microphone or speaker):
            by_default = False
        why_not = ""
        if by_default if self.wanted is None else self.wanted:
            why_not = self._why_no_devices(microphone, speaker)
            if not why_not:
                microphone, speaker = microphone or DeviceMicrophone(), speaker or DeviceSpeaker()
        return ChosenVoice(microphone=microphone, speaker=speaker, ends=ends, why_not=why_not)

    def _why_no_devices(self, microphone: Microphone | None, speaker: Speaker | None) -> str:
        """Return why a missing device cannot be used; empty if it can."""
        try:
            require_devices(microphone=microphone is None, speaker=speaker is None)
        except ConfigurationError as error:
            if self.wanted:
                raise
            return str(error)
        return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenVoice:
    """The microphone and the speaker of one session; both are optional."""

    microphone: Microphone | None = None
    speaker: Speaker | None = None
    ends: bool = False  # whether the microphone ends, as a file does
    why_not: str = ""  # the reason if there are none
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack, init=False)

    async def __aenter__(self) -> Self:
        """Open the microphone and the speaker."""
        async with AsyncExitStack() as stack:
            for device in (self.microphone, self.speaker):
                if device is not None:
                    await stack.enter_async_context(device)
            self._stack.push_async_exit(stack.pop_all())
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the microphone and the speaker."""
        await self._stack.aclose()
