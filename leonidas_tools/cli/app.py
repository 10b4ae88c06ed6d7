"""The commands put together, and what all of them share: `.env`, logging, errors in one line."""

import logging
import sys
from typing import Annotated

import typer

from leonidas_tools.cli import config, events, history, mcp, policy, run, tools
from leonidas_tools.errors import LeonidasError

_USAGE = 2
_INTERRUPTED = 130
_SHOWN_BY_RUN = ("leonidas_tools.live.runner", "leonidas_tools.policies.loop_guard")
"""What logs as warnings what `leonidas run` shows: lost connections, and loops."""


def main() -> None:
    """Runs the program; a `.env` file in the working directory adds to the environment.

    Raises:
        SystemExit: Always: 0 for good, 1 where something failed, 2 for wrong usage or settings.
    """
    from dotenv import load_dotenv

    load_dotenv(".env")
    try:
        program()()
    except LeonidasError as error:
        first, *more = str(error).splitlines()
        rest = f" (and {len(more)} more: `leonidas config check` names all)" if more else ""
        print(f"leonidas: {first}{rest}", file=sys.stderr)  # noqa: T201 - what a program is for
        sys.exit(_USAGE)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def program() -> typer.Typer:
    """The commands."""
    app = typer.Typer(
        callback=_configure_logging,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.command("run")(run.run)
    named = (
        ("tools", tools),
        ("config", config),
        ("policy", policy),
        ("mcp", mcp),
        ("events", events),
    )
    for name, module in named:
        app.add_typer(module.commands(), name=name, no_args_is_help=True)
    app.add_typer(history.commands(), name="history")
    return app


def _configure_logging(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Tell on standard error what happens inside.")
    ] = False,
) -> None:
    """Leonidas Tools: the tool runtime of a voice agent on Gemini Live."""
    text = "%(asctime)s %(levelname)s %(name)s: %(message)s" if verbose else "leonidas: %(message)s"
    logging.basicConfig(level=logging.WARNING, format=text)
    logging.getLogger("leonidas_tools").setLevel(logging.DEBUG if verbose else logging.WARNING)
    if not verbose:
        for shown in _SHOWN_BY_RUN:
            logging.getLogger(shown).setLevel(logging.ERROR)
