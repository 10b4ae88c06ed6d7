"""Run Python: full Python in the sandbox, or snippets in Monty, an interpreter without effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from leonidas_tools.calls.call import ToolResult
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.settings.fields import Count, Switch, refuse_empty
from leonidas_tools.settings.sandbox_settings import SandboxSettings
from leonidas_tools.tools.tool import Tool, tool
from leonidas_tools.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TOOLBOX", "CodeSettings", "KeptVariables"]

_MAX_CODE_LENGTH = 200_000
_SPARE_SECONDS = 15.0
"""Seconds added to the call timeout, so that the sandbox kills the program first."""
_PYTHON = """Run Python code and return what it prints and the value of its last expression.

Files can be read and written in the working directory. Figures of matplotlib are returned as
pictures."""
_MONTY = """Run a snippet of Python and return what it prints and the value of its last expression.

It has a part of the standard library, no files, no network and no other packages."""
_KEEPS = " Variables are kept for the next call."


class CodeSettings(SandboxSettings):
    """Settings of the toolbox `code`, in addition to those of its sandbox.

    Args:
        engine: `python` runs full Python in the sandbox, `monty` snippets in an interpreter that
            has no files, no network and no packages.
        keep_variables: Whether a session keeps its variables from call to call.
        max_kept_kilobytes: The maximum size of the variables of a session.
    """

    engine: Annotated[Literal["python", "monty"], BeforeValidator(refuse_empty)] = "python"
    keep_variables: Switch = True
    max_kept_kilobytes: Count = 4096


class KeptVariables:
    """Variables of the code of a session between calls, by engine.

    Only the engine reads this state, inside its sandbox.
    """

    def __init__(self) -> None:
        self.states: dict[str, Any] = {}


def make_tools(settings: CodeSettings) -> Sequence[Tool[..., Any]]:
    """Return the tool; its first call starts the sandbox."""
    if settings.engine == "monty":
        from leonidas_tools.toolboxes.code.monty import runner
    else:
        from leonidas_tools.toolboxes.code.python import runner
    run = runner(settings)

    @tool(
        description=(_MONTY if settings.engine == "monty" else _PYTHON)
        + (_KEEPS if settings.keep_variables else ""),
        effect="once",
        on_cancel="stop",
        overflow="both",
        tags=["code"],
        timeout_seconds=settings.timeout + _SPARE_SECONDS,
    )
    async def execute_code(
        code: Annotated[str, Field(min_length=1, max_length=_MAX_CODE_LENGTH)],
        ctx: ToolContext,
        fresh: bool = False,
    ) -> ToolResult:
        """Run Python code.

        Args:
            code: The code.
            fresh: Whether to start without the variables of earlier calls.
        """
        kept = ctx.session.get(KeptVariables)
        if fresh:
            kept.states.pop(settings.engine, None)
        return await run(code, kept.states, ctx)

    return [execute_code]


TOOLBOX = Toolbox(
    summary="Python code, in a sandbox or an interpreter without effects.",
    settings=CodeSettings,
    make=make_tools,
    access=frozenset({"files", "programs"}),
)
