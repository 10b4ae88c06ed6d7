"""Read the arguments of a call from the command line."""

import json
from typing import Any

import typer


def parse_arguments(words: list[str]) -> dict[str, Any]:
    """Return the arguments as typed; the tool's own validation turns digits into numbers."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            parsed: dict[str, Any] = json.loads(words[0])
        except ValueError as error:
            message = f"{words[0]!r} is not JSON ({error}): correct it, or write name=value"
            raise typer.BadParameter(message) from None
        return parsed
    pairs = [word.partition("=") for word in words]
    for key, equals, _ in pairs:
        if not equals or not key:
            raise typer.BadParameter(f"{key!r} has no value: write name=value, or one JSON object")
    return {key: value for key, _, value in pairs}
