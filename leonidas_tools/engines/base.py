"""The calls that an engine runs, and the settings that it needs for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leonidas_tools.calls.call import ToolCall, ToolResult
    from leonidas_tools.workers.portable import Target


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineLimits:
    """The limits and the retry policy of a call."""

    once: bool  # whether the effect must not happen twice
    max_bytes: int  # size limit of the result's JSON, in bytes
    seconds: float  # timeout of an attempt
    retries: int = 0  # most retries, each only if it is safe
    delay_seconds: float = 0.1  # before the first retry
    backoff: float = 2.0  # factor between a delay and the next one
    longest_delay_seconds: float = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """The function of a tool, for an engine that sends it to another process.

    Args:
        target: Returns the description by which another process finds the function.
        bind: Returns its positional and keyword arguments for a call.
        context: The name of its parameter for the context, if any.
        collect: Whether the result of a generator is the list of all values that it yields.
        resources: The resources that it needs, such as `num_gpus`.
    """

    target: Callable[[], Target]
    bind: Callable[[ToolCall], tuple[tuple[Any, ...], dict[str, Any]]]
    context: str | None = None
    collect: bool = False
    resources: Mapping[str, float] = field(default_factory=dict)


def _stay() -> bool:
    return False


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineCall:
    """A call for an engine.

    Args:
        call: The call; its arguments are JSON that fits the tool's schema.
        code: The function of its tool; an engine whose workers have the tool finds it by name.
        limits: The limits and the retry policy of the call.
        user: The user of its session.
        parameters: The `custom_parameters` of the tool.
        progress: Called with each progress report; `None` if the tool has no context.
        is_leaving: Returns whether the runtime closes: a cancellation then does not mean that the
            result is no longer wanted.
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
        """Start work in the background that would delay the first call."""
        ...

    async def run(self, work: EngineCall) -> ToolResult:
        """Run a call to its end, and return its result; stop the call on cancellation.

        Raises:
            BaseException: The tool raised this exception.
            ToolError: The call has not begun, or its outcome is unknown.
        """
        ...

    async def outcome(self, work: EngineCall) -> ToolResult:
        """Return the outcome of a call that another process has started; start none.

        Raises:
            BaseException: The tool raised this exception.
            ToolError: The outcome is unknown.
        """
        ...

    async def aclose(self) -> None:
        """Release connections; a later call opens new ones."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class RayConnection:
    """The address of a Ray cluster, and the connection timeout."""

    # such as `auto` or `10.0.0.1:6379`; by default the value of `RAY_ADDRESS`
    address: str | None = None
    connect_seconds: float = 15.0  # seconds that a call waits for the connection


@dataclass(frozen=True, kw_only=True, slots=True)
class TemporalConnection:
    """The address of a Temporal server, and timeouts.

    Other options come from the environment variables of the Temporal command line, such as
    `TEMPORAL_ADDRESS` and `TEMPORAL_API_KEY`, and from its configuration file.
    """

    address: str | None = None
    namespace: str | None = None
    task_queue: str = "leonidas"
    connect_seconds: float = 3.0  # timeout of an answer of the server
    begin_seconds: float = 10.0  # seconds that a call waits for a worker
    heartbeat_seconds: float = 10.0  # seconds without a heartbeat until a worker counts as dead
