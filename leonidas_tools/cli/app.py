"""The program: its commands, `.env`, logging, and errors on one line."""

import io
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from leonidas_tools.calls.invocation import DEBUG_VARIABLE
from leonidas_tools.cli import (
    agent,
    config,
    console,
    events,
    history,
    live,
    mcp,
    policy,
    run,
    serve,
    toolboxes,
    tools,
    worker,
)
from leonidas_tools.errors import ConfigurationError, LeonidasError
from leonidas_tools.files.reading import read_file, why_unreadable
from leonidas_tools.redaction.visible import indented, visible

_USAGE = 2
_MAX_SUMMARY_LENGTH = 1000
"""Maximum characters of a command's summary: enough for its whole first sentence."""
_UsageError: Any = typer.BadParameter.__base__
_SHOWN_BY_RUN = (
    "leonidas_tools.live.runner",
    "leonidas_tools.policies.loop_guard",
    "leonidas_tools.simulator.connection",
)
"""The loggers whose warnings `leonidas run` shows itself: lost connections, loops, failed steps."""


def main() -> None:
    """Run the program; a `.env` file in the working directory adds to the environment.

    Raises:
        SystemExit: Always, with 0 for success, 1 for a failure, 2 for wrong usage or settings.
    """
    try:
        _load_environment(Path(".env"))
        program()(prog_name="leonidas")  # also as `python -m leonidas_tools`
    except LeonidasError as error:
        first, *more = getattr(error, "problems", ()) or (error,)
        rest = f" (and {len(more)} more: `leonidas config check` names all)" if more else ""
        print(f"leonidas: {visible(str(first))}{rest}", file=sys.stderr)  # noqa: T201 - what a program is for
        sys.exit(_USAGE)


def _load_environment(file: Path) -> None:
    """Add the variables of a file to the environment, unless it is missing or a folder."""
    from dotenv import load_dotenv

    try:
        text = read_file(file).decode()
    except (FileNotFoundError, IsADirectoryError):
        return
    except OSError as error:
        raise ConfigurationError(why_unreadable(error), file=file) from None
    except UnicodeDecodeError:
        message = "is not UTF-8 text: save it in that encoding"
        raise ConfigurationError(message, file=file) from None
    load_dotenv(stream=io.StringIO(text))


@contextmanager
def _visible_usage() -> Iterator[None]:
    """Escape the control characters in a usage error, which quotes the command line."""
    try:
        yield
    except _UsageError as error:
        if error.ctx is None or error.message != error.ctx.get_help():  # help has several lines
            error.message = visible(error.message)
        raise


class _Group(TyperGroup):
    """A group of commands: its help shows whole summaries, its errors locate misplaced options."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        typed = list(args)  # parsing consumes the list
        try:
            with _visible_usage():
                return super().make_context(info_name, args, parent, **extra)
        except _UsageError as error:
            option = getattr(error, "option_name", None)
            if option is not None and error.ctx is not None and error.ctx.command is self:
                path = _path_to(self, option, typed)
                if path is not None:
                    command = " ".join([error.ctx.command_path, *path, option])
                    error.message = f"{option} goes after the command, as in `{command} …`"
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except _UsageError as error:
            if "Did you mean" not in error.message:
                groups = [*ctx.find_root().command.commands.items()]
                near = [
                    f"`leonidas {name} {args[0]}`"
                    for name, group in groups
                    if isinstance(group, TyperGroup) and args[0] in group.commands
                ]
                near = near or ["`leonidas -h`"] * (args[0] == "help")
                hint = f"did you mean {' or '.join(near)}? Choose" if near else "choose"
                known = ", ".join(self.list_commands(ctx))
                error.message = f"{error.message.rstrip('.')}: {hint} from {known}"
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(_MAX_SUMMARY_LENGTH))
                    for name, command in commands
                    if command is not None and not command.hidden
                ]
            )


def _path_to(group: TyperGroup, option: str, typed: Sequence[str]) -> list[str] | None:
    """Return the path of a command with that option: the typed command, else the first."""
    names = sorted(group.commands, key=lambda name: name not in typed)
    for name in names:
        command = group.commands[name]
        if any(option in parameter.opts for parameter in command.params):
            return [name]
        below = _path_to(command, option, typed) if isinstance(command, TyperGroup) else None
        if below is not None:
            return [name, *below]
    return None


class _Program(_Group):
    """The group of all commands."""

    def invoke(self, ctx: Any) -> Any:
        with _visible_usage():
            try:
                return super().invoke(ctx)
            except _UsageError as error:
                option = getattr(error, "option_name", None)
                if option is not None and "arguments" in _parameters(error.ctx):
                    name = option.lstrip("-").partition("=")[0]
                    error.message = f"{error.message}; write {name}=VALUE for an argument of a tool"
                raise


def _parameters(ctx: Any) -> list[str]:
    return [] if ctx is None else [parameter.name for parameter in ctx.command.params]


class _LogLevel(StrEnum):
    """The level of the log file."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def program() -> typer.Typer:
    """Return the Typer app with all commands."""
    app = typer.Typer(
        cls=_Program,
        callback=_configure,
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.command("run")(run.run)
    app.command("agent")(agent.agent)
    app.command("toolboxes")(toolboxes.toolboxes)
    app.command("console")(console.console)
    app.command("worker")(worker.worker)
    named = (
        ("tools", tools),
        ("config", config),
        ("policy", policy),
        ("mcp", mcp),
        ("live", live),
        ("events", events),
    )
    for name, module in named:
        app.add_typer(module.commands(), name=name, cls=_Group, no_args_is_help=True)
    app.add_typer(history.commands(), name="history", cls=_Group)
    app.add_typer(serve.commands(), name="serve", cls=_Group)
    return app


class _Visible(logging.Formatter):
    """A formatter that writes a record on one line, since records quote external texts."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of logging
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name of logging
        return indented(super().formatException(ei))


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"leonidas {version('leonidas-tools')}")
        raise typer.Exit


def _configure(
    context: typer.Context,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log internal events to standard error.")
    ] = False,
    log_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the log to a file as well.")
    ] = None,
    log_level: Annotated[
        _LogLevel, typer.Option(help="The level of the log file.")
    ] = _LogLevel.INFO,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show the traceback of a tool that fails, as LEONIDAS_DEBUG=1 does."
        ),
    ] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Leonidas Tools: the tool runtime of a voice agent on Gemini Live."""
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"
    text = "%(asctime)s %(levelname)s %(name)s: %(message)s" if verbose else "leonidas: %(message)s"
    handler = logging.StreamHandler()
    handler.setFormatter(_Visible(text))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("leonidas_tools").setLevel(logging.DEBUG if verbose else logging.WARNING)
    if not verbose:
        logging.getLogger("asyncio").setLevel(logging.ERROR)  # `run` shows a lost connection
        if context.invoked_subcommand == "run":
            for shown in _SHOWN_BY_RUN:
                logging.getLogger(shown).setLevel(logging.ERROR)
    if log_file is not None:
        handler.setLevel(logging.DEBUG if verbose else logging.WARNING)
        _log_to(log_file, log_level)


def _log_to(file: Path, level: _LogLevel) -> None:
    """Write log records of a minimum level to a file too."""
    try:
        handler = logging.FileHandler(file, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"the log cannot be written: {error.strerror}", file=file
        ) from None
    handler.setFormatter(_Visible("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.setLevel(level.upper())
    logging.getLogger().addHandler(handler)
    ours = logging.getLogger("leonidas_tools")
    ours.setLevel(min(ours.level, handler.level))
