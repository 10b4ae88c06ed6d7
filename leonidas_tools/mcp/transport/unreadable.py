"""Replace unreadable messages by errors: the id of the call is at one end of the message."""

from __future__ import annotations

import json
import re

from mcp_types import PARSE_ERROR

from leonidas_tools.results.json_size import MAX_VALUES, has_too_many_values

TOO_LONG = 41_002
"""Code of a local error response: the server's response was longer than allowed."""

MALFORMED = 41_003
"""Code of a local error response: the server's response could not be parsed."""

TOO_MANY = "a message with too many values"
"""Description of a message that would block the event loop while it is parsed."""

_MAX_IN_NEWS = 25_000
"""Most values in a message that is not a response: a server may send any number of these."""

UNREADABLE = frozenset({TOO_LONG, MALFORMED, PARSE_ERROR})
"""The codes of all errors that replace an unreadable response, including the library's own."""

SEARCHED_BYTES = 512
"""Bytes at each end of a message that are searched for its id."""
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID = rb'"id"\s*:\s*(\d{1,18})\s*'
_AT_THE_BEGINNING = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb",")
_AT_THE_END = re.compile(_ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")
_METHOD = re.compile(rb'\s*\{[^{}\[\]]*"method"\s*:')

_HEX = rb"[0-9a-fA-F]{2}"
_FIRST, _SECOND = rb"[dD][89abAB]" + _HEX, rb"[dD][c-fC-F]" + _HEX
_LONE_HALF = re.compile(
    # Not after exactly one backslash, which escapes this one; a longer row of them is counted.
    rb"\\u(?<![^\\]\\\\u)(?:" + _FIRST + rb"(?!\\u" + _SECOND + rb")"
    rb"|(?<![^\\]\\u" + _FIRST + rb"\\u)" + _SECOND + rb")"
)
"""What may be the escaped half of a character without its other half."""
_FIRST_HALF = re.compile(rb"\\u" + _FIRST)
_ESCAPE_BYTES = 6
_REPLACEMENT = rb"\ufffd"
_MAX_EXACT = 10_000
"""Most halves that are checked for an escaped backslash: a thousand take about 2 ms."""


def well_formed(message: bytes) -> bytes:
    r"""Return a JSON message with a replacement character for each lone surrogate and invalid byte.

    Servers in JavaScript write an escaped half of a character where they cut a text in the middle
    of an emoji. Python's libraries read no part of a message with one. In a message with very many
    of them, all escapes that begin with `\ud` are replaced.

    Example:
        >>> well_formed(rb'["\ud83d\ude00", "\ud83d", "\\ud83d"]')
        b'["\\ud83d\\ude00", "\\ufffd", "\\\\ud83d"]'
        >>> well_formed(b'["caf\xe9"]').decode()
        '["caf\ufffd"]'
    """
    if not message.isascii():
        message = message.decode(errors="replace").encode()
    if b"\\ud" not in message and b"\\uD" not in message:
        return message
    parts, copied, seen = list[bytes](), 0, 0
    for number, half in enumerate(_LONE_HALF.finditer(message)):
        at = half.start()
        if number == _MAX_EXACT:
            rest = message[copied:].replace(rb"\ud", _REPLACEMENT).replace(rb"\uD", _REPLACEMENT)
            return b"".join((*parts, rest))
        first = at - _ESCAPE_BYTES
        is_pair = (
            first >= seen
            and half[0][3:4] in b"cdefCDEF"
            and _FIRST_HALF.match(message, first)
            and _is_escape(message, first, seen)
        )
        if not is_pair and _is_escape(message, at, seen):
            parts += (message[copied:at], _REPLACEMENT)
            copied = half.end()
        seen = half.end()
    return b"".join((*parts, message[copied:]))


def _is_escape(message: bytes, at: int, seen: int) -> bool:
    """Return whether the backslash at this place is not itself escaped; begin at `seen`."""
    before = message[seen:at]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 0


def has_too_many(message: bytes) -> bool:
    """Return whether a message has more values than may be parsed at once.

    Example:
        >>> many = b'"params":[' + b"0," * 30_000 + b"0]}"
        >>> has_too_many(b'{"method":"x",' + many), has_too_many(b'{"id":7,' + many)
        (True, False)
    """
    is_answer = _find_response_id(message[:SEARCHED_BYTES], message[-SEARCHED_BYTES:]) is not None
    return has_too_many_values(message, MAX_VALUES if is_answer else _MAX_IN_NEWS)


def replacement_error(beginning: bytes, end: bytes, code: int, what: str) -> bytes | None:
    """Return an error for the call that a message answers; `None` if that call is not found.

    Libraries write the id either before the result, or after it as the last field. A request of the
    server is not a response, and is not replaced.

    Example:
        >>> replacement_error(b'{"jsonrpc":"2.0","id":7,"result":[', b"", TOO_LONG, "Too long.")
        b'{"jsonrpc": "2.0", "id": 7, "error": {"code": 41002, "message": "Too long."}}'
        >>> replacement_error(b'{"result":[', b'],"jsonrpc":"2.0","id":7}', TOO_LONG, "Too long.")
        b'{"jsonrpc": "2.0", "id": 7, "error": {"code": 41002, "message": "Too long."}}'
    """
    answered = _find_response_id(beginning, end)
    if answered is None:
        return None
    error = {"code": code, "message": what}
    return json.dumps({"jsonrpc": "2.0", "id": answered, "error": error}).encode()


def is_asked(beginning: bytes) -> bool:
    """Return whether a message with this beginning is a request or a notification.

    Example:
        >>> is_asked(b'{"jsonrpc":"2.0","method":"ping","id":1}'), is_asked(b'{"result":{"method":')
        (True, False)
    """
    return _METHOD.match(beginning) is not None


def _find_response_id(beginning: bytes, end: bytes) -> int | None:
    """Return the id of the call that a message answers; `None` if the id is not found."""
    match = _AT_THE_BEGINNING.match(beginning) or _AT_THE_END.search(end)
    return None if match is None or is_asked(beginning) else int(match[1])
