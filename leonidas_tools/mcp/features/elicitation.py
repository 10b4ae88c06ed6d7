"""Questions of a server to the user."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import mcp_types

from leonidas_tools.approvals.choices import options_of, properties_of
from leonidas_tools.approvals.inquiry import Inquiry
from leonidas_tools.approvals.request import Answer
from leonidas_tools.calls.last_minute import LastMinute
from leonidas_tools.errors import SchemaError
from leonidas_tools.json_schema import ArgumentValidator
from leonidas_tools.redaction import is_secret_name
from leonidas_tools.redaction.schemas import schema_without
from leonidas_tools.redaction.visible import one_line, visible_logger
from leonidas_tools.results.texts import AS_IT_IS, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.client.session import ClientRequestContext

    from leonidas_tools.approvals.request import Decision
    from leonidas_tools.mcp.features.ongoing_calls import OngoingCalls
    from leonidas_tools.redaction import KnownSecrets
    from leonidas_tools.results.texts import Wording

logger = visible_logger(__name__)

_MAX_PER_MINUTE = 10
_MAX_SCHEMA_LENGTH = 16_384
_MAX_URL_LENGTH = 2048
_MAX_MESSAGE_LENGTH = 8192
_MAX_SHOWN_LENGTH = 500
_MAX_NAME_LENGTH = 80
_MAX_OPTIONS = 12
_PLAIN_PLACE = re.compile(r"([\w.-]+|\[[\da-f:.]+\])(:\d+)?", re.ASCII | re.IGNORECASE)


class UnaskableError(Exception):
    """Raised for a question that cannot be asked; its text is the reason."""


class Elicitation:
    """Asks a server's questions to the user of the call that they belong to.

    `secrets` are texts of the server's settings, which the server must not disclose.
    """

    def __init__(self, server: str, calls: OngoingCalls, secrets: KnownSecrets) -> None:
        self._server = server
        self._calls = calls
        self._secrets = secrets
        self._requests = LastMinute()
        self._warnings = LastMinute()

    async def __call__(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the client library's
        params: mcp_types.ElicitRequestParams,
    ) -> mcp_types.ElicitResult:
        """Ask the user, and return the answer; decline a question that cannot be asked."""
        try:
            call = self._calls.find_asking()
            if call is None:
                raise UnaskableError("the call that it belongs to is unknown")  # noqa: TRY301 - logged below
            if not self._requests.admits(_MAX_PER_MINUTE, monotonic()):
                raise UnaskableError(f"it asks more than {_MAX_PER_MINUTE} times a minute")  # noqa: TRY301 - logged below
            inquiry = self._inquiry(params)
        except UnaskableError as error:
            if self._warnings.admits(_MAX_PER_MINUTE, monotonic()):
                logger.warning(
                    "Declined an elicitation of the MCP server %r: %s", self._server, error
                )
            return mcp_types.ElicitResult(action="decline")
        return _build_result(*await call.ask(inquiry), has_content=params.mode == "form")

    def _inquiry(self, params: mcp_types.ElicitRequestParams) -> Inquiry:
        if isinstance(params, mcp_types.ElicitRequestURLParams):
            return self._page_inquiry(params)
        message = self._message(params)
        schema = schema_without(self._secrets, _close_schema(params.requested_schema))
        if self._secrets(schema) != schema:
            raise UnaskableError("its requested schema contains a secret of its settings")
        fields = properties_of(schema)
        try:
            validator = ArgumentValidator(schema)
        except SchemaError as error:
            raise UnaskableError("its requested schema is invalid") from error
        return Inquiry(
            rule="elicitation",
            title=partial(describe_question, self._server, message, schema),
            details={"server": self._server, "message": clean(message)},
            answered=asyncio.get_running_loop().create_future(),
            schema=schema if fields else None,
            validate=_accept_titles(fields, validator),
        )

    def _page_inquiry(self, params: mcp_types.ElicitRequestURLParams) -> Inquiry:
        try:
            parts = urlsplit(params.url)
        except ValueError as error:
            raise UnaskableError("its URL is invalid") from error
        if parts.scheme not in {"http", "https"} or len(params.url) > _MAX_URL_LENGTH:
            raise UnaskableError("its URL is too long, or not http or https")
        # A browser could parse another host from the URL than the host that the user is shown.
        if not params.url.isprintable() or not _PLAIN_PLACE.fullmatch(parts.netloc):
            raise UnaskableError("its URL is ambiguous")
        if self._secrets.text(params.url) != params.url:
            raise UnaskableError("its URL contains a secret of its settings")
        host = clean(parts.hostname or "?")
        message = self._message(params)
        return Inquiry(
            rule="elicitation",
            title=partial(describe_page, self._server, host, message),
            details={"server": self._server, "message": clean(message), "url": params.url},
            answered=asyncio.get_running_loop().create_future(),
        )

    def _message(self, params: mcp_types.ElicitRequestParams) -> str:
        """Return the message without secrets, truncated to more than is ever shown."""
        return self._secrets.text(params.message)[:_MAX_MESSAGE_LENGTH]


def _build_result(decision: Decision, why_not: str, *, has_content: bool) -> mcp_types.ElicitResult:
    if decision.answer is not Answer.DENY:
        content = dict(decision.arguments or {}) if has_content else None
        return mcp_types.ElicitResult(action="accept", content=content)
    is_refused = why_not in {"refused", "denied_by_rule"}
    return mcp_types.ElicitResult(action="decline" if is_refused else "cancel")


def _close_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an answer without other properties; raise an error if it is too long."""
    if len(json.dumps(schema)) > _MAX_SCHEMA_LENGTH:
        raise UnaskableError("its requested schema is too long")
    kept = {key: value for key, value in schema.items() if key != "patternProperties"}
    return {**kept, "additionalProperties": False}


def _accept_titles(
    fields: Mapping[str, Any], validate: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Accept the title of an option instead of its value: a user says "Red", not "r"."""
    chosen = {
        name: {title.casefold(): value for value, title in options_of(schema)}
        for name, schema in fields.items()
    }

    def resolve(name: str, value: Any) -> Any:
        options = chosen.get(name)
        if not options:
            return value
        if isinstance(value, list):
            return [resolve(name, each) for each in value]
        if not isinstance(value, str) or value in options.values():
            return value
        return options.get(value.strip().casefold(), value)

    return lambda answers: validate({name: resolve(name, each) for name, each in answers.items()})


def describe_question(
    server: str, message: str, schema: Mapping[str, Any], language: str, words: Wording = AS_IT_IS
) -> str:
    """Return a question of a server with its fields.

    Example:
        >>> schema = {"properties": {"size": {"enum": ["S", "M"]}, "pin": {}}, "required": ["size"]}
        >>> describe_question("shop", "Which one?", schema, "en")
        "The server 'shop' asks: Which one? (size: S, M; pin?)"
        >>> describe_question("shop", "Log in", {"properties": {"password": {}}}, "en")
        "The server 'shop' asks: Log in (password?) Careful, this is secret: password."
    """
    text = words.template("mcp_asks", language).format(server=server, message=clean(message))
    properties = properties_of(schema)
    fields = "; ".join(_field(name, each, schema) for name, each in properties.items())
    secret = ", ".join(clean(name, _MAX_NAME_LENGTH) for name in properties if is_secret_name(name))
    return " ".join(
        filter(
            None,
            (
                text,
                f"({fields})" if fields else "",
                words.template("mcp_secret", language).format(names=secret) if secret else "",
            ),
        )
    )


def describe_page(
    server: str, host: str, message: str, language: str, words: Wording = AS_IT_IS
) -> str:
    """Return the sentence for a server's request to open a page."""
    return words.template("mcp_opens", language).format(
        server=server, host=host, message=clean(message)
    )


def clean(text: str, longest: int = _MAX_SHOWN_LENGTH) -> str:
    r"""Return a server's text in one line, shortened, without control and format characters.

    Example:
        >>> clean("Hello\n  \x1b[31mworld")
        'Hello world'
    """
    return shorten(one_line(text[: 4 * longest]), longest)


def _field(name: str, schema: Any, whole: Mapping[str, Any]) -> str:
    title = schema.get("title") if isinstance(schema, dict) else None
    label = clean(str(title or name), _MAX_NAME_LENGTH)
    required = whole.get("required")
    needed = isinstance(required, list) and name in required
    options = [clean(each, _MAX_NAME_LENGTH) for _, each in options_of(schema)]
    shown = ", ".join(options[:_MAX_OPTIONS]) + ("…" if len(options) > _MAX_OPTIONS else "")
    return f"{label}{'' if needed else '?'}" + (f": {shown}" if shown else "")
