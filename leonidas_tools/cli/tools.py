"""`leonidas tools`: which tools there are, what one takes, and calling it."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leonidas_tools.cli.places import Config, default_config
from leonidas_tools.cli.typed_arguments import typed_arguments

if TYPE_CHECKING:
    from leonidas_tools import ToolResult
    from leonidas_tools.events import ToolEvent

Name = Annotated[str, typer.Argument(help="Its name; `leonidas tools list` has them all.")]


def commands() -> typer.Typer:
    """The commands about tools."""
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
    """List the tools of the settings, those of MCP servers included."""
    from leonidas_tools.cli import terminal

    tools = asyncio.run(_described(config or default_config(), category, query))
    if as_json:
        terminal.write_json(tools)
        return
    console = terminal.output()
    rows = terminal.table(console, "tool", "category", "effect", "status", "description")
    for tool in tools:
        first = tool["description"].partition("\n")[0]
        rows.add_row(tool["name"], tool["category"], tool["effect"], tool["status"], first)
    console.print(rows)


def show(
    name: Name,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show all that is known of a tool."""
    from leonidas_tools.cli import terminal

    tool = asyncio.run(_one_described(config or default_config(), name))
    if as_json:
        terminal.write_json(tool)
        return
    console = terminal.output()
    rows = terminal.table(console, "", "")
    rows.show_header = False
    for key, value in tool.items():
        if value in (None, [], {}):
            continue
        text = json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict) else value
        rows.add_row(key, ", ".join(text) if isinstance(text, list) else str(text))
    console.print(rows)


def call(
    name: Name,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="A JSON object, or key=value for each argument."),
    ] = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer on one line.")] = False,
) -> None:
    """Call a tool and print its answer.

    Ends with 1 unless the tool did what it was asked; one that asks first asks here.

    The arguments are one JSON object, or key=value: leonidas tools call get_weather city=Lisbon
    """
    from leonidas_tools.cli import terminal

    given = typed_arguments(arguments or [])
    result = asyncio.run(_called(config or default_config(), name, given))
    terminal.write_json(result.to_response(), indent=None if as_json else 2)
    if not result.ok:
        raise typer.Exit(1)


async def _described(config: Path, category: str | None, query: str | None) -> list[dict[str, Any]]:
    from leonidas_tools.cli.starting import started
    from leonidas_tools.exports import describe

    async with started(config) as tools:
        registry = tools.registry
        chosen = registry.search(query, limit=len(registry)) if query else list(registry)
        if category is not None:
            wanted = registry.by_category(category)
            chosen = [tool for tool in chosen if tool in wanted]
        return [describe(registry, tool) for tool in chosen]


async def _one_described(config: Path, name: str) -> dict[str, Any]:
    from leonidas_tools.cli.starting import started
    from leonidas_tools.exports import describe

    async with started(config, needed=name) as tools:
        return describe(tools.registry, tools.registry[name])


async def _called(config: Path, name: str, arguments: dict[str, Any]) -> "ToolResult":
    from leonidas_tools.approvals.terminal import TerminalChannel
    from leonidas_tools.cli.starting import started

    async with started(config, needed=name, approval=TerminalChannel()) as tools:
        tools.monitor.subscribe(_show_progress)
        return await tools.execute(name, arguments)


def _show_progress(event: "ToolEvent") -> None:
    from leonidas_tools.cli import terminal
    from leonidas_tools.cli.display import progress_text

    if not event.ends_call and event.data:
        terminal.messages().print(f"{event.call.name}: {progress_text(event.shown())}")
