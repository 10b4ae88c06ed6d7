"""Whatever a tool or a policy made of a call → a result that can be sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from leonidas_tools.calls import Media, ResultStatus, ToolResult
from leonidas_tools.plain import NotPlainError, measured, plain

_LONGEST_TEXT = 4096
_LONGEST_OPTIONS = 16_384
MOST_MEDIA_BYTES = 700_000
"""As Base64 still less than the 1 MiB that a message of a Live session may hold."""


def sendable(value: Any, max_bytes: int, *, tool: str) -> ToolResult:
    """A result in plain JSON of bounded size, whatever it was made of.

    Args:
        value: What a tool returned: a value, or a result of its own making.
        max_bytes: How long the JSON of its value may be.
        tool: The tool's name, for what is said about it.

    Example:
        >>> sendable({7}, 100, tool="dice").to_response()
        {'status': 'ok', 'result': [7], 'retryable': False}
    """
    return measured_sendable(value, max_bytes, tool=tool)[0]


def measured_sendable(value: Any, max_bytes: int, *, tool: str) -> tuple[ToolResult, int]:
    """A result as `sendable` makes it, and how long the JSON of its value is."""
    own = _checked(value) if isinstance(value, ToolResult) else None
    try:
        body, cut, size = measured(value if own is None else own.result, max_bytes)
    except NotPlainError as error:
        said = f"The tool {tool!r} ran, but its result cannot be shown: {error}."
        code = "unserialisable_result"
        return ToolResult(status=ResultStatus.FAILED, message=said, reason_code=code), 0
    message = None if own is None else own.message
    if cut:
        said = f"The result was cut: it is longer than {max_bytes} bytes."
        message = said if message is None else f"{message} {said}"
    if own is None:
        return ToolResult(result=body, message=message), size
    return own.with_value(body, message), size


def _checked(result: ToolResult) -> ToolResult:
    """The result with every field of the type that it says."""
    if says_little(result):
        return result
    media = _bounded_media(result.media)
    message = _text(result.message)
    if len(media) < len(_listed(result.media) or ()):
        message = f"{message or ''} A picture or a sound was left out.".strip()
    return replace(
        result,
        status=_status(result.status),
        message=message,
        retryable=result.retryable is True,
        retry_hint=_text(result.retry_hint),
        reason_code=_text(result.reason_code),
        valid_options=_options(result.valid_options),
        media=media,
        speech=_text(result.speech),
    )


def says_little(result: ToolResult) -> bool:
    """Whether all beside its value is left as it was made: most results are so."""
    status: Any = result.status
    retryable: Any = result.retryable
    return (
        type(status) is ResultStatus
        and type(retryable) is bool
        and result.media == ()
        and result.message is None
        and result.retry_hint is None
        and result.reason_code is None
        and result.valid_options is None
        and result.speech is None
    )


def _status(value: Any) -> ResultStatus:
    try:
        return ResultStatus(value)
    except ValueError:
        return ResultStatus.FAILED


def _text(value: Any) -> str | None:
    if value is None:
        return None
    try:
        shown, _ = plain(value, _LONGEST_TEXT)
    except NotPlainError:
        return None
    return shown if isinstance(shown, str) else str(shown)


def _options(values: Any) -> list[Any] | None:
    try:
        shown, _ = plain(_listed(values), _LONGEST_OPTIONS)
    except NotPlainError:
        return None
    return shown if isinstance(shown, list) else None


def _listed(values: Any) -> list[Any] | None:
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else None


def _bounded_media(values: Any) -> tuple[Media, ...]:
    """As many of the pictures and sounds as a message holds."""
    kept: list[Media] = []
    room = MOST_MEDIA_BYTES
    for media in _listed(values) or ():
        if isinstance(media, Media) and type(media.data) is bytes and len(media.data) <= room:
            room -= len(media.data)
            kept.append(replace(media, mime_type=str(media.mime_type)))
    return tuple(kept)
