"""Mask likely secrets in texts: keys, passwords in addresses, `password=…`."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from leonidas_tools.redaction.names import HINTS, is_secret_name

if TYPE_CHECKING:
    from collections.abc import Callable, Container

MASK = "***"

_SHORTEST = 8
_MAX_HEAD_LENGTH = 64


def _masking(pattern: str, flags: int = 0, *, by: str = MASK) -> Callable[[str], str]:
    return functools.partial(re.compile(pattern, flags).sub, by)


# A `…` marks a text that was cut: there the beginning of a key is masked like the key.
# Repeats are bounded where a match may start anywhere, or a long text could block the event loop.
_LOOKS: tuple[tuple[tuple[str, ...], Callable[[str], str]], ...] = (
    (
        ("-----BEGIN",),
        _masking(
            r"-----BEGIN[A-Z ]*PRIVATE KEY-----.*?(?:-----END[A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
        ),
    ),
    (("eyJ",), _masking(r"\beyJ[\w-]{0,512}+(?:…|\.[\w-]*+(?:…|(?:\.[\w-]*+)*))")),
    (("sk-", "sk_", "rk_"), _masking(r"\b[sr]k[-_](?:(?=[\w-]{0,64}\d)[\w-]{16,}|[\w-]{0,64}+…)")),
    (("AKIA", "ASIA"), _masking(r"\bA[KS]IA(?:[0-9A-Z]{16}\b|[0-9A-Z]*+…)")),
    (("AIza", "ya29."), _masking(r"\b(?:AIza|ya29\.)(?:[\w-]{20,}|[\w-]*+…)")),
    (
        ("ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "hf_"),
        _masking(r"\b(?:gh[oprsu]_|github_pat_|glpat-|hf_)(?:[\w-]{20,}|[\w-]*+…)"),
    ),
    (("xox",), _masking(r"\bxox[a-z]-(?:[\w-]{10,}|[\w-]*+…)")),
    (("?key=", "&key="), _masking(r"(?<=[?&]key=)[^\s&#\"'<>]+")),
    (("://",), _masking(r"(?<=://)[^\s/@:?#]*+:[^\s/]*(?:@|…)", by=f"{MASK}@")),
    (
        ("earer ", "EARER "),
        _masking(r"(?i)(?<=\bbearer )\s*(?:(?=\S*\d)[\w.~+/=-]{16,}|[\w.~+/=-]*+…)"),
    ),
)
_ANCHORS = tuple(anchor for anchors, _ in _LOOKS for anchor in anchors)
_KEYWORDS = (
    "passw", "passphrase", "secret", "token", "apikey", "api_key", "api-key", "api key",
    "access_key", "accesskey", "private_key", "authorization", "credential", "senha",
)  # fmt: skip
_ASSIGNMENT = re.compile(
    r"(?i)(?:passw(?:or)?d|passphrase|secret|token|api[-_ ]?key|access[-_]?key|private[-_]?key|"
    r"authorization|credentials?|senha)[\w-]{0,32}+"
    r"\\?[\"']?\s{0,4}+[:=]\s{0,4}+"
    r"(?P<value>\\?\"[^\"]*+\"?|\\?'[^']*+'?|"
    r"(?:(?:bearer|basic|digest|token)\s)?[^\s\"',;&)}\]]+)"
)
_HEAD = re.compile(r"[\w.-]*\Z")
_NAME = re.compile(r"[\w .-]+")
_SAYS_NOTHING = frozenset({"true", "false", "null", "none", MASK, ""})


def redact_text(text: str) -> str:
    """Mask likely keys, passwords in addresses, and `password=…`.

    Example:
        >>> redact_text("psql postgresql://ana:hunter2@db/shop failed, token=abcdef")
        'psql postgresql://***@db/shop failed, token=***'
    """
    if len(text) < _SHORTEST or text.isalpha():
        return text
    for anchors, without in _LOOKS:
        for anchor in anchors:
            if anchor in text:
                text = without(text)
                break
    if "=" in text or ":" in text:
        lowered = text.lower()
        for word in _KEYWORDS:
            if word in lowered:
                return _ASSIGNMENT.sub(_mask_value, text)
    return text


def distinct(key: str, taken: tuple[Container[str], Container[str]], counts: dict[str, int]) -> str:
    """Return a masked key, with a number if it is taken, so that two masked keys stay two.

    `taken` also has the original keys; `counts` is the same object in every call.
    """
    shown = key
    while shown in taken[0] or shown in taken[1]:
        counts[key] = counts.get(key, 1) + 1
        shown = f"{key} ({counts[key]})"
    return shown


def may_hold_secret(json_text: str) -> bool:
    """Return whether a JSON text may contain a secret; otherwise nothing in it is masked.

    Characters outside ASCII are not escaped in the text.
    """
    for anchor in _ANCHORS:
        if anchor in json_text:
            return True
    lowered = json_text.lower()
    return any(hint in lowered for hint in HINTS)


def _mask_value(found: re.Match[str]) -> str:
    start, begin = found.start(), found.start("value")
    head = _HEAD.search(found.string[max(start - _MAX_HEAD_LENGTH, 0) : start])
    tail = _NAME.match(found.string[start:begin])
    name = (head[0] if head else "") + (tail[0] if tail else "")
    value = found["value"]
    if value.strip("\\\"'").lower() in _SAYS_NOTHING or not is_secret_name(name.strip()):
        return found[0]
    quote = value[:2] if value[0] == "\\" else value[0] if value[0] in "\"'" else ""
    closing = quote if quote and len(value) > len(quote) and value.endswith(quote[-1]) else ""
    return found.string[start:begin] + quote + MASK + closing
