"""What a rule can know of a tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.metadata import ToolCategory, ToolEffect

if TYPE_CHECKING:
    from leonidas_tools.metadata import ToolMetadata
    from leonidas_tools.settings.models import ToolConfiguration

_SERVER_LANE = "mcp:"
_SEPARATOR = "__"


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A tool, as rules see it under the settings.

    Args:
        names: Its own name, and for an MCP tool every name it can go by: a rule for `delete_file`
            holds also where that name was taken, and for `files__delete_file` also where it was
            not.
        category: Its category.
        tags: Its tags.
        effect: What a call changes.
        server: The MCP server it belongs to.
        requires_approval: Whether a person is to be asked first.
    """

    names: tuple[str, ...]
    category: str
    tags: frozenset[str]
    effect: ToolEffect
    server: str | None = None
    requires_approval: bool = False


def subject_of(metadata: ToolMetadata, settings: ToolConfiguration) -> Subject:
    """A tool as rules see it.

    Args:
        metadata: What it says of itself.
        settings: What the settings say of it.
    """
    asks = settings.requires_approval
    server = _server_of(metadata)
    return Subject(
        names=_names(metadata.name, server),
        category=metadata.category.value,
        tags=frozenset(metadata.tags if settings.tags is None else settings.tags),
        effect=settings.effect or metadata.effect,
        server=server,
        requires_approval=metadata.requires_approval if asks is None else asks,
    )


def _server_of(metadata: ToolMetadata) -> str | None:
    lane = metadata.lane or ""
    if metadata.category is not ToolCategory.MCP or not lane.startswith(_SERVER_LANE):
        return None
    return lane.removeprefix(_SERVER_LANE)


def _names(name: str, server: str | None) -> tuple[str, ...]:
    if server is None:
        return (name,)
    bare = name.removeprefix(server + _SEPARATOR)
    return tuple(dict.fromkeys((name, bare, server + _SEPARATOR + bare)))
