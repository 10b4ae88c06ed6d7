"""`Tool`: metadata and a function. `@tool` creates one from a signature and a docstring."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from leonidas_tools.errors import SchemaError
from leonidas_tools.json_schema import ArgumentValidator
from leonidas_tools.redaction import Redaction
from leonidas_tools.tools.metadata import (
    AfterUntrusted,
    OnCancel,
    Overflow,
    RunsOn,
    Scheduling,
    ToolBehavior,
    ToolCategory,
    ToolEffect,
    ToolMetadata,
    ToolOptions,
    ToolOrigin,
    ToolPriority,
    ToolScheduling,
    ToolStatus,
    as_category,
    as_enum,
    check_options,
)
from leonidas_tools.tools.names import renamed_parameters
from leonidas_tools.tools.schema import Signature, read_json_schema, read_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "AfterUntrusted",
    "OnCancel",
    "Overflow",
    "RunsOn",
    "Scheduling",
    "Tool",
    "ToolBehavior",
    "ToolCategory",
    "ToolEffect",
    "ToolMetadata",
    "ToolOrigin",
    "ToolPriority",
    "ToolScheduling",
    "ToolStatus",
    "as_category",
    "as_enum",
    "as_tool",
    "as_tools",
    "tool",
]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


def _check_cpu_bound(name: str, function: Callable[..., Any], signature: Signature) -> None:
    """Raise `SchemaError` if the function cannot run in another process."""
    from leonidas_tools.workers.portable import why_not_portable  # only such tools need it

    if signature.context_parameter:
        raise SchemaError(
            f"{name!r} is cpu_bound and runs in another process, where no ToolContext reaches: "
            f"drop its parameter {signature.context_parameter!r}"
        )
    kinds = (
        inspect.iscoroutinefunction,
        inspect.isasyncgenfunction,
        inspect.isgeneratorfunction,
    )
    if any(is_kind(function) for is_kind in kinds):
        raise SchemaError(
            f"{name!r} is cpu_bound, which only a plain function can be: "
            f"neither a coroutine nor a generator runs in another process"
        )
    problem = why_not_portable(function)
    if problem is not None:
        raise SchemaError(f"{name!r} is cpu_bound, and {problem}")


def kind_of(function: Callable[..., Any]) -> str:
    """Return `async`, `async generator`, `generator` or `sync`.

    Look through partials and callable objects.
    """
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = function.__call__  # type: ignore[operator]  # an object that is callable
    if inspect.iscoroutinefunction(function):
        return "async"
    if inspect.isasyncgenfunction(function):
        return "async generator"
    return "generator" if inspect.isgeneratorfunction(function) else "sync"


class Tool(Generic[P, R]):
    """A function with metadata; callable as the function it was created from.

    The signature is read when first needed, so that a decorated method can be bound first.

    Args:
        function: The function: async or sync, a generator of either kind, a bound method, a
            callable object or a `functools.partial`. The last value of a generator is its result,
            and those before it are progress; with `collect=True` the result is the list of all.
        signature: How to call it; by default read from the function.
        options: The fields of `ToolOptions`.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        signature: Signature | None = None,
        **options: Any,
    ) -> None:
        self.function = function
        self._options = check_options(options)
        self.undo: Callable[..., Any] | None = self._options.get("undo")
        self._signature = signature

    @classmethod
    def from_json_schema(
        cls,
        *,
        name: str,
        parameters: Mapping[str, Any],
        function: Callable[..., R],
        description: str = "",
        **options: Any,
    ) -> Tool[..., R]:
        """Create a tool from a JSON Schema and a function that receives the arguments by keyword.

        Args:
            name: The tool's name.
            parameters: A JSON Schema of type `object`, of any draft.
            function: The function; a parameter annotated `ToolContext` receives it here too.
            description: The description for the model.
            options: The fields of `ToolOptions`.

        Raises:
            SchemaError: The schema is not valid, or has an unknown reference.

        Example:
            >>> add = Tool.from_json_schema(
            ...     name="add",
            ...     parameters={"type": "object", "properties": {"a": {"type": "integer"}}},
            ...     function=lambda a: a + 1,
            ... )
            >>> add.name
            'add'
        """
        signature = read_json_schema(function, parameters, description=description)
        return cast("type[Tool[..., R]]", cls)(
            function, signature=signature, name=name, description=description, **options
        )

    @functools.cached_property
    def signature(self) -> Signature:
        """Return the signature of the function, and raise `SchemaError` if it cannot be read."""
        return self._signature or read_signature(self.function)

    @functools.cached_property
    def metadata(self) -> ToolMetadata:
        """Return the metadata of the tool, from its signature and options."""
        signature = self.signature
        options: dict[str, Any] = {
            "name": signature.name,
            "description": signature.description,
            **{key: value for key, value in self._options.items() if value is not None},
        }
        if options.get("cpu_bound") and options.get("runs_on", RunsOn.HERE) is not RunsOn.HERE:
            raise SchemaError(
                f"{options['name']!r} is cpu_bound, which means a process of this machine, and "
                f"runs_on={options['runs_on'].value!r}: leave one of them out"
            )
        if options.get("cpu_bound"):
            _check_cpu_bound(options["name"], self.function, signature)
        if options.get("collect") and "generator" not in kind_of(self.function):
            raise SchemaError(
                f"{options['name']!r} has collect=True, which is for generators: make it yield, or "
                "return a list without collect"
            )
        return ToolMetadata(parameters=signature.parameters, **options)

    @functools.cached_property
    def declared_parameters(self) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """Return the schema with legal parameter names, and the original of each new name."""
        return renamed_parameters(self.metadata.parameters)

    def own_arguments(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return arguments by its own parameter names instead of the declared ones."""
        own = self.declared_parameters[1]
        return {own.get(key, key): value for key, value in arguments.items()} if own else arguments

    @functools.cached_property
    def validator(self) -> ArgumentValidator:
        """Return the validator of its arguments, or raise `SchemaError`."""
        return ArgumentValidator(self.metadata.parameters)

    @functools.cached_property
    def redaction(self) -> Redaction:
        """Return the redaction of its calls: of declared secrets, and of texts that look secret."""
        return Redaction.of_schema(self.metadata.parameters).naming(self.metadata.secrets)

    @functools.cached_property
    def name(self) -> str:
        """Return the tool's own name."""
        return self.metadata.name

    @property
    def declares_effect(self) -> bool:
        """Return whether its effect was declared; otherwise it counts as `once`."""
        return self._options.get("effect") is not None

    @functools.cached_property
    def origin(self) -> ToolOrigin | None:
        """Return the MCP server it comes from, if any."""
        return self.metadata.origin

    def states(self, option: str) -> bool:
        """Return whether the option was set when the tool was created, rather than a default."""
        return self._options.get(option) is not None

    def with_options(self, **options: Any) -> Tool[P, R]:
        """Return the same tool with some options changed."""
        return Tool(self.function, signature=self._signature, **{**self._options, **options})

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, without any policy."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object | None, owner: type | None = None) -> Tool[..., R]:
        if instance is None:
            return self
        bound = self.function.__get__(instance, owner)
        return Tool(bound, **self._options)

    def _repr_html_(self) -> str:
        from leonidas_tools.results.html import html_table  # only notebooks show it

        return html_table([self.shown()])

    def shown(self) -> dict[str, Any]:
        """Return a summary of the tool for a person, as a row of a table."""
        parameters = self.metadata.parameters
        required = parameters.get("required", ())
        names = [f"{name}{'' if name in required else '?'}" for name in parameters["properties"]]
        return {
            "tool": self.name,
            "effect": self.metadata.effect.value,
            "parameters": ", ".join(names),
            "description": self.metadata.description,
        }

    def __repr__(self) -> str:
        return f"<Tool {self._options.get('name') or getattr(self.function, '__name__', '?')!r}>"


def as_tool(thing: Tool[..., Any] | Callable[..., Any], **options: Any) -> Tool[..., Any]:
    """Return a tool: the given one, or one created from a function.

    Raises:
        SchemaError: The thing is neither.
    """
    if isinstance(thing, Tool):
        return thing.with_options(**options) if options else thing
    if not callable(thing):
        raise SchemaError(f"{thing!r} is not a tool: give a Tool or a function")
    return Tool(thing, **options)


def as_tools(things: Iterable[Tool[..., Any] | Callable[..., Any]]) -> list[Tool[..., Any]]:
    """Return the tools of a list of tools and functions.

    Raises:
        TypeError: `things` is not such a list; the message says what to pass.
        SchemaError: A function cannot become a tool.

    Example:
        >>> as_tools("get_weather")
        Traceback (most recent call last):
        ...
        TypeError: tools must be a list of tools and functions, such as [get_weather], not \
'get_weather'
    """
    if isinstance(things, str | bytes | dict | Tool | type) or not isinstance(things, Iterable):
        given = f"[{things.name}]" if isinstance(things, Tool) else "[get_weather]"
        raise TypeError(
            f"tools must be a list of tools and functions, such as {given}, not {things!r}"
        )
    return [as_tool(_one(thing)) for thing in things]


def _one(thing: object) -> Any:
    """Return a tool or a function, and raise for others, such as an object with tool methods."""
    if isinstance(thing, Tool):
        return thing
    methods = [name for name, each in inspect.getmembers_static(thing) if isinstance(each, Tool)]
    if callable(thing) and not methods:
        return thing
    if isinstance(thing, type) and methods:
        advice = f"make one, and give its methods, such as {thing.__name__}().{methods[0]}"
    elif methods:
        advice = f"give its methods, such as its {methods[0]!r}"
    else:
        advice = "give a function, or what @tool makes of it"
    raise TypeError(f"{thing!r} is not a tool: {advice}")


class _Decorator(Protocol[Q]):
    """The type of `@tool`, whose keywords are those of `ToolOptions`."""

    @overload
    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...  # type: ignore[overload-overlap]  # options have no position
    @overload
    def __call__(
        self, *args: Q.args, **options: Q.kwargs
    ) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def _takes(_: Callable[Q, Any]) -> Callable[[Callable[..., Any]], _Decorator[Q]]:
    """Have type checkers know the keywords of a decorator."""
    return lambda decorator: cast("_Decorator[Q]", decorator)


@_takes(ToolOptions)
def tool(function: Callable[P, R] | None = None, /, **options: Any) -> Any:
    """Create a tool from a function: its signature and docstring become the schema.

    Args:
        function: The function; without it, `tool` returns a decorator.
        options: The fields of `ToolOptions`. Enumerations also accept their names as strings in any
            case. `0` and `"off"` switch a limit off; only the timeout cannot be switched off.

    Raises:
        SchemaError: An option is unknown, or has an invalid value.

    Example:
        >>> @tool(effect="read", timeout_seconds=5, tags=["weather"])
        ... async def get_weather(city: str) -> dict:
        ...     '''Current weather in a city.
        ...
        ...     Args:
        ...         city: Name of the city.
        ...     '''
        ...     return {"city": city}
        >>> get_weather.metadata.parameters["properties"]["city"]["description"]
        'Name of the city.'
    """
    if isinstance(function, str):
        raise TypeError(f"the name of a tool is an option: write @tool(name={function!r})")
    if function is not None:
        return Tool(function, **options)
    return lambda decorated: Tool(decorated, **options)
