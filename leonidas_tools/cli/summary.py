"""The summary of a session: every call with its answers, and whether it passed."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from leonidas_tools.cli.happenings import Happening
    from leonidas_tools.simulator import CallRecord, LiveSimulator, Outcome
    from leonidas_tools.simulator.recording import ReceivedText


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportedOutcome:
    """An outcome sent as conversation text, because the connection of its call was lost."""

    id: str
    name: str
    status: str
    connection: int
    at: float  # by the monotonic clock, in seconds

    def is_of(self, record: CallRecord) -> bool:
        """Return whether it is the outcome of that call; a repeated id has a suffix after `~`."""
        known = record.id is not None and record.id_sent
        same = not known or self.id == record.id or self.id.startswith(f"{record.id}~")
        return same and self.name == record.name and self.connection > record.connection


def parse_outcomes(texts: Iterable[ReceivedText]) -> list[ReportedOutcome]:
    """Return the outcomes in the texts that the simulator received: one JSON object per line."""
    return [outcome for text in texts for outcome in _parse_lines(text)]


def _parse_lines(text: ReceivedText) -> Iterator[ReportedOutcome]:
    for line in text.text.splitlines():
        with suppress(ValueError, TypeError, KeyError):
            data = json.loads(line)
            yield ReportedOutcome(
                id=str(data["id"]),
                name=str(data["name"]),
                status=str(data["response"].get("status", "answered")),
                connection=text.connection,
                at=text.at,
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class CallSummary:
    """One call and its outcome."""

    id: str | None
    tool: str
    # also `cancelled`, `unanswered`, or `repeated` after a reconnect
    status: str = "unanswered"
    seconds: float | None = None
    answers: int = 0  # the number of final answers
    ok: bool = False  # answered exactly once, or cancelled and not answered
    survived: bool = False  # outlived the connection it was made on


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The summary of a session."""

    calls: Sequence[CallSummary]
    problems: Sequence[str] = ()  # a sentence each
    interrupted: bool = False  # the user ended it early
    connections: int = 1
    violations: int = 0  # of the protocol; 0 if the server does not count them

    @property
    def ok(self) -> bool:
        """Return whether the conversation had no problems."""
        return not self.problems

    @property
    def survived(self) -> int:
        """Return the number of calls that outlived their connection."""
        return sum(call.survived for call in self.calls)

    @property
    def verdict(self) -> str:
        """Return the summary as one line."""
        right = [call for call in self.calls if call.ok]
        cancelled = sum(call.status == "cancelled" for call in right)
        told = [f"{len(right) - cancelled} answered once", f"{cancelled} cancelled"]
        left = sum(self.interrupted and not (call.ok or call.answers) for call in self.calls)
        if left:
            told.append(f"{left} unanswered")
        if wrong := len(self.calls) - len(right) - left:
            told.append(f"{wrong} wrong")
        parts = [f"{_pluralize(len(self.calls), 'call')}: {', '.join(told)}"]
        if self.connections > 1:
            whose = "its own" if self.survived == 1 else "theirs"
            survived = f"{_pluralize(self.survived, 'call')} outlived {whose}"
            parts.append(f"{self.connections} connections, {survived}")
        if self.violations:
            parts.append(_pluralize(self.violations, "violation"))
        parts.append("interrupted" if self.interrupted else "passed" if self.ok else "failed")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return the last object of `--json`."""
        return {
            "ok": self.ok,
            "interrupted": self.interrupted,
            "connections": self.connections,
            "survived": self.survived,
            "violations": self.violations,
            "calls": [asdict(call) for call in self.calls],
            "problems": list(self.problems),
        }


class CallLog:
    """The calls and connections of a session, collected from its happenings."""

    def __init__(self) -> None:
        self.calls: dict[str, CallSummary] = {}
        self.connections = 0
        self.refusal: str | None = None
        """The reason for which the last connection was refused."""

    def note(self, happening: Happening) -> None:
        """Record a call, an answer, a cancellation or a connection."""
        if happening.kind in ("connection_opened", "connection_renewed"):
            self.connections = happening.data["connection"]
        elif happening.kind == "connection_refused":
            self.refusal = str(happening.data["reason"])
        elif happening.kind in ("called", "answered", "cancelled"):
            self._note_call(happening.kind, happening.data)

    def _note_call(self, kind: str, data: Mapping[str, Any]) -> None:
        identifier = str(data.get("id"))
        call = self.calls.get(identifier)
        if kind == "called":
            self.calls[identifier] = CallSummary(id=data["id"], tool=data["tool"])
        elif kind == "answered":
            call = call or CallSummary(id=data["id"], tool=data["tool"])
            self.calls[identifier] = replace(
                call,
                status=str(data["response"].get("status", "answered")),
                seconds=data["seconds"],
                answers=call.answers + 1,
                ok=call.answers == 0 and call.status != "cancelled",
                survived=bool(data.get("after_reconnect")),
            )
        elif call is not None and not call.answers:
            self.calls[identifier] = replace(call, status="cancelled", ok=True)


def of_session(log: CallLog, errors: Iterable[str], *, interrupted: bool) -> Summary:
    """Return the summary of a session with the real server."""
    calls = list(log.calls.values())
    problems = [*_wrong(calls, interrupted=interrupted), *errors]
    if not (log.connections or calls or interrupted or problems):
        why = "" if log.refusal is None else f": {log.refusal}"
        problems.append(f"there was no connection{why}")
    return Summary(
        calls=calls,
        problems=problems,
        interrupted=interrupted,
        connections=log.connections,
    )


def of_simulation(
    simulator: LiveSimulator, log: CallLog, errors: Iterable[str], *, interrupted: bool
) -> Summary:
    """Return the summary of a scenario from the records of the simulator."""
    told = parse_outcomes(simulator.texts_received)
    records = simulator.calls
    calls = [_add_shown_time(_summarize_call(record, told, records), log) for record in records]
    outcomes = _troubles(simulator.outcomes, interrupted=interrupted)
    if outcomes and simulator.scenario.needs:
        outcomes.insert(0, f"the scenario needs {simulator.scenario.needs}")
    violations = simulator.violations
    wrong = _wrong(calls, interrupted=interrupted)
    # The failed step comes first, since it causes lost connections and missing answers.
    problems = [*outcomes, *map(str, violations), *wrong, *([] if outcomes else errors)]
    if not simulator.outcomes and not interrupted and not problems:
        problems.append("the scenario was not played")
    return Summary(
        calls=calls,
        problems=problems,
        interrupted=interrupted,
        connections=log.connections,
        violations=len(violations),
    )


def _troubles(outcomes: Iterable[Outcome], *, interrupted: bool) -> list[str]:
    """Return the failed steps up to the first failure; later ones only follow from it."""
    troubles: list[str] = []
    for outcome in outcomes:
        if outcome.status == "failed" or (outcome.status == "left" and not interrupted):
            troubles.append(str(outcome))
        if outcome.status == "failed":
            break
    return troubles


def _summarize_call(
    record: CallRecord, told: Sequence[ReportedOutcome], records: Iterable[CallRecord]
) -> CallSummary:
    finals = record.final_answers
    if not finals and not record.cancelled:
        return _summarize_outlived(record, told, records)
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


def _add_shown_time(call: CallSummary, log: CallLog) -> CallSummary:
    """Return a call with the time that was shown when it was answered."""
    shown = log.calls.get(str(call.id))
    if shown is None or shown.seconds is None or shown.status != call.status:
        return call
    return replace(call, seconds=shown.seconds)


def _summarize_outlived(
    record: CallRecord, told: Sequence[ReportedOutcome], records: Iterable[CallRecord]
) -> CallSummary:
    """Return a call without an answer on its connection; a later one may have its outcome."""
    call = CallSummary(id=record.id, tool=record.name)
    outcomes = [each for each in told if each.is_of(record)]
    if outcomes:
        # The outcome is sent again if that connection is lost too: count it per connection.
        most = max(Counter(each.connection for each in outcomes).values())
        return replace(
            call,
            status=outcomes[0].status,
            seconds=outcomes[0].at - record.sent_at,
            answers=most,
            ok=most == 1,
            survived=True,
        )
    if any(_repeats(later, record) for later in records):
        return replace(call, status="repeated", ok=True, survived=True)
    return call


def _repeats(later: CallRecord, record: CallRecord) -> bool:
    return later.connection > record.connection and (later.name, later.args) == (
        record.name,
        record.args,
    )


def _pluralize(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _wrong(calls: Iterable[CallSummary], *, interrupted: bool) -> list[str]:
    """Name the calls not answered exactly once; an interruption may leave some unanswered."""
    return [
        f"{call.tool!r} (call {call.id!r}) was answered {_how_often(call)}"
        for call in calls
        if not call.ok and not (interrupted and not call.answers)
    ]


def _how_often(call: CallSummary) -> str:
    return "after it was cancelled" if call.answers == 1 else f"{call.answers} times"
