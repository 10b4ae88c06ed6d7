"""Steps of the session and its connections: what the user sends, and what the network does."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal

from pydantic import Field

from leonidas_tools.simulator.calling import WAIT_SECONDS
from leonidas_tools.simulator.protocol import INTERNAL
from leonidas_tools.simulator.step import Seconds, Step

CloseCode = Annotated[int, Field(ge=1000, le=4999)]


@dataclass(frozen=True, slots=True)
class WaitForInput(Step):
    """Waits until the user has sent something that no earlier wait has taken.

    Args:
        kind: What to wait for.
        count: How much of it: texts, audio chunks, activity signals.
        containing: What a text must contain, in any case.
        within_seconds: How long to wait.
    """

    kind: Literal["any", "text", "audio", "video", "activity"] = "any"
    _: KW_ONLY
    count: Annotated[int, Field(ge=1)] = 1
    containing: str = ""
    within_seconds: Seconds = WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class SessionResumption(Step):
    """Sends the handle with which the session can be resumed.

    Args:
        handle: The handle; without one the session cannot be resumed at this moment.
        resumable: Whether it can be resumed; by default, whether there is a handle.
    """

    handle: str | None = None
    _: KW_ONLY
    resumable: bool | None = None


@dataclass(frozen=True, slots=True)
class GoAway(Step):
    """Warns that the connection ends soon.

    Args:
        time_left_seconds: How soon, by the loop's time at any speed.
        close: End it when the time is over, with 1011 as reported; without, ending it is another
            step.
    """

    time_left_seconds: Seconds
    _: KW_ONLY
    close: bool = False


@dataclass(frozen=True, slots=True)
class Pause(Step):
    """Does nothing for a while, or less at a higher speed.

    Args:
        seconds: How long.
    """

    seconds: Seconds


@dataclass(frozen=True, slots=True)
class Close(Step):
    """Closes the connection in good order.

    Args:
        code: The close code.
        reason: The reason, at most 123 bytes.
    """

    code: CloseCode = 1000
    _: KW_ONLY
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Drop(Step):
    """Drops the connection without a closing frame, as a lost network does."""


@dataclass(frozen=True, slots=True)
class WaitForContextUpdate(Step):
    """Waits for the next context update that no earlier wait has taken.

    Args:
        declaring: A function that is to be declared by it; empty for any update.
        within_seconds: How long to wait.
    """

    declaring: str = ""
    _: KW_ONLY
    within_seconds: Seconds = WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class WaitForClose(Step):
    """Wait until the client has closed the connection, as a goAway asks.

    Args:
        within_seconds: How long to wait.
    """

    _: KW_ONLY
    within_seconds: Seconds = WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class ExpireHandles(Step):
    """Ends the life of all handles of this session that were sent so far."""


@dataclass(frozen=True, slots=True)
class StallPongs(Step):
    """Takes no notice of the client for a while, pings included; the scenario goes on.

    Args:
        seconds: How long, by the loop's time at any speed.
    """

    seconds: Seconds


@dataclass(frozen=True, slots=True)
class GoSilent(Step):
    """Takes no notice of the client and sends nothing, until it has cut the connection."""


@dataclass(frozen=True, slots=True)
class RefuseConnections(Step):
    """Turns away connections to come.

    Args:
        count: How many.
        http_status: With this status at the HTTP request; None to refuse after the setup.
        close_code: With this code after the setup.
        reason: What to say.
    """

    count: Annotated[int, Field(ge=1)] = 1
    _: KW_ONLY
    http_status: Annotated[int, Field(ge=300, le=599)] | None = None
    close_code: CloseCode = INTERNAL
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StopListening(Step):
    """Stops the server's listening for a while: who connects is refused by the network.

    Args:
        seconds: How long, by the loop's time at any speed.
    """

    seconds: Seconds
