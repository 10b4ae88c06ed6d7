"""The result or error of a tool as JSON, in which one process sends it to another.

JSON, and no pickles: no process that only reads results needs the types of the tool.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
from typing import Any, cast

from leonidas_tools.calls.call import Media, ToolResult
from leonidas_tools.calls.sendable import sendable
from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.redaction.failures import raised_at
from leonidas_tools.results.texts import from_json, to_json


def fields_of(value: Any, max_bytes: int, tool: str) -> dict[str, Any]:
    """Return the fields of a tool's result as JSON, with the value cut to `max_bytes`."""
    if isinstance(value, Exception):
        raise value
    shown = sendable(value, max_bytes, tool=tool, reports_cut=False)  # its reader cuts it again
    return {
        "status": shown.status.value,
        "result": shown.result,
        "message": to_json(shown.message),
        "retryable": shown.retryable,
        "retry_hint": to_json(shown.retry_hint),
        "reason_code": shown.reason_code,
        "valid_options": shown.valid_options,
        "speech": shown.speech,
        "media": [[m.mime_type, base64.b64encode(m.data).decode()] for m in shown.media],
    }


def failure_of(error: BaseException, tool: str) -> dict[str, Any]:
    """Return the type and origin of an error; its text only if it is meant for the model."""
    try:
        return _failure(error, tool)
    except BaseException:  # noqa: BLE001 - reading an exception of a tool may raise too
        return {"kind": "Exception", "bases": []}


def _failure(error: BaseException, tool: str) -> dict[str, Any]:
    known = vars(builtins)
    failure: dict[str, Any] = {
        "kind": type(error).__name__,
        "bases": [k.__name__ for k in type(error).__mro__ if known.get(k.__name__) is k],
        "place": raised_at(error),
    }
    if isinstance(error, ToolError):
        failure["says"] = fields_of(ToolResult.from_error(error), 0, tool)
        failure["safe"] = isinstance(error, RetryableError)
    return failure


def result_of(fields: dict[str, Any]) -> ToolResult:
    """Build a result from its JSON fields; the attempt checks their types."""
    media = [
        Media(mime_type=str(kind), data=base64.b64decode(data)) for kind, data in fields["media"]
    ]
    said = {name: from_json(fields[name]) for name in ("message", "retry_hint")}
    return ToolResult(**{**fields, **said, "media": tuple(media)})


def error_of(failure: dict[str, Any], *, place: str = "in a worker process") -> BaseException:
    """Rebuild the exception of a tool from its name and its builtin base classes."""
    says = failure.get("says")
    if says is not None:
        kind = RetryableError if failure.get("safe") is True else ToolError
        return kind(
            from_json(says["message"]) or "",
            status=str(says["status"]),
            retryable=says["retryable"] is True,
            retry_hint=from_json(says["retry_hint"]),
            reason_code=says["reason_code"],
            valid_options=says["valid_options"],
        )
    name = failure["kind"]
    name = name if isinstance(name, str) and name.isidentifier() else "Exception"
    shown = {"raised_at": f"{failure.get('place', '')}, {place}"}
    base = _base([getattr(builtins, known, None) for known in failure["bases"]])
    kind_there: type[BaseException] = type(name, (base,), shown)
    return kind_there()


def _base(kinds: list[Any]) -> type[BaseException]:
    """Return the first of these types that a coroutine can raise and that needs no arguments."""
    for kind in kinds:
        is_kind = isinstance(kind, type) and issubclass(kind, BaseException)
        if not is_kind or kind in (StopIteration, StopAsyncIteration, GeneratorExit):
            continue
        with contextlib.suppress(TypeError):
            kind()
            return cast("type[BaseException]", kind)
    return Exception
