"""Replace messages that cannot be read with errors: the call id is at one of their ends."""

from __future__ import annotations

import json
import re

from mcp_types import PARSE_ERROR

from leonidas_tools.results.json_size import MOST_VALUES, has_too_many_values

TOO_LONG = 41_002
"""The code of an answer made here: the server's own was longer than allowed."""

MALFORMED = 41_003
"""The code of an answer made here: the server's own could not be read."""

TOO_MANY = "a message of too many values"
"""What is said of one that would hold the event loop while it is read."""

_MOST_IN_NEWS = 25_000
"""Limit of values in a message that is no answer: a server may send any number of them."""

UNREADABLE = frozenset({TOO_LONG, MALFORMED, PARSE_ERROR})
"""The codes of all answers that stand for one that could not be read, the library's own too."""

SEEN_BYTES = 512
"""The number of bytes at either end of a message in which its id is looked for."""
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID = rb'"id"\s*:\s*(\d{1,18})\s*'
_AT_THE_BEGINNING = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb",")
_AT_THE_END = re.compile(_ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")
_METHOD = re.compile(rb'\s*\{[^{}\[\]]*"method"\s*:')


def has_too_many(message: bytes) -> bool:
    """Return whether a message has more values than may be read at once.

    Example:
        >>> many = b'"params":[' + b"0," * 30_000 + b"0]}"
        >>> has_too_many(b'{"method":"x",' + many), has_too_many(b'{"id":7,' + many)
        (True, False)
    """
    is_answer = _answered(message[:SEEN_BYTES], message[-SEEN_BYTES:]) is not None
    return has_too_many_values(message, MOST_VALUES if is_answer else _MOST_IN_NEWS)


def stand_in(beginning: bytes, end: bytes, code: int, what: str) -> bytes | None:
    """Return an error for the call that a message answers; `None` where that cannot be seen.

    Libraries write the id either before the result, or behind it as the very last. What a server
    asks of us is not an answer, and has none made here.

    Example:
        >>> stand_in(b'{"jsonrpc":"2.0","id":7,"result":[', b"", TOO_LONG, "Too long.")
        b'{"jsonrpc": "2.0", "id": 7, "error": {"code": 41002, "message": "Too long."}}'
        >>> stand_in(b'{"result":[', b'],"jsonrpc":"2.0","id":7}', TOO_LONG, "Too long.")
        b'{"jsonrpc": "2.0", "id": 7, "error": {"code": 41002, "message": "Too long."}}'
    """
    answered = _answered(beginning, end)
    if answered is None:
        return None
    error = {"code": code, "message": what}
    return json.dumps({"jsonrpc": "2.0", "id": answered, "error": error}).encode()


def is_asked(beginning: bytes) -> bool:
    """Return whether a message that begins so is a request or a notification.

    Example:
        >>> is_asked(b'{"jsonrpc":"2.0","method":"ping","id":1}'), is_asked(b'{"result":{"method":')
        (True, False)
    """
    return _METHOD.match(beginning) is not None


def _answered(beginning: bytes, end: bytes) -> int | None:
    """Return the id of the call that a message answers; `None` where that cannot be seen."""
    match = _AT_THE_BEGINNING.match(beginning) or _AT_THE_END.search(end)
    return None if match is None or is_asked(beginning) else int(match[1])
