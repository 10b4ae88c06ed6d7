"""Recognise names that belong to secrets."""

from __future__ import annotations

import functools
import itertools
import re

_SECRET_WORDS = frozenset(
    {"password", "passwords", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets"}
    | {"credential", "credentials", "apikey", "apikeys", "authkey", "privatekey", "secretkey"}
    | {"accesskey", "signingkey", "otp", "cvv", "cvc", "ssn", "senha", "senhas", "contraseña"}
    | {"密码", "密碼", "口令", "令牌", "密钥"}
)
_SECRET_LAST_WORDS = frozenset({"auth", "authorization", "bearer", "cookie"})
"""Words that mean a secret only at the end of a name, unlike in `auth_url`."""
_SECRET_PAIRS = frozenset(
    {(kind, "key") for kind in ("api", "access", "private", "secret", "signing", "encryption")}
    | {(kind, "key") for kind in ("auth", "ssh", "master")}
    | {("api", "keys"), ("pass", "word"), ("pass", "phrase"), ("card", "number")}
    | {("security", "code")}
)
_SECRET_ENDINGS = ("password", "passwd", "secret", "apikey")
_ABOUT_SECRETS = frozenset(
    {"length", "count", "limit", "type", "policy", "required", "expires", "expiry", "field"}
    | {"label", "strength", "enabled", "name", "hint", "min", "max", "url", "uri"}
)
_PLACES = frozenset({"page", "next", "continuation", "sync", "cursor"})
"""Words before "token" that make it a page token rather than a secret."""
HINTS = (
    "pass", "pwd", "secret", "cred", "auth", "key", "token", "cookie", "bearer", "otp", "cvv",
    "cvc", "ssn", "senha", "contras", "card", "security", "密", "口令", "令牌",
)  # fmt: skip
"""Every name of a secret contains one of these, in lower case; used for a quick search."""

_MAX_NAME_LENGTH = 128
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")


def is_secret_name(name: str) -> bool:
    """Return whether a name suggests that its value is secret.

    Example:
        >>> [is_secret_name(name) for name in ("apiKey", "X-Auth-Token", "max_tokens", "keyboard")]
        [True, True, False, False]
    """
    return len(name) <= _MAX_NAME_LENGTH and _names_secret(name)


@functools.lru_cache(maxsize=4096)
def _names_secret(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT_SECRETS:
        return False
    last = words[-1]
    if last.endswith("token") or last in _SECRET_LAST_WORDS:
        return len(words) == 1 or words[-2] not in _PLACES
    if any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words):
        return True
    return any(pair in _SECRET_PAIRS for pair in itertools.pairwise(words))
