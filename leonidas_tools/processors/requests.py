"""Requests to the stages, and their answers, as parts.

A request is a `ToolRequest` in the metadata of a part. JSON cannot contain one, so a part from a
web page or a model is never a request. A stage may be configured to read requests in JSON as well;
those are read-only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, TypeAlias

from genai_processors.content_api import ProcessorPart

from leonidas_tools.calls.call import ResultStatus, ToolResult
from leonidas_tools.errors import ConfigurationError, LeonidasError, ToolError, ToolNotFoundError
from leonidas_tools.processors.parts import asks_nothing, metadata_of
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.plain import plain
from leonidas_tools.results.texts import say

logger = visible_logger(__name__)

TOOL_REQUEST = "tool_request"
TOOL_ANSWER = "tool_answer"
_MAX_ANSWER_LENGTH = 1 << 24
_MAX_JSON_REQUEST_LENGTH = 1 << 12

READ_ONLY = frozenset(
    {
        "list_tools",
        "get_tool",
        "get_configuration",
        "get_metrics",
        "get_history",
        "get_health",
        "get_alerts",
    }
)
"""The requests that change nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRequest:
    """A request to a stage."""

    name: str  # such as `list_tools`, `get_tool`, `update_configuration`, `get_metrics`
    arguments: Mapping[str, Any]
    read_only: bool = False  # the sender may only read


Answer: TypeAlias = Callable[..., Any]
"""A function that takes the arguments of a request by keyword, and returns the answer."""


def tool_request(name: str, /, **arguments: Any) -> ProcessorPart:
    """Return a request to the registry, the configuration or the monitoring.

    The part is a request only in this process, and no longer if it is read back from JSON.

    Args:
        name: `list_tools`, `get_tool`, `register_tool`, `unregister_tool`, `invalidate_cache`;
            `get_configuration`, `update_configuration`, `reload_configuration`; `get_metrics`,
            `get_history`, `get_health`, `get_alerts`.
        arguments: The arguments of the request.

    Example:
        >>> part = tool_request("list_tools", category="speech")
        >>> part.metadata["tool_request"].arguments
        {'category': 'speech'}
    """
    request = ToolRequest(name=name, arguments=arguments)
    return _request_part(request, json.dumps({"request": name, **arguments}, default=repr))


def _request_part(request: ToolRequest, text: str = "") -> ProcessorPart:
    return ProcessorPart(
        text, mimetype="application/json", role="user", metadata={TOOL_REQUEST: request}
    )


def request_of(part: ProcessorPart) -> ToolRequest | None:
    """Return the request in a part, if it has one."""
    request = metadata_of(part).get(TOOL_REQUEST)
    return request if isinstance(request, ToolRequest) else None


def is_request(part: ProcessorPart) -> bool:
    """Return whether a part is a request to a stage."""
    return not asks_nothing(part) and request_of(part) is not None


def read_only(part: ProcessorPart) -> ProcessorPart:
    """Return a read-only copy of a request; return any other part unchanged."""
    request = request_of(part)
    return part if request is None else _request_part(replace(request, read_only=True))


def from_json(part: ProcessorPart) -> ProcessorPart:
    """Return the read-only request that a part makes in JSON; any other part unchanged.

    Such a part has `tool_request` in its metadata, and its text is a JSON object: the name as
    `request`, and the arguments.
    """
    if TOOL_REQUEST not in metadata_of(part) or is_request(part):
        return part
    name, arguments = "?", {}
    text = part.part.text or ""
    if len(text) <= _MAX_JSON_REQUEST_LENGTH:
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict) and isinstance(body.get("request"), str):
            name, arguments = body.pop("request"), body
    return _request_part(ToolRequest(name=name, arguments=arguments, read_only=True))


def answer_part(request: ToolRequest, result: ToolResult) -> ProcessorPart:
    """Return the answer to a request, in the envelope of a function response."""
    body, _ = plain({"request": request.name, **result.to_response()}, _MAX_ANSWER_LENGTH)
    return ProcessorPart(
        json.dumps(body),
        mimetype="application/json",
        role="user",
        metadata={TOOL_ANSWER: request.name},
    )


async def build_answer(
    part: ProcessorPart, answers: Mapping[str, Answer], *, last: bool = False
) -> ProcessorPart:
    """Return the answer to a request, or the part itself if it is no request to this stage.

    Args:
        part: Any part.
        answers: The functions that answer requests to this stage, by name.
        last: Whether no later stage can answer the request.
    """
    request = request_of(part)
    if request is None:
        return part
    answer = answers.get(request.name)
    if answer is None:
        return answer_part(request, _unknown_request(request)) if last else part
    if request.read_only and request.name not in READ_ONLY:
        return answer_part(request, _build_denial(request))
    return answer_part(request, await _result(request, answer))


async def _result(request: ToolRequest, answer: Answer) -> ToolResult:
    known = signature(answer)
    try:
        known.bind(**request.arguments)
    except TypeError as error:
        return ToolResult(
            status=ResultStatus.INVALID_ARGUMENT,
            message=say("request_arguments", request=request.name),
            reason_code="wrong_arguments",
            valid_options=list(known.parameters),
            error=error,
        )
    try:
        value = answer(**request.arguments)
        value = await value if hasattr(value, "__await__") else value
    except ToolNotFoundError as error:
        options = list(error.suggestions) or None
        return ToolResult.not_found(str(error), valid_options=options)
    except ToolError as error:
        return ToolResult.from_error(error)
    except (LeonidasError, TypeError, ValueError) as error:
        return _build_error(error)
    except Exception as error:  # noqa: BLE001 - a request never ends the stream
        logger.warning("The request %r raised %s", request.name, type(error).__name__)
        return ToolResult(
            status=ResultStatus.INVALID_ARGUMENT,
            message=say("request_arguments", request=request.name),
            error=error,
        )
    return ToolResult(result=value)


def _build_error(error: Exception) -> ToolResult:
    code = "configuration" if isinstance(error, ConfigurationError) else None
    return ToolResult(
        status=ResultStatus.INVALID_ARGUMENT, message=str(error), reason_code=code, error=error
    )


def _build_denial(request: ToolRequest) -> ToolResult:
    return ToolResult(
        status=ResultStatus.DENIED,
        message=say("request_read_only", request=request.name),
        reason_code="read_only",
        valid_options=sorted(READ_ONLY),
    )


def _unknown_request(request: ToolRequest) -> ToolResult:
    return ToolResult(
        status=ResultStatus.NOT_FOUND,
        message=say("unknown_request", request=request.name),
        reason_code="unknown_request",
    )
