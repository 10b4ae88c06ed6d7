"""A policy that stores the start of each `once` call before the call runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals import wording
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls.call import (
    CANCELLED_CALL,
    ResultStatus,
    ToolResult,
    build_repeated_result,
    same_arguments,
)
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.invocation import current, innermost
from leonidas_tools.calls.once_calls import digest_of, exact_digest_of
from leonidas_tools.errors import StoreError, log_level
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import say
from leonidas_tools.session.resumption import is_from_elsewhere
from leonidas_tools.store.queries import (
    HAPPENED,
    MAY_HAVE_RUN,
    RESUMABLE_SECONDS,
    CallsElsewhere,
    Repetition,
    find_execution,
    find_repeated,
    mark_interrupted,
    store_outcome,
)
from leonidas_tools.store.recorder import key_of, name_of, user_name_of
from leonidas_tools.store.rows import INTERRUPTED, STARTED
from leonidas_tools.store.runs import LOST_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable

    from leonidas_tools.approvals.desk import Grant
    from leonidas_tools.calls.call import Run, ToolCall
    from leonidas_tools.calls.invocation import Invocation
    from leonidas_tools.store.approvals import ApprovalTable
    from leonidas_tools.store.database import Database
    from leonidas_tools.store.outbox import Outbox
    from leonidas_tools.store.recorder import Recorder
    from leonidas_tools.store.rows import Execution
    from leonidas_tools.store.sessions import SessionBinding

logger = visible_logger(__name__)

_ANSWER_SECONDS = 2.0
"""Seconds to wait for the database, so that a broken disk does not block calls."""
_ENDS_SECONDS = 1.0
"""Seconds to wait until the ends of calls are written."""
_ELSEWHERE_SECONDS = 60.0
"""Seconds to wait for the end of a call that runs in another process."""
_LOOK_SECONDS = 0.5
_REMEMBERED = 65_536
_SUPERSEDED = ResultStatus.UNAVAILABLE
"""Status of a call that does not run, since an equal call began elsewhere at the same time."""
_NOT_RUN = frozenset({_SUPERSEDED.value, ResultStatus.PENDING_APPROVAL.value})
"""Statuses of a call elsewhere that did not run, so that an equal call runs here."""
_OPEN = frozenset({ResultStatus.UNKNOWN_OUTCOME, ResultStatus.CANCELLED})
"""Statuses that are not final: the outcome of the call may still change."""


class _SeenResults:
    """The ids of the earlier calls whose results a session received for later calls."""

    def __init__(self) -> None:
        self.ids: set[str] = set()


@dataclass(frozen=True, kw_only=True, slots=True)
class _StoredArguments:
    """The arguments of a call, in the form in which stored calls are compared."""

    arguments: Any  # as the store keeps them: without secrets, and cut if they are long
    is_partial: bool  # whether the store leaves something out
    digest: bytes | None  # of all arguments, if `is_partial` and they can be compared


class DurableStart:
    """Stores the start of each `once` call before the call continues; other calls do not wait.

    After a crash, the store knows which of these calls may have happened. If the store is not
    writable (a full disk, a lock of another process, no server), the call continues unrecorded or
    is refused, and the store's status counts it. It is always refused if its session comes from
    another process and the earlier calls cannot be read. A call with the id and the arguments of
    an earlier call of the session gets the stored result. So does a call with the arguments of one
    whose outcome the model may not have received, since the conversation was elsewhere.
    """

    leaves_results = True
    """The policy returns the tool's result unchanged; its other results are normalised."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        recorder: Recorder,
        sessions: SessionBinding,
        approvals: ApprovalTable,
        *,
        refuses: bool,
    ) -> None:
        self.outcome: Callable[[ToolCall], Run | None] = _never
        """Returns a function that waits for a call that continues after its process ended."""
        self.not_written = 0
        """The number of starts that were not written in time."""
        self._database = database
        self._outbox = outbox
        self._recorder = recorder
        self._sessions = sessions
        self._approvals = approvals
        self._refuses = refuses  # whether a call is refused if its start cannot be stored
        self._runs: OrderedDict[Hashable, Invocation | None] = OrderedDict()
        """The calls that have run, or run now in an invocation."""

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call once its start is stored."""
        desk = call.session.find(Approvals)
        grant = None if desk is None else desk.grant_of(call.number)
        if grant is not None and await self._is_answered_elsewhere(call, grant):
            return wording.build_denial(call.name, "withdrawn")
        if self._recorder.is_once(call):
            # First, so that one of two equal calls in different processes finds the other.
            is_stored = await self.written(call, _ANSWER_SECONDS)
            if self._refuses and not is_stored:
                return _build_refusal(call)
            try:
                before = None if call.retried else await self._earlier(call)
            except StoreError as error:
                logger.log(log_level(error), "Earlier calls cannot be read: %s", error)
                if self._refuses or is_from_elsewhere(call.session):
                    return _build_refusal(call)
                before = None
            return before or await self._run_once(call, run)
        return await run(call)

    async def _is_answered_elsewhere(self, call: ToolCall, grant: Grant) -> bool:
        """Return whether the question of a call was answered elsewhere, so it does not run here."""
        try:
            async with _in_time():
                return await self._approvals.is_answered_elsewhere(
                    grant, is_once=self._recorder.is_once(call)
                )
        except StoreError as error:
            logger.log(log_level(error), "Questions cannot be read: %s", error)
            return grant.by_silence

    async def _run_once(self, call: ToolCall, run: Run) -> ToolResult:
        """Run a call, and remember it in case its record is lost with the file of the store."""
        key, running = self._key(call), innermost()
        if call.id is None or (running is not None and self._runs.get(key) is running):
            return await run(call)  # the latter is a fallback of the call
        self._runs[key] = running
        if len(self._runs) > _REMEMBERED:
            self._runs.popitem(last=False)
        try:
            result = await run(call)
        finally:
            if key in self._runs:
                self._runs[key] = None
        if result.status.value not in MAY_HAVE_RUN:
            self._runs.pop(key, None)
        return result

    def _key(self, call: ToolCall) -> Hashable:
        received = original_call(call)
        owner = user_of(received.session)
        return received.session.id, owner, call.id, digest_of(received.name, received.arguments)

    async def written(self, call: ToolCall, timeout_seconds: float) -> bool:
        """Wait until the start of a call is on disk; return whether it is in time."""
        if not self._recorder.begin(call, time.time()):
            return self._count_missing()
        entry = self._outbox.calls.find(key_of(call))
        if entry is None or entry.row is None:
            return True
        written = asyncio.get_running_loop().create_future()
        entry.waiting.append(written)
        self._outbox.expedite()
        try:
            async with asyncio.timeout(timeout_seconds):
                return bool(await written) or self._count_missing()
        except TimeoutError:
            return self._count_missing()

    async def _earlier(self, call: ToolCall) -> ToolResult | None:
        """Return the result of the earlier call of the session that this call repeats, if any.

        Wait if the earlier call still runs elsewhere, since the model gets its result only here.
        If equal calls begin at the same time, only the last of them runs.
        """
        if call.id is None:
            return None
        repetition = self._repetition(call)
        asked = self._build_request(call)
        result: ToolResult | None = None
        while result is None:
            async with _in_time():
                before, is_later = await self._find_earlier(call, asked, repetition)
            if before is None:
                return self._find_lost(call, repetition.elsewhere)
            if is_later and before.status == STARTED and not self._is_own(before):
                return replace(build_repeated_result(before.tool), status=_SUPERSEDED)
            is_certain = self._is_same(before, asked) is True
            if before.started < repetition.bound or not self._is_own(before):
                wait = self.outcome(call) if is_certain and _may_continue(before) else None
                result = await self._resolve_elsewhere(before, call, wait)
            else:
                result = _answer(before, call)
            if result is not None and not is_certain:
                result = build_repeated_result(before.tool)
        return result

    def _find_lost(self, call: ToolCall, elsewhere: CallsElsewhere | None) -> ToolResult | None:
        """Return the result for a call that has run here although the store has no record of it."""
        key = self._key(call)
        if key in self._runs and (innermost() is None or self._runs[key] is not innermost()):
            return build_repeated_result(call.name)
        has_others = elsewhere is not None and bool(elsewhere.newest)
        if self._database.files > 1 and (has_others or is_from_elsewhere(call.session)):
            raise StoreError("The records of the session's calls in other processes are lost")
        return None

    async def _resolve_elsewhere(
        self,
        before: Execution,
        call: ToolCall,
        wait: Run | None,
    ) -> ToolResult | None:
        """Return the result for a call that repeats one of another process; `None` to run it."""
        if wait is not None:
            result = await wait(replace(call, id=before.call_id))
            if result.status not in _OPEN:
                await self.store_outcome(before, call, result)
                call.session.get(_SeenResults).ids.add(before.id)
            return result
        before = await self._wait_for_end(before)
        return None if before.status in _NOT_RUN else _answer(before, call)

    def _repetition(self, call: ToolCall) -> Repetition:
        bound = self._sessions.bound(call.session)
        received, first = original_call(call), self._recorder.first_start(call.session)
        return Repetition(
            session=name_of(received.session.id),
            user=user_name_of(user_of(received.session)),
            tool=name_of(received.name),
            call_id=name_of(call.id or ""),
            run=self._recorder.run,
            # The call that binds a session begins before the session is bound.
            bound=bound if first is None else min(bound, first),
            known_until=self._sessions.known_until(call.session),
            elsewhere=self._sessions.elsewhere(call.session),
        )

    def _build_request(self, call: ToolCall) -> _StoredArguments:
        received = original_call(call)
        arguments, is_partial = self._recorder.kept_arguments(received)
        return _StoredArguments(
            arguments=json.loads(arguments),
            is_partial=is_partial,
            digest=exact_digest_of(received.name, received.arguments) if is_partial else None,
        )

    def _is_same(self, before: Execution, asked: _StoredArguments) -> bool | None:
        """Return whether a stored call has these arguments; `None` if that is unknown.

        Calls with different secrets, or with long arguments that differ at the end, look equal in
        the store. Only the process that made a call can distinguish it from them.
        """
        if not same_arguments(before.arguments, asked.arguments):
            return False
        if not asked.is_partial:
            return True
        digest = self._recorder.digest_of(before.id)
        return None if digest is None or asked.digest is None else digest == asked.digest

    async def _find_earlier(
        self, call: ToolCall, asked: _StoredArguments, repetition: Repetition
    ) -> tuple[Execution | None, bool]:
        """Return the newest call that this call may repeat, and whether it began after this one."""
        is_later = True
        current_entry = self._outbox.calls.find(key_of(call))
        told = call.session.get(_SeenResults).ids
        taken = 0
        open_before = () if repetition.elsewhere is None else repetition.elsewhere.open
        for before in await self._candidates(repetition):
            is_told = before.id in told and before.call_id != repetition.call_id
            is_current = current_entry is not None and before.id == current_entry.key
            if is_current:
                is_later = False
            elif not is_told and self._is_same(before, asked) is not False:
                if _has_taken_result(before, repetition):
                    taken += 1
                elif taken and _had_effect(before):
                    taken -= 1
                else:
                    return before, is_later and before.id not in open_before
        return None, False

    async def _candidates(self, call: Repetition) -> list[Execution]:
        """Return the calls that `call` may repeat, with all ends that this process knows."""
        found = await find_repeated(self._database, call)
        # A person may answer a question before the end of the call that asked it is written.
        if any(map(self._has_unread_end, found)) and await self._outbox.flush(_ENDS_SECONDS):
            return await find_repeated(self._database, call)
        return found

    async def _wait_for_end(self, before: Execution) -> Execution:
        """Wait for the end of a call and return the call, without an end after a minute."""
        with contextlib.suppress(TimeoutError, StoreError):
            async with asyncio.timeout(_ELSEWHERE_SECONDS):
                while before.status == STARTED:
                    async with asyncio.timeout(_ANSWER_SECONDS + LOST_SECONDS):
                        await mark_interrupted(self._database, run=self._recorder.run)
                        before = await find_execution(self._database, before.id) or before
                    if before.status == STARTED:
                        await asyncio.sleep(_LOOK_SECONDS)
        return before

    async def store_outcome(self, before: Execution, call: ToolCall, result: ToolResult) -> bool:
        """Store the outcome of a call of another process; return `False` if it has a final one."""
        return await store_outcome(self._database, before.id, self._recorder.outcome(call, result))

    def _has_unread_end(self, before: Execution) -> bool:
        is_open = before.status == STARTED
        return is_open and self._is_own(before) and not self._outbox.calls.is_open(before.id)

    def _is_own(self, before: Execution) -> bool:
        return before.id.startswith(f"{self._recorder.run}-")

    def _count_missing(self) -> bool:
        self.not_written += 1
        logger.warning("The start of a call is not on disk yet")
        return False


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Limit the time of queries; raise `StoreError` after that."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            yield
    except TimeoutError:
        raise StoreError("The store does not respond") from None


def original_call(call: ToolCall) -> ToolCall:
    """Return the call as received, before policies changed its arguments or its tool."""
    try:
        received = current().call
    except LookupError:  # the policy is called without a runtime
        return call
    is_same = received.session is call.session and received.number == call.number
    return received if is_same else call


def _never(_: ToolCall) -> None:
    return None


def _had_effect(before: Execution) -> bool:
    """Return whether a call had its effect although the model had cancelled it."""
    return before.ending == EventKind.CANCEL.value and before.status in HAPPENED


def _has_taken_result(before: Execution, call: Repetition) -> bool:
    """Return whether the model has read the result of a call that went on as that of `before`."""
    is_read = not _had_effect(before) and (before.ended or math.inf) <= call.known_until
    return is_read and before.reason == CANCELLED_CALL and before.call_id != call.call_id


def _may_continue(before: Execution) -> bool:
    """Return whether a call may continue after its process ended."""
    is_cut = before.status == ResultStatus.CANCELLED.value and before.reason is None
    is_recent = before.started > time.time() - RESUMABLE_SECONDS
    return is_recent and (is_cut or before.status in (STARTED, INTERRUPTED))


def _answer(before: Execution, call: ToolCall) -> ToolResult:
    """Return the result for a call that repeats `before`, and record that the session got it."""
    if before.call_id == name_of(call.id or ""):
        return _outcome(before)
    if before.ended is not None:
        call.session.get(_SeenResults).ids.add(
            before.id
        )  # an equal call after this one is a new one
    is_cut = before.status == ResultStatus.CANCELLED.value
    return build_repeated_result(before.tool) if is_cut else _outcome(before)


def _outcome(before: Execution) -> ToolResult:
    """Return the result for a repetition of a call that may have had its effect."""
    if before.ended is None or before.status in (STARTED, INTERRUPTED):
        return build_repeated_result(before.tool)
    stored = ToolResult(
        status=ResultStatus(before.status),
        result=before.result,
        message=before.message or say("repeated_call_known"),
        reason_code=before.reason,
    )
    return build_repeated_result(before.tool, stored)


def _build_refusal(call: ToolCall) -> ToolResult:
    return ToolResult(
        status=ResultStatus.UNAVAILABLE,
        message=say("not_recorded", tool=call.name),
        retryable=True,
        retry_hint=say("not_recorded_hint"),
        reason_code="not_recorded",
    )
