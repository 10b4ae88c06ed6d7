"""What the tools of servers are called here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.settings.models import MCPServerSettings

_SEPARATOR = "__"
_OURS = frozenset({"answer_question", "confirm_action", "find_tools", "read_result"})
"""Tools of the library that come and go as they are needed: a server must not be taken for them."""


def name_for(
    server: str,
    tool: str,
    settings: MCPServerSettings,
    *,
    is_taken: Callable[[str], bool],
    had: str | None = None,
) -> str:
    """A free name: what the settings say, else the tool's own, else one with the server's before.

    Args:
        server: The server's name.
        tool: What the server calls it.
        settings: The server's settings.
        is_taken: Whether something else has a name.
        had: The name that it had before.

    Example:
        >>> from leonidas_tools.settings.models import MCPServerSettings
        >>> settings = MCPServerSettings(command="x")
        >>> name_for("web", "search", settings, is_taken={"search"}.__contains__)
        'web__search'
        >>> prefixed = MCPServerSettings(command="x", prefix="my")
        >>> name_for("web", "search", prefixed, is_taken=lambda name: False)
        'my__search'
    """
    wished = wished_name(tool, settings)
    long = f"{server}{_SEPARATOR}{tool}"
    candidates = [wished, long] if wished is not None else [tool, long]
    if had is not None and wished is None:
        candidates.insert(0, had)
    for candidate in candidates:
        if candidate not in _OURS and not is_taken(candidate):
            return candidate
    number = 2
    while is_taken(f"{long}_{number}"):
        number += 1
    return f"{long}_{number}"


def wished_name(tool: str, settings: MCPServerSettings) -> str | None:
    """What the settings say that a tool is called here, if they do.

    Args:
        tool: What the server calls it.
        settings: The server's settings.
    """
    said = settings.tools.get(tool)
    if said is not None and said.name is not None:
        return said.name
    return None if settings.prefix is None else f"{settings.prefix}{_SEPARATOR}{tool}"
