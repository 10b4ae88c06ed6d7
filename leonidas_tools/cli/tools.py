"""`leonidas tools`: list tools, show one, and call it."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leonidas_tools.cli.places import Config, default_config, lines_of
from leonidas_tools.cli.typed_arguments import parse_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools import ToolResult
    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.settings.models import ToolConfiguration
    from leonidas_tools.settings.option_sources import Effective
    from leonidas_tools.tools.registry import AnyTool

Name = Annotated[str, typer.Argument(help="Its name; `leonidas tools list` lists all.")]


def commands() -> typer.Typer:
    """Return the commands about tools."""
    app = typer.Typer(help="List the tools, show one, or call it.")
    app.command("list")(list_tools)
    app.command("show")(show)
    app.command("call")(call)
    return app


def list_tools(
    category: Annotated[str | None, typer.Option(help="Such as python, mcp or speech.")] = None,
    query: Annotated[str | None, typer.Option(help="Words to look for.")] = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List the tools of the settings, those of MCP servers included.

    Example: leonidas tools list --query weather
    """
    from leonidas_tools.cli import terminal

    tools, near = asyncio.run(_describe_matching(config or default_config(), category, query))
    if not tools:
        terminal.say(_format_no_match(category, query, near), err=True)
    if as_json:
        terminal.write_json(tools)
        return
    if not tools:
        return
    console = terminal.output()
    rows = terminal.table(console, "tool", "category", "effect", "status", "description")
    for tool in tools:
        first = tool["description"].partition("\n")[0]
        effect = tool["effect"] if tool["effect_declared"] else f"{tool['effect']} (undeclared)"
        rows.add_row(tool["name"], tool["category"], effect, tool["status"], first)
    console.print(rows)


def _format_no_match(category: str | None, query: str | None, near: list[str]) -> str:
    what = "There is no tool" if category is None else f"There is no tool of category {category!r}"
    if query is None:
        return f"{what}: add a toolbox or an MCP server to the settings"
    hint = f"the closest names are {', '.join(map(repr, near))}; " if near else ""
    return f"{what} with {query!r}: {hint}`leonidas tools list` lists all"


def show(
    name: Name,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show the effective settings of a tool, each with its source.

    A source is a default, the decorator, a line of the settings, or an annotation of an MCP server.

    Example: leonidas tools show get_weather
    """
    from leonidas_tools.cli import terminal

    tool = asyncio.run(_describe_tool(config or default_config(), name))
    if as_json:
        terminal.write_json(tool)
        return
    console = terminal.output()
    rows = terminal.table(console, "", "")
    rows.show_header = False
    for key in ("name", "declared_name", "category", "description", "parameters"):
        rows.add_row(key, terminal.lines(_text(tool[key])))
    console.print(rows)
    rows = terminal.table(console, "in effect", "value", "source", "note")
    for key, said in tool["effective"].items():
        if key != "description":
            rows.add_row(
                key,
                terminal.lines(_text(said["value"])),
                terminal.lines(_source(said)),
                terminal.lines(said.get("note", "")),
            )
    console.print(rows)


def _text(value: Any) -> str:
    if value in (None, [], {}):
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict) else str(value)
    )


def _source(said: dict[str, Any]) -> str:
    if "key" not in said:
        return str(said["source"])
    place = f"{said['file']}:{said['line']}" if "line" in said else "settings"
    return f"{place} {said['key']}"


def call(
    name: Name,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="A JSON object, or key=value for each argument."),
    ] = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result on one line.")] = False,
) -> None:
    """Call a tool and print its answer.

    A tool that requires approval asks in this terminal. The exit code is 1 if the call fails,
    and 2 if there is no such tool.

    Example: leonidas tools call get_weather city=Lisbon

    Example: leonidas tools call get_weather '{"city": "Lisbon"}'
    """
    from leonidas_tools.cli import terminal

    given = parse_arguments(arguments or [])
    result = asyncio.run(_call(config or default_config(), name, given))
    terminal.write_json(result.to_response(), indent=None if as_json else 2)
    if not result.ok:
        raise typer.Exit(1)


async def _describe_matching(
    config: Path, category: str | None, query: str | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the matching tools, and the names closest to the query."""
    from leonidas_tools.cli.starting import open_tools
    from leonidas_tools.tools.exports import describe

    async with open_tools(config) as tools:
        registry = tools.registry
        chosen = registry.search(query, limit=len(registry)) if query else list(registry)
        if category is not None:
            wanted = registry.by_category(category)
            chosen = [tool for tool in chosen if tool in wanted]
        settings = tools.settings.current
        described = [
            {**describe(registry, tool), **_effect(tool, settings.for_tool(tool.name, tool.origin))}
            for tool in chosen
        ]
        return described, registry.suggestions(query) if query else []


def _effect(tool: "AnyTool", settings: "ToolConfiguration") -> dict[str, Any]:
    """Return the effect of a tool, and whether it was declared."""
    from leonidas_tools.settings.effective import effect_of

    declared = settings.effect is not None or tool.declares_effect
    return {"effect": effect_of(tool, settings).value, "effect_declared": declared}


async def _describe_tool(config: Path, name: str) -> dict[str, Any]:
    from leonidas_tools.cli.starting import get_tool, open_tools
    from leonidas_tools.settings.option_sources import effective
    from leonidas_tools.tools.exports import describe

    async with open_tools(config, needed=name) as tools:
        tool = get_tool(tools, name)
        values = effective(tool, tools.settings.current)
        described = describe(tools.registry, tool)
    lines = lines_of(config)
    shown = {each.name: _add_location(each, config, lines) for each in values}
    for key in described.keys() & _SETTING.keys():
        described[key] = shown[_SETTING[key]]["value"] if _SETTING[key] in shown else None
    return {**described, "effective": shown}


def _add_location(value: "Effective", config: Path, lines: "Mapping[str, int]") -> dict[str, Any]:
    """Return a value as JSON, with the line of the file that it comes from."""
    said = value.to_json()
    line = None if value.key is None else lines.get(value.key)
    return said if line is None else {**said, "file": str(config), "line": line}


_SETTING = {
    **{
        name: name
        for name in (
            "description", "priority", "effect", "status", "retry_attempts", "fallback_tools",
            "tags", "behavior", "scheduling", "on_cancel", "filler", "repeat_after_resume",
        )
    },
    "timeout_seconds": "timeout",
    "deadline_seconds": "deadline",
    "filler_after_seconds": "filler_after",
}  # fmt: skip
"""The setting that is in effect for each key of the description."""


async def _call(config: Path, name: str, arguments: dict[str, Any]) -> "ToolResult":
    from leonidas_tools.approvals.terminal import TerminalChannel
    from leonidas_tools.cli.starting import get_tool, open_tools

    approval = TerminalChannel(always=False)
    async with open_tools(config, needed=name, approval=approval) as tools:
        if tools.registry.find(name) is None:
            get_tool(tools, name)  # raises
        tools.monitor.subscribe(show_progress)
        return await tools.execute(name, arguments)


def show_progress(event: "ToolEvent") -> None:
    """Show the progress of a call on standard error."""
    from leonidas_tools.calls.events import EventKind
    from leonidas_tools.cli import terminal
    from leonidas_tools.cli.display import progress_text

    if event.kind in (EventKind.PROGRESS, EventKind.RETRY, EventKind.FALLBACK, EventKind.UNDO):
        terminal.messages().print(f"{event.call.name}: {progress_text(event.shown())}")
