"""A conversation with the embedded simulator, which plays a scenario."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from google.genai import Client

from leonidas_tools.calls.events import EventKind
from leonidas_tools.cli import summary
from leonidas_tools.cli.conversation import ConversationParts, TerminalConversation, live_config
from leonidas_tools.cli.voice.files import SilentMicrophone
from leonidas_tools.errors import SimulatorError
from leonidas_tools.live.gemini import GeminiLiveProcessor
from leonidas_tools.simulator import Call, LiveSimulator, Scenario, Step, WaitForInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from leonidas_tools import AdvancedToolProcessor
    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.cli.generations import Generation

_SETTLE_SECONDS = 1.0
_END_SECONDS = 10.0
_PERSON_SECONDS = 3600.0


async def with_simulator(
    parts: ConversationParts, *, scenario: Scenario, generation: Generation, speed: float
) -> summary.Summary:
    """Play a scenario, over all its connections.

    If the scenario waits for text, typed lines are read; a person has at least an hour. If it waits
    for audio without a microphone, it receives silence. At a `speed` of 2, pauses are half as
    long.
    """
    parts = _present(parts, scenario)
    if parts.typed is not None and parts.typed.interactive:
        scenario = _patient(scenario)
    conversation = TerminalConversation(parts)
    simulator = LiveSimulator(scenario, speed=speed, generation=generation.server)
    with suppress(SimulatorError):  # the summary shows this error
        async with simulator, telling_progress(parts.tools, simulator):
            live = simulated_model(parts.tools, simulator, generation)
            await conversation.run(live, partial(_over, simulator), settle_seconds=_SETTLE_SECONDS)
    return summary.of_simulation(
        simulator, conversation.log, conversation.errors, interrupted=conversation.interrupted
    )


@asynccontextmanager
async def telling_progress(
    tools: AdvancedToolProcessor, simulator: LiveSimulator
) -> AsyncIterator[None]:
    """Report the progress of tools to the simulator, as a scenario may wait for it."""

    def tell(event: ToolEvent) -> None:
        if event.kind is EventKind.PROGRESS:
            simulator.note_progress(event.call.name)

    unsubscribe = tools.monitor.subscribe(tell)
    try:
        yield
    finally:
        unsubscribe()


def waits_for_text(scenario: Scenario) -> bool:
    """Return whether a scenario waits for typed text."""
    return not {"text", "any"}.isdisjoint(_find_awaited_kinds(scenario))


def _find_awaited_kinds(scenario: Scenario) -> Iterator[str]:
    """Yield the kinds of input that the scenario awaits from the user."""
    called = _find_called_names(scenario)
    for script in scenario.scripts:
        for step in () if callable(script) else script:
            if isinstance(step, WaitForInput) and step.containing not in called:
                yield step.kind


def _find_called_names(scenario: Scenario) -> set[str]:
    """Return the names of the functions that the scenario calls.

    A text that names one is a late result, sent by the session.
    """
    return {
        call.name
        for script in scenario.scripts
        for step in (() if callable(script) else script)
        if isinstance(step, Call)
        for call in step.calls
    }


def _patient(scenario: Scenario) -> Scenario:
    """Return the scenario with time for a person to type the awaited input."""
    called = _find_called_names(scenario)

    def patient(step: Step) -> Step:
        if not isinstance(step, WaitForInput) or step.kind not in {"text", "any"}:
            return step
        if step.containing in called:
            return step
        return replace(step, within_seconds=max(step.within_seconds, _PERSON_SECONDS))

    scripts = [
        script if callable(script) else [patient(step) for step in script]
        for script in scenario.scripts
    ]
    return replace(scenario, steps=(), connections=scripts)


def _present(parts: ConversationParts, scenario: Scenario) -> ConversationParts:
    """Return the parts without unawaited text input, and with silence for awaited audio."""
    voice = parts.voice
    if voice.microphone is None and "audio" in _find_awaited_kinds(scenario):
        voice = replace(voice, microphone=SilentMicrophone())
    # The system stops a background program that reads the terminal.
    typed = parts.typed if waits_for_text(scenario) else None
    return replace(parts, voice=voice, typed=typed)


def simulated_model(
    tools: AdvancedToolProcessor | None, simulator: LiveSimulator, generation: Generation
) -> GeminiLiveProcessor:
    """Return a live model that is simulated."""
    options = simulator.http_options()
    return GeminiLiveProcessor(
        generation.model,
        config=live_config(),
        tools=tools,
        client=Client(vertexai=generation.vertex, api_key="simulated", http_options=options),
        profile=generation.profile,
    )


async def _over(simulator: LiveSimulator) -> float:
    """Wait until all is played or a step fails; return the seconds left for the session."""
    scripts = len(simulator.scenario.scripts)

    def has_failed() -> bool:
        return bool(simulator.violations) or any(
            outcome.status == "failed" for outcome in simulator.outcomes
        )

    await simulator.until(lambda: has_failed() or len(simulator.outcomes) >= scripts)
    # The client does not know that the scenario is over, and would reconnect.
    return 0.0 if has_failed() else _END_SECONDS
