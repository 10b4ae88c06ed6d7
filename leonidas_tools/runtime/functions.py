"""Run functions of each kind: coroutines, threads, processes, generators."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls.call import ToolCall, ToolResult
from leonidas_tools.calls.context import ToolContext, is_foreign
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.invocation import current
from leonidas_tools.calls.sendable import is_long
from leonidas_tools.engines.base import Code, EngineCall
from leonidas_tools.errors import ToolError
from leonidas_tools.results.plain import NotPlainError, length, plain
from leonidas_tools.results.texts import say
from leonidas_tools.tools.tool import kind_of
from leonidas_tools.workers.portable import target_of
from leonidas_tools.workers.processes import ProcessDiedError, leased

if TYPE_CHECKING:
    from leonidas_tools.engines.base import Engine, EngineLimits
    from leonidas_tools.tools.tool import Tool
    from leonidas_tools.workers.threads import Workers

CallFunction: TypeAlias = Callable[[ToolCall, ToolContext | None], Awaitable[Any]]
"""Runs a tool's function with a call's arguments."""

_PLAIN = frozenset({str, dict, list, int, float, bool, type(None)})
_MAX_ITEMS = 100_000
"""Maximum items read from an iterator, which may never end; a result would be cut anyway."""


def caller(
    tool: Tool[..., Any],
    workers: Workers,
    *,
    max_bytes: int,
    collect: bool = False,
) -> CallFunction:
    """Return a function that runs a tool in this process or in one of its child processes."""
    collected = partial(Collected, max_bytes) if collect else LastValue
    function, bind = tool.function, _build_binder(tool)
    match kind_of(function):
        case "async":
            return _call_on_loop(function, bind)
        case "async generator":
            return _stream_on_loop(function, bind, workers, collected)
        case "generator":
            return _stream_in_thread(function, bind, workers, collected)
        case _ if tool.metadata.cpu_bound:
            return _call_in_process(bind, max_bytes)
        case _:
            return _call_in_thread(function, bind, workers)


Bind: TypeAlias = Callable[[ToolCall, ToolContext | None], tuple[tuple[Any, ...], dict[str, Any]]]


def _build_binder(tool: Tool[..., Any], *, inject: bool = True) -> Bind:
    signature = tool.signature
    convert, injected = signature.convert, signature.context_parameter if inject else None
    positional = signature.positional

    def bind(call: ToolCall, context: ToolContext | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = _copy_arguments(call.arguments)
        arguments = given if convert is None else convert(given)
        if injected is not None:
            arguments[injected] = context
        if not positional:
            return (), arguments
        return tuple(arguments.pop(name) for name in positional if name in arguments), arguments

    return bind


_BRANCHES = frozenset({list, dict})


def _copy_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of arguments, whose lists and dicts a tool may change."""
    copied = dict(arguments)
    if _BRANCHES.isdisjoint(map(type, copied.values())):  # the usual case
        return copied
    parts: list[Any] = [copied]
    while parts:
        part = parts.pop()
        for place, each in [*(part.items() if type(part) is dict else enumerate(part))]:
            if type(each) in _BRANCHES:
                part[place] = each.copy()
                parts.append(part[place])
    return copied


def _call_on_loop(function: Callable[..., Any], bind: Bind) -> CallFunction:
    async def run(call: ToolCall, context: ToolContext | None) -> Any:
        args, kwargs = bind(call, context)
        value = await function(*args, **kwargs)
        return await _collect(value) if type(value) is AsyncGeneratorType else value

    return run


def _call_in_thread(function: Callable[..., Any], bind: Bind, workers: Workers) -> CallFunction:
    async def run(call: ToolCall, context: ToolContext | None) -> Any:
        args, kwargs = bind(call, context)
        value = await workers.in_thread(_call, function, args, kwargs)
        if type(value) is _Awaitable:
            value = await value.value
        return await _collect(value) if type(value) is AsyncGeneratorType else value

    return run


async def _collect(values: AsyncGeneratorType[Any, Any]) -> list[Any]:
    """Return the values of an async generator that a function has returned."""
    found: list[Any] = []
    async with aclosing(values):
        async for value in values:
            found.append(value)
            if len(found) == _MAX_ITEMS:
                break
            await asyncio.sleep(0)  # it may never wait by itself
    return found


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function, and read the iterator that it may return in the same thread."""
    value = function(*args, **kwargs)
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Iterator):
        return list(itertools.islice(value, _MAX_ITEMS))
    return _Awaitable(value) if inspect.isawaitable(value) else value


@dataclass(frozen=True, slots=True)
class _Awaitable:
    """An awaitable that a function returned, to be awaited on the event loop.

    The check for an awaitable may run the value's own code, so it runs in the thread.
    """

    value: Awaitable[Any]


def _call_in_process(bind: Bind, max_bytes: int) -> CallFunction:
    async def run(call: ToolCall, context: ToolContext | None) -> Any:
        args, kwargs = bind(call, context)
        # Twice the limit: the value is cut again after its secrets are masked.
        longest = max_bytes * 2
        try:
            return await leased.get()(args, kwargs, call.name, longest)
        except ProcessDiedError:
            raise _worker_died(call.name, begun=current().begun) from None

    return run


def code_of(tool: Tool[..., Any], *, collect: bool, resources: Mapping[str, float]) -> Code:
    """Return the code of a tool for an engine, which passes its own context to the tool."""
    bind = _build_binder(tool, inject=False)
    return Code(
        # Resolved at the first call: the module may not be fully imported at compile time.
        target=functools.cache(partial(target_of, tool.function)),
        bind=lambda call: bind(call, None),
        context=tool.signature.context_parameter,
        collect=collect,
        resources=resources,
    )


def on_engine(
    engine: Callable[[], Awaitable[Engine]],
    tool: Tool[..., Any],
    code: Code,
    limits: EngineLimits,
    *,
    is_begun: bool = False,
) -> CallFunction:
    """Return a function that runs a tool on an engine, or waits for its running call there."""
    reports = takes_context(tool)

    async def run(call: ToolCall, context: ToolContext | None) -> Any:
        assert context is not None
        invocation = current()
        work = EngineCall(
            call=call,
            code=code,
            limits=limits,
            user=user_of(call.session),
            parameters=context.parameters,
            progress=partial(context.emit, EventKind.PROGRESS) if reports else None,
            is_leaving=lambda: invocation.is_left,
        )
        runs = await engine()
        return await (runs.outcome(work) if is_begun else runs.run(work))

    return run


def _worker_died(tool: str, *, begun: bool) -> ToolError:
    if begun:
        message = say("worker_died_unknown", tool=tool)
        return ToolError(message, status="unknown_outcome", reason_code="worker_died")
    message = say("worker_died", tool=tool)
    return ToolError(message, status="unavailable", retryable=True, reason_code="worker_died")


class LastValue:
    """The values of a generator, of which the last is the result."""

    __slots__ = ("last",)
    measures = False
    """True if `take` measures the values, which may take long or run their own code."""

    def __init__(self) -> None:
        self.last: Any = None

    def take(self, value: Any) -> None:
        """Record the next value."""
        self.last = value

    def result(self) -> Any:
        """Return the result of the tool."""
        return self.last


class Collected(LastValue):
    """All values of a generator, up to a size."""

    __slots__ = ("_bytes_left", "_count", "_values")
    measures = True

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._bytes_left = max_bytes
        self._count = 0
        self._values: list[Any] = []

    def take(self, value: Any) -> None:
        """Record the next value, and only measure it, since masking comes before cutting."""
        self.last = value
        self._count += 1
        if self._bytes_left > 0:
            self._values.append(value)
            self._bytes_left -= _length(value, self._bytes_left)

    def result(self) -> Any:
        """Return the list of values, with a message if values are missing."""
        kept = len(self._values)
        if kept == self._count:
            return self._values
        message = say("first_values", kept=kept, count=self._count)
        return ToolResult(result=self._values, message=message)


def _length(value: Any, max_bytes: int) -> int:
    """Return the approximate length of a value as JSON; 1 if it has no JSON form."""
    try:
        shown, cut = plain(value, max_bytes)
    except NotPlainError:
        return 1  # the result reports the problem
    return max_bytes if cut else length(shown) + 1


def _stream_on_loop(
    function: Callable[..., AsyncIterator[Any]],
    bind: Bind,
    workers: Workers,
    collected: Callable[[], LastValue],
) -> CallFunction:
    async def run(call: ToolCall, context: ToolContext | None) -> Any:
        assert context is not None
        args, kwargs = bind(call, context)
        values = collected()
        first = True
        stream = function(*args, **kwargs)
        try:
            async for value in stream:
                if not first:
                    if is_foreign(values.last):
                        await workers.in_thread(_report, context, values.last)
                    else:
                        _report(context, values.last)
                        await asyncio.sleep(0)  # the generator may never wait by itself
                first = False
                if values.measures and is_long(value):
                    await workers.in_thread(values.take, value)
                else:
                    values.take(value)
        finally:
            if inspect.isasyncgen(stream):
                await stream.aclose()
        return values.result()

    return run


def _stream_in_thread(
    function: Callable[..., Iterator[Any]],
    bind: Bind,
    workers: Workers,
    collected: Callable[[], LastValue],
) -> CallFunction:
    async def run(call: ToolCall, context: ToolContext | None) -> Any:
        assert context is not None
        args, kwargs = bind(call, context)
        return await workers.in_thread(_drain, function, args, kwargs, context, collected())

    return run


def _drain(
    function: Callable[..., Iterator[Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    context: ToolContext,
    values: LastValue,
) -> Any:
    """Run a generator to its end or until the call is cancelled, and return its result."""
    stream = function(*args, **kwargs)
    for number, value in enumerate(stream):
        if context.cancelled:
            if inspect.isgenerator(stream):
                stream.close()
            break
        if number:
            _report(context, values.last)
        values.take(value)
    return values.result()


def _report(context: ToolContext, value: Any) -> None:
    """Report a value that a generator yielded before its last."""
    context.progress(**{"message" if issubclass(type(value), str) else "value": value})


def undo_function(tool: Tool[..., Any]) -> Callable[[ToolCall], Any] | None:
    """Return a function that undoes a call of the tool, given its arguments, if there is one."""
    undo = tool.undo
    if undo is None:
        return None
    bind = _build_binder(tool, inject=False)

    def undo_call(call: ToolCall) -> Any:
        args, kwargs = bind(call, None)
        return undo(*args, **kwargs)

    return undo_call


def runs_in_thread(tool: Tool[..., Any]) -> bool:
    """Return whether the tool's code needs a thread, since it would block the event loop."""
    return kind_of(tool.function) in ("sync", "generator")


def takes_context(tool: Tool[..., Any]) -> bool:
    """Return whether running the tool needs a `ToolContext`."""
    return tool.signature.context_parameter is not None or "generator" in kind_of(tool.function)
