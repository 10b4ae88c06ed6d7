"""One conversation from beginning to end: with Gemini, or with the simulator."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from genai_processors.core.live_model import LiveProcessor
from google.genai import types
from google.genai.errors import APIError
from websockets.exceptions import WebSocketException

from leonidas_tools import LiveToolSession
from leonidas_tools.cli import summary
from leonidas_tools.cli.happenings import Listener
from leonidas_tools.cli.typed import typed_lines
from leonidas_tools.errors import SimulatorError
from leonidas_tools.live.simulator import LiveSimulator, Scenario

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from leonidas_tools import AdvancedToolProcessor
    from leonidas_tools.cli.display import Display
    from leonidas_tools.cli.happenings import Happening

API_VERSION = "v1beta"
INSTRUCTION = (
    "You are Leonidas, a voice agent. Use your tools where they help, and say briefly what you do."
)


async def with_gemini(
    tools: AdvancedToolProcessor, display: Display, *, api_key: str, model: str
) -> summary.Summary:
    """Talks to Gemini Live; what is typed is what the user says.

    Args:
        tools: Answers the calls.
        display: Shows what happens.
        api_key: The key of the Gemini API.
        model: The name of a live model.
    """
    options = types.HttpOptions(api_version=API_VERSION)
    conversation = _Conversation(tools, display)
    await conversation.hold(_live(api_key, model, tools, options), conversation.typed())
    return summary.of_session(
        conversation.log, conversation.errors, interrupted=conversation.interrupted
    )


async def with_simulator(
    tools: AdvancedToolProcessor, display: Display, *, scenario: Scenario, speed: float
) -> summary.Summary:
    """Plays a scenario.

    Args:
        tools: Answers the calls.
        display: Shows what happens.
        scenario: What the simulated model does.
        speed: 1 plays pauses as written, 2 twice as fast.
    """
    conversation = _Conversation(tools, display)
    simulator = LiveSimulator(scenario, speed=speed)
    with suppress(SimulatorError):  # what it would raise at the end is told in the summary
        async with simulator:
            model = _live("simulated", "simulated", tools, simulator.http_options())
            for number, _ in enumerate(scenario.scripts, start=1):
                await conversation.hold(model, _until(simulator.finished(number)))
    return summary.of_simulation(
        simulator, conversation.errors, interrupted=conversation.interrupted
    )


class _Conversation:
    """What happens, shown and noted."""

    def __init__(self, tools: AdvancedToolProcessor, display: Display) -> None:
        self.log = summary.CallLog()
        self.errors: list[str] = []
        self.interrupted = False
        self._tools = tools
        self._display = display
        self._listener = Listener()

    async def hold(self, model: LiveProcessor, user: AsyncIterator[ProcessorPart]) -> None:
        """Runs one connection; after an interruption no further one."""
        if self.interrupted:
            return
        agent = LiveToolSession(model, self._tools)
        try:
            async with processor.context():  # without one, cancelling the agent would hang
                async for part in agent(user):
                    for happening in self._listener.hear(part):
                        self._tell(happening)
        except BrokenPipeError:  # nobody reads what is shown
            raise
        except (APIError, OSError, WebSocketException) as error:
            self.errors.append(f"the connection was lost: {error}")
            self._tell(self._listener.happening("lost", text=str(error)))
        except asyncio.CancelledError:  # Ctrl-C: the summary is still to come
            self.interrupted = True
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        for happening in self._listener.pause():
            self._tell(happening)

    def _tell(self, happening: Happening) -> None:
        self.log.note(happening)
        self._display.show(happening)

    async def typed(self) -> AsyncIterator[ProcessorPart]:
        """What the user says by typing."""
        async for line in typed_lines():
            self._tell(self._listener.happening("said", who="user", text=line))
            yield ProcessorPart(line, role="user")


async def _until(over: Awaitable[object]) -> AsyncIterator[ProcessorPart]:
    """A user who says nothing, and leaves when the scenario is over."""
    await over
    nothing: tuple[ProcessorPart, ...] = ()
    for part in nothing:
        yield part


def _live(
    api_key: str, model: str, tools: AdvancedToolProcessor, options: types.HttpOptions
) -> LiveProcessor:
    config = types.LiveConnectConfig(
        response_modalities=[types.Modality.AUDIO],
        system_instruction=types.Content(parts=[types.Part(text=INSTRUCTION)]),
        tools=list(tools.declarations()),
        input_audio_transcription=types.AudioTranscriptionConfig(),
        output_audio_transcription=types.AudioTranscriptionConfig(),
    )
    return LiveProcessor(
        api_key=api_key, model_name=model, realtime_config=config, http_options=options
    )
