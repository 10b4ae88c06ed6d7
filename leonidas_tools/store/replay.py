"""Rebuild the events of a session from its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.events import EventKind
from leonidas_tools.store.rows import ReplayEvent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from leonidas_tools.store.rows import Approval, Execution, KeptResult

RESULT_KEPT = "result_kept"
"""The kind of the event that a result is too long for the model."""
_OF_APPROVALS = (EventKind.APPROVAL_REQUEST.value, EventKind.APPROVAL_ANSWER.value)


def replayed(
    calls: Sequence[Execution],
    approvals: Sequence[Approval] = (),
    results: Sequence[KeptResult] = (),
) -> list[ReplayEvent]:
    """Return the events, in the order in which they happened."""
    known = {approval.id.rpartition("-")[2] for approval in approvals}
    events = [event for call in calls for event in _of_call(call, known)]
    events += [event for approval in approvals for event in _of_approval(approval)]
    events += [_of_result(result) for result in results]
    return sorted(events, key=lambda event: event.at)


def _of_call(call: Execution, known: Collection[str]) -> Iterator[ReplayEvent]:
    about = {"tool": call.tool, "trace_id": call.trace_id}
    start = EventKind.START.value
    yield ReplayEvent(at=call.started, kind=start, data={"arguments": call.arguments}, **about)
    for step in call.steps:
        if step.kind in _OF_APPROVALS and step.data.get("approval_id") in known:
            continue  # the row of the approval has more details
        at = call.started + step.after_seconds
        yield ReplayEvent(at=at, kind=step.kind, data=step.data, **about)
    if call.ended is not None and call.ending is not None:
        body = {"status": call.status, "seconds": call.seconds, "result": call.result}
        body |= {"message": call.message, "reason": call.reason}
        yield ReplayEvent(at=call.ended, kind=call.ending, data=_without_none(body), **about)


def _of_approval(approval: Approval) -> Iterator[ReplayEvent]:
    about = {"tool": approval.tool, "trace_id": approval.trace_id}
    asked = {"question": approval.message, "arguments": approval.arguments, "rule": approval.rule}
    yield ReplayEvent(
        at=approval.requested, kind=_OF_APPROVALS[0], data=_without_none(asked), **about
    )
    if approval.decided is not None:
        body = {
            "decision": approval.answer or approval.decision,
            "by": approval.decided_by,
            "channel": approval.channel,
            "arguments": approval.edited,
            "note": approval.note,
        }
        yield ReplayEvent(
            at=approval.decided, kind=_OF_APPROVALS[1], data=_without_none(body), **about
        )


def _of_result(result: KeptResult) -> ReplayEvent:
    data = {"handle": result.handle, "mime_type": result.mime_type, "size": result.size}
    return ReplayEvent(at=result.created, kind=RESULT_KEPT, tool="", trace_id="", data=data)


def _without_none(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None}
