"""Input received from the client, by connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.simulator.wire import Message


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedAudio:
    """One frame of microphone audio.

    Args:
        connection: The connection it came on, counted from 1.
        at: When, by the monotonic clock, in seconds.
        data: The sound.
        mime_type: What it is, such as `audio/pcm;rate=16000`.
    """

    connection: int
    at: float
    data: bytes = field(repr=False)
    mime_type: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedText:
    """One text.

    Args:
        connection: The connection it came on, counted from 1.
        at: When, by the monotonic clock, in seconds.
        text: What it says.
        source: The message that brought it.
        role: Whose text it is, where the message says so.
    """

    connection: int
    at: float
    text: str
    source: Literal["realtimeInput", "clientContent"]
    role: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextUpdate:
    """One `contextUpdate`.

    Args:
        connection: The connection it came on, counted from 1.
        at: When, by the monotonic clock, in seconds.
        system_instruction: The new instruction; None if it stays as it was.
        tools: The functions declared from now on, by name; None if they stay as they were.
    """

    connection: int
    at: float
    system_instruction: str | None = None
    tools: Mapping[str, Message] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionRecord:
    """One connection whose setup was taken.

    Args:
        number: Its number, counted from 1 over all that were opened.
        session: The session it belongs to, counted from 1.
        resumed_from: The connection that had the session before; None if the session is new.
        handle: The handle it came with.
    """

    number: int
    session: int
    resumed_from: int | None = None
    handle: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class IssuedHandle:
    """One handle that was sent.

    Args:
        connection: The connection it was sent on, counted from 1.
        session: The session it resumes.
        handle: The handle.
    """

    connection: int
    session: int
    handle: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """One connection that was turned away without having done wrong.

    Args:
        stage: Where it ended: at the HTTP request, or after the setup.
        code: The HTTP status, or the close code.
        reason: Why.
        connection: Its number; None if there never was a websocket.
    """

    stage: Literal["http", "setup"]
    code: int
    reason: str
    connection: int | None = None
