"""Run Python snippets in Monty, which has no files, no network and no packages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.call import ResultStatus, ToolResult
from leonidas_tools.results.texts import say
from leonidas_tools.sandbox.output import BoundedOutput
from leonidas_tools.sandbox.progress import output_as_progress
from leonidas_tools.toolboxes.code.python import exception_result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pydantic_monty

    from leonidas_tools.calls.context import ToolContext
    from leonidas_tools.sandbox.process import Stream
    from leonidas_tools.toolboxes.code import CodeSettings

_ENGINE = "monty"
_MEGABYTE = 1 << 20


def runner(
    settings: CodeSettings,
) -> Callable[[str, dict[str, Any], ToolContext], Awaitable[ToolResult]]:
    """Return a function that runs each snippet in its own process."""
    import pydantic_monty

    limits: pydantic_monty.ResourceLimits = {
        "max_feed_duration_secs": settings.timeout,
        "max_memory": (settings.memory_megabytes or 0) * _MEGABYTE or None,
        "max_total_sleep_secs": settings.timeout,
    }

    async def run(code: str, states: dict[str, Any], ctx: ToolContext) -> ToolResult:
        output = BoundedOutput(settings.output_kilobytes * 1024)
        progress = output_as_progress(ctx)
        began = time.monotonic()

        def report(stream: Stream, text: str) -> None:
            data = text.encode(errors="replace")
            output.add(data)
            progress(stream, data)

        error, timed_out, value, is_kept = None, False, None, True
        pool = pydantic_monty.AsyncMonty(request_timeout=settings.timeout + 5)
        async with pool, pool.checkout(limits=limits) as session:
            if settings.keep_variables and _ENGINE in states:
                await session.load_session(states[_ENGINE])
            try:
                value = await session.feed_run(code, print_callback=report)
            except pydantic_monty.MontyError as raised_error:
                inner = raised_error.exception()
                timed_out = isinstance(inner, TimeoutError)
                error = {
                    "type": type(inner).__name__,
                    "message": str(inner),
                    "traceback": str(raised_error),
                }
            if settings.keep_variables and not timed_out:
                is_kept = await _keep(session, states, settings.max_kept_kilobytes * 1024)
        result: dict[str, Any] = {} if value is None else {"value": value}
        result |= {"output": output.text()} | ({} if is_kept else {"not_kept": ["*"]})
        result["seconds"] = round(time.monotonic() - began, 3)
        if timed_out:
            return ToolResult(
                status=ResultStatus.TIMEOUT,
                result=result,
                message=say("code_stopped", limit="timeout"),
                reason_code="stopped_by_timeout",
            )
        return ToolResult(result=result) if error is None else exception_result(result, error)

    return run


async def _keep(
    session: pydantic_monty.AsyncMontySession, states: dict[str, Any], most_bytes: int
) -> bool:
    """Keep the variables of a session, and return whether they fit and could be dumped."""
    import pydantic_monty

    try:
        state = await session.dump()
    except (pydantic_monty.MontyError, RuntimeError):  # the process has reached a limit
        return False
    if len(state) <= most_bytes:
        states[_ENGINE] = state
    return len(state) <= most_bytes
