"""The calls that an engine runs, and the settings that it needs for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leonidas_tools.calls.call import ToolCall, ToolResult
    from leonidas_tools.workers.processes import Target


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineLimits:
    """The limits of a call."""

    once: bool
    room: int  # for the JSON of the result
    seconds: float
    retries: int = 0  # where that is safe
    delay_seconds: float = 0.1
    backoff: float = 2.0  # by how much each further wait is longer
    longest_delay_seconds: float = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """The function of a tool, for an engine that sends it to another process.

    Args:
        target: Returns how another process finds it.
        bind: Returns its arguments for a call: the positional ones and the others.
        context: Its parameter that takes a context, if there is one.
        collect: Whether the result of a generator is the list of all that it yields.
        resources: What it needs of a machine.
    """

    target: Callable[[], Target]
    bind: Callable[[ToolCall], tuple[tuple[Any, ...], dict[str, Any]]]
    context: str | None = None
    collect: bool = False
    resources: Mapping[str, float] = field(default_factory=dict)


def _stay() -> bool:
    return False


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """A call for an engine.

    Args:
        call: The call; its arguments are JSON that fits the tool's schema.
        code: The function of its tool; an engine whose workers have the tool finds it by name.
        limits: Its limits.
        user: Who speaks in its session.
        parameters: The `custom_parameters` of the tool.
        progress: Takes the progress that the tool reports, if it reports any.
        is_leaving: Returns whether a cancellation means that this process ends, and not that the
            answer is no longer wanted.
    """

    call: ToolCall
    code: Code
    limits: EngineLimits
    user: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[Mapping[str, Any]], None] | None = None
    is_leaving: Callable[[], bool] = _stay


class Engine(Protocol):
    """Runs calls outside this process."""

    def prepare(self) -> None:
        """Begin in the background what would hold up the first call."""
        ...

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
        """Let go of connections; a later call opens new ones."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class RayPlace:
    """The place of a Ray cluster."""

    # such as `auto` or `10.0.0.1:6379`; by default that of `RAY_ADDRESS`
    address: str | None = None
    connect_seconds: float = 15.0  # how long a call waits for the connection


@dataclass(frozen=True, kw_only=True, slots=True)
class TemporalPlace:
    """The place of a Temporal server, and the times that it may take.

    What is not said here comes from the variables and the file of the Temporal command line, such
    as `TEMPORAL_ADDRESS` and `TEMPORAL_API_KEY`.
    """

    address: str | None = None
    namespace: str | None = None
    task_queue: str = "leonidas"
    connect_seconds: float = 3.0  # how long the server may take to answer
    begin_seconds: float = 10.0  # how long a call may wait for a worker
    heartbeat_seconds: float = 10.0  # how long a worker may be silent until it counts as dead
