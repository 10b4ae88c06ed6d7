"""The properties of a tool that rules can match."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.invocation import log_failure
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.rules.conditions import is_described
from leonidas_tools.rules.risky import moves, risky_word
from leonidas_tools.tools.metadata import ToolCategory, ToolEffect, fingerprint_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leonidas_tools.settings.models import ToolConfiguration
    from leonidas_tools.tools.metadata import ToolMetadata

logger = visible_logger(__name__)

_SERVER_LANE = "mcp:"
_SEPARATOR = "__"


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A tool as rules see it, with the settings applied.

    Args:
        names: The tool's name, and for an MCP tool also `server__tool`: a rule for
            `files__delete_file` applies whatever name the tool has here.
        aliases: The name of an MCP tool on its server, if different. A rule for `delete_file` that
            asks or denies also applies if that name was taken or the tool was renamed; a rule that
            allows does not, since any server may name a tool like one of ours.
        category: The tool's own category.
        set_category: The category that the settings give it; rules about either category apply.
        tags: The tool's tags.
        effect: What a call changes.
        server: The MCP server that the tool belongs to.
        requires_approval: Whether a person is asked first.
        risk: Why a person is asked first unless the settings allow risky tools, such as
            `risky name 'send'`; empty if `requires_approval` is set or nothing is risky.
        moves: The same for a tool that moves things, if a call names many.
        asks_about_risks: Whether a person is asked first if its facts contain risks.
        answers_questions: Whether it is one of the library's own tools that report an answer;
            having the name of one is not enough.
        metadata: The tool's own metadata; `None` if unknown.
    """

    names: tuple[str, ...]
    category: str
    tags: frozenset[str]
    effect: ToolEffect
    server: str | None = None
    requires_approval: bool = False
    risk: str = ""
    moves: bool = False
    asks_about_risks: bool = False
    aliases: tuple[str, ...] = ()
    answers_questions: bool = False
    set_category: str | None = None
    metadata: ToolMetadata | None = field(default=None, compare=False, repr=False)

    def describes(self, steps: Sequence[str]) -> bool:
        """Return whether its schema allows an argument at a path; `True` if that is unclear."""
        metadata = self.metadata
        if metadata is None or metadata.facts is not None or steps[0] in metadata.fixed:
            return True
        return is_described(metadata.parameters, steps)

    @property
    def fingerprint(self) -> str | None:
        """Return the fingerprint of its definition; `None` if that is unknown."""
        return None if self.metadata is None else fingerprint_of(self.metadata)

    @property
    def all_names(self) -> tuple[str, ...]:
        """Return all names by which a rule that asks or denies may match it."""
        return self.names + self.aliases


def subject_of(metadata: ToolMetadata, settings: ToolConfiguration) -> Subject:
    """Return a tool as rules see it, with the settings applied."""
    asks = settings.requires_approval
    if asks is None:
        asks = metadata.requires_approval
    effect = settings.effect or metadata.effect
    open_to_risk = asks is None and effect is not ToolEffect.READ
    name, server = metadata.name, _server_of(metadata)
    there = _name_on_server(metadata, server)
    return Subject(
        names=(name,)
        if server is None
        else tuple(dict.fromkeys((name, _qualified_name(server, there)))),
        aliases=() if there == name else (there,),
        category=str(metadata.category),
        set_category=None if settings.category is None else str(settings.category),
        tags=frozenset(metadata.tags if settings.tags is None else settings.tags),
        effect=effect,
        server=server,
        requires_approval=bool(asks),
        risk=_risk(metadata, there) if open_to_risk else "",
        moves=open_to_risk and moves(there),
        asks_about_risks=metadata.facts is not None and asks is None,
        answers_questions=metadata.answers_questions,
        metadata=metadata,
    )


def add_facts(metadata: ToolMetadata | None, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments as rules see them: with the facts that the tool derives from them.

    A derivation that fails is itself a risk.
    """
    if metadata is None or metadata.facts is None:
        return arguments
    try:
        return {**arguments, **metadata.facts(arguments)}
    except Exception as error:  # noqa: BLE001 - code of the tool, which may raise anything
        log_failure(logger, metadata.name, error)
        return {**arguments, "risks": ["unclear"]}


def _risk(metadata: ToolMetadata, name: str) -> str:
    """Return why calls of a tool are risky, by its name on its server or a hint of the server."""
    word = risky_word(name)
    if word is not None:
        return f"risky name {word!r}"
    return "declared destructive by its server" if metadata.destructive else ""


def _server_of(metadata: ToolMetadata) -> str | None:
    if metadata.origin is not None:
        return metadata.origin.server
    lane = metadata.lane or ""
    if metadata.category is not ToolCategory.MCP or not lane.startswith(_SERVER_LANE):
        return None
    return lane.removeprefix(_SERVER_LANE)


def _name_on_server(metadata: ToolMetadata, server: str | None) -> str:
    """Return its name on its server; its own name if it has no server."""
    if metadata.origin is not None:
        return metadata.origin.tool
    return (
        metadata.name if server is None else metadata.name.removeprefix(_qualified_name(server, ""))
    )


def _qualified_name(server: str, name: str) -> str:
    return f"{server}{_SEPARATOR}{name}"
