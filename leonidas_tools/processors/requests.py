"""Requests to the stages: parts in, answered in kind."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from genai_processors.content_api import ProcessorPart

from leonidas_tools.calls import ResultStatus, ToolResult
from leonidas_tools.errors import ConfigurationError, LeonidasError, ToolError, ToolNotFoundError
from leonidas_tools.plain import plain

logger = logging.getLogger(__name__)

TOOL_REQUEST = "tool_request"
TOOL_ANSWER = "tool_answer"
_LONGEST_ANSWER = 1 << 24


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRequest:
    """What is asked of a stage.

    Args:
        name: Such as `list_tools`, `get_tool`, `update_configuration`, `get_metrics`.
        arguments: By name.
    """

    name: str
    arguments: Mapping[str, Any]


Answer: TypeAlias = Callable[..., Any]
"""Takes the arguments of a request by keyword; returns what to answer."""


def tool_request(name: str, /, **arguments: Any) -> ProcessorPart:
    """A part that asks something of the registry, the configuration or the monitoring.

    Args:
        name: `list_tools`, `get_tool`, `register_tool`, `unregister_tool`, `invalidate_cache`;
            `get_configuration`,
            `update_configuration`, `reload_configuration`; `get_metrics`, `get_history`,
            `get_health`, `get_alerts`.
        arguments: What the request needs.

    Example:
        >>> part = tool_request("list_tools", category="speech")
        >>> part.metadata["tool_request"].arguments
        {'category': 'speech'}
    """
    request = ToolRequest(name=name, arguments=arguments)
    text = json.dumps({"request": name, **arguments}, default=repr)
    return ProcessorPart(
        text, mimetype="application/json", role="user", metadata={TOOL_REQUEST: request}
    )


def read_request(part: ProcessorPart) -> ToolRequest:
    """The request a part makes; also one that came as JSON, marked by its metadata."""
    request = part.metadata.get(TOOL_REQUEST)
    if isinstance(request, ToolRequest):
        return request
    try:
        body = json.loads(part.text)
        name = body.pop("request")
    except (ValueError, KeyError, AttributeError, TypeError):
        return ToolRequest(name="?", arguments={})
    return ToolRequest(name=str(name), arguments=body)


def answer_part(request: ToolRequest, result: ToolResult) -> ProcessorPart:
    """The answer to a request: the same envelope that calls are answered with."""
    body, _ = plain({"request": request.name, **result.to_response()}, _LONGEST_ANSWER)
    return ProcessorPart(
        json.dumps(body),
        mimetype="application/json",
        role="user",
        metadata={TOOL_ANSWER: request.name},
    )


def is_request(part: ProcessorPart) -> bool:
    """Whether a part asks something of a stage."""
    return TOOL_REQUEST in part.metadata


async def answered(
    part: ProcessorPart, answers: Mapping[str, Answer], *, last: bool = False
) -> ProcessorPart:
    """The answer to a request part, or the part itself where it asks another stage.

    Args:
        part: Any part.
        answers: What this stage can be asked.
        last: Whether no later stage could know the request.
    """
    request = read_request(part)
    answer = answers.get(request.name)
    if answer is None:
        return answer_part(request, _unknown(request)) if last else part
    try:
        value = answer(**request.arguments)
        value = await value if hasattr(value, "__await__") else value
    except ToolNotFoundError as error:
        options = list(error.suggestions) or None
        return answer_part(request, ToolResult.not_found(str(error), valid_options=options))
    except ToolError as error:
        return answer_part(request, ToolResult.from_error(error))
    except (LeonidasError, TypeError, ValueError) as error:
        return answer_part(request, _refused(error))
    except Exception as error:  # noqa: BLE001 - a request never ends the stream
        logger.warning("The request %r raised %s", request.name, type(error).__name__)
        refusal = ToolResult(
            status=ResultStatus.INVALID_ARGUMENT,
            message=f"The request {request.name!r} cannot be answered with these arguments.",
            error=error,
        )
        return answer_part(request, refusal)
    return answer_part(request, ToolResult(result=value))


def _refused(error: Exception) -> ToolResult:
    code = "configuration" if isinstance(error, ConfigurationError) else None
    return ToolResult(
        status=ResultStatus.INVALID_ARGUMENT, message=str(error), reason_code=code, error=error
    )


def _unknown(request: ToolRequest) -> ToolResult:
    return ToolResult(
        status=ResultStatus.NOT_FOUND,
        message=f"There is no request {request.name!r}.",
        reason_code="unknown_request",
    )
