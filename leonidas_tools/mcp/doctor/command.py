"""Check a command before it is started; hints for one that does not start."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from leonidas_tools.mcp.doctor.check_result import CheckResult, failed, note, ok

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leonidas_tools.settings.mcp_settings import MCPServerSettings

_NODE = "install Node.js, which includes it: https://nodejs.org"
_UV = "install uv, which includes it: https://docs.astral.sh/uv"
_INSTALL = {
    "npx": _NODE,
    "npm": _NODE,
    "node": _NODE,
    "uvx": _UV,
    "uv": _UV,
    "bunx": "install Bun, which includes it: https://bun.sh",
    "deno": "install Deno: https://deno.com",
    "docker": "install Docker, and make sure that it runs",
    "pipx": "install it: python -m pip install pipx",
    "python": "write python3, or ${LEONIDAS_PYTHON} for the Python that runs Leonidas",
    "python3": "install Python, or write ${LEONIDAS_PYTHON} for the one that runs Leonidas",
}
_SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb", ".jar")


def check_before_start(settings: MCPServerSettings) -> Iterator[CheckResult]:
    """Check the directory, the command, its arguments and its variables."""
    cwd = settings.cwd
    if cwd is not None and not Path(cwd).is_dir():
        yield failed(
            "directory",
            f"{cwd!r} does not exist" if not Path(cwd).exists() else f"{cwd!r} is a file",
            "correct `cwd`; a relative path starts where Leonidas is started",
        )
        return
    yield _check_command(settings)
    yield from _check_arguments(settings)
    yield from _check_variables(settings)


def _check_command(settings: MCPServerSettings) -> CheckResult:
    command = str(settings.command)
    path = settings.env.get("PATH", os.environ.get("PATH", os.defpath))
    executable = shutil.which(command, path=path)
    if executable is not None:
        return ok("command", f"{command} is {executable}")
    if os.sep in command:
        exists = Path(command).exists()
        return failed(
            "command",
            f"{command!r} " + ("is not executable" if exists else "does not exist"),
            f"make it executable: chmod +x {command}" if exists else "correct the path",
        )
    name = Path(command).name.lower()
    missing = f"{command!r} was not found on PATH: {path}"
    if any(character.isspace() for character in command):
        hint = (
            "a command line is split, but no shell runs it: check its quotes, and set variables "
            "under `env`"
        )
    else:
        hint = _INSTALL.get(name, "install it, or write its full path")
    return failed("command", missing, hint)


def _check_arguments(settings: MCPServerSettings) -> Iterator[CheckResult]:
    name = Path(str(settings.command)).name.lower()
    if name == "npx" and not {"-y", "--yes"} & set(settings.args):
        yield note(
            "arguments",
            "npx asks before it installs a package, and gets no answer",
            "put -y before the package",
        )
    script = next((a for a in settings.args if not a.startswith("-")), None)
    if script is not None and script.endswith(_SCRIPTS):
        place = Path(settings.cwd or ".") / script
        if name.startswith(("python", "node", "bash", "sh")) and not place.exists():
            where = Path(settings.cwd or ".").resolve()
            yield failed(
                "arguments",
                f"there is no file {script!r} in {where}",
                "write its full path, or set `cwd` to its directory",
            )


def _check_variables(settings: MCPServerSettings) -> Iterator[CheckResult]:
    empty = sorted(name for name, value in settings.env.items() if not value.strip())
    if empty:
        yield note(
            "environment",
            f"{', '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty",
            "set it where Leonidas is started, or in .env",
        )


_VARIABLE = r"\b(?!ERR_)[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b"
_MISSING = r"(?i)required|missing|not set|must be|environ|provide|undefined|unset"
_KNOWN = [
    (
        r"cannot import name .* from .mcp|No module named .mcp\.|module .mcp.* has no attribute",
        (
            "it was written for another version of the package `mcp`: install it in an "
            "environment of its own, as `uvx PACKAGE` does"
        ),
    ),
    (
        r"No module named ['\"]?([\w.]+)",
        (
            "the Python that runs it lacks {0!r}: install it there, write ${{LEONIDAS_PYTHON}} for "
            "the Python that runs Leonidas, or let `uvx PACKAGE` run it"
        ),
    ),
    (
        r"E404|404 Not Found - GET|is not in (?:this|the npm) registry",
        "there is no such package: correct its name",
    ),
    (
        r"not found in the package registry|No solution found when resolving",
        "there is no such package, or none for this Python: correct its name",
    ),
    (
        r"could not determine executable to run",
        "the package has no default program: name it with npx -p PACKAGE PROGRAM",
    ),
    (
        r"ENOTFOUND|EAI_AGAIN|Temporary failure in name resolution|error sending request",
        (
            "the registry of its package cannot be reached: install the package once, or "
            "check the network"
        ),
    ),
    (
        r"Cannot find (?:module|package) '([^']+)'",
        "{0!r} does not exist: install it, or correct the path",
    ),
    (
        r"can't open file|ENOENT|No such file or directory",
        "a path is wrong; write it in full, or set `cwd`",
    ),
    (
        r"EACCES|Permission denied",
        "it lacks a permission to read or run something: see the lines above",
    ),
    (r"EADDRINUSE|[Aa]ddress already in use", "a port is in use: stop the other program"),
    (r"(?im)^\s*usage:", "its arguments are wrong: see its usage above"),
]
_OLD = r"SyntaxError: Unexpected|requires? (?:a )?(?:newer )?[Nn]ode|Unsupported engine|EBADENGINE"


def hint_for(
    settings: MCPServerSettings,
    output: str,
    *,
    has_printed: bool = False,
    is_late: bool = False,
    exit_code: int | None = None,
) -> str | None:
    """Return a remedy for a server over stdio that does not start, if one is known.

    Example:
        >>> from leonidas_tools.settings.models import MCPServerSettings
        >>> hint_for(MCPServerSettings(command="x"), "Error: BRAVE_API_KEY is required")
        'set BRAVE_API_KEY under `env`: `BRAVE_API_KEY: ${BRAVE_API_KEY}`'
    """
    if has_printed:
        return (
            "it must print only MCP messages on standard output, and all else on standard error; "
            "or it is not an MCP server"
        )
    hint = _hint_from_output(output)
    if hint is not None:
        return hint
    if is_late:
        waits = str(settings.command).rpartition("/")[2] == "npx"
        more = "; npx may be waiting for an answer: put -y before the package" if waits else ""
        return f"is it a server that uses MCP over stdio? If it is slow, raise `timeout`{more}"
    if exit_code == 0:
        return "it exited by itself: it may need an argument, such as `stdio`"
    return None


def _hint_from_output(output: str) -> str | None:
    if re.search(_OLD, output):
        return "it needs a newer Node.js: https://nodejs.org"
    variable = re.search(_VARIABLE, output)
    if variable is not None and re.search(_MISSING, output) is not None:
        return f"set {variable[0]} under `env`: `{variable[0]}: ${{{variable[0]}}}`"
    for pattern, hint in _KNOWN:
        if (match := re.search(pattern, output)) is not None:
            return hint.format(*match.groups())
    return None
