"""What became of a session: every call with its answers, and whether all is well."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leonidas_tools.cli.happenings import Happening
    from leonidas_tools.live.simulator import CallRecord, LiveSimulator


@dataclass(frozen=True, kw_only=True, slots=True)
class CallSummary:
    """One call and what became of it.

    Args:
        id: Its id.
        tool: The name that was called.
        status: The status of its answer; `cancelled`, or `unanswered`.
        seconds: From the call to its answer or its cancellation.
        answers: How many answers ended it.
        ok: Whether it was answered exactly once, or not at all after a cancellation.
    """

    id: str | None
    tool: str
    status: str = "unanswered"
    seconds: float | None = None
    answers: int = 0
    ok: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What became of a session.

    Args:
        calls: Every call.
        problems: All that went wrong, a sentence each.
        interrupted: Whether the user has ended it before its time.
    """

    calls: Sequence[CallSummary]
    problems: Sequence[str] = ()
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing went wrong."""
        return not self.problems

    @property
    def verdict(self) -> str:
        """All in one sentence."""
        right = [call for call in self.calls if call.ok]
        cancelled = sum(call.status == "cancelled" for call in right)
        told = [f"{len(right) - cancelled} answered once", f"{cancelled} cancelled"]
        if wrong := len(self.calls) - len(right):
            told.append(f"{wrong} wrong")
        end = "interrupted" if self.interrupted else "all is well" if self.ok else "failed"
        return f"{len(self.calls)} calls: {', '.join(told)}; {end}"

    def to_json(self) -> dict[str, Any]:
        """As the last object of `--json`."""
        return {
            "ok": self.ok,
            "interrupted": self.interrupted,
            "calls": [asdict(call) for call in self.calls],
            "problems": list(self.problems),
        }


class CallLog:
    """Keeps account of the calls of a real session, by what the session hands on."""

    def __init__(self) -> None:
        self.calls: dict[str, CallSummary] = {}

    def note(self, happening: Happening) -> None:
        """Takes down a call, an answer or a cancellation."""
        data = happening.data
        identifier = str(data.get("id"))
        call = self.calls.get(identifier)
        if happening.kind == "called":
            self.calls[identifier] = CallSummary(id=data["id"], tool=data["tool"])
        elif happening.kind == "answered":
            call = call or CallSummary(id=data["id"], tool=data["tool"])
            self.calls[identifier] = replace(
                call,
                status=str(data["response"].get("status", "answered")),
                seconds=data["seconds"],
                answers=call.answers + 1,
                ok=call.answers == 0 and call.status != "cancelled",
            )
        elif happening.kind == "cancelled" and call is not None and not call.answers:
            self.calls[identifier] = replace(call, status="cancelled", ok=True)


def of_session(log: CallLog, errors: Iterable[str], *, interrupted: bool) -> Summary:
    """What became of a session with the real server.

    Args:
        log: The calls.
        errors: What broke it off.
        interrupted: Whether the user has ended it.
    """
    calls = list(log.calls.values())
    return Summary(calls=calls, problems=[*_wrong(calls), *errors], interrupted=interrupted)


def of_simulation(simulator: LiveSimulator, errors: Iterable[str], *, interrupted: bool) -> Summary:
    """What became of a scenario, by the simulator's own records.

    Args:
        simulator: Has played it.
        errors: What broke it off.
        interrupted: Whether the user has ended it.
    """
    calls = [_recorded(record) for record in simulator.calls]
    outcomes = [
        str(outcome)
        for outcome in simulator.outcomes
        if outcome.status == "failed" or (outcome.status == "left" and not interrupted)
    ]
    problems = [*_wrong(calls), *map(str, simulator.violations), *outcomes, *errors]
    if not simulator.outcomes and not interrupted and not problems:
        problems.append("the scenario was not played")
    return Summary(calls=calls, problems=problems, interrupted=interrupted)


def _recorded(record: CallRecord) -> CallSummary:
    finals = record.final_answers
    ended_at = finals[0].at if finals else record.cancelled_at
    status = (finals[0].status or "answered") if finals else "unanswered"
    return CallSummary(
        id=record.id,
        tool=record.name,
        status="cancelled" if record.cancelled else status,
        seconds=None if ended_at is None else ended_at - record.sent_at,
        answers=len(finals),
        ok=record.answered_once,
    )


def _wrong(calls: Iterable[CallSummary]) -> list[str]:
    return [
        f"{call.tool!r} (call {call.id!r}) was answered {_how_often(call)}"
        for call in calls
        if not call.ok
    ]


def _how_often(call: CallSummary) -> str:
    return "after it was cancelled" if call.answers == 1 else f"{call.answers} times"
