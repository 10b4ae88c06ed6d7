"""Format the questions of servers as spoken sentences that name the server first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.choices import options_of, properties_of
from leonidas_tools.redaction import is_secret_name
from leonidas_tools.redaction.visible import one_line
from leonidas_tools.results.texts import AS_IT_IS, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.results.texts import Wording

_MAX_MESSAGE_LENGTH = 500
_MAX_NAME_LENGTH = 80
_MAX_OPTIONS = 12


def asks(
    server: str, message: str, schema: Mapping[str, Any], language: str, words: Wording = AS_IT_IS
) -> str:
    """Return a question of a server with its fields.

    Example:
        >>> schema = {"properties": {"size": {"enum": ["S", "M"]}, "pin": {}}, "required": ["size"]}
        >>> asks("shop", "Which one?", schema, "en")
        "The server 'shop' asks: Which one? (size: S, M; pin?)"
        >>> asks("shop", "Log in", {"properties": {"password": {}}}, "en")
        "The server 'shop' asks: Log in (password?) Careful, this is secret: password."
    """
    said = words.template("mcp_asks", language).format(server=server, message=clean(message))
    properties = properties_of(schema)
    fields = "; ".join(_field(name, each, schema) for name, each in properties.items())
    secret = ", ".join(clean(name, _MAX_NAME_LENGTH) for name in properties if is_secret_name(name))
    return " ".join(
        filter(
            None,
            (
                said,
                f"({fields})" if fields else "",
                words.template("mcp_secret", language).format(names=secret) if secret else "",
            ),
        )
    )


def opens(server: str, host: str, message: str, language: str, words: Wording = AS_IT_IS) -> str:
    """Return the sentence for a server's request to open a page."""
    return words.template("mcp_opens", language).format(
        server=server, host=host, message=clean(message)
    )


def clean(text: str, longest: int = _MAX_MESSAGE_LENGTH) -> str:
    r"""Return a server's text in one line, shortened, without control and format characters.

    Example:
        >>> clean("Hello\n  \x1b[31mworld")
        'Hello world'
    """
    return shorten(one_line(text[: 4 * longest]), longest)


def _field(name: str, schema: Any, whole: Mapping[str, Any]) -> str:
    title = schema.get("title") if isinstance(schema, dict) else None
    named = clean(str(title or name), _MAX_NAME_LENGTH)
    required = whole.get("required")
    needed = isinstance(required, list) and name in required
    options = [clean(each, _MAX_NAME_LENGTH) for _, each in options_of(schema)]
    shown = ", ".join(options[:_MAX_OPTIONS]) + ("…" if len(options) > _MAX_OPTIONS else "")
    return f"{named}{'' if needed else '?'}" + (f": {shown}" if shown else "")
