"""The state that a reader receives first."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads no other before 3.12


class Happening(TypedDict):
    """The fields of every event."""

    version: Literal[1]
    sequence: int
    at: float


class CallUnderWay(TypedDict):
    """A call that has begun and not ended."""

    call_id: str | None
    tool: str
    session: str
    trace_id: str
    at: float


class OpenQuestion(TypedDict):
    """A call that waits for a person's word; secrets in it are masked."""

    id: str
    tool: str
    title: str
    details: dict[str, Any]
    created: float
    deadline: float
    on_expiry: Literal["cancel", "proceed"]
    session: str
    user: str | None
    call_id: str | None
    rule: str
    schema: NotRequired[dict[str, Any]]
    problem: NotRequired[str]


class Task(TypedDict):
    """A task that the agent has set itself."""

    id: str
    title: str
    status: Literal["pending", "in_progress", "completed", "failed"]
    calls: list[str]
    tools: NotRequired[list[str]]
    done: NotRequired[list[str]]


class LiveSession(TypedDict):
    """A live session that is open, and its connection."""

    session: str
    state: Literal["connecting", "connected", "disconnected"]
    connection: int | None


class State(Happening):
    """The state now, which a subscriber receives first."""

    event: Literal["state"]
    calls: list[CallUnderWay]
    approvals: list[OpenQuestion]
    tasks: dict[str, list[Task]]
    breakers: dict[str, Literal["closed", "open", "half_open"]]
    live: list[LiveSession]


class Missed(Happening):
    """A reader was too slow for so many events; a `state` follows."""

    event: Literal["missed"]
    count: int
