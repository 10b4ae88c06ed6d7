"""Run shell commands in a sandbox; rules check their parsed content before they run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from leonidas_tools.calls.call import ResultStatus, ToolResult
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import ToolError
from leonidas_tools.files.beneath import OutsideError, opened_folder
from leonidas_tools.files.roots import Roots
from leonidas_tools.results.texts import say
from leonidas_tools.rules.conditions import UNREADABLE, Incomplete
from leonidas_tools.sandbox.progress import output_as_progress
from leonidas_tools.settings.sandbox_settings import SandboxSettings
from leonidas_tools.toolboxes.shell.commands import UNKNOWN, Command, parse
from leonidas_tools.toolboxes.shell.risks import risks_of, runs_only_its_commands
from leonidas_tools.tools.tool import Tool, tool
from leonidas_tools.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leonidas_tools.sandbox import Finished

__all__ = ["TOOLBOX", "ShellSettings"]

_MAX_COMMAND_CHARACTERS = 100_000
_SPARE_SECONDS = 15.0
"""Seconds added to the call timeout, so that the sandbox kills the program first."""
_GIT_THAT_ONLY_READS = (
    "GIT_OPTIONAL_LOCKS=0",
    "GIT_NO_LAZY_FETCH=1",
    "GIT_CONFIG_COUNT=3",
    "GIT_CONFIG_KEY_0=safe.bareRepository",
    "GIT_CONFIG_VALUE_0=explicit",
    "GIT_CONFIG_KEY_1=core.fsmonitor",
    "GIT_CONFIG_VALUE_1=false",
    "GIT_CONFIG_KEY_2=core.hooksPath",
    "GIT_CONFIG_VALUE_2=/dev/null",
)
"""Without these, reading a repository may run programs that a folder of the model names."""


class ShellSettings(SandboxSettings):
    """Settings of the toolbox `shell`: those of its sandbox."""


def commands_and_risks(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that rules can match: all `commands` of a call, and its `risks`.

    A rule that denies a program applies to whatever may run it; a rule that allows one applies
    only to what certainly is that program and writes no file.
    """
    script = parse(arguments["command"])
    facts = _facts_of if runs_only_its_commands(script) else _facts_in_doubt
    unknown = [_facts_in_doubt(UNKNOWN)] if script.writes else []
    return {
        "commands": [*map(facts, script.commands), *unknown],
        "risks": [Incomplete(risk) for risk in risks_of(script)],
    }


def _facts_of(command: Command) -> dict[str, Any]:
    words = [word.text if word.is_known else UNREADABLE for word in command.arguments]
    text = command.text if UNREADABLE not in words else Incomplete(command.text)
    return {"program": command.program, "arguments": words, "text": text}


def _facts_in_doubt(command: Command) -> dict[str, Any]:
    """Return the facts of a command that may not be the only one that runs."""
    if not command.program:
        return dict.fromkeys(("program", "arguments", "text"), UNREADABLE)
    words = [Incomplete(word.text) if word.is_known else UNREADABLE for word in command.arguments]
    text = Incomplete(command.text)
    return {"program": Incomplete(command.program), "arguments": words, "text": text}


def make_tools(settings: ShellSettings) -> Sequence[Tool[..., Any]]:
    """Return the tools; their first call starts the sandbox."""
    sandbox, roots = settings.sandbox(), Roots(settings.roots)

    @tool(
        effect="once",
        on_cancel="stop",
        overflow="both",
        tags=["shell"],
        timeout_seconds=settings.timeout + _SPARE_SECONDS,
        facts=commands_and_risks,
    )
    async def run_shell(
        command: Annotated[str, Field(min_length=1, max_length=_MAX_COMMAND_CHARACTERS)],
        ctx: ToolContext,
        working_directory: str = ".",
        timeout_seconds: Annotated[float | None, Field(gt=0)] = None,
    ) -> ToolResult:
        """Run a command in a Bash shell and return its output and exit code.

        It sees only the given directories. Commands that do more than read are approved by the
        user first.

        Args:
            command: The command, as typed in Bash.
            working_directory: Where it runs; a relative path starts at the first directory.
            timeout_seconds: Its timeout, if shorter than the default.
        """
        variables = _GIT_THAT_ONLY_READS if runs_only_its_commands(parse(command)) else ()
        finished = await sandbox.run(
            ["/usr/bin/env", *variables, "/bin/bash", "--noprofile", "--norc", "-c", command],
            timeout_seconds=min(timeout_seconds or settings.timeout, settings.timeout),
            working_directory=_resolve_directory(working_directory, roots),
            on_output=output_as_progress(ctx),
        )
        return _result(finished)

    return [run_shell]


def _resolve_directory(directory: str, roots: Roots) -> Path:
    """Return the path of an existing directory in one of the roots, or raise `ToolError`."""
    try:
        place = roots.place(directory)
        with opened_folder(place.root.descriptor, place.path):
            return place.root.path / place.path
    except OutsideError:
        raise ToolError(
            say("outside_roots", path=directory), status="denied", reason_code="outside_roots"
        ) from None
    except OSError:  # no directory has such a path
        message = say("no_such_directory", path=directory)
        raise ToolError(message, status="not_found", reason_code="no_such_directory") from None


def _result(finished: Finished) -> ToolResult:
    value = {
        "exit_code": finished.exit_code,
        "stdout": finished.stdout,
        "stderr": finished.stderr,
        "seconds": round(finished.seconds, 3),
    }
    if finished.left_out_bytes:
        value["left_out_bytes"] = finished.left_out_bytes
    if finished.stopped_by is None:
        said = "command_worked" if finished.ok else "command_failed"
        return ToolResult(result=value, speech=say(said, code=finished.exit_code))
    timed_out = finished.stopped_by == "timeout"
    return ToolResult(
        status=ResultStatus.TIMEOUT if timed_out else ResultStatus.FAILED,
        result={**value, "stopped_by": finished.stopped_by},
        message=say("command_stopped", limit=finished.stopped_by),
        reason_code=f"stopped_by_{finished.stopped_by}",
    )


TOOLBOX = Toolbox(
    summary="Shell commands in a sandbox.",
    settings=ShellSettings,
    make=make_tools,
    access=frozenset({"files", "programs"}),
)
