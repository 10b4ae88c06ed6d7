"""Fills the silence while tools run: for the listener always, through the model where it can."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from genai_processors import context as context_lib
from genai_processors.content_api import ProcessorPart
from google.genai import types

from leonidas_tools.calls.events import EventKind
from leonidas_tools.live.dead_air import DeadAir, Filler
from leonidas_tools.live.listener_queue import is_speech
from leonidas_tools.live.media import seconds_of
from leonidas_tools.live.tool_options import filler_for, wording_of
from leonidas_tools.processors.parts import TOOL_EVENT, StatusPart

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.runtime.runtime import ToolRuntime

_SPOKEN = ("", "input_transcription", "output_transcription")


class SilenceFiller:
    """Watches a session for dead air.

    Args:
        runtime: Runs the calls, and says when to fill; `None` if the tools have no runtime.
        show: Given a status part for the listener: a `tool_progress` with `filler`.
        say: Given an interim answer, which has the model say the sentence.
    """

    def __init__(
        self,
        runtime: ToolRuntime | None,
        *,
        show: Callable[[ProcessorPart], None],
        say: Callable[[ProcessorPart], None],
    ) -> None:
        self._runtime = runtime
        self._show = show
        self._say = say
        self._names: dict[str, str] = {}
        self._dead_air = DeadAir(self._fill)

    def called(self, call_id: str, name: str) -> None:
        """Note a call of the model."""
        filler = filler_for(self._runtime, name) if self._runtime is not None else None
        if filler is not None:
            self._names[call_id] = name
            self._dead_air.called(call_id, filler)

    def answered(self, call_id: str) -> None:
        """Note that a call has its answer, or needs none."""
        if self._names.pop(call_id, None) is not None:
            self._dead_air.answered(call_id)

    def heard(self, part: ProcessorPart) -> None:
        """Note speech of the model or the user, or an interruption."""
        if is_speech(part):
            blob = part.part.inline_data
            self._dead_air.heard(0.0 if blob is None else seconds_of(blob))
        elif part.metadata.get("interrupted"):
            self._dead_air.interrupted()
        elif part.part.text and part.substream_name in _SPOKEN:
            self._dead_air.heard()

    def close(self) -> None:
        """Stop filling."""
        self._dead_air.close()

    def _fill(self, call_id: str, filler: Filler) -> None:
        name = self._names[call_id]
        self._show(_shown(call_id, name, filler))
        if filler.sentence is not None:
            said = wording_of(self._runtime).text("filler", sentence=filler.sentence)
            self._say(_interim_answer(call_id, name, said))


def _shown(call_id: str, name: str, filler: Filler) -> StatusPart:
    event = {
        "event": EventKind.PROGRESS.value,
        "call_id": call_id,
        "tool": name,
        "filler": True,
        "message": filler.sentence,
    }
    return StatusPart(
        json.dumps(event, ensure_ascii=False),
        mimetype="application/json",
        role="user",
        substream_name=context_lib.STATUS_STREAM,
        metadata={TOOL_EVENT: True},
    )


def _interim_answer(call_id: str, name: str, message: str) -> ProcessorPart:
    answer = types.FunctionResponse(
        id=call_id,
        name=name,
        response={"status": "running", "message": message},
        will_continue=True,
        scheduling=types.FunctionResponseScheduling.WHEN_IDLE,
    )
    return ProcessorPart(types.Part(function_response=answer), role="user")
