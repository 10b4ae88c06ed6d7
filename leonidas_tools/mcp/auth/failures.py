"""The reasons why there is no token, in texts without secrets."""

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
    """Raised instead of sending a request without its token; the text is the reason."""


class LoginRequiredError(NotAuthorizedError):
    """Raised if the user must log in first."""


class LoginError(OAuthFlowError):
    """Raised if no token can be obtained; its text contains no secret."""


class LoginNeededError(LoginError):
    """Raised if the user must log in, but no login is possible now."""

    def __init__(self, server: str) -> None:
        super().__init__(f"needs a login: run `leonidas mcp login {shlex.quote(server)}`")


def reason(error: OAuthFlowError | ValidationError) -> str:
    """Return a short reason for a failed login; truncate the text of a server.

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
    """Return the error code in the response of a token endpoint, or else its HTTP status."""
    try:
        code = json.loads(response.content)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        code = None
    if isinstance(code, str) and _CODE.fullmatch(code):
        return code
    return f"HTTP {response.status_code} {response.reason_phrase}".strip()
