"""Choose the next message: responses, then tools, then late results, then the user's input."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from google.genai import types

from leonidas_tools.live.messages import (
    Message,
    answers_message,
    expects_reply,
    input_message,
    outcomes_message,
    tools_message,
)
from leonidas_tools.live.tool_options import wording_of
from leonidas_tools.processors.answers import SCHEDULING
from leonidas_tools.tools.metadata import Scheduling, ToolScheduling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genai_processors.content_api import ProcessorPart
    from google.genai.live import AsyncSession

    from leonidas_tools.live.call_tracker import LiveCall
    from leonidas_tools.live.state import LiveState

_TELL_AT_LATEST_SECONDS = 10.0
_TRIAL_SECONDS = 5.0


class OutgoingScheduler:
    """Chooses the next message to send.

    Args:
        state: The state of the conversation.
    """

    def __init__(self, state: LiveState) -> None:
        self.chosen = 0
        """Number of messages chosen so far, which is also the number of the last one."""
        self.takes_tools = state.profile.context_update and not state.other_tools
        """True if other tools can be declared on an open connection."""
        self.speaking = False
        """True while the user speaks, according to the client's own activity signals."""
        self._state = state
        self._told_tools_at = -math.inf
        self._accepted_tools: Sequence[types.Tool] = ()
        self._seeding = True
        self._blocked_since = 0.0
        self._orphans_since: float | None = None
        self._quiet_before = 0.0
        self._lost_calls: Sequence[tuple[str | None, str]] = ()

    def opened(self) -> None:
        """Record a new connection."""
        state = self._state
        resumed = state.setup.handle is not None and state.profile.answers_lost_calls
        # Their ids as they are now: a call that the model makes again gets the id of the new one.
        lost = state.calls.lost_calls() if resumed else ()
        self._lost_calls = [(call.wire_id, call.name) for call in lost]
        self._blocked_since = 0.0
        self._orphans_since = None
        self._told_tools_at = -math.inf

    def take_back_tools(self) -> bool:
        """Restore the last accepted tools if the new ones are on trial, and return whether so."""
        if not self._are_tools_on_trial():
            return False
        self._state.setup = replace(self._state.setup, tools=self._accepted_tools)
        self.takes_tools = False
        return True

    def next(self) -> Message | None:
        """Return the next message, if there is one to send now."""
        self._quiet_before = self._state.turn.quiet_at
        message = (
            self._end_lost_calls()
            or self._answers()
            or self._tools()
            or self._outcomes()
            or self._next_input()
        )
        self.chosen += message is not None
        return message

    def unsendable(self) -> None:
        """Record that the last message was not sent, so that no reply is expected."""
        self._state.turn.quiet_at = self._quiet_before

    def next_check(self, since: float) -> float | None:
        """Return the next time after `since` to check for messages, if there is one."""
        state = self._state
        times: list[float | None] = [state.renewal.next_time(since)]
        if state.renewal.wanted or state.calls.orphaned():
            times.append(state.turn.quiet_at)
        if self._orphans_since is not None:
            times.append(self._orphans_since + _TELL_AT_LATEST_SECONDS)
        if self._blocked_since and state.inputs:
            times.append(self._blocked_since + (state.gate_seconds or 0.0))
        return min((time for time in times if time is not None and time > since), default=None)

    def _end_lost_calls(self) -> Message | None:
        """Return responses that end the wait of a resumed session for calls it no longer answers.

        It does not use them, so the results follow as conversation text.
        """
        calls, self._lost_calls = self._lost_calls, ()
        needs_ids = self._state.needs_ids
        error = {"error": wording_of(self._state.source).text("call_lost")}
        responses = [
            types.FunctionResponse(id=wire_id, name=name, response=error)
            for wire_id, name in calls
            if wire_id is not None or not needs_ids
        ]
        return answers_message(responses) if responses else None

    def _answers(self) -> Message | None:
        state = self._state
        responses = [
            state.adaptation.response(self._address(call, part), final=False)
            for call, part in state.calls.interim()
            if state.adaptation.takes_interim(call.name)
        ]
        due = state.calls.due()
        responses += [
            state.adaptation.response(self._address(call, call.answer), begun=call.begun)
            for call in due
            if call.answer is not None
        ]
        if not responses:
            return None
        state.calls.sent(due, self.chosen + 1)
        if any(each.scheduling != types.FunctionResponseScheduling.SILENT for each in responses):
            state.turn.model_spoke(state.now())  # or will in a moment
        return answers_message(responses)

    def _address(self, call: LiveCall, part: ProcessorPart) -> types.FunctionResponse:
        """Return the response with the server's id, and with its late scheduling if it is late."""
        response = part.part.function_response
        assert response is not None
        # The Developer API requires an id; Vertex AI accepts no id that it has not sent.
        ours = call.id if self._state.needs_ids else None
        update: dict[str, Any] = {"id": call.wire_id or ours}
        late = _late_scheduling(part)
        if late is not None and not response.will_continue and call.turn != self._state.turn.number:
            update["scheduling"] = types.FunctionResponseScheduling(late.value)
        return response.model_copy(update=update)

    def _tools(self) -> Message | None:
        state = self._state
        if not state.tools_changed:
            return None
        state.tools_changed = False
        tools = state.declarations()
        if tools == state.setup.tools:
            return None
        if not self.takes_tools:
            state.request_renewal()
            return None
        if not self._are_tools_on_trial():
            self._accepted_tools = state.setup.tools
        state.setup = replace(state.setup, tools=tools)
        self._told_tools_at = state.now()
        update = tools_message(state.declared(tools, update=True))

        async def send(session: AsyncSession) -> None:
            await update(session)
            state.publish("tools_changed", tools=_declared_names(tools))

        return send

    def _are_tools_on_trial(self) -> bool:
        """Return whether the server may still refuse the tools that were declared last."""
        return self._state.now() < self._told_tools_at + _TRIAL_SECONDS

    def _outcomes(self) -> Message | None:
        """Return late results of earlier connections, at a quiet moment or after 10 s."""
        state, now = self._state, self._state.now()
        orphaned = state.calls.orphaned()
        if not orphaned:
            self._orphans_since = None
            return None
        if self._orphans_since is None:
            self._orphans_since = now
        patient = now < self._orphans_since + _TELL_AT_LATEST_SECONDS and not state.inputs.ended
        if patient and not state.turn.is_quiet(now):
            return None
        state.calls.sent(orphaned, self.chosen + 1)
        parts = [call.answer for call in orphaned if call.answer is not None]
        silent = all(_late_scheduling(part) is ToolScheduling.SILENT for part in parts)
        if not silent:
            state.turn.model_spoke(now)
        outcomes = [
            state.adaptation.outcome(answer)
            for part in parts
            if (answer := part.part.function_response) is not None
        ]
        heading = wording_of(state.source).text("late_outcomes")
        return outcomes_message(outcomes, state.profile, heading=heading, silent=silent)

    def _next_input(self) -> Message | None:
        state = self._state
        if not state.inputs:
            return None
        number, now = self.chosen + 1, state.now()
        taken = state.inputs.take_text if self.is_gated() else state.inputs.take
        part = taken(number, now)
        if part is None:
            return None
        response = part.part.function_response
        if response is not None:
            return answers_message([state.adaptation.response(response)])
        if part.get_metadata("activity_start") or part.get_metadata("activity_end"):
            self.speaking = bool(part.get_metadata("activity_start"))
        if expects_reply(part):
            state.turn.user_spoke(now)
            if not state.inputs.is_repeated:
                state.calls.note_user_input()
        # Models that take no content during a session take it as the history at its start.
        self._seeding = self._seeding and part.get_metadata("turn_complete") is False
        return input_message(part, takes_content=state.profile.client_content or self._seeding)

    def is_gated(self) -> bool:
        """Return whether the microphone is held back because the model waits for a tool."""
        limit, now = self._state.gate_seconds, self._state.now()
        if limit is None or not self._state.calls.has_open_calls(blocking=True):
            self._blocked_since = 0.0
            return False
        self._blocked_since = self._blocked_since or now
        return now < self._blocked_since + limit


def _late_scheduling(part: ProcessorPart) -> ToolScheduling | None:
    """Return the scheduling of a response that comes after the user has spoken again."""
    plan = part.metadata.get(SCHEDULING)
    return plan.late if isinstance(plan, Scheduling) else None


def _declared_names(tools: list[types.Tool]) -> list[str]:
    return [each.name or "" for tool in tools for each in tool.function_declarations or ()]
