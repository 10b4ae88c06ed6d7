"""What every agent can do, so that each workload is written once."""

import importlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self, cast

from tests.benchmarks.adapter import Functions, Part

MODEL = "gemini-3.8-live"
_MODULES = {
    "floor": "hand_written",
    "bare_wire": "bare_wire",
    "ours_live": "ours",
    "live_processor": "upstream",
}
_FRAME_BYTES = 640


@dataclass(frozen=True, kw_only=True, slots=True)
class Brief:
    """What an agent is to do.

    Args:
        functions: Its functions, none of which the model waits for.
        config: The YAML file that it follows, if it can.
        lost: Called when it has lost its connection.
    """

    functions: Functions
    config: Path | None = None
    lost: Callable[[], object] = field(default=lambda: None)


class Agent(Protocol):
    """A voice agent, open within `async with`."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    def talk(self, says: AsyncIterable[Part]) -> AsyncGenerator[bytes, None]:
        """One conversation: what the user says in, the speech that is heard out.

        An agent holds any number of them side by side.
        """
        ...


def open_agent(name: str, brief: Brief) -> Agent:
    """The agent of this name, imported only now, so that nobody pays for another's imports."""
    module = importlib.import_module(f"tests.benchmarks.live.{_MODULES[name]}")
    return cast("Agent", module.make(brief))


def frame(number: int) -> Part:
    """20 ms of microphone that begin with their number."""
    sound = number.to_bytes(4, "big") + bytes(_FRAME_BYTES - 4)
    return Part(sound, mimetype="audio/pcm;rate=16000", substream_name="realtime")


def text(words: str) -> Part:
    """What the user types."""
    return Part(words, substream_name="realtime")
