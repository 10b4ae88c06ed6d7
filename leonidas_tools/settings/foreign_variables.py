"""Convert the variables in other programs' settings to `${NAME}`, or to their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_FORM = re.compile(r"\$\{([^}]*)\}")
_OURS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?")
_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


class Variables:
    """Converts variables, and collects those that the user must set.

    Args:
        inputs: The values that the other program asks its user for, each with an `id`.
        workspace: The value of `${workspaceFolder}`.

    Example:
        >>> from pathlib import Path
        >>> variables = Variables([{"id": "api-key", "description": "The key"}], Path("/home/ana"))
        >>> variables.ours(["${env:HOME}", "Bearer ${input:api-key}", "${workspaceFolder}/x"])
        ['${HOME}', 'Bearer ${API_KEY}', '/home/ana/x']
        >>> variables.notes
        ['set the environment variable API_KEY (The key)']
    """

    def __init__(self, inputs: list[Any], workspace: Path) -> None:
        self.notes: list[str] = []
        self._inputs = {str(i["id"]): i for i in inputs if isinstance(i, Mapping) and "id" in i}
        self._known = {
            "workspaceFolder": str(workspace),
            "workspaceRoot": str(workspace),
            "workspaceFolderBasename": workspace.name,
            "cwd": str(workspace),
            "userHome": "${HOME}",
            "pathSeparator": "/",
            "/": "/",
        }

    def ours(self, value: Any) -> Any:
        """Return the same data with every variable in the syntax of our settings.

        Raises:
            ValueError: A variable is unknown.
        """
        if isinstance(value, str):
            bare = _BARE.fullmatch(value)
            return f"${{{bare[1]}}}" if bare else _FORM.sub(self._one, value)
        if isinstance(value, Mapping):
            return {key: self.ours(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.ours(item) for item in value]
        return value

    def _one(self, match: re.Match[str]) -> str:
        kind, colon, name = match[1].partition(":")
        if colon and kind == "env" and _OURS.fullmatch(name):
            return f"${{{name}}}"
        if colon and kind == "input":
            return self._input(name)
        if match[1] in self._known:
            return self._known[match[1]]
        if _OURS.fullmatch(match[1]):
            return match[0]
        raise ValueError(f"{match[0]} is not known here: write its value, or ${{NAME}}")

    def _input(self, name: str) -> str:
        wanted = variable_name(name)
        asked = self._inputs.get(name, {})
        what = asked.get("description")
        note = f"set the environment variable {wanted}" + (f" ({what})" if what else "")
        if note not in self.notes:
            self.notes.append(note)
        default = asked.get("default")
        return f"${{{wanted}:-{default}}}" if isinstance(default, str) else f"${{{wanted}}}"


def variable_name(text: str) -> str:
    """Return a name that an environment variable can have.

    Example:
        >>> variable_name("api-key")
        'API_KEY'
    """
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").upper()
    return f"_{name}" if name[:1].isdigit() else name or "VALUE"
