"""`leonidas mcp test`: the steps that show why an MCP server does not work."""

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from leonidas_tools.cli.mcp.options import Name, server_settings
from leonidas_tools.cli.places import Config

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.mcp.doctor.check_result import CheckResult
    from leonidas_tools.settings.models import MCPServerSettings

_MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "failed": ("failed", "red")}


def examine_server(
    name: Name,
    config: Config = None,
    call: Annotated[
        bool,
        typer.Option(
            help="Call a tool that only reads, needs no arguments and is not about secrets."
        ),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Test an MCP server step by step and show the first step that fails.

    The exit code is 1 if a step fails.

    Example: leonidas mcp test time
    """
    from leonidas_tools.cli import terminal

    settings = server_settings(config, name)
    findings: list[CheckResult] = []
    report = findings.append if as_json else _show
    works = asyncio.run(_works(name, settings, report, call=call))
    if as_json:
        steps = [asdict(finding) for finding in findings]
        terminal.write_json({"server": name, "ok": works, "steps": steps})
    elif works:
        terminal.output().print(f"{name} works")
    if not works:
        raise typer.Exit(1)


async def _works(
    name: str,
    settings: "MCPServerSettings",
    report: "Callable[[CheckResult], None]",
    *,
    call: bool,
) -> bool:
    from leonidas_tools.mcp.doctor import examine

    return await examine(name, settings, report, call=call, before_call=_announce)


def _announce(tool: str) -> None:
    from leonidas_tools.cli import terminal

    message = f"Calling {tool!r}, which says that it only reads; --no-call calls nothing"
    terminal.say(message, err=True)


def _show(finding: "CheckResult") -> None:
    from rich.text import Text

    from leonidas_tools.cli import terminal

    mark, colour = _MARKS[finding.outcome]
    took = "" if finding.seconds is None else f" ({finding.seconds * 1000:.0f} ms)"
    console = terminal.output()
    console.print(Text.assemble((f"{mark:<7}", colour), f"{finding.step}: {finding.message}{took}"))
    if finding.hint is not None:
        console.print(f"       what to do: {finding.hint}")
