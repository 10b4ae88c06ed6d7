"""Why there is no token, in words that hold none."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError

if TYPE_CHECKING:
    from pydantic import ValidationError

_SHOWN_CHARACTERS = 200
_CODE = re.compile(r"[\w .-]{1,60}", re.ASCII)


class NotAuthorizedError(httpx2.TransportError):
    """Raised in place of a request that needs a token where there is none; says why."""


class LoginRequiredError(NotAuthorizedError):
    """Raised where a person has to log in first."""


class LoginError(OAuthFlowError):
    """Raised where a token cannot be got; its text names no secret."""


class LoginNeededError(LoginError):
    """Raised where a person has to log in, and none is asked now."""

    def __init__(self, server: str) -> None:
        super().__init__(f"needs a login: run `leonidas mcp login {shlex.quote(server)}`")


def reason(error: OAuthFlowError | ValidationError) -> str:
    """Return why a login has failed, in a few words; what a server wrote is cut.

    Example:
        >>> reason(LoginNeededError("notes"))
        'needs a login: run `leonidas mcp login notes`'
        >>> reason(LoginNeededError("my notes"))
        "needs a login: run `leonidas mcp login 'my notes'`"
    """
    if isinstance(error, LoginError):
        return str(error)
    if isinstance(error, OAuthRegistrationError):
        return "its authorization server does not register clients; set `client_id` under `auth`"
    if isinstance(error, OAuthFlowError):
        first = str(error).partition("\n")[0][:_SHOWN_CHARACTERS]
        return f"its authorization server does not follow the protocol: {first}"
    return "its authorization server did not return a valid token"


def refusal(response: httpx2.Response) -> str:
    """Return what a token endpoint has said that refuses: its error code, else the HTTP status."""
    try:
        code = json.loads(response.content)["error"]
    except (ValueError, KeyError, TypeError):
        code = None
    if isinstance(code, str) and _CODE.fullmatch(code):
        return code
    return f"HTTP {response.status_code} {response.reason_phrase}".strip()
