"""`leonidas mcp trust`: MCP tools that have changed since they were first used."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from leonidas_tools.cli.mcp.options import Name, server_settings
from leonidas_tools.cli.places import Config
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from leonidas_tools.mcp.trust.pins import Pin, Pins, ToolDefinition

    _Waiting: TypeAlias = dict[str, tuple[Pin, ToolDefinition]]

Tools = Annotated[
    list[str] | None,
    typer.Argument(help="Names of its tools, as the server gives them. Default: all."),
]
Fingerprint = Annotated[
    str | None,
    typer.Option(help="Trust the named tool without a question if this is its fingerprint."),
]


def trust(
    name: Name,
    tools: Tools = None,
    fingerprint: Fingerprint = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array; asks nothing.")] = False,
) -> None:
    """Show the tools of an MCP server that changed since their first use, and ask to trust them.

    The definition of a tool is stored at its first use. A tool whose definition has changed does
    not run until it is trusted here; running sessions then use it at once. Only the definition that
    was shown is trusted: a tool that changes again still waits. In a script, a tool is trusted by
    the fingerprint that is shown with it.

    The exit code is 1 if a tool still waits.

    Example: leonidas mcp trust notes
    """
    named = tools or []
    if fingerprint is not None and (as_json or len(named) != 1):
        raise typer.BadParameter("--fingerprint goes with one tool, and not with --json")
    from leonidas_tools.approvals.terminal import discard_typed

    pins = _pins(name, config)
    waiting = _waiting(name, pins, named)
    if fingerprint is not None:
        _trust(name, pins, {named[0]: fingerprint})
        return
    asks = not as_json and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    _show(name, waiting, as_json=as_json, asks=asks)
    if not waiting:
        return
    if asks:
        discard_typed()  # typed before the tools were shown
    these = "this tool" if len(waiting) == 1 else f"these {len(waiting)} tools"
    if not (asks and typer.confirm(f"Trust {these}, as shown here?")):
        raise typer.Exit(1)
    _trust(name, pins, {tool: said.fingerprint for tool, (_, said) in waiting.items()})


def _pins(server: str, config: Path | None) -> "Pins":
    from leonidas_tools.mcp.trust.pins import Pins, identity_of

    return Pins(server, identity_of(server_settings(config, server)))


def _waiting(server: str, pins: "Pins", named: list[str]) -> "_Waiting":
    """Return the changed tools with their definitions; only the named tools, if any are named."""
    from leonidas_tools.settings.explain import closest

    pinned = pins.pinned()
    for name in named:
        if name not in pinned:
            near = closest(name, list(pinned))
            hint = f"did you mean {near!r}?" if near else "see `leonidas mcp tools`"
            raise ConfigurationError(f"no tool {name!r} of {server!r} was ever used: {hint}")
    return {
        name: (pin, pin.waiting)
        for name, pin in pinned.items()
        if pin.waiting is not None and (not named or name in named)
    }


def _show(server: str, waiting: "_Waiting", *, as_json: bool, asks: bool) -> None:
    from leonidas_tools.cli import terminal
    from leonidas_tools.mcp.trust.quarantine import diff_of, fields_of
    from leonidas_tools.redaction.visible import revealed

    if as_json:
        terminal.write_json([_as_json(name, *each) for name, each in waiting.items()])
        return
    for name, (pin, said) in waiting.items():
        terminal.say(f"{name!r} has changed: {', '.join(fields_of(pin))}")
        for line in diff_of(pin).split("\n"):
            terminal.say(line)
        if not asks:  # in full: two definitions with the same first digits are easy to find
            words = shlex.join(["leonidas", "mcp", "trust", server, revealed(name)])
            terminal.say(f"to trust it: {words} --fingerprint {said.fingerprint}")
    if not waiting:
        terminal.say(f"no tool of {server!r} is waiting to be trusted")


def _as_json(name: str, pin: "Pin", said: "ToolDefinition") -> dict[str, object]:
    from leonidas_tools.mcp.trust.quarantine import diff_of, fields_of

    return {
        "tool": name,
        "changed": fields_of(pin),
        "diff": diff_of(pin),
        "fingerprint": said.fingerprint,
    }


def _trust(server: str, pins: "Pins", shown: dict[str, str]) -> None:
    from leonidas_tools.cli import terminal

    try:
        trusted = pins.trust(shown)
    except OSError as error:
        why = error.strerror or error
        raise ConfigurationError(f"the pins of {server!r} cannot be written: {why}") from error
    for name in trusted:
        terminal.say(f"trusted: {name!r}")
    if others := ", ".join(repr(name) for name in shown if name not in trusted):
        raise ConfigurationError(
            f"{others} of {server!r}: the tools have changed since they were shown; review "
            f"them again: `leonidas mcp trust {shlex.quote(server)}`"
        )
