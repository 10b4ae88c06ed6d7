"""The agent that a person talks to on the page of the console: Gemini, or the simulator."""

from __future__ import annotations

import asyncio
from array import array
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from leonidas_tools.cli.generations import PLAIN
from leonidas_tools.errors import SimulatorError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from genai_processors.processor import Processor

    from leonidas_tools import AdvancedToolProcessor
    from leonidas_tools.live.gemini import GeminiLiveProcessor
    from leonidas_tools.simulator import SimulatedSession
    from leonidas_tools.simulator.user_input import UserInput

_USER = "local"
_LOUD = 500
"""The mean amplitude, of 32767, above which audio counts as speech."""
_QUIET_SECONDS = 0.6
_MIN_SPEECH_SECONDS = 0.2
_BYTES_PER_SECOND = 32_000
_MAX_WAIT_SECONDS = 86_400.0


@asynccontextmanager
async def gemini_agent(
    tools: AdvancedToolProcessor, *, model: str, profile: str | None, api_key: str | None
) -> AsyncIterator[Processor]:
    """Yield an agent that is Gemini Live with these tools.

    `api_key` is `None` for Vertex AI.
    """
    from leonidas_tools.cli.with_gemini import gemini_model

    yield _build_agent(gemini_model(tools, model=model, profile=profile, api_key=api_key), tools)


@asynccontextmanager
async def simulated_agent(tools: AdvancedToolProcessor) -> AsyncIterator[Processor]:
    """Yield an agent whose model is simulated: it confirms each input."""
    from leonidas_tools.cli.with_simulator import simulated_model
    from leonidas_tools.simulator import LiveSimulator

    simulator = LiveSimulator(listen_and_answer)
    with suppress(SimulatorError):  # it is no error if the person leaves
        async with simulator:
            yield _build_agent(simulated_model(tools, simulator, PLAIN), tools)


def _build_agent(live: GeminiLiveProcessor, tools: AdvancedToolProcessor) -> Processor:
    from leonidas_tools import LiveToolSession, ToolSession
    from leonidas_tools.live.speech.output import SpeechOutputProcessor

    session = ToolSession(user=_USER)
    session.put(tools.registry)
    agent = LiveToolSession(live, tools, session=session)
    return agent + SpeechOutputProcessor(session=session, paced=True)


async def listen_and_answer(model: SimulatedSession) -> None:
    """Play a model that answers each text and each utterance, until the user leaves.

    Speech starts with loud audio, interrupts the answer (barge-in), and ends with a pause.
    """
    ear = _Ear()
    answering: asyncio.Task[None] | None = None
    try:
        while True:
            (heard,) = await model.wait_for_input("any", within_seconds=_MAX_WAIT_SECONDS)
            answer = ear.answer_to(heard)
            if answering is not None and (answer or ear.is_spoken_to):
                await _interrupt(model, answering)
                answering = None
            if answer:
                answering = asyncio.create_task(_say(model, answer), name="simulator:answer")
    finally:
        if answering is not None:
            answering.cancel()
            await asyncio.wait([answering])


class _Ear:
    """Detects speech by its loudness."""

    def __init__(self) -> None:
        self._speech_seconds = 0.0
        self._quiet_seconds = 0.0

    @property
    def is_spoken_to(self) -> bool:
        """Return whether the user speaks."""
        return self._speech_seconds >= _MIN_SPEECH_SECONDS

    def answer_to(self, heard: UserInput) -> str:
        """Return the answer to an input; empty while the user still speaks."""
        if heard.kind == "text":
            return f"You have typed: {heard.text}"
        if heard.kind != "audio":
            return ""
        seconds = len(heard.data) / _BYTES_PER_SECOND
        if _is_loud(heard):
            self._speech_seconds += seconds
            self._quiet_seconds = 0.0
        else:
            self._quiet_seconds += seconds
        if not self._speech_seconds or self._quiet_seconds < _QUIET_SECONDS:
            return ""
        spoken, self._speech_seconds = self._speech_seconds, 0.0
        return f"I have heard you for {spoken:.1f} seconds."


def _is_loud(heard: UserInput) -> bool:
    samples = array("h", heard.data[: len(heard.data) // 2 * 2])
    return bool(samples) and sum(map(abs, samples)) / len(samples) > _LOUD


async def _say(model: SimulatedSession, text: str) -> None:
    # Braces would be replaced by the result of a tool.
    await model.say(text.replace("{", "(").replace("}", ")"), paced=True)
    await model.turn_complete()


async def _interrupt(model: SimulatedSession, answering: asyncio.Task[None]) -> None:
    if answering.done():
        return
    answering.cancel()
    await asyncio.wait([answering])
    await model.interrupt()
    await model.turn_complete()
