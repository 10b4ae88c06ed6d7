"""Serve the tools of a runtime to Temporal: one workflow, which runs one activity.

The workflow decides on retries, because it survives the failure of a machine. The activity has one
attempt, so Temporal itself never runs a tool twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ApplicationErrorCategory,
    TimeoutType,
)
from temporalio.exceptions import TimeoutError as LateError
from temporalio.worker import Worker

from leonidas_tools.calls.call import ToolResult, ToolSession
from leonidas_tools.calls.events import EventKind
from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.workers.outcome import failure_of as failure_json
from leonidas_tools.workers.outcome import fields_of as result_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from temporalio.client import Client

    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.runtime.runtime import ToolRuntime

WORKFLOW = "leonidas_call"
_ACTIVITY = "leonidas_tool"
RAISED, DIED, LATE, NOT_BEGUN = "tool_raised", "worker_died", "timeout", "not_begun"
"""The failure types of a workflow."""
_BEATS = 3
"""Heartbeats sent within one heartbeat timeout."""
_MAX_PAUSE_LENGTH = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class TemporalCall:
    """The input of a workflow: a call and its limits."""

    tool: str
    arguments: dict[str, Any]
    id: str
    session: str
    user: str | None
    gist: str  # hash of the tool's name, its arguments and the user
    once: bool  # whether the effect must not happen twice
    room: int  # size limit of the result's JSON, in bytes
    seconds: float  # timeout of an attempt
    begin_seconds: float  # seconds that an attempt waits for a worker
    heartbeat_seconds: float  # seconds without a heartbeat until a worker counts as dead
    retries: int = 0
    delay_seconds: float = 0.1
    backoff: float = 2.0
    longest_delay_seconds: float = 10.0


@workflow.defn(name=WORKFLOW, sandboxed=False)  # it is short, and reads neither clock nor state
class CallWorkflow:
    """Runs one call, and retries it if its effect allows that."""

    @workflow.run
    async def run(self, call: TemporalCall) -> dict[str, Any]:
        """Run the call, and return its result as JSON with the hash of the call.

        Raises:
            ApplicationError: The call has failed; its type is the kind of failure.
        """
        for attempt in range(call.retries + 1):
            if attempt:
                delay = call.delay_seconds * call.backoff ** (attempt - 1)
                await workflow.sleep(min(delay, call.longest_delay_seconds))
            try:
                fields = await self._attempt(call)
            except ActivityError as error:
                failure, may_repeat = _failure(error, call)
                if failure is None:
                    raise
                if attempt == call.retries or not may_repeat:
                    raise failure from error
            else:
                return {"gist": call.gist, "result": fields}
        raise AssertionError  # the last attempt returns or raises

    async def _attempt(self, call: TemporalCall) -> Any:
        return await workflow.execute_activity(
            _ACTIVITY,
            call,
            schedule_to_start_timeout=timedelta(seconds=call.begin_seconds),
            start_to_close_timeout=timedelta(seconds=call.seconds),
            heartbeat_timeout=timedelta(seconds=call.heartbeat_seconds),
            retry_policy=RetryPolicy(maximum_attempts=1),
            # A cancelled workflow ends as its tool did, which may have finished first.
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=call.tool,
        )


def _failure(error: ActivityError, call: TemporalCall) -> tuple[ApplicationError | None, bool]:
    """Return the failure of an attempt (`None` if cancelled), and whether a retry is safe."""
    cause = error.cause
    kind, details, may_repeat = DIED, [], not call.once
    if isinstance(cause, ApplicationError):
        if cause.type == RAISED:
            kind, details = RAISED, list(cause.details[:1])
            may_repeat = details[0]["safe" if call.once else "again"]
    elif isinstance(cause, LateError):
        if cause.type is TimeoutType.SCHEDULE_TO_START:
            kind, may_repeat = NOT_BEGUN, False
        elif cause.type is not TimeoutType.HEARTBEAT:
            kind, may_repeat = LATE, False
    else:
        return None, False
    failed = ApplicationError(kind, call.gist, *details, type=kind, non_retryable=True)
    return failed, bool(may_repeat)


class _Activity:
    """The activity that runs a tool once."""

    def __init__(self, runtime: ToolRuntime) -> None:
        self._runtime = runtime

    @activity.defn(name=_ACTIVITY)
    async def run(self, call: TemporalCall) -> dict[str, Any]:
        """Run the tool, and send heartbeats to the server."""
        beat = _Heartbeat()
        beating = asyncio.create_task(beat.run(), name=f"heartbeat:{call.tool}")
        try:
            result = await self._result(call, beat)
        except asyncio.CancelledError:
            if activity.is_worker_shutdown():
                raise ApplicationError(DIED, type=DIED) from None
            raise
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating
        error, fields = result.error, result_json(result, call.room, call.tool)
        if error is None:  # also if the tool returned a failure
            return fields
        raised = failure_json(error, call.tool)
        if isinstance(error, ToolError):  # the texts of the result contain no secrets
            raised["says"] = fields
        says = {
            "raised": raised,
            "safe": isinstance(error, RetryableError) and result.retryable,
            "again": result.retryable if isinstance(error, ToolError) else True,
        }
        # Benign: the runtime has already logged it, without secrets.
        benign = ApplicationErrorCategory.BENIGN
        raise ApplicationError(RAISED, says, type=RAISED, non_retryable=True, category=benign)

    async def _result(self, call: TemporalCall, beat: _Heartbeat) -> ToolResult:
        session = ToolSession(call.session, user=call.user)
        run = self._runtime.execute_alone
        try:
            return await run(
                call.tool, call.arguments, session=session, call_id=call.id or None, sinks=(beat,)
            )
        except ToolError as error:
            return ToolResult.from_error(error)


class _Heartbeat:
    """Sends heartbeats of the activity to the server, with its last progress report."""

    def __init__(self) -> None:
        self._said: tuple[Mapping[str, Any], ...] = ()

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        timeout = activity.info().heartbeat_timeout
        assert timeout is not None
        while True:
            activity.heartbeat(*self._said)
            await asyncio.sleep(timeout.total_seconds() / _BEATS)

    def __call__(self, event: ToolEvent) -> None:
        """Send progress with this heartbeat and the next ones."""
        if event.kind is EventKind.PROGRESS:
            self._said = (event.data,)
            activity.heartbeat(event.data)


def temporal_worker(
    runtime: ToolRuntime,
    client: Client,
    *,
    task_queue: str,
    calls: int = 8,
    grace_seconds: float = 30.0,
) -> Worker:
    """Return a worker that runs the calls of a task queue.

    Args:
        runtime: The runtime with the tools; it must stay open as long as the worker runs.
        client: The connection to the server.
        task_queue: The name of the task queue.
        calls: Most calls that run at once.
        grace_seconds: Seconds that running calls may continue after the worker is stopped.

    Example:
        >>> async def main():
        ...     client = await Client.connect("127.0.0.1:7233")
        ...     async with ToolRuntime(config="tools.yaml") as runtime:
        ...         await temporal_worker(runtime, client, task_queue="leonidas").run()
    """
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[CallWorkflow],
        activities=[_Activity(runtime).run],
        max_concurrent_activities=calls,
        # A workflow has few events. In the cache of a dead worker, it would wait for that worker.
        max_cached_workflows=0,
        max_heartbeat_throttle_interval=_MAX_PAUSE_LENGTH,
        default_heartbeat_throttle_interval=_MAX_PAUSE_LENGTH,
        graceful_shutdown_timeout=timedelta(seconds=grace_seconds),
    )
