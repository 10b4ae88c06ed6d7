"""`leonidas config`: check a settings file, or print the JSON Schema of settings files."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leonidas_tools.cli.places import CONFIG_HELP, Config, default_config, is_typed
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from leonidas_tools.runtime.toolboxes import Toolboxes
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.problem import Finding


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundSettings:
    """One problem in a settings file, or with `info` what a toolbox can reach, and its place."""

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
        typer.Argument(metavar="FILE", help=CONFIG_HELP, readable=False),  # as in `Config`
    ] = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Check a settings file: show each problem with its line and how to correct it.

    The exit code is 1 if there is an error in the file, and 2 if the file cannot be read; warnings
    alone leave it at 0. Lines with `info` tell what the tools of each toolbox can reach.

    MCP servers are not started, so a tool name that only a server could define is a warning. The
    settings of a server's tools are checked against the tools it listed last. Tools that a program
    registers in Python are not known here: put them into a toolbox, or let the program check them.

    Example: leonidas config check

    Example: leonidas config check config/tools.yaml --json
    """
    from leonidas_tools.cli import terminal

    if file is not None and config is not None and is_typed(context, "config"):
        raise typer.BadParameter(f"name the file once: {str(file)!r} or --config {str(config)!r}")
    path = file or config or default_config()
    findings = sorted(_findings(path), key=lambda found: found.line or 0)
    errors = sum(found.severity == "error" for found in findings)
    if as_json:
        terminal.write_json([asdict(found) for found in findings])
    else:
        for found in findings:
            terminal.say(str(found))
        warnings = sum(found.severity == "warning" for found in findings)
        counts = f"{_pluralize(errors, 'error')}, {_pluralize(warnings, 'warning')}"
        terminal.say(f"{path}: {counts}", err=bool(errors))
    if errors:
        raise typer.Exit(1)


def _pluralize(count: int, noun: str) -> str:
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


def _findings(path: Path) -> Iterator[FoundSettings]:
    """Yield the problems of the file; if it has none, the settings without an effect."""
    from leonidas_tools.settings.load import read_settings, read_text, settings_document
    from leonidas_tools.settings.problem import KeyLines

    try:
        text = read_text(path)
        settings = read_settings(text, path)
    except ConfigurationError as error:
        if not error.problems and error.line is None:  # the file cannot be read
            raise
        for problem in error.problems or [error]:
            yield FoundSettings(
                severity="error",
                file=str(path),
                line=problem.line,
                key=problem.key,
                message=problem.message,
            )
        return
    lines = KeyLines(settings_document(text).lines)
    for found in _against_tools(path, settings):
        yield FoundSettings(
            severity=found.severity,
            file=str(path),
            line=lines.of(found.key),
            key=found.key,
            message=settings.masked(found.message),
        )


def _against_tools(path: Path, settings: "Settings") -> "Iterator[Finding]":
    """Yield valid settings that have no effect on the registered tools."""
    from leonidas_tools import ToolRuntime
    from leonidas_tools.live.profiles import load_named_profiles
    from leonidas_tools.mcp.listing.tool_names import ListedNames, check_server
    from leonidas_tools.runtime.toolboxes import Toolboxes
    from leonidas_tools.settings.check import check_against, find_undescribed
    from leonidas_tools.settings.problem import Finding
    from leonidas_tools.settings.watch import WatchedSettings

    registry = ToolRuntime().registry
    watched = WatchedSettings(settings)
    watched.path = path  # toolboxes are searched next to it
    toolboxes = Toolboxes(registry, watched)
    yield from _of_toolboxes(settings, toolboxes)
    try:
        load_named_profiles(watched)
    except ConfigurationError as error:
        for problem in error.problems or [error]:
            yield Finding(severity="error", key="profiles", message=str(problem))
    known = {tool.name: tool for tool in registry}
    yield from check_against(settings, known)
    yield from find_undescribed(settings, known)
    yield from toolboxes.warnings(settings)
    for name, server in settings.mcp_servers.items():
        listed = ListedNames(name).names()  # in an earlier session, if there was one
        if listed and server.enabled:
            yield from check_server(name, server, listed)


def _of_toolboxes(settings: "Settings", toolboxes: "Toolboxes") -> "Iterator[Finding]":
    """Load each toolbox; yield its problems, and the access of its tools."""
    from leonidas_tools.settings.problem import Finding

    for index, toolbox in enumerate(settings.toolboxes):
        with _warnings("leonidas_tools.tools") as warned:  # while this toolbox is loaded
            first = settings.toolboxes[: index + 1]
            problems = toolboxes.load(settings.model_copy(update={"toolboxes": first}))
        wrong = [each for each in problems if each.name == toolbox.name]
        for one in [one for each in wrong for one in each.problems or [each]]:
            yield Finding(severity="error", key=one.key, message=one.why)
        key = f"toolboxes.{index}"
        for message in warned:
            yield Finding(severity="warning", key=key, message=message)
        reach = toolboxes.reaches().get(toolbox.name)
        if reach is not None and reach.is_outside:
            yield Finding(severity="info", key=key, message=f"{toolbox.name!r} can reach: {reach}")


@contextmanager
def _warnings(name: str) -> Iterator[list[str]]:
    """Collect the warnings of a logger and its children, instead of showing them."""
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
