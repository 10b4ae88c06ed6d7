"""How a function of each kind is run: coroutines, threads, processes, generators."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls import ToolCall
from leonidas_tools.context import ToolContext

if TYPE_CHECKING:
    from leonidas_tools.tool import Tool
    from leonidas_tools.workers import Workers

Call: TypeAlias = Callable[[ToolCall, ToolContext | None], Awaitable[Any]]
"""Runs a tool's function with a call's arguments."""

_MOST_ITEMS = 100_000
"""More would be cut from an answer anyway, and an iterator may never end."""


def caller(tool: Tool[..., Any], workers: Workers) -> Call:
    """How to run the function of a tool, decided once.

    Args:
        tool: The tool.
        workers: Where functions run that are not coroutines.
    """
    function, bind = tool.function, _binder(tool)
    match kind_of(function):
        case "async":
            return _calling(function, bind)
        case "async generator":
            return _streaming(function, bind)
        case "generator":
            return _streaming_in_thread(function, bind, workers)
        case _ if tool.metadata.cpu_bound:
            return _calling_in_process(function, bind, workers)
        case _:
            return _calling_in_thread(function, bind, workers)


def kind_of(function: Callable[..., Any]) -> str:
    """`async`, `async generator`, `generator` or `sync`; looks through partials and objects."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = function.__call__  # type: ignore[operator]  # an object that is callable
    if inspect.iscoroutinefunction(function):
        return "async"
    if inspect.isasyncgenfunction(function):
        return "async generator"
    return "generator" if inspect.isgeneratorfunction(function) else "sync"


Bind: TypeAlias = Callable[[ToolCall, ToolContext | None], tuple[tuple[Any, ...], dict[str, Any]]]


def _binder(tool: Tool[..., Any], *, inject: bool = True) -> Bind:
    signature = tool.signature
    convert, injected = signature.convert, signature.context_parameter if inject else None
    positional = signature.positional

    def bind(call: ToolCall, context: ToolContext | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arguments = dict(call.arguments) if convert is None else convert(call.arguments)
        if injected is not None:
            arguments[injected] = context
        if not positional:
            return (), arguments
        return tuple(arguments.pop(name) for name in positional if name in arguments), arguments

    return bind


def _calling(function: Callable[..., Any], bind: Bind) -> Call:
    async def run(call: ToolCall, context: ToolContext | None) -> Any:
        args, kwargs = bind(call, context)
        return await function(*args, **kwargs)

    return run


def _calling_in_thread(function: Callable[..., Any], bind: Bind, workers: Workers) -> Call:
    async def run(call: ToolCall, context: ToolContext | None) -> Any:
        args, kwargs = bind(call, context)
        value = await workers.in_thread(_call, function, args, kwargs)
        return await value if inspect.isawaitable(value) else value

    return run


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Calls a function, and in the same thread goes through the iterator it may return."""
    value = function(*args, **kwargs)
    return list(itertools.islice(value, _MOST_ITEMS)) if isinstance(value, Iterator) else value


def _calling_in_process(function: Callable[..., Any], bind: Bind, workers: Workers) -> Call:
    function = _portable(function)

    async def run(call: ToolCall, context: ToolContext | None) -> Any:
        args, kwargs = bind(call, context)
        return await workers.in_process(function, *args, **kwargs)

    return run


def _portable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as another process finds it: under a decorated one's name stands its tool."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module is None or name is None:
        return function
    found = _found(module, name)
    return _ByName(module, name) if getattr(found, "function", None) is function else function


def _found(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for step in name.split("."):
        found = getattr(found, step, None)
    return found


@dataclass(frozen=True, slots=True)
class _ByName:
    """The function of the tool that has this name in this module, in whatever process."""

    module: str
    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _found(self.module, self.name).function(*args, **kwargs)


def _streaming(function: Callable[..., AsyncIterator[Any]], bind: Bind) -> Call:
    async def run(call: ToolCall, context: ToolContext | None) -> Any:
        assert context is not None
        args, kwargs = bind(call, context)
        last: Any = None
        first = True
        stream = function(*args, **kwargs)
        try:
            async for value in stream:
                if not first:
                    _tell(context, last)
                    await asyncio.sleep(0)  # it may never wait by itself
                last, first = value, False
        finally:
            if inspect.isasyncgen(stream):
                await stream.aclose()
        return last

    return run


def _streaming_in_thread(
    function: Callable[..., Iterator[Any]], bind: Bind, workers: Workers
) -> Call:
    async def run(call: ToolCall, context: ToolContext | None) -> Any:
        assert context is not None
        args, kwargs = bind(call, context)
        return await workers.in_thread(_drain, function, args, kwargs, context)

    return run


def _drain(
    function: Callable[..., Iterator[Any]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    context: ToolContext,
) -> Any:
    """Runs a generator to its end, or until nobody wants it any more; returns the last value."""
    last: Any = None
    stream = function(*args, **kwargs)
    for number, value in enumerate(stream):
        if context.cancelled:
            if inspect.isgenerator(stream):
                stream.close()
            break
        if number:
            _tell(context, last)
        last = value
    return last


def _tell(context: ToolContext, value: Any) -> None:
    """Reports a value that a generator has yielded before its last."""
    context.progress(**{"message" if isinstance(value, str) else "value": value})


def undoing(tool: Tool[..., Any]) -> Callable[[ToolCall], Any] | None:
    """What takes back a call of the tool, given the same arguments, if there is anything."""
    undo = tool.undo
    if undo is None:
        return None
    bind = _binder(tool, inject=False)

    def take_back(call: ToolCall) -> Any:
        args, kwargs = bind(call, None)
        return undo(*args, **kwargs)

    return take_back


def runs_in_thread(tool: Tool[..., Any]) -> bool:
    """Whether the tool's code is made for a thread, and would hold the loop."""
    return kind_of(tool.function) in ("sync", "generator")


def takes_context(tool: Tool[..., Any]) -> bool:
    """Whether running the tool needs a `ToolContext`."""
    return tool.signature.context_parameter is not None or "generator" in kind_of(tool.function)
