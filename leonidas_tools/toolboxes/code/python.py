"""Run full Python in the sandbox."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import site
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.call import Media, ResultStatus, ToolResult
from leonidas_tools.results.json_size import has_too_many_values
from leonidas_tools.results.texts import say
from leonidas_tools.sandbox.progress import output_as_progress
from leonidas_tools.toolboxes.code import driver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from leonidas_tools.calls.context import ToolContext
    from leonidas_tools.sandbox import Finished, Running
    from leonidas_tools.toolboxes.code import CodeSettings

_CHUNK_BYTES = 1 << 18
_MAX_FIGURES_BYTES = driver.MAX_FIGURES * (driver.MAX_FIGURE_BYTES * 4 // 3 + 4)
_MAX_VALUES = 20_000
_MAX_JSON_BYTES = 1 << 20
_ENGINE = "python"
_THREADS = "4"
"""Number of threads of NumPy: one per processor may exceed the limits."""


def runner(
    settings: CodeSettings,
) -> Callable[[str, dict[str, Any], ToolContext], Awaitable[ToolResult]]:
    """Return a function that runs code; its first call starts the sandbox."""
    libraries = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    libraries += [path for path in [site.getusersitepackages()] if path in sys.path]
    sandbox = settings.sandbox(read_only=(sys.base_prefix, sys.prefix, *libraries))
    sandbox.environment = {
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": _THREADS,
        "OPENBLAS_NUM_THREADS": _THREADS,
        "PYTHONPATH": ":".join(libraries),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    argv = [sys.executable, "-X", "utf8", "-c", Path(driver.__file__).read_text(encoding="utf-8")]
    most = settings.max_kept_kilobytes * 1024

    async def run(code: str, states: dict[str, Any], ctx: ToolContext) -> ToolResult:
        state = states.get(_ENGINE) if settings.keep_variables else None
        request = {
            "code": code,
            "state": state,
            "keep": settings.keep_variables,
            "most_kept": most,
        }
        async with sandbox.start(
            argv,
            timeout_seconds=settings.timeout,
            on_output=output_as_progress(ctx),
        ) as running:
            said = await _exchange(running, json.dumps(request).encode(), most)
            finished = await running.finished()
        # A line without its end was cut off.
        lines = said.split(b"\n", 2 + driver.MAX_FIGURES)[:-1]
        line, kept, *figures = [*lines, b"", b""]
        if 0 < len(kept) <= most:
            states[_ENGINE] = kept.decode(errors="replace")
        return _result(_read(line), finished, _media(figures))

    return run


async def _exchange(running: Running, request: bytes, most_kept_bytes: int) -> bytes:
    """Send the request, and return all data received until the program ends."""
    channel = running.channel
    assert channel is not None
    channel.setblocking(False)
    loop, said = asyncio.get_running_loop(), bytearray()
    try:
        await loop.sock_sendall(channel, request)
        channel.shutdown(1)  # only for writing
        while chunk := await loop.sock_recv(channel, _CHUNK_BYTES):
            said += chunk
            if len(said) > _MAX_JSON_BYTES + most_kept_bytes + _MAX_FIGURES_BYTES:
                running.stop("output")
                break
    except OSError:  # the program has already ended
        pass
    return bytes(said)


def _read(said: bytes) -> dict[str, Any]:
    """Parse the response, which may be anything, as the code can write to the channel too."""
    # Parsing more would block the event loop.
    if len(said) > _MAX_JSON_BYTES or has_too_many_values(said, _MAX_VALUES):
        return {}
    try:
        answer = json.loads(said)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _result(answer: Mapping[str, Any], finished: Finished, media: tuple[Media, ...]) -> ToolResult:
    value: dict[str, Any] = {key: answer[key] for key in ("value",) if key in answer}
    value["output"] = finished.stdout
    if finished.stderr:
        value["errors"] = finished.stderr
    for key in ("files", "not_kept"):
        if answer.get(key):
            value[key] = answer[key]
    if media:
        value["figures"] = len(media)
    value["seconds"] = round(finished.seconds, 3)
    if finished.stopped_by is not None:
        timed_out = finished.stopped_by == "timeout"
        return ToolResult(
            status=ResultStatus.TIMEOUT if timed_out else ResultStatus.FAILED,
            result=value,
            message=say("code_stopped", limit=finished.stopped_by),
            reason_code=f"stopped_by_{finished.stopped_by}",
        )
    error = answer.get("error")
    if isinstance(error, dict):
        return exception_result(value, error, media)
    if not answer:
        return ToolResult.failed(
            say("code_died", code=finished.exit_code), result=value, reason_code="code_died"
        )
    return ToolResult(result=value, media=media)


def exception_result(
    value: Mapping[str, Any], error: Mapping[str, Any], media: tuple[Media, ...] = ()
) -> ToolResult:
    """Return the result of code that raised an exception."""
    kind, message = str(error.get("type")), str(error.get("message"))
    return ToolResult.failed(
        say("code_raised", error=f"{kind}: {message}" if message else kind),
        result={**value, "traceback": str(error.get("traceback"))},
        reason_code="code_raised",
        media=media,
    )


def _media(figures: Sequence[bytes]) -> tuple[Media, ...]:
    found = []
    for figure in figures:
        try:
            data = base64.b64decode(figure, validate=True)
        except (binascii.Error, ValueError):
            continue
        if data.startswith(b"\x89PNG") and len(data) <= driver.MAX_FIGURE_BYTES:
            found.append(Media(mime_type="image/png", data=data))
    return tuple(found)
