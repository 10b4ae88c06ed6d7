"""Signature and docstring, or a JSON Schema → how a tool is described and called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """How a function is described to a model, and called with what the model says.

    Args:
        name: The function's name.
        description: The docstring without its sections.
        parameters: A JSON Schema of type `object`.
        context_parameter: The parameter that takes the `ToolContext`, if there is one.
        convert: Plain JSON arguments, validated already → the function's keyword arguments;
            `None` where they are the same. Raises `ToolValidationError`.
        positional: Names of positional-only parameters, in order.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    context_parameter: str | None = None
    convert: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    positional: tuple[str, ...] = ()


def read_signature(function: Callable[..., Any]) -> Signature:
    """Reads a function's signature and docstring."""
    raise NotImplementedError


def read_json_schema(
    function: Callable[..., Any], parameters: Mapping[str, Any], *, description: str
) -> Signature:
    """Checks a JSON Schema of a tool that is known by it alone."""
    raise NotImplementedError
