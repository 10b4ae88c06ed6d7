"""The state of one conversation with a live model."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leonidas_tools.live.call_book import CallBook
from leonidas_tools.live.live_events import live_event
from leonidas_tools.live.outbox import Outbox
from leonidas_tools.live.renewal import Renewal
from leonidas_tools.live.session_setup import Setup
from leonidas_tools.live.tool_wishes import declarations_for, may_repeat, wording_of
from leonidas_tools.live.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from google.genai import types

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.live.adaptation import Adaptation
    from leonidas_tools.live.held_input import HeldInput
    from leonidas_tools.live.profiles import ModelProfile
    from leonidas_tools.live.session_setup import DeclaresTools


@dataclass(kw_only=True, slots=True)
class LiveState:
    """The state that what is heard changes, and what is sent depends on.

    Args:
        profile: How the model behaves.
        adaptation: What declarations and answers become for it.
        source: What declares the tools.
        session: The conversation that they are declared in.
        inputs: What the user says.
        gate_seconds: How long the microphone may be held back while the model waits for a tool.
        own_tools: Tools of the user's configuration, which are declared besides.
        other_tools: Those of them that only Google's client can declare, when it connects.
        needs_ids: Whether an answer must have an id, also where the server gave none.
    """

    profile: ModelProfile
    adaptation: Adaptation
    source: DeclaresTools
    inputs: HeldInput
    gate_seconds: float | None
    own_tools: Sequence[types.Tool] = ()
    other_tools: Sequence[Any] = ()
    needs_ids: bool = True
    session: ToolSession | None = None
    book: CallBook = field(init=False)
    out: Outbox = field(default_factory=Outbox)
    turn: Turn = field(default_factory=Turn)
    renewal: Renewal = field(default_factory=Renewal)
    setup: Setup = field(default_factory=Setup)
    """What the connection was set up with, or has since been told."""
    wanted_voice: str | None = None
    handle: str | None = None
    resumable: bool = True
    """Whether the session can be resumed now without losing what has happened since the handle."""
    connected: bool = False
    opened_at: float = 0.0
    tools_changed: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there may be something to send, or a reason to change the connection."""

    def __post_init__(self) -> None:
        self.book = CallBook(
            functools.partial(may_repeat, self.source), functools.partial(wording_of, self.source)
        )

    def declarations(self) -> list[types.Tool]:
        """Return what the source declares in this conversation."""
        return declarations_for(self.source, self.session)

    def now(self) -> float:
        """Return the time of the event loop, in seconds."""
        return asyncio.get_running_loop().time()

    def declared(self, tools: Sequence[types.Tool], *, update: bool = False) -> list[types.Tool]:
        """Return these tools and the user's own, as the model takes them.

        Args:
            tools: The declarations of the source.
            update: Whether they are declared on a connection that is open already.
        """
        return self.adaptation.declarations([*self.own_tools, *tools], update=update)

    def tell(self, event: str, **data: Any) -> None:
        """Tell the listener what has happened to the connection."""
        self.out.put(live_event(event, **data))

    def wish_renewal(self) -> None:
        """Note that what is wanted takes another connection."""
        self.renewal = self.renewal.wished(self.now())
        self.changed.set()
