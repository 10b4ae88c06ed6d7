"""The calls of a session whose side effect may happen only once."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls.call import REPEATED, ResultStatus, build_repeated_result, comparable
from leonidas_tools.calls.invocation import innermost
from leonidas_tools.calls.turns import Turns
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.calls.call import ToolCall, ToolResult, ToolSession

Key: TypeAlias = tuple[str, bytes]
"""The id of a call, and a digest of its name and arguments."""

logger = visible_logger(__name__)

_REMEMBERED = 65_536
_KEPT_OUTCOMES = 64
_MAX_CANCELLED = 1_024


class OnceCall:
    """A call with a side effect: the stream that made it, and its result."""

    __slots__ = (
        "_digests", "_over", "_runs", "call_id", "cancelled", "is_over", "is_reported",
        "may_have_happened", "name", "number", "reports", "result", "stream", "turn", "twin",
    )  # fmt: skip

    def __init__(self, call: ToolCall, stream: object) -> None:
        self.call_id = call.id
        self.name = call.name
        self.number = call.number
        self._runs: list[tuple[str, Mapping[str, Any]]] = []
        self._digests: set[bytes | None] = set()
        self.stream = stream
        turns = call.session.find(Turns)
        self.turn = 0 if turns is None else turns.number
        self.twin: OnceCall | None = None
        """The last equal call of the same turn, if it had no result when this one was made."""
        self.is_reported = False
        """True if another call returns the result of this one, which a person has approved."""
        self.reports: OnceCall | None = None
        """The approved call whose result is the result of this one."""
        self.cancelled = False
        """True once the call was cancelled; its result answers at most one other call."""
        self.result: ToolResult | None = None
        """The result; `None` until the call ends, and after newer results have replaced it."""
        self.is_over = False
        self.may_have_happened = False
        """True if the call is over, and its side effect has happened or may have happened."""
        self._over: asyncio.Event | None = None

    def end(self, result: ToolResult, *, begun: bool) -> None:
        """Keep the result of the call, whose side effect may have begun."""
        self.result = result
        # After any other result the model may call again, whether it has read that result or not.
        self.end_with(begun and (result.ok or result.status is ResultStatus.UNKNOWN_OUTCOME))

    def end_with(self, may_have_happened: bool) -> None:
        """End the call, or its undoing, whose side effect may have happened or has not."""
        self.may_have_happened, self.is_over = may_have_happened, True
        if self._over is not None:
            self._over.set()

    def note_run(self, call: ToolCall) -> None:
        """Note that the call may run a tool, with its validated arguments."""
        # Most are never compared, and a digest of each would take longer.
        self._runs.append((call.name, call.arguments))

    def has_run(self, digest: bytes) -> bool:
        """Return whether a call with this digest may have run."""
        self.keep_digests()
        return digest in self._digests

    def keep_digests(self) -> None:
        """Keep digests in place of the arguments."""
        self._digests.update(exact_digest_of(*run) for run in self._runs)
        self._runs.clear()

    def forget(self) -> None:
        """Drop the result, and the fields that only a cancelled call needs."""
        self.result = None
        if self.cancelled:
            self.keep_digests()
        else:
            self._runs.clear()

    def reopen(self) -> None:
        """Let others wait for the end of the call again, while it runs again or is undone."""
        self.is_over, self._over = False, None

    async def outcome(self) -> ToolResult | None:
        """Wait for the end of the call, and return its result; `None` if it had no effect.

        A result that is no longer kept is `unknown_outcome`.
        """
        if not self.is_over:
            self._over = self._over or asyncio.Event()
            await self._over.wait()
        return build_repeated_result(self.name, self.result) if self.may_have_happened else None


class OnceCalls:
    """Remembers the calls of a session whose side effect may happen only once, over all streams.

    Id, name and arguments identify a call. The id is not enough: a server may number its calls from
    1 on each connection. Only calls with a side effect are remembered, so that reads and
    cancellations cannot evict them.

    A model may make a call twice in one turn, without waiting for the first result: that is one
    request, which runs once.

    The model never reads the result of a cancelled call, so it may make the same call under another
    id. A cancelled call that has had its effect is kept until such a call takes its result.
    """

    def __init__(self) -> None:
        self._calls: OrderedDict[Key, OnceCall] = OrderedDict()
        self._running: dict[int, OnceCall] = {}
        self._last_of_digest: dict[bytes, OnceCall] = {}
        self._with_results: deque[OnceCall] = deque()
        self._cancelled: deque[OnceCall] = deque()

    def find(self, key: Key) -> OnceCall | None:
        """Return the call with this key, if the session has made it."""
        return self._calls.get(key)

    def begin(self, call: ToolCall, key: Key, stream: object) -> None:
        """Remember a call of the model by its key and its number in the session."""
        made = OnceCall(call, stream)
        last = self._last_of_digest.get(key[1])
        is_duplicate = last is not None and not last.is_over and last.turn == made.turn
        if is_duplicate and exact_digest_of(call.name, call.arguments) == key[1]:
            made.twin = last
        self._last_of_digest[key[1]] = made
        self._calls[key] = self._running[call.number] = made
        if len(self._calls) > _REMEMBERED:
            self._calls.popitem(last=False)
        if len(self._running) > _REMEMBERED:
            del self._running[next(iter(self._running))]
        if len(self._last_of_digest) > _REMEMBERED:
            del self._last_of_digest[next(iter(self._last_of_digest))]

    def twin_of(self, call: ToolCall) -> OnceCall | None:
        """Return the equal call of the same turn that had no result when this one was made."""
        made = self._running.get(call.number)
        return None if made is None else made.twin

    def end(self, number: int, result: ToolResult, *, begun: bool) -> None:
        """Remember the result of a call, and keep only the newest results."""
        ended = self._running.pop(number, None)
        if ended is None:
            return
        ended.end(result, begun=begun)
        self._keep(ended)
        self._drop_if_nothing_happened(ended)
        reported = ended.reports
        if reported is not None and not reported.is_over:  # it continues without this call
            reported.is_reported = False
            self._cancel(reported)

    def end_again(self, call: ToolCall, result: ToolResult) -> None:
        """Track a call whose result was sent, and replace that result.

        A person has approved or retried the call since. Its new result is kept for an equal call
        until the model has read it:

        | event         | circumstances                 | kept for an equal call                 |
        |---------------|-------------------------------|----------------------------------------|
        | it runs again | inside a call that reports it | if that one is cancelled or ends first |
        |               | by itself                     | yes                                    |
        | the run ends  | nothing has happened          | no                                     |
        |               | the runtime ends it           | as before, as unknown                  |
        |               | another call reports it       | as before                              |
        |               | the model reads it            | no                                     |
        | other result  | without a run, as of a skip   | as before                              |

        An equal call waits for the end of a run.
        """
        again = self._find_earlier(call)
        if again is None:
            return
        if result.reason_code == REPEATED:
            self._begin_again(again, self._reporting(call.session))
        elif not again.is_over:
            result = self._end_run(again, result, call.name)
        again.result = result
        self._keep(again)

    def _find_earlier(self, call: ToolCall) -> OnceCall | None:
        """Return the earlier record of the same call, if any."""
        if call.id is None:
            return None
        made = self._calls.get((call.id, digest_of(call.name, call.arguments)))
        if made is not None:
            return made
        # The question about a fallback names another tool than the call that has asked it.
        return next((each for each in self._with_results if each.number == call.number), None)

    def _reporting(self, session: ToolSession) -> OnceCall | None:
        """Return the running call of the session that is to report what it has started."""
        around = innermost()
        if around is None or around.call.session is not session:
            return None
        return self._running.get(around.call.number)

    def _begin_again(self, again: OnceCall, reporting: OnceCall | None) -> None:
        again.reopen()
        again.cancelled = again in self._cancelled
        again.is_reported = reporting is not None
        if reporting is not None:
            reporting.reports = again
        if reporting is None or reporting.cancelled:
            self._cancel(again)

    def _end_run(self, again: OnceCall, result: ToolResult, name: str) -> ToolResult:
        """End a call that ran again, of a tool of this name; return the result to keep."""
        is_cut = result.status is ResultStatus.CANCELLED and result.reason_code is None
        result = build_repeated_result(name) if is_cut else result  # by the end of the runtime
        again.end(result, begun=True)
        is_unread = again.may_have_happened and (is_cut or again.is_reported)
        if again in self._cancelled and not is_unread:
            self._cancelled.remove(again)
        return result

    def cancel(self, number: int) -> None:
        """Note that the running call with this number in the session was cancelled."""
        running = self._running.get(number)
        if running is not None:
            self._cancel(running)

    def cancel_ended(self, call_id: str, stream: object) -> None:
        """Note that a call of a stream that has ended was cancelled before its result was read."""
        calls = (each for each in reversed(self._with_results) if each.call_id == call_id)
        ended = next((each for each in calls if each.stream is stream), None)
        if ended is not None and ended.may_have_happened:
            self._cancel(ended)

    def begin_undoing(self, number: int) -> OnceCall | None:
        """Note that a call that has ended is cancelled and undone; an equal call waits for that."""
        ended = next((each for each in self._with_results if each.number == number), None)
        if ended is None or not ended.may_have_happened:
            return None
        ended.reopen()
        self._cancel(ended)
        return ended

    def end_undoing(self, undone: OnceCall, *, failed: bool) -> None:
        """Keep the result of a call for an equal one if undoing the call has failed."""
        undone.end_with(failed)
        self._drop_if_nothing_happened(undone)

    def take_cancelled(self, call: ToolCall) -> OnceCall | None:
        """Remove and return the oldest cancelled call that equals this one.

        Only a call of the model takes one: the model has not read the result. A tool or a program
        that makes a call, or a person who approves it, means another one.
        """
        made = self._running.get(call.number)
        if made is None:
            return None
        made.note_run(call)  # it may run on and be cancelled itself
        digest = exact_digest_of(call.name, call.arguments) if self._cancelled else None
        if digest is None:
            return None
        found = next((each for each in self._cancelled if each.has_run(digest)), None)
        if found is not None:
            self._cancelled.remove(found)
        return found

    def note_read(self, twin: OnceCall) -> None:
        """Note that the model reads the result of a call as that of an equal one."""
        if twin in self._cancelled:
            self._cancelled.remove(twin)

    def put_back(self, cancelled: OnceCall) -> None:
        """Keep a cancelled call whose result was not read after all."""
        self._cancelled.appendleft(cancelled)

    def _cancel(self, call: OnceCall) -> None:
        if call.cancelled:
            return
        call.cancelled = True
        self._cancelled.append(call)
        if call.reports is not None:
            self._cancel(call.reports)
        if len(self._cancelled) > _MAX_CANCELLED:
            forgotten = self._cancelled.popleft()
            logger.warning(
                "More than %d cancelled calls had a side effect that the model does not know of; "
                "if it repeats the oldest, of %r, that runs again",
                _MAX_CANCELLED,
                forgotten.name,
            )

    def _drop_if_nothing_happened(self, ended: OnceCall) -> None:
        if not ended.may_have_happened and ended in self._cancelled:
            self._cancelled.remove(ended)

    def _keep(self, ended: OnceCall) -> None:
        if ended in self._with_results:
            self._with_results.remove(ended)
        self._with_results.append(ended)
        if len(self._with_results) > _KEPT_OUTCOMES:
            self._with_results.popleft().forget()


def digest_of(name: str, arguments: Mapping[str, Any]) -> bytes:
    """Return a digest of the name and the arguments of a call.

    Equivalent spellings of the arguments have the same digest. All calls of a tool have one digest
    if their arguments cannot be compared.
    """
    return exact_digest_of(name, arguments) or _digest(_to_json([name]))


def exact_digest_of(name: str, arguments: Mapping[str, Any]) -> bytes | None:
    """Return a digest of a call; `None` if its arguments cannot be compared."""
    try:
        return _digest(_to_json([name, comparable(arguments)]))
    except Exception:  # noqa: BLE001 - whatever the arguments are
        return None


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_to_json = json.JSONEncoder(sort_keys=True, default=repr).encode
