"""`leonidas config`: check a settings file, or print the JSON Schema of settings files."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leonidas_tools.cli.places import CONFIG_HELP, Config, default_config, is_typed, lines_of
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from leonidas_tools.settings.models import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """One problem in a settings file, and its place."""

    severity: str
    file: str
    line: int | None
    key: str | None
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        key = "" if self.key is None else f" {self.key}:"
        return f"{place}: {self.severity}:{key} {self.message}"


def commands() -> typer.Typer:
    """Return the commands about settings."""
    app = typer.Typer(help="Check the settings, or print their JSON Schema.")
    app.command("check")(check)
    app.command("schema")(schema)
    return app


def check(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help=CONFIG_HELP),
    ] = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Check a settings file: show each problem with its line and how to correct it.

    The exit code is 1 if there is an error in the file, and 2 if the file cannot be read; warnings
    alone leave it at 0.

    MCP servers are not started, so a tool name that only a server could define is a warning. The
    settings of a server's tools are checked against the tools it listed last.

    Example: leonidas config check

    Example: leonidas config check config/tools.yaml --json
    """
    from leonidas_tools.cli import terminal

    if file is not None and config is not None and is_typed(context, "config"):
        raise typer.BadParameter(f"name the file once: {str(file)!r} or --config {str(config)!r}")
    path = file or config or default_config()
    findings = list(_findings(path))
    errors = sum(found.severity == "error" for found in findings)
    if as_json:
        terminal.write_json([asdict(found) for found in findings])
    else:
        for found in findings:
            terminal.say(str(found))
        warnings = len(findings) - errors
        counts = f"{_counted(errors, 'error')}, {_counted(warnings, 'warning')}"
        terminal.say(f"{path}: {counts}", err=bool(errors))
    if errors:
        raise typer.Exit(1)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def schema(
    as_json: Annotated[bool, typer.Option("--json", help="On one line.")] = False,
) -> None:
    """Print the JSON Schema of the settings file, for editors.

    Example: leonidas config schema > tools.schema.json
    """
    from leonidas_tools.cli import terminal
    from leonidas_tools.settings.json_schema import settings_schema

    terminal.write_json(settings_schema(), indent=None if as_json else 2)


def _findings(path: Path) -> Iterator[Found]:
    from leonidas_tools.settings.load import load

    try:
        settings = load(path)
    except ConfigurationError as error:
        if not error.problems and error.line is None:  # the file cannot be read
            raise
        for problem in error.problems or [error]:
            yield Found(
                severity="error",
                file=str(path),
                line=problem.line,
                key=problem.key,
                message=problem.message,
            )
        return
    yield from _against_tools(path, settings)


def _against_tools(path: Path, settings: "Settings") -> Iterator[Found]:
    """Yield well-formed settings that have no effect on the registered tools."""
    from leonidas_tools import ToolRuntime
    from leonidas_tools.mcp.listing.selection import check_server
    from leonidas_tools.mcp.listing.tool_names import ListedNames
    from leonidas_tools.runtime.toolboxes import Toolboxes
    from leonidas_tools.settings.check import check_against, undescribed
    from leonidas_tools.settings.watch import WatchedSettings

    lines = lines_of(path)
    registry = ToolRuntime().registry
    toolboxes = Toolboxes(registry, WatchedSettings(path))
    for index, toolbox in enumerate(settings.toolboxes):
        with _warnings("leonidas_tools.tools") as warned:  # while this one is loaded
            first = settings.toolboxes[: index + 1]
            problems = toolboxes.load(settings.model_copy(update={"toolboxes": first}))
        wrong = [each for each in problems if each.name == toolbox.name]
        told = [("error", one.key, one.why) for each in wrong for one in each.problems or [each]]
        for severity, key, message in [
            *told,
            *(("warning", f"toolboxes.{index}", each) for each in warned),
        ]:
            yield Found(
                severity=severity,
                file=str(path),
                line=_line_of(key, lines),
                key=key,
                message=message,
            )
    known = {tool.name: tool for tool in registry}
    findings = [*check_against(settings, known), *undescribed(known)]
    findings += toolboxes.warnings(settings)
    for name, server in settings.mcp_servers.items():
        listed = ListedNames(name).names()  # by an earlier session, if there was one
        findings += check_server(name, server, listed) if listed and server.enabled else []
    for finding in findings:
        yield Found(
            severity=finding.severity,
            file=str(path),
            line=_line_of(finding.key, lines),
            key=finding.key,
            message=finding.message,
        )


@contextmanager
def _warnings(name: str) -> Iterator[list[str]]:
    """Collect what a logger and those below it warn of, instead of showing it."""
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield found
    finally:
        logger.propagate = True
        logger.removeHandler(handler)


def _line_of(key: str, lines: Mapping[str, int]) -> int | None:
    """Return the line of the nearest key in the file."""
    while key and key not in lines:
        key = key.rpartition(".")[0]
    return lines.get(key)
