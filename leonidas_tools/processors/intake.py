"""From a function-call part to a `ToolCall`: its id, its tool, and whether it came before."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls import ToolCall, ToolResult, ToolSession
from leonidas_tools.errors import ToolValidationError
from leonidas_tools.json_schema import parse_arguments
from leonidas_tools.processors.parts import call_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.registry import AnyTool, ToolRegistry

_REMEMBERED_IDS = 4096


class Intake:
    """Takes in the calls of one stream.

    Args:
        registry: Where tools are found.
        session: The conversation of the stream.
    """

    def __init__(self, registry: ToolRegistry, session: ToolSession) -> None:
        self.registry = registry
        self.session = session
        self._seen: OrderedDict[str, None] = OrderedDict()

    def take(self, part: ProcessorPart) -> ToolCall | None:
        """The call of a part; `None` for one whose id was there before: it has its answer."""
        function_call = part.part.function_call
        assert function_call is not None
        identifier = call_id(part)
        if identifier is not None and not self._is_new(identifier):
            return None
        called_as = function_call.name or ""
        tool = self.registry.find(called_as)
        return ToolCall(
            name=called_as if tool is None else tool.name,
            arguments=_own_names(tool, function_call.args or {}),
            id=identifier,
            called_as=called_as,
            session=self.session,
            tool=tool,
            number=next(self.session.numbers),
        )

    def cancel(self, call_id: str) -> None:
        """Takes no call with this id any more: nobody wants its answer."""
        self._is_new(call_id)

    def _is_new(self, identifier: str) -> bool:
        if identifier in self._seen:
            return False
        self._seen[identifier] = None
        if len(self._seen) > _REMEMBERED_IDS:
            self._seen.popitem(last=False)
        return True


def read_arguments(
    arguments: Mapping[str, Any] | str | None,
) -> tuple[Mapping[str, Any], ToolResult | None]:
    """Arguments in whatever form as a mapping, or why they are none."""
    try:
        return parse_arguments(arguments), None
    except ToolValidationError as error:
        return {}, ToolResult.from_error(error)


def _own_names(tool: AnyTool | None, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments by the tool's own parameter names, where it was declared with others."""
    if tool is None:
        return arguments
    own = tool.declared_parameters[1]
    return {own.get(k, k): v for k, v in arguments.items()} if own else arguments
