"""The calls that an engine runs, and the settings that it needs for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leonidas_tools.calls.call import ToolCall, ToolResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The limits of a call.

    Args:
        once: Whether the effect must not happen twice.
        room: The length that the JSON of the result may have.
        seconds: How long one attempt may take.
        retries: How often a failed attempt is repeated, where that is safe.
        delay_seconds: The wait before the first retry.
        backoff: By how much each further wait is longer.
        longest_delay_seconds: No wait is longer.
    """

    once: bool
    room: int
    seconds: float
    retries: int = 0
    delay_seconds: float = 0.1
    backoff: float = 2.0
    longest_delay_seconds: float = 10.0


def _tell_none(_: Mapping[str, Any]) -> None:
    """Drop progress."""


def _stay() -> bool:
    return False


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """A call for an engine.

    Args:
        call: The call; its arguments are JSON that fits the tool's schema.
        limits: Its limits.
        progress: Takes the progress that the tool reports.
        is_leaving: Returns whether a cancellation means that this process ends, and not that the
            answer is no longer wanted.
    """

    call: ToolCall
    limits: Limits
    progress: Callable[[Mapping[str, Any]], None] = _tell_none
    is_leaving: Callable[[], bool] = _stay


class Engine(Protocol):
    """Runs calls somewhere else."""

    async def run(self, work: Work) -> ToolResult:
        """Run a call to its end; cancelling this stops it.

        Raises:
            BaseException: What the tool raised.
            ToolError: The call has not begun, or its outcome is not known.
        """
        ...

    async def outcome(self, work: Work) -> ToolResult:
        """Return the outcome of a call that another process has begun; begin none.

        Raises:
            BaseException: What the tool raised.
            ToolError: The outcome is not known.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class TemporalPlace:
    """The place of a Temporal server, and the times that it may take.

    What is not said here comes from the variables and the file of the Temporal command line, such
    as `TEMPORAL_ADDRESS` and `TEMPORAL_API_KEY`.

    Args:
        address: The host and port of the server.
        namespace: The namespace of the workflows.
        task_queue: The task queue of the workers.
        connect_seconds: How long the server may take to answer.
        begin_seconds: How long a call may wait for a worker.
        heartbeat_seconds: How long a worker may be silent until it counts as dead.
    """

    address: str | None = None
    namespace: str | None = None
    task_queue: str = "leonidas"
    connect_seconds: float = 3.0
    begin_seconds: float = 10.0
    heartbeat_seconds: float = 10.0
