"""The state of one conversation with a live model."""

from __future__ import annotations

import asyncio
import functools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from leonidas_tools.live.call_tracker import CallTracker
from leonidas_tools.live.live_events import live_event
from leonidas_tools.live.part_queue import PartQueue
from leonidas_tools.live.session_setup import Setup
from leonidas_tools.live.tool_options import declarations_for, may_repeat, wording_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from genai_processors.content_api import ProcessorPart
    from google.genai import types

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.live.adaptation import Adaptation
    from leonidas_tools.live.input_buffer import InputBuffer
    from leonidas_tools.live.profiles import ModelProfile
    from leonidas_tools.live.session_setup import DeclaresTools

_PATIENCE_SECONDS = 30.0
_MARGIN_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Renewal:
    """The reasons for another connection.

    Example:
        >>> Renewal().wanted, Renewal().requested(3.0).wanted, Renewal().announced_for(9.0).deadline
        (False, True, 8.5)
    """

    # time of the first request, for other tools or another voice; 0 if there is none
    since: float = 0.0
    deadline: float | None = None  # time to leave, before the end that the server announced

    def requested(self, now: float) -> Renewal:
        """Return a copy with a request for another connection."""
        return replace(self, since=self.since or now)

    def withdrawn(self) -> Renewal:
        """Return a copy without the request, but with the deadline of an announced end."""
        return replace(self, since=0.0)

    def announced_for(self, end: float) -> Renewal:
        """Return a copy with a deadline shortly before the announced end of the connection."""
        return replace(self, deadline=end - _MARGIN_SECONDS)

    @property
    def wanted(self) -> bool:
        """Return whether another connection is wanted at all."""
        return self.since > 0 or self.deadline is not None

    def is_due(self, now: float) -> bool:
        """Return whether the renewal can no longer wait for a quiet moment."""
        return self.deadline is not None and now >= self.deadline

    def is_impatient(self, now: float) -> bool:
        """Return whether the renewal waits no longer for calls that do not block the model."""
        return now >= self._impatient_at

    def next_time(self, now: float) -> float | None:
        """Return the next time at which `is_due` or `is_impatient` changes, if there is one."""
        times = [t for t in (self.deadline, self._impatient_at) if t is not None and t > now]
        soonest = min(times, default=math.inf)
        return None if soonest == math.inf else soonest

    @property
    def _impatient_at(self) -> float:
        return self.since + _PATIENCE_SECONDS if self.since else math.inf


_REPLY_SECONDS = 5.0
_SILENCE_SECONDS = 15.0


class TurnState:
    """Tracks when a conversation is quiet: no speech, and no reply expected.

    A reply is expected for five seconds after the user has spoken. A turn of the model without new
    output counts as over after fifteen seconds.

    Example:
        >>> turn = TurnState()
        >>> turn.user_spoke(now=10.0)
        >>> turn.is_quiet(now=11.0), turn.is_quiet(now=15.0)
        (False, True)
    """

    def __init__(self) -> None:
        self.quiet_at = 0.0
        """Time at which the conversation becomes quiet, if nothing more happens."""
        self.number = 0
        """Number of times the user has begun to speak."""
        self._user_speaks = False

    def user_spoke(self, now: float) -> None:
        """Record that the user spoke: the model will reply."""
        self.number += not self._user_speaks
        self._user_speaks = True
        self.quiet_at = max(self.quiet_at, now + _REPLY_SECONDS)

    def model_spoke(self, now: float) -> None:
        """Record that the model spoke or made a call: its turn goes on."""
        self.quiet_at = now + _SILENCE_SECONDS
        self._user_speaks = False

    def end(self) -> None:
        """Record the end of the model's turn."""
        self.quiet_at = 0.0

    def is_quiet(self, now: float) -> bool:
        """Return whether there is no speech and no reply expected."""
        return now >= self.quiet_at


@dataclass(kw_only=True, slots=True)
class LiveState:
    """The state of a conversation, which the receiving and the sending side share."""

    profile: ModelProfile
    adaptation: Adaptation  # of declarations and responses to the model
    source: DeclaresTools
    session: ToolSession  # the conversation that the tools are declared in
    inputs: InputBuffer
    # seconds to hold back the microphone at most while the model waits for a tool
    gate_seconds: float | None
    own_tools: Sequence[types.Tool] = ()  # from the user's configuration
    # tools of the configuration that only Google's client can declare, when it connects
    other_tools: Sequence[Any] = ()
    needs_ids: bool = True  # a response must have an id, even if the server gave none
    calls: CallTracker = field(init=False)
    out: PartQueue = field(default_factory=PartQueue)
    # passes an audio frame around the queue; false if the frame must go through the queue
    take_audio: Callable[[ProcessorPart], bool] | None = None
    turn: TurnState = field(default_factory=TurnState)
    renewal: Renewal = field(default_factory=Renewal)
    setup: Setup = field(default_factory=Setup)
    """Setup of the connection, with the changes sent since."""
    wanted_voice: str | None = None
    handle: str | None = None
    resumable: bool = True
    """True if the session can be resumed now without losing what has happened since the handle."""
    connected: bool = False
    opened_at: float = 0.0
    tools_changed: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there may be something to send, or a reason to change the connection."""

    def __post_init__(self) -> None:
        self.calls = CallTracker(
            functools.partial(may_repeat, self.source), functools.partial(wording_of, self.source)
        )

    def declarations(self) -> list[types.Tool]:
        """Return the tools that the source declares in this conversation."""
        return declarations_for(self.source, self.session)

    def now(self) -> float:
        """Return the time of the event loop, in seconds."""
        return asyncio.get_running_loop().time()

    def declared(self, tools: Sequence[types.Tool], *, update: bool = False) -> list[types.Tool]:
        """Return these tools and those of the configuration, adapted to the model."""
        return self.adaptation.declarations([*self.own_tools, *tools], update=update)

    def publish(self, event: str, **data: Any) -> None:
        """Send a connection event to the listener."""
        self.out.put(live_event(event, **data))

    def request_renewal(self) -> None:
        """Request another connection."""
        self.renewal = self.renewal.requested(self.now())
        self.changed.set()
