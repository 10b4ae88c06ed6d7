"""Speech of the simulated model: its turns, their beginnings and ends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leonidas_tools.simulator.audio import (
    CHUNK_SECONDS,
    MIME_TYPE,
    chunks_of,
    read_wav,
    speech_seconds,
    spread,
    tone,
)
from leonidas_tools.simulator.calling import WAIT_SECONDS, Calling
from leonidas_tools.simulator.exchange import StepFailedError
from leonidas_tools.simulator.template import fill

if TYPE_CHECKING:
    from leonidas_tools.simulator.wire import Message

IN_PROGRESS = "IN_PROGRESS"
IDLE = "IDLE"


class Speaking(Calling):
    """The speech of a session."""

    async def say(
        self,
        text: str,
        *,
        audio: Path | str | bytes | None = None,
        audio_seconds: float | None = None,
        paced: bool = False,
    ) -> None:
        """Speak: the text as output transcription, beside it a recording, or a tone, as audio.

        Args:
            text: What to say; `{answers.ID.KEY}` quotes from an answer.
            audio: How it sounds: a WAV file (16-bit PCM), or 16-bit PCM at 24 kHz, one channel.
            audio_seconds: Without a recording, how much of the tone; by default as long as the
                text takes to say.
            paced: Send the audio in real time instead of as fast as it goes.

        Raises:
            StepFailedError: The text quotes what is not there, or the file cannot be read.
        """
        try:
            spoken = fill(text, self.answers)
            sound = self._sound(spoken, audio, audio_seconds)
        except (LookupError, ValueError) as error:
            raise StepFailedError(error.args[0]) from None
        chunks = chunks_of(sound) or [""]
        pieces = spread(spoken, len(chunks))
        for index, (piece, chunk) in enumerate(zip(pieces, chunks, strict=True), start=1):
            await self._transcribe(piece, finished=index == len(pieces))
            if chunk:
                await self._send_audio(chunk)
            if paced:
                await self.pause(CHUNK_SECONDS)
        if self._quirks.interaction_status:
            await self._end_turn({"interactionStatus": IN_PROGRESS})

    def _sound(self, text: str, audio: Path | str | bytes | None, seconds: float | None) -> bytes:
        if isinstance(audio, bytes):
            return audio
        if audio is not None:
            return read_wav(Path(audio))
        return tone(speech_seconds(text) if seconds is None else seconds)

    async def _transcribe(self, piece: str, *, finished: bool) -> None:
        if piece or finished:
            transcription = {"text": piece, **({"finished": True} if finished else {})}
            await self.send({"serverContent": {"outputTranscription": transcription}})

    async def _send_audio(self, chunk: str) -> None:
        blob = {"mimeType": MIME_TYPE, "data": chunk}
        turn = {"role": "model", "parts": [{"inlineData": blob}]}
        await self.send({"serverContent": {"modelTurn": turn}})

    async def input_transcription(self, text: str) -> None:
        """Show what the user was understood to say."""
        await self.send({"serverContent": {"inputTranscription": {"text": text}}})

    async def interrupt(self, *, cancel: bool = False) -> None:
        """Tell that the user has begun to speak over the model.

        Args:
            cancel: Take back the calls that await their answer, too.
        """
        await self.send({"serverContent": {"interrupted": True}})
        ids = [each.id for each in self._pending() if each.id_sent and each.id is not None]
        if cancel and ids:
            await self.cancel(*ids)

    async def generation_complete(self) -> None:
        """Tell that the model has generated all of its turn."""
        await self.send({"serverContent": {"generationComplete": True}})

    async def turn_complete(
        self,
        reason: str | None = None,
        *,
        interaction_status: str | None = None,
        within_seconds: float = WAIT_SECONDS,
    ) -> None:
        """End the model's turn, which may have to wait for the answers to BLOCKING calls.

        Args:
            reason: A `TurnCompleteReason`, such as `MALFORMED_FUNCTION_CALL`.
            interaction_status: What newer models send along; where the model does, by default
                `IDLE`.
            within_seconds: How long to wait for answers.

        Raises:
            StepFailedError: An answer did not come in time.
        """
        if self._quirks.turn_waits_for_answers:
            await self._until(
                lambda: not self._blocking(),
                within_seconds,
                lambda: f"no turnComplete before the answer to {', '.join(self._blocking())}",
            )
        content: Message = {}
        if reason is not None:
            content["turnCompleteReason"] = reason
        if status := interaction_status or (IDLE if self._quirks.interaction_status else None):
            content["interactionStatus"] = status
        await self._end_turn(content)
        await self._offer_handle()

    def _blocking(self) -> list[str]:
        return [repr(each.id or each.name) for each in self._pending() if each.blocking]

    async def _end_turn(self, content: Message) -> None:
        await self.send({"serverContent": {"turnComplete": True, **content}})
