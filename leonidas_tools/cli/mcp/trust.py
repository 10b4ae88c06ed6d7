"""`leonidas mcp trust`: MCP tools that have changed since they were first used."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leonidas_tools.cli.mcp.options import server_settings
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from leonidas_tools.mcp.pins import Pin, Pins


def trust(
    server: Annotated[str, typer.Argument(help="The server's name in the settings.")],
    tools: Annotated[
        list[str] | None, typer.Argument(help="Its tools, by the names it gives them.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Trust all that has changed.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Only show what has changed.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(envvar="LEONIDAS_CONFIG", help="The settings; else config/tools.yaml."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Show which tools of an MCP server have changed since they were first used, or trust them.

    A tool is kept as it was when it was first used. One that says something else by now is not run
    until it is trusted here; sessions that run take it up at once. Without tools and without --all
    what has changed is shown, and nothing is trusted.
    """
    from leonidas_tools.cli import terminal

    pins = _pins(server, config)
    waiting = _waiting(server, pins, tools or [], begin_anew=every and not show)
    if as_json:
        terminal.write_json([_told(name, pin) for name, pin in waiting.items()])
    if show or not (tools or every):
        if not as_json:
            _show(server, waiting)
        return
    trusted = pins.trust(None if every else tools)
    if as_json:
        return
    for name in trusted:
        typer.echo(f"trusted: {name}")
    if not trusted:
        typer.echo(f"no tool of {server!r} was waiting to be trusted")


def _pins(server: str, config: Path | None) -> "Pins":
    from leonidas_tools.mcp.pins import Pins, identity_of

    return Pins(server, identity_of(server_settings(config, server)))


def _waiting(server: str, pins: "Pins", tools: list[str], *, begin_anew: bool) -> "dict[str, Pin]":
    """The tools that have changed; only those that were named, where some were."""
    from leonidas_tools.mcp.pins import PinsError
    from leonidas_tools.settings.explain import closest

    try:
        pinned = pins.pinned()
    except PinsError as error:
        if begin_anew:
            typer.echo(f"{error}\nThe pins begin anew with what {server!r} lists next.", err=True)
            return {}
        raise ConfigurationError(str(error)) from error
    for name in tools:
        if name not in pinned:
            suggestion = closest(name, list(pinned))
            hint = f"did you mean {suggestion!r}?" if suggestion else "see --show"
            raise ConfigurationError(f"no tool {name!r} of {server!r} was ever used: {hint}")
    return {
        name: pin
        for name, pin in pinned.items()
        if pin.waiting is not None and (not tools or name in tools)
    }


def _show(server: str, waiting: "dict[str, Pin]") -> None:
    from leonidas_tools.mcp.quarantine import diff_of, fields_of

    for name, pin in waiting.items():
        typer.echo(f"{name!r} has changed: {', '.join(fields_of(pin))}")
        typer.echo(diff_of(pin))
    if waiting:
        typer.echo(f"\nTo trust: leonidas mcp trust {server} --all, or name the tools.")
    else:
        typer.echo(f"no tool of {server!r} is waiting to be trusted")


def _told(name: str, pin: "Pin") -> dict[str, object]:
    from leonidas_tools.mcp.quarantine import diff_of, fields_of

    return {"tool": name, "changed": fields_of(pin), "diff": diff_of(pin)}
