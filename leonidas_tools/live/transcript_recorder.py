"""Record the transcript of a live session, as evidence for approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.live.listener_queue import is_speech
from leonidas_tools.live.live_events import LIVE_EVENT
from leonidas_tools.processors.parts import StatusPart

if TYPE_CHECKING:
    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.calls.call import ToolSession

_TYPED_IN = ("", "realtime")
_OTHER_CONNECTION = ("connection_lost", "connection_renewed")


class TranscriptRecorder:
    """Record what the user says or types, and what the model says.

    Args:
        session: Its `Transcript` is written.
    """

    def __init__(self, session: ToolSession) -> None:
        self._transcript = session.get(Transcript)
        self._has_sound = False

    def typed(self, part: ProcessorPart) -> None:
        """Take in a part of the user's side."""
        if part.part.text and part.role != "model" and part.substream_name in _TYPED_IN:
            if not self._has_sound:  # a text is read at once, and some models mark no end
                self._transcript.model_finished()
            self._transcript.user_typed(part.part.text)

    def heard(self, part: ProcessorPart) -> None:
        """Take in a part of the model's side."""
        text, stream, said = part.part.text, part.substream_name, self._transcript
        if stream == "input_transcription":
            said.user_said(text or "")
            if part.metadata.get("finished"):
                said.user_finished()
        elif is_speech(part):
            self._has_sound = True
            said.model_spoke()
        elif text and self._is_heard(part, stream):
            said.model_spoke(text)
        elif part.metadata.get("interrupted"):
            said.interrupted()
        elif part.metadata.get("turn_complete"):
            said.model_finished()
        elif isinstance(part, StatusPart) and _happened(part) in _OTHER_CONNECTION:
            said.reconnected()

    def _is_heard(self, part: ProcessorPart, stream: str) -> bool:
        """Return whether the user hears or reads a text; with sound, only transcriptions count."""
        if stream == "output_transcription":
            return True
        return stream == "" and not part.part.thought and not self._has_sound


def _happened(part: StatusPart) -> object:
    """Return the event of the connection that a part tells of; `None` where it tells of none."""
    return part.metadata.get(LIVE_EVENT, {}).get("event")
