"""The state machine of an agent, with its history."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leonidas_tools.calls.listeners import Listeners
from leonidas_tools.errors import ToolError
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_REMEMBERED = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class StateChange:
    """One step from a state to another."""

    previous: str
    new: str
    reason: str
    at: float = field(default_factory=time.time)  # in seconds since the epoch


class AgentState:
    """A state machine with a history.

    The first state is the initial one; a state without `transitions` may change to any.

    Example:
        >>> state = AgentState(["idle", "listening"])
        >>> state.change("listening", "the user speaks").previous
        'idle'
        >>> state.roll_back().new
        'idle'
    """

    STATES = ("idle", "listening", "thinking", "speaking", "working", "waiting")
    SHUTTING_DOWN = "shutting_down"
    """The state that only `shut_down` sets, from any state."""

    def __init__(
        self,
        states: Sequence[str] = STATES,
        transitions: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.states = tuple(states)
        self.transitions = dict(transitions or {})
        self.current = self.states[0]
        self._history: deque[StateChange] = deque(maxlen=_REMEMBERED)
        self._listeners = Listeners[StateChange]("the state")

    @property
    def history(self) -> list[StateChange]:
        """Return the last changes, the oldest first."""
        return list(self._history)

    @property
    def shutdown_requested(self) -> bool:
        """Return whether the agent was requested to shut down."""
        return self.current == self.SHUTTING_DOWN

    def reachable(self) -> list[str]:
        """Return the states that the current one may change to."""
        return [s for s in self.transitions.get(self.current, self.states) if s != self.current]

    def change(self, new: str, reason: str) -> StateChange:
        """Change to another state.

        Raises:
            ToolError: The state is unknown, or not reachable from the current one.
        """
        if new != self.current and new not in self.reachable():
            raise ToolError(
                say("unknown_state", now=self.current, new=new),
                status="invalid_argument",
                reason_code="not_an_option",
                valid_options=self.reachable(),
            )
        return self._go(new, reason)

    def shut_down(self, reason: str) -> StateChange:
        """Request the agent to shut down, in any state."""
        return self._go(self.SHUTTING_DOWN, reason)

    def roll_back(self) -> StateChange:
        """Restore the state before the last change.

        Raises:
            ToolError: Nothing has changed yet.
        """
        if not self._history:
            raise ToolError(say("no_earlier_state"))
        last = self._history.pop()
        self.current = last.previous
        change = StateChange(previous=last.new, new=last.previous, reason="rolled back")
        self._listeners.notify(change)
        return change

    def on_change(self, listener: Callable[[StateChange], None]) -> Callable[[], None]:
        """Call `listener` after every change; return a function that unsubscribes."""
        return self._listeners.subscribe(listener)

    def _go(self, new: str, reason: str) -> StateChange:
        change = StateChange(previous=self.current, new=new, reason=reason)
        self.current = new
        self._history.append(change)
        self._listeners.notify(change)
        return change
