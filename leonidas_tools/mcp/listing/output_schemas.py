"""Check results against the output schemas of a server."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from leonidas_tools.errors import SchemaError
from leonidas_tools.json_schema import ArgumentValidator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_types import CallToolResult, Tool

_KEY = "outputSchema"


class OutputSchemas:
    """Validates results instead of the client library, which does not get the schemas.

    The library validates in Python, 25 µs for each object of a result: a long result would block
    the event loop for a part of a second. This class needs a hundredth of that time. The library
    still handles schemas that are not of type `object`.
    """

    def __init__(self) -> None:
        self._outputs: dict[str, _OutputSchema] = {}

    def remove_schemas(self, tools: Iterable[Any]) -> list[Any]:
        """Store the output schemas of a listing, and return its tools without them."""
        return [self._without(tool) for tool in tools]

    def restore_schemas(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return the tools with their output schemas."""
        return [
            tool
            if (output := self._outputs.get(tool.name)) is None
            else tool.model_copy(update={"output_schema": output.schema})
            for tool in tools
        ]

    def keep_only(self, tools: Iterable[str]) -> None:
        """Remove the schemas of all other tools."""
        self._outputs = {name: self._outputs[name] for name in tools if name in self._outputs}

    def check(self, tool: str, answer: CallToolResult) -> None:
        """Validate a tool result against the listed output schema; an error result may differ.

        A result that is too costly to validate is accepted: the call has run, and both result and
        schema are the server's.

        Raises:
            ValueError: The result does not match, or has a number that JSON does not allow, or the
                schema is invalid.
        """
        output = self._outputs.get(tool)
        if output is None or answer.is_error:
            return
        try:
            content = answer.structured_content
            fits = output.validator.is_too_costly(content) or output.validator.is_valid(content)
        except SchemaError as error:  # just listed; the tool will be left out
            raise ValueError(str(error)) from error
        if not fits:
            raise ValueError(f"the result of {tool!r} does not match its output schema")

    def _without(self, tool: Any) -> Any:
        if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
            return tool
        schema = tool.get(_KEY)
        if not isinstance(schema, dict) or schema.get("type") != "object":
            self._outputs.pop(name, None)
            return tool
        self._outputs[name] = _OutputSchema(schema)  # even an equal one: in Python, 1 == True
        return {key: value for key, value in tool.items() if key != _KEY}


class _OutputSchema:
    """A schema, compiled for the first result of its tool, as most tools are not called."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    @cached_property
    def validator(self) -> ArgumentValidator:
        return ArgumentValidator(self.schema)
