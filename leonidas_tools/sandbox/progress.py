"""Report the output of a program as progress of a call."""

from __future__ import annotations

import asyncio
import codecs
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leonidas_tools.calls.context import ToolContext
    from leonidas_tools.sandbox.process import OnOutput

_BETWEEN_SECONDS = 0.2
_SHOWN_CHARACTERS = 2_000


def output_as_progress(ctx: ToolContext) -> OnOutput:
    """Return a callback that reports new output: the first piece at once, then every 0.2 s."""
    loop = asyncio.get_running_loop()
    unseen = {"stdout": "", "stderr": ""}
    decoders = {name: codecs.getincrementaldecoder("utf-8")(errors="replace") for name in unseen}
    reported_at = float("-inf")

    def report(stream: str, data: bytes) -> None:
        nonlocal reported_at
        unseen[stream] += decoders[stream].decode(data)
        unseen[stream] = unseen[stream][-_SHOWN_CHARACTERS:]
        if loop.time() - reported_at >= _BETWEEN_SECONDS:
            reported_at = loop.time()
            pieces: dict[str, Any] = {name: text for name, text in unseen.items() if text}
            ctx.progress(**pieces)
            unseen.update(stdout="", stderr="")

    return report
