"""A result is no longer than the model should have to read; the rest is cut, or kept for later."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from leonidas_tools.cutting import fitting
from leonidas_tools.errors import StoreError
from leonidas_tools.invocation import current
from leonidas_tools.metadata import Overflow
from leonidas_tools.results import Results
from leonidas_tools.speakable import speakable

if TYPE_CHECKING:
    from leonidas_tools.calls import Run, ToolCall, ToolResult
    from leonidas_tools.cutting import Keep

logger = logging.getLogger(__name__)

READ_RESULT = "read_result"
"""The tool by which the model reads more of a result."""
_LONG_TEXT = 300
_KEEPS: dict[Overflow, Keep] = {
    Overflow.HEAD: "head",
    Overflow.TAIL: "tail",
    Overflow.BOTH: "both",
    Overflow.SPILL: "both",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultBudget:
    """Bounds a result, keeps it valid JSON, and says what was left out.

    A long text gets a sentence or two that can be spoken, unless the tool has given them.

    Args:
        max_bytes: How long its JSON may be, with all but ASCII escaped: four make a token.
        overflow: What is kept of a longer one.
    """

    max_bytes: int
    overflow: Overflow

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call, and makes its result short enough."""
        result = await run(call)
        body = result.result
        if result.speech is None and isinstance(body, str) and len(body) > _LONG_TEXT:
            result = replace(result, speech=speakable(body))
        if body is None or current().length_of(body) <= self.max_bytes:
            return result
        if self.overflow is Overflow.SPILL:
            handle = await self._kept(call, body)
            if handle is not None:
                return self._spilled(result, handle)
        cut = fitting(body, self.max_bytes, _KEEPS[self.overflow])
        said = f"The result was cut: it is longer than {self.max_bytes // 4} tokens."
        return replace(result, result=cut, message=_joined(result.message, said))

    async def _kept(self, call: ToolCall, body: Any) -> str | None:
        redaction = call.redaction.hiding(call.arguments)
        text = _text(body)
        if not redaction.is_needless(text):
            text = _text(redaction(body))
        mime_type = "text/plain" if isinstance(body, str) else "application/json"
        session = call.session
        content = text.encode("utf-8", "replace")
        try:
            return await session.get(Results).store.put(
                content, mime_type=mime_type, session=session.id
            )
        except (StoreError, ValueError) as error:
            logger.warning("The result of %r cannot be kept: %s", call.name, error)
            return None

    def _spilled(self, result: ToolResult, handle: str) -> ToolResult:
        preview = fitting(result.result, max(self.max_bytes - len(handle) - 40, 40), "both")
        said = f"This is a part of the result; {READ_RESULT} reads more of it by its handle."
        return replace(
            result,
            result={"handle": handle, "preview": preview},
            message=_joined(result.message, said),
        )


def _text(body: Any) -> str:
    """In lines, so that they can be searched."""
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, indent=1)


def _joined(message: str | None, said: str) -> str:
    return f"{message} {said}" if message else said
