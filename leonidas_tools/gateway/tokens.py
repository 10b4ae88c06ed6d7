"""Signed tokens that identify a client: JSON Web Tokens with HMAC-SHA256."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jwt

from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

AUDIENCE: Final = "leonidas-gateway"
METRICS_AUDIENCE: Final = "leonidas-metrics"
_RESUMPTION_AUDIENCE = "leonidas-resumption"
_RESUMABLE_SECONDS = 7200.0
_MAX_RESUMPTION_BYTES = 8192
_ALGORITHM = "HS256"
_MIN_SECRET_BYTES = 32
_MAX_USER_LENGTH = 128
_MAX_TOKEN_BYTES = 2048


def make_token(secret: str, user: str, *, seconds: float = 3600.0, audience: str = AUDIENCE) -> str:
    """Return a token that signs a user in at the gateway.

    Any library for JSON Web Tokens can make the same: HS256, with `sub` (the user), `exp` and `aud`
    (`leonidas-gateway`).

    Args:
        secret: The secret of the gateway, at least 32 bytes.
        user: The user.
        seconds: How long the token can start conversations.
        audience: `leonidas-gateway`, or `leonidas-metrics` for the metrics alone.

    Raises:
        ConfigurationError: The secret is too short, or the user or the duration cannot be used.

    Example:
        >>> make_token("0123456789abcdef0123456789abcdef", "ana").count(".")
        2
    """
    if not _is_user(user):
        raise ConfigurationError(
            f"The user {user!r} is invalid: use 1 to {_MAX_USER_LENGTH} printable characters"
        )
    if not seconds > 0:
        raise ConfigurationError(f"A token must be valid for more than 0 seconds, not {seconds!r}")
    claims = {"sub": user, "exp": int(time.time() + seconds), "aud": audience}
    return jwt.encode(claims, check_secret(secret), algorithm=_ALGORITHM)


def check_secret(secret: str) -> str:
    """Return the secret if it is long enough.

    Raises:
        ConfigurationError: The secret is too short.
    """
    if len(secret.encode()) < _MIN_SECRET_BYTES:
        raise ConfigurationError(
            f"The secret of the gateway is too short: give at least {_MIN_SECRET_BYTES} "
            "bytes, such as those of `openssl rand -hex 32`"
        )
    return secret


class TokenError(Exception):
    """Raised for an invalid token; the message gives the reason, for the server's log."""


def user_of(token: bytes | None, secret: str, *, audience: str = AUDIENCE) -> str:
    """Return the user of a token.

    Raises:
        TokenError: The token is not valid.
    """
    if not token:
        raise TokenError("there is no token")
    if len(token) > _MAX_TOKEN_BYTES:
        raise TokenError(f"the token has more than {_MAX_TOKEN_BYTES} bytes")
    user = _claims(token, secret, audience)["sub"]
    if not _is_user(user):
        raise TokenError(f"its user is not a text of 1 to {_MAX_USER_LENGTH} printable characters")
    return str(user)


class Resumed(NamedTuple):
    """The state of a conversation that is resumed.

    Args:
        session: The id of its session.
        handle: The resumption handle of the model.
        at: When the model sent the handle, in seconds since the epoch.
        read: The tools whose untrusted results are in the model's context.
        process: The process that recorded the calls since, if no store does.
    """

    session: str
    handle: str
    at: float
    read: Sequence[str]
    process: str


def make_resumption(
    secret: str,
    user: str,
    session: str,
    handle: str,
    *,
    read: Sequence[str] = (),
    process: str = "",
) -> str | None:
    """Return a token with which a user resumes a conversation; `None` if it is too long."""
    claims = {
        "sub": user,
        "exp": int(time.time() + _RESUMABLE_SECONDS),
        "aud": _RESUMPTION_AUDIENCE,
        "session": session,
        "handle": handle,
        "at": time.time(),
        "read": list(read),
        "process": process,
    }
    token = jwt.encode(claims, secret, algorithm=_ALGORITHM)
    return token if len(token) <= _MAX_RESUMPTION_BYTES else None


def resumption_of(token: str, secret: str, user: str) -> Resumed | None:
    """Return the state in a resumption token of this user; `None` if it is not valid."""
    if len(token) > _MAX_RESUMPTION_BYTES:
        return None
    try:
        claims = _claims(token, secret, _RESUMPTION_AUDIENCE, *Resumed._fields)
    except TokenError:
        return None
    if claims["sub"] != user:
        return None
    return Resumed(*(claims[name] for name in Resumed._fields))


def _claims(token: bytes | str, secret: str, audience: str, *names: str) -> dict[str, Any]:
    """Return the claims of a token."""
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            secret,
            algorithms=[_ALGORITHM],
            audience=audience,
            options={"require": ["exp", "sub", "aud", *names]},
        )
    except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
        raise TokenError(str(error) or type(error).__name__) from None
    return claims


def _is_user(user: object) -> bool:
    return isinstance(user, str) and 0 < len(user) <= _MAX_USER_LENGTH and user.isprintable()
