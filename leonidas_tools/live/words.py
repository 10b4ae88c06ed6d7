"""What is said in a live session, as evidence for approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.live.outbox import is_speech

if TYPE_CHECKING:
    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.calls import ToolSession

_TYPED_IN = ("", "realtime")


class Words:
    """Takes down what the user says or types, and that the model speaks.

    Args:
        session: Its `Transcript` is written.
    """

    def __init__(self, session: ToolSession) -> None:
        self._transcript = session.get(Transcript)

    def typed(self, part: ProcessorPart) -> None:
        """Takes in a part of the user's side."""
        if part.part.text and part.role != "model" and part.substream_name in _TYPED_IN:
            self._transcript.user_said(part.part.text)
            self._transcript.turn_ended()

    def heard(self, part: ProcessorPart) -> None:
        """Takes in a part of the model's side."""
        text, stream = part.part.text, part.substream_name
        if stream == "input_transcription":
            self._transcript.user_said(text or "")
            if part.metadata.get("finished"):
                self._transcript.turn_ended()
        elif is_speech(part) or (text and stream in ("", "output_transcription")):
            self._transcript.model_spoke()
        elif part.metadata.get("turn_complete"):
            self._transcript.turn_ended()
