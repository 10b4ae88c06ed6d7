"""Run calls as Temporal workflows: a call that must run once runs once, even if machines die.

The id of the workflow is derived from the session and the call. If two processes make the same
call, or one repeats it after a crash, they find the same workflow and its one outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)
from temporalio.service import RPCError

from leonidas_tools.engines import temporal_worker as there
from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.results.texts import say
from leonidas_tools.workers.outcome import error_of, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leonidas_tools.calls.call import ToolCall, ToolResult
    from leonidas_tools.engines.base import EngineCall, TemporalConnection

_MAX_BYTES = 1_000_000
"""Most bytes of a result's JSON: the server rejects payloads of 2 MB, and images come on top."""
_MAX_ID_LENGTH = 200
_PROGRESS_SECONDS = 1.0
_SCHEDULED_ONLY = 2
"""Most events of a workflow that no worker has taken: its start, and the scheduling of its task."""


async def connect(place: TemporalConnection) -> Client:
    """Connect to a server.

    Raises:
        RetryableError: The server cannot be reached, or has no address.
    """
    options = ClientConfig.load_client_connect_config()
    if place.address is not None:
        options["target_host"] = place.address
    if place.namespace is not None:
        options["namespace"] = place.namespace
    if "target_host" not in options:
        raise _away(say("temporal_no_address"))
    try:
        async with asyncio.timeout(place.connect_seconds):
            return await Client.connect(**options)
    except (OSError, RPCError, RuntimeError, ValueError) as error:
        raise _away(say("temporal_no_answer", address=options["target_host"])) from error


class TemporalEngine:
    """Runs each call as a workflow."""

    def __init__(self, place: TemporalConnection) -> None:
        self.place = place
        self._client: Client | None = None

    def prepare(self) -> None:
        """Do nothing: the first call connects."""

    async def run(self, work: EngineCall) -> ToolResult:
        """Run a call, or wait for the workflow that already runs it.

        Cancellation cancels the workflow, unless this process ends: the workflow then continues,
        and returns its outcome to the same call of another process.

        Raises:
            BaseException: The tool raised this exception.
            ToolError: The call has not begun, or its outcome is unknown.
        """
        client = await self._get_client()
        asked = self._build_request(work)
        starting = asyncio.ensure_future(self._start(client, workflow_id(work.call), asked))
        return await self._wait_for_end(starting, asked, work)

    async def outcome(self, work: EngineCall) -> ToolResult:
        """Return the outcome of a call that another process has started; start none.

        The arguments are not compared, because a store keeps them without secrets.

        Raises:
            BaseException: The tool raised this exception.
            ToolError: The outcome is unknown.
        """
        client = await self._get_client()
        asked = replace(self._build_request(work), gist="")
        handle = client.get_workflow_handle(workflow_id(work.call))
        try:
            user = await _user_of(client, handle)
        except RPCError as error:
            raise _lost_error(asked) from error
        if user != work.user:
            raise _of_another(asked)
        found: asyncio.Future[WorkflowHandle[Any, Any]] = asyncio.Future()
        found.set_result(handle)
        return await self._wait_for_end(found, asked, work)

    async def _wait_for_end(
        self,
        starting: asyncio.Future[WorkflowHandle[Any, Any]],
        asked: there.TemporalCall,
        work: EngineCall,
    ) -> ToolResult:
        try:
            handle = await asyncio.shield(starting)
            return await self._wait_for_outcome(handle, asked, work.progress)
        except asyncio.CancelledError:
            with contextlib.suppress(RPCError, ToolError):  # no server, or the workflow has ended
                handle = await starting
                if not work.is_leaving():
                    await handle.cancel(rpc_timeout=timedelta(seconds=self.place.connect_seconds))
            raise

    async def _get_client(self) -> Client:
        """Return the client, after a health check of the server."""
        if self._client is None:
            self._client = await connect(self.place)
        timeout = timedelta(seconds=self.place.connect_seconds)
        try:
            await self._client.service_client.check_health(timeout=timeout)
        except RPCError as error:
            raise _away(say("temporal_no_answer", address=self._address)) from error
        return self._client

    @property
    def _address(self) -> str:
        assert self._client is not None
        return self._client.service_client.config.target_host

    def _build_request(self, work: EngineCall) -> there.TemporalCall:
        call, limits = work.call, work.limits
        try:
            known = [call.name, dict(call.arguments), work.user]
            text = json.dumps(known, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise ToolError(
                say("unsendable_arguments", type=type(error).__name__),
                status="invalid_argument",
                reason_code="unsendable_arguments",
            ) from None
        return there.TemporalCall(
            tool=call.name,
            arguments=json.loads(text)[1],
            id=call.id or "",
            session=call.session.id,
            user=work.user,
            gist=hashlib.sha256(text.encode()).hexdigest(),
            once=limits.once,
            room=min(limits.max_bytes, _MAX_BYTES),
            seconds=limits.seconds,
            begin_seconds=self.place.begin_seconds,
            heartbeat_seconds=self.place.heartbeat_seconds,
            retries=limits.retries,
            delay_seconds=limits.delay_seconds,
            backoff=limits.backoff,
            longest_delay_seconds=limits.longest_delay_seconds,
        )

    async def _start(
        self, client: Client, identifier: str, asked: there.TemporalCall
    ) -> WorkflowHandle[Any, Any]:
        """Start the workflow, unless one with this id exists."""
        try:
            return await client.start_workflow(
                there.WORKFLOW,
                asked,
                id=identifier,
                task_queue=self.place.task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                task_timeout=timedelta(seconds=self.place.heartbeat_seconds),
                rpc_timeout=timedelta(seconds=self.place.connect_seconds),
                static_summary=asked.tool,
            )
        except WorkflowAlreadyStartedError:
            return client.get_workflow_handle(identifier)
        except RPCError as error:
            raise _lost_error(asked) from error

    async def _wait_for_outcome(
        self,
        handle: WorkflowHandle[Any, Any],
        asked: there.TemporalCall,
        progress: Callable[[Mapping[str, Any]], None] | None,
    ) -> ToolResult:
        """Wait for the outcome and return it; report progress during the wait."""
        if progress is None:
            return await self._outcome(handle, asked)
        telling = asyncio.ensure_future(_tell(handle, progress))
        try:
            return await self._outcome(handle, asked)
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def _outcome(
        self, handle: WorkflowHandle[Any, Any], asked: there.TemporalCall
    ) -> ToolResult:
        ending = asyncio.ensure_future(handle.result())
        try:
            await asyncio.wait([ending], timeout=self.place.begin_seconds)
            if not ending.done() and await self._is_withdrawn(handle):
                raise _no_worker(asked.tool, self.place.task_queue)
            answer = await ending
        except WorkflowFailureError as error:
            if isinstance(error.cause, TerminatedError) and await _was_withdrawn(handle):
                raise _no_worker(asked.tool, self.place.task_queue) from None
            raise self._convert_failure(error.cause, asked) from None
        except RPCError as error:
            raise _lost_error(asked) from error
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
        _check_same(answer["gist"], asked)
        return result_of(answer["result"])

    async def _is_withdrawn(self, handle: WorkflowHandle[Any, Any]) -> bool:
        """Terminate a workflow that no worker has taken; return whether its tool never ran."""
        about = await handle.describe()
        if about.status is not WorkflowExecutionStatus.RUNNING:
            return False
        if about.history_length > _SCHEDULED_ONLY:
            return False
        with contextlib.suppress(RPCError):  # the workflow has ended, or continues
            await handle.terminate("no worker picked it up")
        return await _was_withdrawn(handle)  # a worker may have taken it just before

    def _convert_failure(self, cause: BaseException, asked: there.TemporalCall) -> BaseException:
        """Return the exception for the failure of a workflow."""
        if isinstance(cause, CancelledError) and not asked.once:
            return ToolError(say("cancelled", tool=asked.tool), status="cancelled")
        if not isinstance(cause, ApplicationError) or not cause.details:
            return _lost_error(asked)
        _check_same(cause.details[0], asked)
        match cause.type:
            case there.RAISED:
                return error_of(cause.details[1]["raised"])
            case there.NOT_BEGUN:
                return _no_worker(asked.tool, self.place.task_queue)
            case there.LATE if not asked.once:
                return ToolError(
                    say("temporal_late", tool=asked.tool),
                    status="timeout",
                    reason_code="attempt_timeout",
                )
            case _:
                return _lost_error(asked)

    async def aclose(self) -> None:
        """Release the connection."""
        self._client = None


def workflow_id(call: ToolCall) -> str:
    """Return the id of a call's workflow; use a random one for a call without an id.

    Example:
        >>> from leonidas_tools.calls.call import ToolCall, ToolSession
        >>> workflow_id(ToolCall(name="pay", id="fc-1", session=ToolSession("ana")))
        'leonidas/ana/fc-1'
    """
    ids = [call.session.id, call.id or uuid4().hex]
    name = "/".join(["leonidas", *ids])
    if len(name) <= _MAX_ID_LENGTH and name.isprintable() and "/" not in "".join(ids):
        return name
    return f"leonidas/{hashlib.sha256(json.dumps(ids).encode()).hexdigest()}"


async def _tell(
    handle: WorkflowHandle[Any, Any], progress: Callable[[Mapping[str, Any]], None]
) -> None:
    """Report the progress in the last heartbeat of the activity, each time it has changed."""
    before = None
    while True:
        await asyncio.sleep(_PROGRESS_SECONDS)
        with contextlib.suppress(RPCError):  # the outcome reports the error
            about = await handle.describe()
            for activity in about.raw_description.pending_activities:
                said = await about.data_converter.decode(activity.heartbeat_details.payloads)
                if said and said != before:
                    before = said
                    progress(said[0])


async def _was_withdrawn(handle: WorkflowHandle[Any, Any]) -> bool:
    """Return whether a workflow was terminated before its activity was scheduled."""
    events = (await handle.fetch_history()).events
    if not events[-1].HasField("workflow_execution_terminated_event_attributes"):
        return False
    return not any(each.HasField("activity_task_scheduled_event_attributes") for each in events)


async def _user_of(client: Client, handle: WorkflowHandle[Any, Any]) -> str | None:
    """Return the user whose call a workflow runs."""
    started = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
    given = started.input.payloads
    (call,) = await client.data_converter.decode(given, [there.TemporalCall])
    user: str | None = call.user
    return user


def _check_same(gist: str, asked: there.TemporalCall) -> None:
    """Raise an error for the outcome of another call with this id, if the arguments are known."""
    if asked.gist and gist != asked.gist:
        raise _of_another(asked)


def _of_another(asked: there.TemporalCall) -> ToolError:
    return ToolError(
        say("temporal_other_call", call=asked.id, tool=asked.tool), reason_code="call_id_reused"
    )


def _away(problem: str) -> RetryableError:
    return RetryableError(
        say("temporal_away", problem=problem), status="unavailable", reason_code="engine_away"
    )


def _no_worker(tool: str, task_queue: str) -> RetryableError:
    return RetryableError(
        say("temporal_no_worker", tool=tool, task_queue=task_queue),
        status="unavailable",
        reason_code="no_worker",
    )


def _lost_error(asked: there.TemporalCall) -> ToolError:
    """Return the error for a call whose outcome is unknown."""
    if asked.once:
        message = say("worker_died_unknown", tool=asked.tool)
        return ToolError(message, status="unknown_outcome", reason_code="worker_died")
    message = say("worker_died", tool=asked.tool)
    return ToolError(message, status="unavailable", retryable=True, reason_code="worker_died")
