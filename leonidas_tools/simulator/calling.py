"""Calls of functions and their answers, as a scenario makes and awaits them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from leonidas_tools.simulator.exchange import Exchange, StepFailedError

if TYPE_CHECKING:
    from leonidas_tools.simulator.function_call import FunctionCall
    from leonidas_tools.simulator.recording import Answer
    from leonidas_tools.simulator.wire import Message

WAIT_SECONDS: Final = 10.0


class Calling(Exchange):
    """The calls of a session, and the handles that come and go with them."""

    async def call(
        self, *calls: FunctionCall, within_seconds: float = WAIT_SECONDS
    ) -> tuple[Answer, ...]:
        """Call functions in one message and waits for their answers, in the order of the calls.

        Raises:
            StepFailedError: An answer did not come in time.
        """
        ids = await self.send_calls(*calls)
        named = [call_id for call_id in ids if call_id is not None]
        return await self.wait_for_answers(*named, within_seconds=within_seconds)

    async def send_calls(
        self, *calls: FunctionCall, in_model_turn: bool = False
    ) -> tuple[str | None, ...]:
        """Call functions in one message, and returns their ids without waiting.

        Args:
            calls: The calls.
            in_model_turn: Send them as parts of a model turn instead of a tool call.

        Raises:
            StepFailedError: The client declared no such function.
        """
        for call in calls:
            self._require_declared(call)
        first = self._calls_sent + 1
        bodies = [call.to_wire(first + index) for index, call in enumerate(calls)]
        for body in bodies:
            self._note_call(body, id_sent=self._quirks.call_ids)
        wire = bodies if self._quirks.call_ids else [_without_id(body) for body in bodies]
        if in_model_turn:
            parts = [{"functionCall": body} for body in wire]
            await self._line.send(
                {"serverContent": {"modelTurn": {"role": "model", "parts": parts}}}
            )
        else:
            await self._line.send({"toolCall": {"functionCalls": wire}})
        await self._offer_handle()
        return tuple(body.get("id") for body in bodies)

    def _require_declared(self, call: FunctionCall) -> None:
        if call.undeclared or call.name in self._declared:
            return
        close = get_close_matches(call.name, self._declared, n=1)
        hint = f"the closest is {close[0]!r}" if close else f"it declared {sorted(self._declared)}"
        raise StepFailedError(
            f"the client declared no function {call.name!r}; {hint}. "
            "Add the tool to the session, or write `undeclared: true` in the step to call it anyway"
        )

    async def cancel(self, *ids: str) -> None:
        """Take calls back.

        Raises:
            StepFailedError: The client never learned the id of one.
        """
        for call_id in ids:
            record = self._ledger.find(self.number, call_id)
            if record is not None and not record.id_sent:
                raise StepFailedError(f"call {call_id!r} was sent without its id")
        await self.send({"toolCallCancellation": {"ids": list(ids)}})

    async def wait_for_answers(
        self, *ids: str, within_seconds: float = WAIT_SECONDS
    ) -> tuple[Answer, ...]:
        """Wait until calls have their final answers, and returns those.

        Args:
            ids: The calls; without any, all that are pending.
            within_seconds: How long to wait.

        Raises:
            StepFailedError: An answer did not come in time, or there is no such call.
        """
        wanted = ids or self.pending
        for call_id in wanted:
            self._record(call_id)

        def missing() -> list[str]:
            return [each for each in wanted if not self._record(each).final_answers]

        await self._until(
            lambda: not missing(),
            within_seconds,
            lambda: f"no answer to {', '.join(map(repr, missing()))}",
        )
        return tuple(self._record(call_id).final_answers[0] for call_id in wanted)

    async def expect(
        self,
        call_id: str,
        *,
        status: str | None = None,
        response: Mapping[str, Any] | None = None,
        within_seconds: float = WAIT_SECONDS,
    ) -> Answer:
        """Wait for the answer to a call and checks it.

        Args:
            call_id: The call.
            status: What its `status` is to be.
            response: What is to be in it; other keys are allowed, at every depth.
            within_seconds: How long to wait for it.

        Raises:
            StepFailedError: The answer is another, or did not come.
        """
        (answer,) = await self.wait_for_answers(call_id, within_seconds=within_seconds)
        if status is not None and answer.status != status:
            found = json.dumps(answer.response, ensure_ascii=False)[:300]
            raise StepFailedError(f"the status is {answer.status!r}, not {status!r}: {found}")
        if response is not None and (difference := difference_of(response, answer.response)):
            raise StepFailedError(difference)
        return answer

    # Resumption.

    async def session_resumption(
        self, handle: str | None = None, *, resumable: bool | None = None
    ) -> None:
        """Send the handle with which the session can be resumed.

        Args:
            handle: The handle; None if the session cannot be resumed at this moment.
            resumable: Whether it can be; by default, whether there is a handle.
        """
        update: Message = {}
        if handle is not None:
            self._line.issue_handle(handle)
            update["newHandle"] = handle
        update["resumable"] = handle is not None if resumable is None else resumable
        await self.send({"sessionResumptionUpdate": update})

    async def _offer_handle(self) -> None:
        """Tell whether the session can be resumed, where servers do so by themselves."""
        if not self._quirks.automatic_handles or "sessionResumption" not in self.setup:
            return
        await self.session_resumption(None if self._pending() else self._line.new_handle())

    async def answered(self) -> None:
        """Do what a server does when answers have come."""
        if not self._pending():
            await self._offer_handle()


def _without_id(body: Message) -> Message:
    return {key: value for key, value in body.items() if key != "id"}


def difference_of(wanted: Any, found: Any, path: str = "response") -> str:
    """Return where a value lacks what is wanted of it; empty if it has it all.

    Example:
        >>> difference_of({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}})
        ''
        >>> difference_of({"a": {"b": 1}}, {"a": {"b": 2}})
        'response.a.b is 2, not 1'
    """
    if not isinstance(wanted, Mapping):
        return "" if wanted == found else f"{path} is {found!r}, not {wanted!r}"
    if not isinstance(found, Mapping):
        return f"{path} is {found!r}, not an object"
    for key, value in wanted.items():
        if key not in found:
            return f"{path} has no {key!r}"
        if difference := difference_of(value, found[key], f"{path}.{key}"):
            return difference
    return ""
