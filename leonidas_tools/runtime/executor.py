"""Run calls, each in its own task; all calls pass through the executor."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self
from weakref import WeakSet

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.question import Asking
from leonidas_tools.calls.call import (
    ResultStatus,
    ToolCall,
    ToolResult,
    are_too_large,
    cheap_hash,
    too_large,
)
from leonidas_tools.calls.events import EventKind, Sink, ToolEvent
from leonidas_tools.calls.invocation import (
    Invocation,
    Invocations,
    OnEnd,
    current,
    ending_kind,
    innermost,
)
from leonidas_tools.calls.loop_watch import LoopWatch
from leonidas_tools.calls.open_calls import OpenCalls
from leonidas_tools.calls.records import record
from leonidas_tools.errors import ToolError, ToolValidationError
from leonidas_tools.json_schema import ArgumentValidator
from leonidas_tools.policies import loop_guard
from leonidas_tools.policies.call_limits import too_many_at_once
from leonidas_tools.policies.lane import Lane, Turn
from leonidas_tools.policies.loop_guard import LoopHistory
from leonidas_tools.results.similar import clearly_closest
from leonidas_tools.results.texts import join, say
from leonidas_tools.rules.rule import CONFIRM
from leonidas_tools.runtime.compiler import Compiler
from leonidas_tools.session.tasks import TaskList
from leonidas_tools.settings.effective import effect_of, quarantine_result, refusal_of
from leonidas_tools.settings.models import Settings
from leonidas_tools.tools.metadata import ToolEffect
from leonidas_tools.workers.threads import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.calls.call import Run, ToolSession
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.policies.cache import ResultCache
    from leonidas_tools.settings.tool_configuration import ToolConfiguration
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry


_DECIDABLE = frozenset(
    {
        ResultStatus.FAILED,
        ResultStatus.TIMEOUT,
        ResultStatus.UNAVAILABLE,
        ResultStatus.UNKNOWN_OUTCOME,
        ResultStatus.CANCELLED,
    }
)
"""Statuses after which a person may retry or skip the call."""
_MAX_FAILURES = 64


@record
class _Failure:
    """A call that has failed."""

    call: ToolCall
    result: ToolResult
    sinks: tuple[Sink, ...]


class _Failures:
    """The last failed calls of a session, by trace id, until a person decides about them."""

    def __init__(self) -> None:
        self.calls: OrderedDict[str, _Failure] = OrderedDict()

    def keep(self, failure: _Failure) -> None:
        """Keep a failure, and drop the oldest one if there are too many."""
        self.calls[failure.call.trace_id] = failure
        if len(self.calls) > _MAX_FAILURES:
            self.calls.popitem(last=False)


class Executor:
    """Runs the calls of all streams and callers.

    Without `approval`, the answer to a question comes later, by voice or by `Approvals.decide`.
    `save` stores an "always" in the settings file.

    Example:
        >>> from leonidas_tools.tools.registry import ToolRegistry
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> registry = ToolRegistry([add])
        >>> executor = Executor(registry)
        >>> call = ToolCall(name="add", arguments={"a": 1, "b": 2}, tool=registry["add"])
        >>> asyncio.run(executor.run(call)).result
        3
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        settings: Settings | None = None,
        policies: Sequence[Policy] = (),
        sinks: Sequence[Sink] = (),
        approval: Channel | None = None,
        save: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> None:
        settings = settings or Settings()
        limits = settings.policies
        self.registry = registry
        self.host: object = None
        """The runtime of this executor; a tool that uses other tools finds it by its call."""
        self.sinks = tuple(sinks)
        self.workers = Workers(threads=limits.threads, processes=limits.processes)
        self._compiler = Compiler(
            registry,
            settings=settings,
            policies=policies,
            workers=self.workers,
            asking=Asking(
                runner=self, channel=approval, by_voice=self._can_ask_by_voice, save=save
            ),
        )
        self._invocations = Invocations()
        self._uncounted = OpenCalls(-math.inf)
        self._sessions_with_failures: WeakSet[ToolSession] = WeakSet()
        self._users = 0
        self._loop_watch: LoopWatch | None = None

    @property
    def settings(self) -> Settings:
        """Return the settings of the calls that start now."""
        return self._compiler.settings

    @property
    def cache(self) -> ResultCache:
        """Return the cache of the results of reads."""
        return self._compiler.shared.cache

    @property
    def breakers(self) -> dict[str, str]:
        """Return the state of every circuit breaker: `closed`, `open` or `half_open`."""
        breakers = self._compiler.shared.breakers
        return {name: breaker.state.value for name, breaker in breakers.items()}

    def apply(self, settings: Settings) -> None:
        """Apply other settings to the calls that start from now on."""
        self._compiler.apply(settings)

    def start(
        self,
        call: ToolCall,
        on_end: OnEnd | None,
        sinks: tuple[Sink, ...] = (),
        run: Run | None = None,
    ) -> Invocation:
        """Start a call in its own task; `run` replaces the run of its tool."""
        sinks = sinks or self.sinks
        settings, whole, refusal = self._compiler.settings, call, None
        is_counted = not call.by_program and innermost() is None  # made by no program and no tool
        open_calls = call.session.get(OpenCalls) if is_counted else self._uncounted
        is_full = open_calls.count >= (settings.policies.calls.at_once or math.inf)
        if is_full or are_too_large(call.arguments, settings.policies.max_argument_bytes):
            call, refusal = self._refuse_excessive(call, is_new=run is None and not call.retried)
        tasks = call.session.find(TaskList)
        if tasks is not None:
            sinks = tasks.tie(call, sinks)
        plan = self._compiler.plan(call)
        if refusal is not None:
            # The loop guard compares the arguments, which `call` may no longer have.
            run = partial(_refuse, result=self._resolve_result(whole, refusal))
        elif run is None:
            run = plan.run
        if call.stands_in:
            run = partial(_run_in_place, run=run)
        invocation = Invocation(call, run, on_end, sinks)
        invocation.host = self.host
        invocation.limits = plan.limits
        invocation.wording = settings.wording
        invocation.on_failure = self._keep_failure
        invocation.start(self._invocations, open_calls if refusal is None else self._uncounted)
        if self._loop_watch is not None:
            self._loop_watch.has_begun = True
            if not self._loop_watch.is_watching:
                self._loop_watch.wake()
        return invocation

    def end_unstarted(
        self, call: ToolCall, result: ToolResult, sinks: tuple[Sink, ...] = ()
    ) -> ToolResult:
        """End a call that did not start (unknown or disabled tool), and return its result."""
        result = self.reworded(self._resolve_result(call, result))
        call, _ = self._limit_arguments(call)
        event = ToolEvent(kind=ending_kind(result), call=call, result=result, seconds=0.0)
        for sink in self.with_sinks(sinks):
            sink(event)
        return result

    def _resolve_result(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return the result of a call that did not start, or the one of the loop guard."""
        guard = loop_guard.for_session(self._compiler.shared)
        if guard is None:
            return result
        if are_too_large(call.arguments, self.settings.policies.max_argument_bytes):
            # Large arguments are compared by a hash: they are not kept, and comparing them is slow.
            call = call.with_arguments({"hash": cheap_hash(call.arguments)})
        return guard.judge(call, result)

    def _refuse_excessive(
        self, call: ToolCall, *, is_new: bool
    ) -> tuple[ToolCall, ToolResult | None]:
        """Return a call that is too large or one too many, with its refusal.

        A call that is not new, such as one that a person retries, is never one too many.
        """
        call, refusal = self._limit_arguments(call)
        most = self.settings.policies.calls.at_once
        if refusal is None and is_new and most:
            refusal = too_many_at_once(most)
        return call, refusal

    def _limit_arguments(self, call: ToolCall) -> tuple[ToolCall, ToolResult | None]:
        """Return a call, without its arguments and with its refusal if they are too large.

        Policies, rules and sinks process arguments on the event loop, so their size is limited.
        """
        max_bytes = self.settings.policies.max_argument_bytes
        if not are_too_large(call.arguments, max_bytes):
            return call, None
        return call.with_arguments({}), too_large(call.name, max_bytes)

    def meant(self, call: ToolCall, known: ToolResult | None) -> tuple[ToolCall, ToolResult | None]:
        """Return the call that is meant, and its result if that is known and nothing runs.

        `known` is the result of the call itself, such as a refusal of its arguments.
        """
        if call.tool is not None:
            return call, known
        similar = self.similar(call) if known is None else None
        return (call, self.unknown(call)) if similar is None else (similar, None)

    def unknown(self, call: ToolCall) -> ToolResult:
        """Return the result of a call of an unknown tool, with the closest names."""
        closest = self.registry.suggestions(call.name)
        expected = self.registry.not_yet(call.name)
        if expected is not None:
            return replace(ToolResult.from_error(expected), valid_options=closest or None)
        hint = say("closest_tool", closest=closest[0]) if closest else None
        return ToolResult(
            status=ResultStatus.NOT_FOUND,
            message=join(say("unknown_tool", tool=call.name), hint),
            reason_code="unknown_tool",
            valid_options=closest or None,
        )

    def may_be_once(self, tool: AnyTool, settings: ToolConfiguration) -> bool:
        """Return whether a call or its fallbacks have an effect that must not happen twice."""
        own, configured = tool.metadata, settings.fallback_tools
        if (settings.effect or own.effect) is ToolEffect.ONCE:
            return True
        fallbacks = own.fallback_tools if configured is None else configured
        return bool(fallbacks) and any(
            effect_of(other, self.settings.for_tool(other.name, other.origin)) is ToolEffect.ONCE
            for other in map(self.registry.get, fallbacks)
            if other is not None
        )

    def similar(self, call: ToolCall) -> ToolCall | None:
        """Return a call of an unknown tool as a call of its clearly closest tool, if it may run.

        Only a tool that changes nothing may run so: a tool with a side effect is never guessed.
        """
        policies = self.settings.policies
        if (
            policies.similar_tool == "off"
            or self.registry.not_yet(call.name)
            or are_too_large(call.arguments, policies.max_argument_bytes)
        ):
            return None
        by_declared = {self.registry.declared_name(tool.name): tool for tool in self.registry}
        tool = by_declared.get(clearly_closest(call.name, by_declared) or "")
        if tool is None or tool.metadata.answers_questions:
            return None
        settings = self.settings.for_tool(tool.name, tool.origin)
        if effect_of(tool, settings) is not ToolEffect.READ or quarantine_result(tool) is not None:
            return None
        arguments = tool.own_arguments(call.arguments)
        if refusal_of(tool, settings) is not None or not _accepts(tool, arguments):
            return None
        return replace(
            call,
            name=tool.name,
            called_as=call.called_as or call.name,
            arguments=arguments,
            tool=tool,
            settings=settings,
            autonomous=False,  # allowed for the called tool only
            stands_in=True,
        )

    def reworded(self, result: ToolResult) -> ToolResult:
        """Return a result with the texts of the current settings."""
        wording = self.settings.wording
        return result if wording is None else result.reworded(wording)

    def renewed(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Return the call with a new number, and with the current tool and settings."""
        tool = self.registry.get(call.name)
        return replace(
            call,
            arguments=arguments,
            tool=tool,
            settings=self.settings.for_tool(call.name, None if tool is None else tool.origin),
            number=next(call.session.numbers),
        )

    def cancel(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """Stop a call by a person's decision; its result is sent once.

        A call whose side effect must not happen twice is stopped too; the result states if it is
        unknown whether it took effect. Calls that its tool has made are stopped with it. A thread
        cannot be stopped: its tool can check `ctx.cancelled`, and its return value is dropped.

        The returned future has the result of the call; it need not be awaited.

        Raises:
            ToolError: No such call runs, or several do.
        """
        return self._stop(self._find_running(call_id, session), "cancel")

    def retry(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """Retry a failed call by a person's decision.

        The call runs under all policies, with the current settings, even if its side effect must
        not happen twice. A decision applies to one run; if that fails, a person may decide again.
        The model receives the new result as one of a call that already has a result.

        The returned future has the result of the new run; it need not be awaited.

        Raises:
            ToolError: No such call has failed, a person has already decided, or several match.
        """
        failed = self._take_failure(call_id, session)
        # A call that ran without a question was allowed once: the rules may ask again.
        renewed = self.renewed(failed.call, failed.call.arguments)
        call = replace(renewed, autonomous=False, retried=True)
        ended: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()

        def on_end(_: object, result: ToolResult) -> None:
            message = join(say("tried_again", tool=call.name), result.message)
            self._send_late(failed.call, replace(result, message=message))
            if not ended.done():
                ended.set_result(result)

        if call.tool is None:
            on_end(None, self.end_unstarted(call, self.unknown(call), failed.sinks))
            return ended
        history = call.session.find(LoopHistory)
        if history is not None:
            history.forget()  # the user wants it once more
        desk = call.session.find(Approvals)
        if desk is not None:
            desk.tell_running(failed.call)
        invocation = self.start(call, on_end, failed.sinks)
        was = failed.result.status.value
        invocation.emit(EventKind.RETRY, attempt=1, delay_seconds=0.0, error=was, by="person")
        return ended

    def skip(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """Skip a call by a person's decision; stop the call if it runs.

        The returned future has the result for the model; it need not be awaited.

        Raises:
            ToolError: No such call runs or has failed, or several match.
        """
        if any(_is_named(each.call, call_id, session) for each in self._open_calls()):
            return self._stop(self._find_running(call_id, session), "skip")
        failed = self._take_failure(call_id, session)
        result = ToolResult(
            status=ResultStatus.CANCELLED,
            message=say("skipped", tool=failed.call.name),
            reason_code="skipped",
        )
        result = self.reworded(result)
        event = ToolEvent(kind=EventKind.SKIP, call=failed.call, data={"by": "person"})
        for sink in failed.sinks:
            sink(event)
        self._send_late(failed.call, result)
        ended: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        ended.set_result(result)
        return ended

    def _open_calls(self) -> list[Invocation]:
        return [each for each in self._invocations if not each.ended]

    def _keep_failure(self, invocation: Invocation, result: ToolResult) -> None:
        """Keep a failed call, so that a person can decide about it."""
        call = invocation.call
        if result.status not in _DECIDABLE or not invocation.wanted or invocation.outer is not None:
            return
        if call.tool is None or call.tool.metadata.answers_questions:
            return
        if invocation.stopped_by == "skip":
            return
        kept = _Failure(call=call, result=result, sinks=invocation.sinks)
        call.session.get(_Failures).keep(kept)
        self._sessions_with_failures.add(call.session)

    def failures(self) -> list[tuple[ToolCall, ToolResult]]:
        """Return the failed calls about which a person may still decide, with their results."""
        sessions = tuple(self._sessions_with_failures)
        return [(f.call, f.result) for one in sessions for f in one.get(_Failures).calls.values()]

    def _take_failure(self, call_id: str, session: ToolSession | None) -> _Failure:
        """Remove and return the failed call with this id: a person can decide only once."""
        sessions = tuple(self._sessions_with_failures) if session is None else (session,)
        known = [each for one in sessions for each in one.get(_Failures).calls.values()]
        found = [each for each in known if _is_named(each.call, call_id, session)]
        traces = [each.call.trace_id for each in found]
        if len(found) > 1:
            raise _ambiguous_error(call_id, traces)
        if not found:
            raise ToolError(
                say("unknown_failed_call", call=call_id),
                status="not_found",
                reason_code="unknown_call",
                valid_options=[each.call.trace_id for each in known] or None,
            )
        del found[0].call.session.get(_Failures).calls[traces[0]]
        return found[0]

    def _stop(self, invocation: Invocation, decision: str) -> asyncio.Future[ToolResult]:
        answer = invocation.stop_for(decision)
        for each in tuple(self._invocations):
            if not each.ended and each.is_made_by(invocation):
                each.stop_for(decision)
        return answer

    def _send_late(self, call: ToolCall, result: ToolResult) -> None:
        """Send the new result of a call to the model of its session, if there is one."""
        desk = call.session.find(Approvals)
        if desk is not None:
            desk.tell(call, self.reworded(result))

    def _find_running(self, call_id: str, session: ToolSession | None) -> Invocation:
        """Return the running call with this id."""
        running = [e for e in self._open_calls() if session in (None, e.call.session)]
        named = [each for each in running if _is_named(each.call, call_id, session)]
        # A call that was edited, or whose settings changed, runs anew inside the one that asks.
        found = [e for e in named if not any(other.is_made_by(e) for other in named)]
        if len(found) == 1:
            return found[0]
        if found:
            raise _ambiguous_error(call_id, [each.call.trace_id for each in found])
        raise ToolError(
            say("unknown_call", call=call_id),
            status="not_found",
            reason_code="unknown_call",
            valid_options=[each.call.trace_id for each in running] or None,
        )

    async def ask_again(self, call: ToolCall, approval_id: str, digest: str) -> ToolResult:
        """Ask a person about a call that another process has asked about, without running it.

        The question keeps the id that it had there; a call of another hash is not asked about.
        """
        desk = call.session.get(Approvals)
        desk.expect(call.number, approval_id, digest)
        try:
            return await self.run(call, run=self._compiler.asking(call))
        finally:
            desk.take_moved(call.number)

    async def run(
        self,
        call: ToolCall,
        sinks: tuple[Sink, ...] = (),
        run: Run | None = None,
        *,
        instead_of: Invocation | None = None,
        on_left: Callable[[ToolResult], None] | None = None,
    ) -> ToolResult:
        """Run a call, and return its result; cancelling the wait cancels the call.

        If this call replaces another one, `instead_of`, cancelling that one cancels this one.
        `on_left` receives a result that comes after the wait was cancelled.
        """
        ended: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()

        def on_end(_: Invocation, result: ToolResult) -> None:
            if not ended.done():
                ended.set_result(result)
            elif on_left is not None:
                on_left(result)

        invocation = self.start(call, on_end, sinks, run)
        if instead_of is not None:
            instead_of.copy = invocation
        try:
            return await ended
        except asyncio.CancelledError:
            invocation.cancel()
            if on_left is not None and not ended.cancelled():  # it has just ended
                on_left(ended.result())
            raise
        finally:
            if instead_of is not None:
                instead_of.copy, instead_of.begun = None, invocation.begun

    def outcome(self, call: ToolCall) -> Run | None:
        """Return a run that waits for a call of another process; `None` if the tool ran there."""
        return self._compiler.outcome(call)

    async def run_alone(
        self, call: ToolCall, sinks: tuple[Sink, ...] = (), *, run: Run | None = None
    ) -> ToolResult:
        """Run a call's tool once, without its policies, which ran in the calling process.

        Cancellation stops the tool, or returns its result if the tool succeeded first.
        """
        ended: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()

        def on_end(_: Invocation, result: ToolResult) -> None:
            if not ended.done():
                ended.set_result(result)

        run = self._compiler.alone(call) if run is None else run
        invocation = Invocation(call, run, on_end, sinks)
        invocation.host = self.host
        invocation.start(self._invocations, self._uncounted)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            result = await invocation.stop_for("cancel")
            if not result.ok:
                raise
            return result

    async def execute_turn(
        self, calls: Sequence[tuple[ToolCall, ToolResult | None]], *, concurrency: int = 8
    ) -> list[ToolResult]:
        """Run the calls of one turn, and return their results in the order of the calls.

        Reads run concurrently. A call that changes something waits for all calls before it, and all
        calls after it wait for it, in any lane. Cancellation cancels the calls.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {concurrency!r}")
        lane, places = Lane(), asyncio.Semaphore(concurrency)

        async def run(call: ToolCall, known: ToolResult | None) -> ToolResult:
            call, known = self.meant(call, known)
            if known is not None:
                return self.end_unstarted(call, known)
            turn = Turn(lane, write=not self._compiler.plan(call).is_read)
            if not lane.enter_now(turn):
                await lane.enter(turn)
            try:
                async with places:
                    return await self.run(call)
            finally:
                turn.leave()

        async with asyncio.TaskGroup() as group:
            running = [group.create_task(run(*each)) for each in calls]
        return [task.result() for task in running]

    @property
    def loop_lag_seconds(self) -> float | None:
        """Return the longest time in seconds that the event loop was blocked while calls ran."""
        return self._loop_watch.longest_lag_seconds if self._loop_watch is not None else None

    async def __aenter__(self) -> Self:
        """Prepare engines and worker processes, and watch the loop, until the last user exits."""
        if not self._users:
            await self._compiler.prepare()
        self._users += 1
        if self._loop_watch is None:
            self._loop_watch = LoopWatch(lambda: bool(self._invocations))
            self.workers.processes.prepare(
                tool.function for tool in self.registry if tool.metadata.cpu_bound
            )
        return self

    async def __aexit__(self, *error: object) -> None:
        """Remove a user; after the last one, stop the running calls and the workers."""
        self._users -= 1
        if not self._users:
            await self._close()

    def with_sinks(self, sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
        """Return the executor's sinks and these, without duplicates."""
        return self.sinks + tuple(sink for sink in sinks if sink not in self.sinks)

    def _can_ask_by_voice(self) -> bool:
        """Return whether the model can ask the user a question, and report the answer."""
        tool = self.registry.get(CONFIRM)
        return tool is not None and tool.metadata.answers_questions

    async def _close(self) -> None:
        tasks = [task for invocation in tuple(self._invocations) if (task := invocation.stop())]
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
        for invocation in tuple(self._invocations):
            invocation.end_abandoned()
        if self._loop_watch is not None:
            self._loop_watch.stop()
            self._loop_watch = None
        await self._compiler.engines.aclose()
        await self.workers.close()


async def _run_in_place(call: ToolCall, *, run: Run) -> ToolResult:
    """Run a call in place of a call of an unknown tool, and add a message about it."""
    data = {"strategy": "similar_tool", "error": "unknown_tool", "to": call.name}
    current().emit(EventKind.FALLBACK, **data)
    result = await run(call)
    message = say("similar_tool", called=call.called_as, tool=call.name)
    return replace(result, message=join(message, result.message))


async def _refuse(_: ToolCall, *, result: ToolResult) -> ToolResult:
    return result


def _accepts(tool: AnyTool, arguments: Mapping[str, Any]) -> bool:
    """Return whether the tool's schema names all the arguments and accepts them unchanged."""
    parameters = tool.metadata.parameters
    if not arguments.keys() <= parameters.get("properties", {}).keys():
        return False
    validate = ArgumentValidator(parameters)
    try:
        validate(arguments)  # raises if the validation would take too long
        return validate.is_valid(arguments)
    except ToolValidationError:
        return False


def _is_named(call: ToolCall, call_id: str, session: ToolSession | None) -> bool:
    """Return whether an id belongs to a call, in this session or in any."""
    return call_id in (call.id, call.trace_id) and session in (None, call.session)


def _ambiguous_error(call_id: str, options: list[str]) -> ToolError:
    return ToolError(
        say("ambiguous_call", call=call_id),
        status="invalid_argument",
        reason_code="ambiguous_call",
        valid_options=options,
    )
