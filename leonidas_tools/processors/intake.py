"""From a function-call part to a `ToolCall`: its id, its tool, and whether it came before."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from leonidas_tools.calls import ResultStatus, ToolCall, ToolResult, ToolSession
from leonidas_tools.processors.parts import call_id

if TYPE_CHECKING:
    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.registry import ToolRegistry

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
            arguments=function_call.args or {},
            id=identifier,
            called_as=called_as,
            session=self.session,
            tool=tool,
            number=next(self.session.numbers),
        )

    def _is_new(self, identifier: str) -> bool:
        if identifier in self._seen:
            return False
        self._seen[identifier] = None
        if len(self._seen) > _REMEMBERED_IDS:
            self._seen.popitem(last=False)
        return True


def unknown_tool(registry: ToolRegistry, called_as: str) -> ToolResult:
    """The answer to a call of a tool that does not exist."""
    closest = registry.suggestions(called_as)
    hint = f" Call one of the valid options instead, such as {closest[0]!r}." if closest else ""
    return ToolResult(
        status=ResultStatus.NOT_FOUND,
        message=f"There is no tool {called_as!r}.{hint}",
        reason_code="unknown_tool",
        valid_options=closest or None,
    )
