"""The parameters of a function: types, defaults and kinds."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import re
import sys
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import SchemaError
from leonidas_tools.tools.schema.plain_types import is_plain, plain_schema

if typing.TYPE_CHECKING:
    from collections.abc import Callable

_EMPTY = inspect.Parameter.empty
_CONTEXT_NAME = r"\bToolContext\b"


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One parameter of a function."""

    name: str
    annotation: Any = Any  # `Any` without an annotation; plain strings are removed
    default: Any = _EMPTY  # or `inspect.Parameter.empty`
    kind: Any = inspect.Parameter.KEYWORD_ONLY  # as in `inspect.Parameter`
    description: str | None = None
    field: FieldInfo | None = None  # the field in its annotation or default
    alias: str | None = None  # of that field
    is_context: bool = False  # whether it receives the `ToolContext`

    @property
    def argument(self) -> str:
        """Return the name by which a call passes it."""
        return self.alias or self.name

    @property
    def is_positional(self) -> bool:
        """Return whether it cannot be passed by keyword."""
        return self.kind is inspect.Parameter.POSITIONAL_ONLY

    @property
    def is_rest(self) -> bool:
        """Return whether it is `**kwargs`."""
        return self.kind is inspect.Parameter.VAR_KEYWORD

    @property
    def is_required(self) -> bool:
        """Return whether a call must pass it."""
        if self.is_rest or self.default is not _EMPTY:
            return False
        return self.field is None or self.field.is_required()

    @property
    def is_filled(self) -> bool:
        """Return whether only pydantic knows its default, so that a value must be passed."""
        return self.default is _EMPTY and self.field is not None and not self.field.is_required()

    @property
    def is_described_plainly(self) -> bool:
        """Return whether its schema needs no pydantic."""
        return plain_schema(self.annotation) is not None

    @property
    def is_plain(self) -> bool:
        """Return whether its value is the same in Python as in JSON."""
        return is_plain(self.annotation)


def innermost(function: Callable[..., Any]) -> tuple[str, Callable[..., Any]]:
    """Return the name of a callable, and the function with its names and its docstring."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None) or type(function).__name__
    if inspect.isclass(function) or inspect.isroutine(function):
        return name, function
    call = type(function).__call__
    return name, call if inspect.isfunction(call) and call.__doc__ else function


def read_parameters(
    function: Callable[..., Any], *, where: str, only_context: bool = False
) -> list[Parameter]:
    """Return the parameters that a call can pass, without bound arguments.

    Raises:
        SchemaError: The signature cannot be read, has `*args`, or has an ambiguous alias.
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise SchemaError(
            f"{where} has no signature that can be read; wrap it in a function that has one"
        ) from error
    bound = function.keywords if isinstance(function, functools.partial) else {}
    raw = {name: p for name, p in signature.parameters.items() if name not in bound}
    types_by_name = _resolved(
        {name: p.annotation for name, p in raw.items() if p.annotation is not _EMPTY},
        function,
        where=where,
        lenient=only_context,
    )
    parameters = [
        _parameter(p, types_by_name.get(name, Any), where=where) for name, p in raw.items()
    ]
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL and not only_context:
            raise SchemaError(
                f"{where} takes *{parameter.name}, but a model gives arguments by name; "
                f"take a list instead"
            )
    _check_aliases(parameters, where=where)
    return parameters


def _check_aliases(parameters: list[Parameter], *, where: str) -> None:
    """Raise `SchemaError` if an alias does not stand for one parameter."""
    names = [parameter.argument for parameter in parameters]
    has_rest = any(parameter.is_rest for parameter in parameters)
    for parameter in parameters:
        if parameter.alias is None:
            continue
        if has_rest:
            raise SchemaError(
                f"{where} takes **kwargs, which may pass its parameter {parameter.name!r} as well "
                f"as the alias {parameter.alias!r} does; drop one of them"
            )
        if names.count(parameter.alias) > 1:
            raise SchemaError(
                f"{where} takes {parameter.alias!r} twice; give {parameter.name!r} another alias"
            )


def _parameter(raw: inspect.Parameter, annotation: Any, *, where: str) -> Parameter:
    """Return a parameter with the parts of its annotation and its default."""
    default, field = raw.default, None
    if isinstance(default, FieldInfo):
        annotation, default = Annotated[annotation, default], _EMPTY
    description = alias = None
    if get_origin(annotation) is Annotated:
        kind, *metadata = get_args(annotation)
        texts = [entry for entry in metadata if isinstance(entry, str)]
        fields = [entry for entry in metadata if isinstance(entry, FieldInfo)]
        rest = [_without_alias(entry) for entry in metadata if not isinstance(entry, str)]
        annotation = Annotated[(kind, *rest)] if rest else kind
        description = texts[0] if texts else next((f.description for f in fields), None)
        field = fields[-1] if fields else None
        alias = _alias_of(field, where=f"{where}: its parameter {raw.name!r}")
    return Parameter(
        name=raw.name,
        annotation=annotation,
        default=default,
        kind=raw.kind,
        description=description,
        field=field,
        alias=alias,
        is_context=_is_context(annotation),
    )


def _alias_of(field: FieldInfo | None, *, where: str) -> str | None:
    alias = None if field is None else field.validation_alias
    if alias is not None and not isinstance(alias, str):
        raise SchemaError(f"{where} has the alias {alias!r}; give it one name")
    return alias


def _without_alias(entry: Any) -> Any:
    """Return metadata without an alias, of which pydantic warns outside of a model."""
    if not isinstance(entry, FieldInfo) or entry.validation_alias is None:
        return entry
    field = copy.copy(entry)
    field.alias = field.validation_alias = field.serialization_alias = None
    return field


def _is_context(annotation: Any) -> bool:
    """Return whether a type is `ToolContext`, or a union or an unreadable text that names it."""
    if isinstance(annotation, str):
        return re.search(_CONTEXT_NAME, annotation) is not None
    if isinstance(annotation, type):
        return issubclass(annotation, ToolContext)
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        return any(_is_context(member) for member in get_args(annotation))
    return False


def _namespaces(function: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the namespaces of a function's annotations: its module, and the names local to it."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if inspect.isclass(function):
        function = function.__init__
    elif not inspect.isroutine(function):
        function = type(function).__call__
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not inspect.isfunction(function):
        return getattr(function, "__globals__", {}), {}
    local = _locals_around(function) if "<locals>" in function.__qualname__ else {}
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=False):
        with contextlib.suppress(ValueError):  # a cell that is still empty
            local[name] = cell.cell_contents
    return function.__globals__, local


def _locals_around(function: types.FunctionType) -> dict[str, Any]:
    """Return the local names of the running functions and classes that define the function."""
    found: dict[str, Any] = {}
    frame: types.FrameType | None = sys._getframe()  # noqa: SLF001 - as typing and pydantic do
    while frame is not None:
        is_module = frame.f_code.co_name == "<module>"
        same = frame.f_globals is function.__globals__ and not is_module
        if same and _contains(frame.f_code, function.__code__):
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


def _contains(outer: types.CodeType, inner: types.CodeType) -> bool:
    return any(
        each is inner or _contains(each, inner)
        for each in outer.co_consts
        if isinstance(each, types.CodeType)
    )


def _resolved(
    annotations: dict[str, Any], function: Callable[..., Any], *, where: str, lenient: bool
) -> dict[str, Any]:
    """Return annotations with strings evaluated; one that names `ToolContext` may stay a string.

    Names that are imported for type checkers only cannot be resolved here; `ToolContext` need not.
    """
    namespaces = _namespaces(function)
    with contextlib.suppress(Exception):  # a string can raise anything: evaluate each alone
        return _evaluated(annotations, namespaces)
    resolved: dict[str, Any] = {}
    for name, annotation in annotations.items():
        try:
            resolved.update(_evaluated({name: annotation}, namespaces))
        except Exception as error:
            if lenient or _is_context(annotation):
                resolved[name] = annotation
                continue
            raise SchemaError(
                f"{where}: the type {annotation!r} of its parameter {name!r} cannot be read "
                f"({error}); define it in the module, or make the tool where it is defined"
            ) from error
    return resolved


def _evaluated(
    annotations: dict[str, Any], namespaces: tuple[dict[str, Any], dict[str, Any]]
) -> dict[str, Any]:
    holder = types.SimpleNamespace(__annotations__=annotations)
    return typing.get_type_hints(holder, *namespaces, include_extras=True)
