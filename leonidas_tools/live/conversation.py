"""The state and decisions of a conversation over all its connections; `runner` opens them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genai_processors.content_api import ProcessorPart

from leonidas_tools.live.input_buffer import REALTIME
from leonidas_tools.live.messages import UnsendableError, is_input
from leonidas_tools.live.outgoing import OutgoingScheduler
from leonidas_tools.live.server_messages import ServerMessageHandler
from leonidas_tools.live.session_setup import Setup
from leonidas_tools.live.state import Renewal
from leonidas_tools.processors.answers import LATE_RESULT, OUTCOME
from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.genai import types

    from leonidas_tools.live.messages import Message
    from leonidas_tools.live.state import LiveState

logger = visible_logger(__name__)

_REFUSED_CONTENT = frozenset({1007, 1009})
_REFUSED_TOOLS = frozenset({1007, 1008})


class Conversation:
    """Decides what to send, what to pass to the listener, and when to reconnect.

    Args:
        state: The state of the conversation.
    """

    def __init__(self, state: LiveState) -> None:
        self.state = state
        self._sending = OutgoingScheduler(state)
        self._receiver = ServerMessageHandler(state)
        self._reported_dropped = 0
        self._is_server_slow = False
        self._refused: Setup | None = None

    # The user's side.

    def put(self, part: ProcessorPart) -> None:
        """Handle a part of the input."""
        state, response = self.state, part.part.function_response
        if response is not None:
            if part.tool_cancellation:
                return
            if part.metadata.get(OUTCOME) is True:
                state.calls.renew(part)
            elif part.metadata.get(LATE_RESULT) is True:
                state.calls.queue_late(part)
            elif not state.calls.knows(response.id):
                # A response to a call of another source is sent like other input.
                state.inputs.put(part, state.now(), bounded=False)
            else:
                state.calls.answer(part)
        elif is_input(part):
            self._put_input(part)
        elif part.part.function_call is None:  # a later stage would run a call as the model's
            state.out.put(part)
        state.changed.set()

    def _put_input(self, part: ProcessorPart) -> None:
        inputs, bounded = self.state.inputs, not self.state.connected or self._sending.is_gated()
        dropped = inputs.dropped
        inputs.put(part, self.state.now(), bounded=bounded)
        if inputs.dropped > dropped and not bounded and not self._is_server_slow:
            self._is_server_slow = True
            logger.warning("The server reads too slowly: the oldest audio and video is dropped")

    def end_input(self) -> None:
        """Record that the user's input has ended."""
        self.state.inputs.ended = True
        self.state.changed.set()

    @property
    def over(self) -> bool:
        """Return whether the input has ended and nothing is left to send."""
        state = self.state
        return state.inputs.ended and not (
            state.inputs or state.calls.due() or state.calls.orphaned()
        )

    def note_tools(self) -> None:
        """Record that the declared tools have changed."""
        self.state.tools_changed = True
        self.state.changed.set()

    def note_voice(self, voice: str | None) -> None:
        """Record the wanted voice, and request a new connection if the voice differs."""
        state = self.state
        state.wanted_voice = voice
        if voice != state.setup.voice:
            state.request_renewal()
            return
        state.renewal = state.renewal.withdrawn()
        if self._refused is None:
            self.note_tools()  # changed tools may need a new connection, too

    # Messages.

    @property
    def chosen(self) -> int:
        """Return the number of the last message that was chosen to be sent."""
        return self._sending.chosen

    def next_message(self) -> Message | None:
        """Return the next message to send, if there is one now."""
        return self._sending.next()

    def next_check(self, since: float) -> float | None:
        """Return the next time after `since` to check for messages, if there is one."""
        return self._sending.next_check(since)

    def receive(self, message: types.LiveServerMessage) -> None:
        """Handle a message of the server."""
        self._receiver.receive(message)

    def receive_audio(self, parts: Sequence[ProcessorPart]) -> None:
        """Handle a message of the server that contains only audio."""
        self._receiver.receive_audio(parts)

    def unsendable(self, error: Exception) -> None:
        """Record that the last message cannot be sent, and answer its calls otherwise."""
        why = error if isinstance(error, UnsendableError) else described(error)
        logger.error("An outgoing message cannot be sent: %s", why)
        self.state.calls.unsendable(self.chosen)
        self._sending.unsendable()

    def confirm(self, message: int, round_trip_seconds: float = 0.0) -> None:
        """Record that all messages up to this number have arrived."""
        self.state.inputs.confirm(message, round_trip_seconds)
        self.state.calls.confirm(message)

    # Connections.

    def next_setup(self) -> Setup:
        """Return the setup of the next connection."""
        state = self.state
        tools = state.declarations()
        if self._refused is not None and self._refused.tools == tools:
            tools = list(state.setup.tools)
        return Setup(tools=tools, voice=state.wanted_voice, handle=state.handle)

    def config(self, setup: Setup, base: types.LiveConnectConfig) -> types.LiveConnectConfig:
        """Return the configuration of the next connection."""
        state = self.state
        return setup.config(base, [*state.other_tools, *state.declared(setup.tools)])

    def opened(self, number: int, setup: Setup) -> None:
        """Record a new connection."""
        state = self.state
        state.setup, state.opened_at = setup, state.now()
        state.connected = state.resumable = True
        resumed = setup.handle is not None
        state.calls.opened(number=number, resumed=resumed)
        if number > 1 and not resumed:
            logger.warning("A new session begins: the model does not know what was said before")
        state.turn.end()
        state.renewal = Renewal()
        self._is_server_slow = False
        self._sending.opened()
        self._receiver.opened()
        if self._refused is None:
            state.tools_changed = True  # the tools may have changed since the setup
        if state.wanted_voice != setup.voice:
            state.request_renewal()
        if self._sending.speaking and not state.inputs.next_is("activity_start"):
            start = {"activity_start": True}
            state.inputs.put_first(ProcessorPart("", substream_name=REALTIME, metadata=start))
        dropped = state.inputs.dropped - self._reported_dropped
        self._reported_dropped = state.inputs.dropped
        event = "connection_opened" if number == 1 else "connection_renewed"
        details = {"resumed": resumed, "audio_dropped": dropped}
        state.publish(event, connection=number, **details)
        state.changed.set()

    def lost(self, code: int, reason: str) -> None:
        """Record that the connection has ended."""
        state = self.state
        state.connected = False
        refused = code in _REFUSED_CONTENT
        if code in _REFUSED_TOOLS and self._sending.take_back_tools():
            logger.warning("The model does not accept changed tools during a session: %s", reason)
        state.inputs.give_back(media_only=refused)
        state.calls.lost(refused=refused)

    def refused(self, setup: Setup) -> bool:
        """Record that the server rejects this setup; return whether there is another to try."""
        state, accepted = self.state, self.state.setup
        if setup.tools != accepted.tools and accepted.tools:
            logger.error("The server rejected the changed tools: the earlier ones stay declared")
            self._refused = setup
        elif setup.voice != accepted.voice:
            logger.error("The server rejected the voice %r", setup.voice)
            state.wanted_voice = accepted.voice
        elif setup.handle is not None:
            logger.error("The session cannot be resumed; starting a new one")
            state.handle = self._refused = None
        else:
            return False
        return True

    def should_renew(self) -> bool:
        """Return whether to replace the connection now, at a quiet moment."""
        state, now = self.state, self.state.now()
        renewal = state.renewal
        if not renewal.wanted or state.calls.due():
            return False
        if renewal.is_due(now):
            return True
        if state.handle is None or not state.resumable:
            return False  # a new session would lose some or all of this session
        waits = state.calls.has_open_calls(blocking=renewal.is_impatient(now))
        return state.turn.is_quiet(now) and not waits
