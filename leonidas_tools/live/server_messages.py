"""Handle server messages: pass their parts to the listener, and update the session's state."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

from genai_processors.content_api import ProcessorPart
from google.genai import types

from leonidas_tools.calls.call import normalize_name
from leonidas_tools.processors.parts import REPEATS
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.session.resumption import Resumption

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leonidas_tools.live.state import LiveState

logger = visible_logger(__name__)

_REPEAT_SECONDS = 60.0
_GO_AWAY_SECONDS = 5.0
_MAX_SINGLE = 1024
_MAX_ALIKE = 64
_MAX_CANCELLED = 1000
"""Maximum cancellations per message: each may block the event loop for 150 microseconds."""
_MALFORMED = types.TurnCompleteReason.MALFORMED_FUNCTION_CALL.value
_TRANSCRIPTIONS = ("input_transcription", "output_transcription", "interim_input_transcription")
_OWN_FIELDS = frozenset({"setup_complete", "server_content", "tool_call", "tool_call_cancellation"})
_IN_MODEL_TURN = "in_model_turn"
"""Metadata key of a call inside `model_turn`; the same call may come as `tool_call`, too."""
_OVER = (None, "INTERACTION_STATUS_UNSPECIFIED", "IDLE")


class ServerMessageHandler:
    """Passes the parts of messages to the listener, and updates the state.

    Args:
        state: The state of the conversation.
    """

    def __init__(self, state: LiveState) -> None:
        self._state = state
        self._single: OrderedDict[tuple[bool, str], deque[str | None]] = OrderedDict()
        """Ids of this turn's calls that came either inside `model_turn` or as `tool_call`."""
        self._hears_user = False

    def opened(self) -> None:
        """Drop the recorded calls of the previous connection's turn."""
        self._single.clear()

    def receive(self, message: types.LiveServerMessage) -> None:
        """Handle one message."""
        state = self._state
        for part in parts_of(message):
            heard = self._process_part(part)
            if heard is not None:
                state.out.put(heard)
        update, go_away = message.session_resumption_update, message.go_away
        if update is not None:
            state.resumable = bool(update.resumable)
            if update.resumable and update.new_handle:
                state.handle = update.new_handle
                state.session.get(Resumption).renew(update.new_handle)
                state.calls.safe()
        if go_away is not None:
            state.renewal = state.renewal.announced_for(state.now() + _seconds(go_away.time_left))
        state.changed.set()

    def receive_audio(self, parts: Sequence[ProcessorPart]) -> None:
        """Handle a message that contains only audio."""
        out, take = self._state.out, self._state.take_audio
        self._state.turn.model_spoke(self._state.now())
        for part in parts:
            if take is None or not out.is_drained or not take(part):
                out.put(part)
        # The sender is not woken: audio causes no message, and the sender checks for quiet itself.

    def _process_part(self, part: ProcessorPart) -> ProcessorPart | None:
        """Update the state, and return the part for the listener, if there is one."""
        inner = part.part
        if inner.function_call is not None:
            self._state.turn.model_spoke(self._state.now())
            if self._is_copy(inner.function_call, _IN_MODEL_TURN in part.metadata):
                return None
            return self._process_call(inner.function_call)
        if inner.function_response is not None and part.tool_cancellation:
            identifier = self._state.calls.cancel(part.tool_cancellation)
            if identifier == part.tool_cancellation:
                return part
            return ProcessorPart.from_tool_cancellation(function_call_id=identifier)
        if part.metadata.get("turn_complete_reason") == _MALFORMED:
            logger.warning("The model sent a malformed function call")
            self._state.publish("malformed_function_call")
        self._note_turn(part)
        return part

    def _note_turn(self, part: ProcessorPart) -> None:
        """Record whose turn it is after this part."""
        turn, now = self._state.turn, self._state.now()
        if part.substream_name == "input_transcription" or _begins_to_speak(part):
            self._hears_user = True
            self._state.calls.note_user_input()
            turn.user_spoke(now)
        elif part.metadata.get("interrupted"):
            self._state.calls.note_user_input()
            turn.end()
            turn.user_spoke(now)
        elif part.metadata.get("turn_complete"):
            self._single.clear()
            turn.end()
        elif part.part.inline_data is not None or part.part.text:
            turn.model_spoke(now)

    def _process_call(self, asked: types.FunctionCall) -> ProcessorPart | None:
        state = self._state
        # If the server has never reported the user's speech, its silence counts for 60 s only.
        silent = not state.calls.user_spoke and (
            self._hears_user or state.now() < state.opened_at + _REPEAT_SECONDS
        )
        call = state.calls.ask(
            asked,
            blocking=state.adaptation.is_blocking(asked.name or ""),
            turn=state.turn.number,
            resumed=state.setup.handle is not None,
            repeats=silent,
        )
        if call is None:
            return None
        known = asked.model_copy(update={"id": call.id, "args": asked.args or {}})
        part = types.Part(function_call=known)
        metadata = {"id": call.id, **({REPEATS: call.earlier} if call.earlier else {})}
        return ProcessorPart(part, role="model", metadata=metadata)

    def _is_copy(self, call: types.FunctionCall, in_model_turn: bool) -> bool:
        """Return whether the same call came in its other form already in this turn."""
        what = normalize_name(f"{call.name} {call.args}")
        other = (not in_model_turn, what)
        for known in self._single.get(other, ()):
            if not known or not call.id or known == call.id:
                self._single[other].remove(known)
                return True
        alike = self._single.setdefault((in_model_turn, what), deque(maxlen=_MAX_ALIKE))
        alike.append(call.id)
        if len(self._single) > _MAX_SINGLE:
            self._single.popitem(last=False)
        return False


def _begins_to_speak(part: ProcessorPart) -> bool:
    heard = part.metadata.get("voice_activity") or {}
    return bool(heard.get("voice_activity_type") == "ACTIVITY_START")


def _seconds(duration: str | None) -> float:
    """Parse a protobuf duration, and return 5 s if it is missing or malformed.

    Example:
        >>> _seconds("9.5s"), _seconds(None)
        (9.5, 5.0)
    """
    try:
        return float((duration or "").rstrip("s"))
    except ValueError:
        return _GO_AWAY_SECONDS


def parts_of(message: types.LiveServerMessage) -> Iterator[ProcessorPart]:
    """Yield the parts of a message for the listener.

    The model's output is unchanged. A transcription is text in the substream of its name. A call
    has its id in the call and in the metadata. A cancellation is upstream's part for it. Every
    other field is in the metadata of an empty part.

    `turn_complete` is true only if the whole interaction is over: models with an
    `interaction_status` complete a turn in pieces.

    Example:
        >>> over = types.LiveServerContent(turn_complete=True, interaction_status="IN_PROGRESS")
        >>> [part.metadata for part in parts_of(types.LiveServerMessage(server_content=over))]
        [{'turn_complete': False, 'interaction_status': 'IN_PROGRESS'}]
    """
    if message.server_content is not None:
        yield from _content(message.server_content)
    if message.tool_call is not None:
        for call in message.tool_call.function_calls or ():
            yield _call(types.Part(function_call=call))
    for identifier in _cancelled_ids(message):
        yield ProcessorPart.from_tool_cancellation(function_call_id=identifier)
    for name in type(message).model_fields:
        value = getattr(message, name)
        if value is not None and name not in _OWN_FIELDS:
            yield _metadata_part({name: value.model_dump(mode="json", exclude_none=True)})


def _cancelled_ids(message: types.LiveServerMessage) -> Sequence[str]:
    """Return the ids that a message cancels, at most `_MAX_CANCELLED`."""
    cancellation = message.tool_call_cancellation
    ids = [] if cancellation is None else cancellation.ids or []
    if len(ids) > _MAX_CANCELLED:
        logger.warning("A message cancels more than %d calls: the rest are ignored", _MAX_CANCELLED)
    return ids[:_MAX_CANCELLED]


def _call(part: types.Part, role: str = "model", **metadata: Any) -> ProcessorPart:
    """Return a part with a call, whose id is also in the metadata, as in upstream."""
    call = part.function_call
    assert call is not None
    return ProcessorPart(part, role=role, metadata={"id": call.id, **metadata})


def _content(content: types.LiveServerContent) -> Iterator[ProcessorPart]:
    turn = content.model_turn
    if turn is not None:
        for part in turn.parts or ():
            role = turn.role or "model"
            if part.function_call is None:
                yield ProcessorPart(part, role=role)
            else:
                yield _call(part, role, **{_IN_MODEL_TURN: True})
    for name in _TRANSCRIPTIONS:
        said: types.Transcription | None = getattr(content, name)
        if said is not None:
            yield ProcessorPart(
                said.text or "",
                role="model",
                substream_name=name,
                metadata={"finished": True} if said.finished else {},
            )
    if flags := _flags(content):
        yield _metadata_part(flags)


def _flags(content: types.LiveServerContent) -> dict[str, Any]:
    if content.model_fields_set <= {"model_turn"}:  # the case of every audio frame
        return {}
    flags = content.model_dump(
        mode="json", exclude_none=True, exclude={"model_turn", *_TRANSCRIPTIONS}
    )
    if flags.get("turn_complete") and flags.get("interaction_status") not in _OVER:
        flags["turn_complete"] = False
    elif flags.get("interaction_status") == "IDLE":
        flags["turn_complete"] = True
    return flags


def _metadata_part(metadata: dict[str, Any]) -> ProcessorPart:
    return ProcessorPart("", role="model", metadata=metadata)
