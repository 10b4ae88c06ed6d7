"""Short reasons why a server cannot be reached: the failure, a semicolon and a hint."""

from __future__ import annotations

import os
import socket
import ssl
from typing import TYPE_CHECKING

import anyio
import httpx2
from mcp.shared.exceptions import MCPError

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp.auth import NotAuthorizedError
from leonidas_tools.mcp.transport.tls import tls_reason
from leonidas_tools.redaction.addresses import shown_place
from leonidas_tools.results.texts import MessageText, join, say

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH_HINT = "is the path of the url right, such as /mcp, or /sse for transport 'sse'?"
_HINTS = {
    401: "it requires a token (`headers`) or a login (`auth`)",
    403: "this token or client address is not allowed",
    404: PATH_HINT,
    405: PATH_HINT,
    407: "the proxy requires a login",
    421: "it does not know the host of the url",
}


_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError)
_TELLING = (TimeoutError, MCPError, ConfigurationError, httpx2.HTTPError, OSError)


class StrangeAnswerError(httpx2.TransportError):
    """Raised instead of returning a response that is not MCP; its text is the reason."""


def reason_of(error: BaseException | None) -> str:
    """Return why a connection could not be opened or has ended.

    Example:
        >>> reason_of(ExceptionGroup("both", [TimeoutError()]))
        'no response in time'
        >>> reason_of(ExceptionGroup("one", [anyio.BrokenResourceError()]))
        'the connection was closed'
    """
    match root_error(error):
        case cause if breaks_protocol(cause):
            return say("mcp_no_protocol")
        case TimeoutError():
            return say("mcp_late")
        case MCPError() | ConfigurationError() as told:
            return told.message
        case httpx2.HTTPError() | OSError() as told:
            return request_reason(told)
        case _:
            return say("mcp_closed")


def breaks_protocol(cause: BaseException | None) -> bool:
    """Return whether the cause of an error is a response that violates the protocol."""
    return cause is not None and not isinstance(cause, (*_TELLING, *_CLOSED))


def root_error(error: BaseException | None) -> BaseException | None:
    """Return the error; for a group, the first error that explains the failure, if there is one.

    Example:
        >>> root_error(ExceptionGroup("both", [ValueError(), TimeoutError()]))
        TimeoutError()
    """
    leaves = list(_leaves(error))
    return next((each for each in leaves if isinstance(each, _TELLING)), next(iter(leaves), None))


def _leaves(error: BaseException | None) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    elif error is not None:
        yield error


def request_reason(error: BaseException) -> str:
    """Return a short reason for a failed request, and a hint after a semicolon, if there is one."""
    match error:
        case httpx2.HTTPStatusError():
            return status_text(error.response)
        case NotAuthorizedError() | StrangeAnswerError():
            return str(error)
        case httpx2.ProxyError():
            return f"the proxy rejected the connection: {error}"
    cause = _os_error(error)
    return _connection_reason(error) if cause is None else _system_reason(cause)


def _connection_reason(error: BaseException) -> str:
    match error:
        case httpx2.TimeoutException():
            return "it took too long to connect or to answer"
        case httpx2.RemoteProtocolError():
            return "it does not speak HTTP; should the url begin with https://?"
    return "the connection was lost"


def _system_reason(error: OSError) -> str:
    match error:
        case ssl.SSLError():
            return tls_reason(error)
        case socket.gaierror():
            return "its host name cannot be resolved"
    return os.strerror(error.errno or 0).lower()


def with_place(what: str, url: str | None) -> str:
    """Return a reason with the address of the server, inserted before the hint.

    Example:
        >>> with_place("HTTP 404 Not Found; is the path right?", "http://host/")
        'HTTP 404 Not Found at http://host/; is the path right?'
    """
    if url is None or "`leonidas " in what:  # a command to run is hint enough
        return what
    if type(what) is MessageText:
        return join(what, f"at {shown_place(url)}")
    happened, semicolon, hint = what.partition("; ")
    return f"{happened} at {shown_place(url)}{semicolon}{hint}"


def status_text(response: httpx2.Response) -> str:
    """Return the status of a response, with a hint if there is one.

    Example:
        >>> request = httpx2.Request("POST", "http://host/mcp")
        >>> status_text(httpx2.Response(403, request=request))
        'HTTP 403 Forbidden; this token or client address is not allowed'
    """
    status = f"HTTP {response.status_code} {response.reason_phrase}".strip()
    if response.next_request is not None:
        to = shown_place(str(response.next_request.url))
        return f"{status}: it redirects to {to}; set that url if it is the right one"
    is_token = response.status_code == httpx2.codes.UNAUTHORIZED and (
        "authorization" in response.request.headers
    )
    hint = "it rejected the token" if is_token else _HINTS.get(response.status_code)
    return status if hint is None else f"{status}; {hint}"


def _os_error(error: BaseException | None) -> OSError | None:
    """Return the error of the operating system that caused an error, if there is one."""
    while (error := root_error(error)) is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error
        error = error.__cause__ or error.__context__
    return None
