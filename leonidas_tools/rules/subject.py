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
        names: Its own name, and for an MCP tool also `server__tool`: a rule for
            `files__delete_file` holds whatever the tool is called here.
        aliases: What the server of an MCP tool calls it, where that is another name. A rule for
            `delete_file` that asks or denies holds also where that name was taken or the tool was
            renamed; one that allows does not, for any server may call a tool like one of ours.
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
    aliases: tuple[str, ...] = ()

    @property
    def all_names(self) -> tuple[str, ...]:
        """Every name that a rule may mean it by."""
        return self.names + self.aliases


def subject_of(metadata: ToolMetadata, settings: ToolConfiguration) -> Subject:
    """A tool as rules see it.

    Args:
        metadata: What it says of itself.
        settings: What the settings say of it.
    """
    asks = settings.requires_approval
    name, server = metadata.name, _server_of(metadata)
    there = _name_there(metadata, server)
    return Subject(
        names=(name,) if server is None else tuple(dict.fromkeys((name, _long(server, there)))),
        aliases=() if there == name else (there,),
        category=metadata.category.value,
        tags=frozenset(metadata.tags if settings.tags is None else settings.tags),
        effect=settings.effect or metadata.effect,
        server=server,
        requires_approval=metadata.requires_approval if asks is None else asks,
    )


def _server_of(metadata: ToolMetadata) -> str | None:
    if metadata.origin is not None:
        return metadata.origin.server
    lane = metadata.lane or ""
    if metadata.category is not ToolCategory.MCP or not lane.startswith(_SERVER_LANE):
        return None
    return lane.removeprefix(_SERVER_LANE)


def _name_there(metadata: ToolMetadata, server: str | None) -> str:
    """What its server calls it; its own name where it has none."""
    if metadata.origin is not None:
        return metadata.origin.tool
    return metadata.name if server is None else metadata.name.removeprefix(_long(server, ""))


def _long(server: str, name: str) -> str:
    return f"{server}{_SEPARATOR}{name}"
