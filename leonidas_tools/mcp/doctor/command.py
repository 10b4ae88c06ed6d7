"""Check a command before it is started."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from leonidas_tools.mcp.doctor.check_result import CheckResult

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


def before_start(settings: MCPServerSettings) -> Iterator[CheckResult]:
    """Check the directory, the command, its arguments and its variables."""
    cwd = settings.cwd
    if cwd is not None and not Path(cwd).is_dir():
        yield CheckResult(
            step="directory",
            outcome="failed",
            message=f"{cwd!r} does not exist" if not Path(cwd).exists() else f"{cwd!r} is a file",
            hint="correct `cwd`; a relative path starts where Leonidas is started",
        )
        return
    yield _command(settings)
    yield from _arguments(settings)
    yield from _variables(settings)


def _command(settings: MCPServerSettings) -> CheckResult:
    command = str(settings.command)
    path = settings.env.get("PATH", os.environ.get("PATH", os.defpath))
    executable = shutil.which(command, path=path)
    if executable is not None:
        return CheckResult(step="command", outcome="ok", message=f"{command} is {executable}")
    if os.sep in command:
        exists = Path(command).exists()
        return CheckResult(
            step="command",
            outcome="failed",
            message=f"{command!r} " + ("is not executable" if exists else "does not exist"),
            hint=f"make it executable: chmod +x {command}" if exists else "correct the path",
        )
    name = Path(command).name.lower()
    missing = f"{command!r} was not found on PATH: {path}"
    if any(character.isspace() for character in command):
        hint = "a command is one word: put the arguments under `args`"
    else:
        hint = _INSTALL.get(name, "install it, or write its full path")
    return CheckResult(step="command", outcome="failed", message=missing, hint=hint)


def _arguments(settings: MCPServerSettings) -> Iterator[CheckResult]:
    name = Path(str(settings.command)).name.lower()
    if name == "npx" and not {"-y", "--yes"} & set(settings.args):
        yield CheckResult(
            step="arguments",
            outcome="note",
            message="npx asks before it installs a package, and gets no answer",
            hint="put -y before the package",
        )
    script = next((a for a in settings.args if not a.startswith("-")), None)
    if script is not None and script.endswith(_SCRIPTS):
        place = Path(settings.cwd or ".") / script
        if name.startswith(("python", "node", "bash", "sh")) and not place.exists():
            where = Path(settings.cwd or ".").resolve()
            yield CheckResult(
                step="arguments",
                outcome="failed",
                message=f"there is no file {script!r} in {where}",
                hint="write its full path, or set `cwd` to its directory",
            )


def _variables(settings: MCPServerSettings) -> Iterator[CheckResult]:
    empty = sorted(name for name, value in settings.env.items() if not value.strip())
    if empty:
        yield CheckResult(
            step="environment",
            outcome="note",
            message=f"{', '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty",
            hint="set it where Leonidas is started, or in .env",
        )
