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
    """Checks answers in the place of the client library, which is not told of the schemas.

    The library checks in Python, 25 µs for each object of an answer: a long one would hold the loop
    for a part of a second. Here the same takes a hundredth of it. What the library has to say of a
    schema that is not one of an object stays its own.
    """

    def __init__(self) -> None:
        self._outputs: dict[str, _OutputSchema] = {}

    def taken_from(self, tools: Iterable[Any]) -> list[Any]:
        """Keep the output schemas of a listing; return its tools without them."""
        return [self._without(tool) for tool in tools]

    def given_back(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return the tools as the server lists them."""
        return [
            tool
            if (output := self._outputs.get(tool.name)) is None
            else tool.model_copy(update={"output_schema": output.schema})
            for tool in tools
        ]

    def keep_only(self, tools: Iterable[str]) -> None:
        """Forget all tools but these."""
        self._outputs = {name: self._outputs[name] for name in tools if name in self._outputs}

    def check(self, tool: str, answer: CallToolResult) -> None:
        """Validate a tool result against the listed output schema; an error result may differ.

        A result that is too costly to validate is accepted: the call has run, and the server wrote
        both.

        Raises:
            ValueError: It does not match, it has a number that JSON has not, or the schema is
                invalid.
        """
        output = self._outputs.get(tool)
        if output is None or answer.is_error:
            return
        try:
            content = answer.structured_content
            fits = output.validator.is_too_costly(content) or output.validator.is_valid(content)
        except SchemaError as error:  # listed a moment ago; the tool is about to be left out
            raise ValueError(str(error)) from error
        if not fits:
            raise ValueError(f"the answer of {tool!r} is not as its output schema says")

    def _without(self, tool: Any) -> Any:
        if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
            return tool
        schema = tool.get(_KEY)
        if not isinstance(schema, dict) or schema.get("type") != "object":
            self._outputs.pop(name, None)
            return tool
        self._outputs[name] = _OutputSchema(schema)  # also an equal one: Python finds 1 == True
        return {key: value for key, value in tool.items() if key != _KEY}


class _OutputSchema:
    """A schema, compiled when the first answer is checked: of most tools there is none."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    @cached_property
    def validator(self) -> ArgumentValidator:
        return ArgumentValidator(self.schema)
