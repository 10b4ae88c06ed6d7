"""Arguments of a call, as they are typed in a command."""

import json
from typing import Any

import typer


def typed_arguments(words: list[str]) -> dict[str, Any]:
    """Arguments as they were typed; the tool's own validation makes numbers of digits.

    Raises:
        typer.BadParameter: They are neither JSON nor key=value.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            parsed: dict[str, Any] = json.loads(words[0])
        except ValueError as error:
            raise typer.BadParameter(f"the arguments are not JSON: {error}") from None
        return parsed
    pairs = [word.partition("=") for word in words]
    for key, equals, _ in pairs:
        if not equals or not key:
            raise typer.BadParameter(f"{key!r} is not key=value")
    return {key: value for key, _, value in pairs}
