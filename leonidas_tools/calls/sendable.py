"""Normalise the results of tools and policies, so that they can be sent."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.call import Media, ResultStatus, ToolResult
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.jsonable import MAX_MEDIA_BYTES
from leonidas_tools.results.plain import (
    MAX_ON_LOOP,
    ForeignTypeError,
    NotPlainError,
    fits,
    measured,
    plain,
)
from leonidas_tools.results.texts import MessageText, join, say

if TYPE_CHECKING:
    from leonidas_tools.redaction import Masking
    from leonidas_tools.results.libraries import Attachment

logger = visible_logger(__name__)

_MAX_TEXT_LENGTH = 4096
_MAX_OPTIONS_LENGTH = 16_384
_MAX_LISTED = 1024
_PLAIN_LISTS = frozenset({list, tuple, set, frozenset, str, type(None)})
_UNKNOWN_TYPE = "application/octet-stream"
_MAX_WARNED = 1000
_warned: set[str] = set()
"""Tools whose results were warned of."""


def sendable(
    value: Any,
    max_bytes: int,
    *,
    tool: str,
    mask: Masking | None = None,
    reports_cut: bool = True,
) -> ToolResult:
    """Return a result in plain JSON of bounded size; its message reports a cut if it is wanted.

    Example:
        >>> sendable({7}, 100, tool="dice").to_response()
        {'status': 'ok', 'result': [7], 'retryable': False}
    """
    return measured_sendable(value, max_bytes, tool=tool, mask=mask, reports_cut=reports_cut)[0]


def measured_sendable(
    value: Any,
    max_bytes: int,
    *,
    tool: str,
    mask: Masking | None = None,
    on_loop: bool = False,
    reports_cut: bool = True,
) -> tuple[ToolResult, int]:
    """Return a result as `sendable` does, and the length of the JSON of its value.

    Raises:
        ForeignTypeError: `on_loop` is set, and the conversion of the value runs its own code.
        TooLongError: `on_loop` is set, and the conversion would block the event loop.
    """
    foreign = not on_loop
    longest = MAX_ON_LOOP if on_loop else None
    is_own = issubclass(type(value), ToolResult)
    if is_own and not foreign and type(value) is not ToolResult:
        raise ForeignTypeError(f"a {type(value).__name__} may run code of its own")
    try:
        inner = value.result if is_own else value
        body, cut, size, formless, attached = measured(
            inner, max_bytes, mask=mask, foreign=foreign, longest=longest
        )
    except ForeignTypeError:
        raise
    except NotPlainError as error:
        text = say("result_not_json", tool=tool, problem=error.args[0])
        code = "unserialisable_result"
        return ToolResult(status=ResultStatus.FAILED, message=text, reason_code=code), 0
    if formless is not None:
        _warn_of(tool, formless)
    own = value if is_own else ToolResult()
    if attached or not has_only_value(own):
        own = _convert_fields(own, attached, mask, foreign=foreign)
    message = own.message
    if cut and reports_cut:
        message = join(message, say("result_too_long", bytes=max_bytes))
    return own.with_value(body, message), size


def _warn_of(tool: str, kind: str) -> None:
    """Log once for each tool that the model reads little of its results."""
    if tool in _warned or len(_warned) >= _MAX_WARNED:
        return
    _warned.add(tool)
    logger.warning(
        "The tool %r returned a %s, which has no JSON form: the model reads only its repr. Return "
        "a dict, a dataclass or a pydantic model",
        tool,
        kind,
    )


def _convert_fields(
    result: ToolResult, attached: Iterable[Attachment], mask: Masking | None, *, foreign: bool
) -> ToolResult:
    """Return the result with every field converted to its declared type, and more media."""
    text = partial(_text, mask=mask, foreign=foreign)
    listed = _take_first(result.media, foreign=foreign) or []
    listed += [Media(mime_type=each.mime_type, data=each.data) for each in attached]
    media = _limit_media(listed, mask)
    message = text(result.message)
    if len(media) < len(listed):
        message = join(message, say("media_left_out"))
    return replace(
        result,
        status=_status(result.status),
        message=message,
        retryable=result.retryable is True,
        retry_hint=text(result.retry_hint),
        reason_code=text(result.reason_code),
        valid_options=_options(result.valid_options, mask, foreign=foreign),
        media=media,
        speech=text(result.speech),
    )


def is_long(value: Any) -> bool:
    """Return whether searching a value for secrets would block the event loop, or might."""
    parts: list[Any] = [value]
    if type(value) is ToolResult:
        options = value.valid_options
        parts = [
            value.result,
            value.message,
            value.retry_hint,
            value.reason_code,
            list(options) if type(options) is tuple else options,
            value.speech,
        ]
        if value.media:
            return True
    try:
        return not fits(parts, MAX_ON_LOOP)
    except NotPlainError:  # its length is known only after conversion
        return True


def has_only_value(result: ToolResult) -> bool:
    """Return whether only value, status and `retryable` are set, as in most results."""
    status: Any = result.status
    retryable: Any = result.retryable
    return (
        type(status) is ResultStatus
        and type(retryable) is bool
        and type(result.media) is tuple
        and not result.media
        and result.message is None
        and result.retry_hint is None
        and result.reason_code is None
        and result.valid_options is None
        and result.speech is None
    )


def _status(value: Any) -> ResultStatus:
    if not issubclass(type(value), str):
        return ResultStatus.FAILED
    try:
        return ResultStatus(str.__str__(value))
    except ValueError:
        return ResultStatus.FAILED


def _text(value: Any, *, mask: Masking | None, foreign: bool) -> str | None:
    if value is None:
        return None
    try:
        shown, _ = plain(value, _MAX_TEXT_LENGTH, mask=mask, foreign=foreign)
    except ForeignTypeError:
        raise
    except NotPlainError:
        return None
    if type(value) is MessageText and shown == value:
        return value  # with its key, by which it can be reworded
    return shown if isinstance(shown, str) else str(shown)


def _options(values: Any, mask: Masking | None, *, foreign: bool) -> list[Any] | None:
    try:
        listed = _take_first(values, foreign=foreign)
        shown, _ = plain(listed, _MAX_OPTIONS_LENGTH, mask=mask, foreign=foreign)
    except ForeignTypeError:
        raise
    except NotPlainError:
        return None
    return shown if isinstance(shown, list) else None


def _take_first(values: Any, *, foreign: bool) -> list[Any] | None:
    """Return the first values of a collection; `None` if the value is not a collection."""
    if type(values) not in _PLAIN_LISTS and not foreign:
        raise ForeignTypeError(f"a {type(values).__name__} runs code of its own")
    if not isinstance(values, Iterable) or isinstance(values, str):
        return None
    return list(itertools.islice(values, _MAX_LISTED))


def _limit_media(values: list[Any], mask: Masking | None) -> tuple[Media, ...]:
    """Return media up to the size limit of a message, except media that contain a secret."""
    kept: list[Media] = []
    bytes_left = MAX_MEDIA_BYTES
    for media in values:
        if type(media) is Media and type(media.data) is bytes and len(media.data) <= bytes_left:
            if mask is not None and mask.are_in(media.data):
                continue
            bytes_left -= len(media.data)
            kept.append(replace(media, mime_type=_mime_type(media.mime_type, mask)))
    return tuple(kept)


def _mime_type(value: Any, mask: Masking | None) -> str:
    shown = _text(value, mask=mask, foreign=False) if type(value) is str else None
    return shown or _UNKNOWN_TYPE
