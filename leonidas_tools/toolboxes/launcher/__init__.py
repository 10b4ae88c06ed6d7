"""Open the user's programs that the settings name."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from leonidas_tools.calls.call import ToolResult
from leonidas_tools.errors import ToolError
from leonidas_tools.redaction import is_secret_name
from leonidas_tools.results.texts import say
from leonidas_tools.settings.fields import Duration, Name, Names, Texts
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.tools.tool import Tool
from leonidas_tools.tools.toolbox import Toolbox

_DETACH = Path(__file__).with_name("detach.py")
_MAX_NAMED = 40
_MAX_SUGGESTED = 5
_MIN_LIKENESS = 50
_PROGRAM_GRACE_SECONDS = 20.0


def _command(command: tuple[str, ...]) -> tuple[str, ...]:
    """Check a command."""
    if not command or not command[0].strip():
        raise ValueError("is empty: list the program and its arguments")
    if any("\0" in each for each in command):
        raise ValueError("has a null character: remove it")
    return command


def _program(value: Any) -> Any:
    """Return the settings of a program; a list is its command."""
    if isinstance(value, str):
        raise ValueError("is a string: list the program and its arguments, such as [code, --wait]")  # noqa: TRY004 - pydantic reports ValueErrors
    return {"command": value} if isinstance(value, list | tuple) else value


def _or_list(schema: dict[str, Any]) -> None:
    """Allow a list, the command, in the JSON Schema of a program."""
    found = {key: schema.pop(key) for key in ("$ref", "allOf") if key in schema}
    items = {"type": "string"}
    schema["anyOf"] = [found, {"type": "array", "items": items, "minItems": 1}]


class ProgramSettings(SettingsModel):
    """Settings of a program.

    Args:
        command: The program and its arguments, as a list; no shell parses it.
        also: Other names of the program that people use.
        folder: The folder in which the program starts; by default the home folder of the user.
        environment: Environment variables to add to those of the agent.
    """

    command: Annotated[tuple[str, ...], AfterValidator(_command)]
    also: Names = ()
    folder: Path = Path("~")
    environment: Texts = Field(default={}, repr=False)


class LauncherSettings(SettingsModel):
    """Settings of the launcher.

    Args:
        programs: Programs by the name that people use: a command as a list, or settings.
        watch: How long to watch a program after its start, to detect that it fails.
    """

    programs: dict[
        Name,
        Annotated[ProgramSettings, BeforeValidator(_program), Field(json_schema_extra=_or_list)],
    ] = Field(default={})
    watch: Duration = 0.5


class Launcher:
    """The launcher tools."""

    def __init__(self, settings: LauncherSettings) -> None:
        self._settings = settings
        self._names: dict[str, str] = {}
        for name, program in settings.programs.items():
            for each in (name, *program.also):
                self._names.setdefault(_plain(each), name)

    @property
    def description(self) -> str:
        """Return the description of the tool for the model."""
        names = list(self._settings.programs)
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        listed = ", ".join(names[:_MAX_NAMED]) or "none"
        return f"Open a program on the user's computer. Available: {listed}{more}."

    async def app_launcher(
        self, app_name: Annotated[str, Field(min_length=1, max_length=100)]
    ) -> ToolResult:
        """Open a program on the user's computer.

        Args:
            app_name: The name of the program.
        """
        name = self._names.get(_plain(app_name))
        if name is None:
            raise ToolError(
                say("launcher_unknown", program=app_name),
                status="not_found",
                reason_code="unknown_program",
                retry_hint=say("launcher_choices"),
                valid_options=self._closest(app_name),
            )
        started = await _start(self._settings.programs[name], self._settings.watch)
        if "errno" in started:
            raise ToolError(
                say("launcher_missing", program=name),
                status="unavailable",
                reason_code=f"errno_{started['errno']}",
            )
        if started.get("code"):
            raise ToolError(
                say("launcher_ended", program=name, code=started["code"]),
                status="failed",
                reason_code="ended_at_once",
            )
        return ToolResult(
            result={"program": name, "running": "pid" in started},
            speech=say("launcher_opened", program=name),
        )

    async def list_apps(self) -> ToolResult:
        """List the programs that can be opened."""
        names = list(self._settings.programs)
        return ToolResult(
            result={"programs": names}, speech=say("launcher_lists", programs=", ".join(names))
        )

    def _closest(self, name: str) -> list[str]:
        """Return the programs with the most similar names; all programs if there are few."""
        from rapidfuzz import process

        names = list(self._settings.programs)
        if len(names) <= _MAX_SUGGESTED:
            return names
        found = process.extract(
            _plain(name), list(self._names), limit=len(names), score_cutoff=_MIN_LIKENESS
        )
        near = dict.fromkeys(self._names[each] for each, _, _ in found)
        return list(near)[:_MAX_SUGGESTED] or names[:_MAX_SUGGESTED]


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())


def _command_line(program: ProgramSettings) -> Sequence[str]:
    """Return the command with `~` expanded in its program; keep a name without a folder."""
    return [os.path.expanduser(program.command[0]), *program.command[1:]]  # noqa: PTH111


async def _start(program: ProgramSettings, watch_seconds: float) -> Mapping[str, int]:
    """Start a program that stays open when the agent ends."""
    environment = {key: each for key, each in os.environ.items() if not is_secret_name(key)}
    try:
        starter = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(_DETACH), str(watch_seconds), *_command_line(program),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=program.folder.expanduser(),
            env={**environment, **program.environment},
        )  # fmt: skip
    except (OSError, ValueError) as error:  # no such folder, or an invalid text
        return {"errno": getattr(error, "errno", 0) or 0}
    try:
        async with asyncio.timeout(watch_seconds + _PROGRAM_GRACE_SECONDS):
            output, _ = await starter.communicate()
    finally:
        if starter.returncode is None:
            starter.kill()
            await starter.wait()
    data: dict[str, int] = json.loads(output)
    return data


def _make(settings: LauncherSettings) -> Sequence[Tool[..., Any]]:
    launcher = Launcher(settings)
    tags = ["programs"]
    return (
        Tool(
            launcher.app_launcher,
            description=launcher.description,
            category="system",
            effect="once",
            tags=tags,
        ),
        Tool(launcher.list_apps, category="system", effect="read", tags=tags),
    )


TOOLBOX = Toolbox(
    summary="Open programs of the user: those that the settings name, and no others.",
    make=_make,
    settings=LauncherSettings,
    access=frozenset({"programs"}),
)
