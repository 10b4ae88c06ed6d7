"""`leonidas events`: the JSON Schema of the events."""

from typing import Annotated

import typer


def commands() -> typer.Typer:
    """Return the commands about events."""
    app = typer.Typer(callback=_group)  # without one, a single command is not a group
    app.command("schema")(schema)
    return app


def _group() -> None:
    """Describe the events, for programs that follow them."""


def schema(
    as_json: Annotated[bool, typer.Option("--json", help="On one line.")] = False,
) -> None:
    """Print the JSON Schema of the events.

    Example: leonidas events schema > events.schema.json
    """
    from leonidas_tools.cli import terminal
    from leonidas_tools.monitoring.event_stream import events_schema

    terminal.write_json(events_schema(), indent=None if as_json else 2)
