"""`leonidas run`: a conversation with tools, shown as it happens."""

import math
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from leonidas_tools.cli import options
from leonidas_tools.cli.access import KEY_VARIABLES, access_of_environment
from leonidas_tools.cli.generations import ALL, check_profile, model_of, scenarios_of
from leonidas_tools.cli.places import Config, configs_for, default_config, find_scenario, is_typed
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from leonidas_tools.cli.access import Access
    from leonidas_tools.cli.conversation import ConversationParts
    from leonidas_tools.cli.display import Display
    from leonidas_tools.cli.generations import Generation
    from leonidas_tools.cli.summary import Summary
    from leonidas_tools.cli.voice.choice import ChosenVoice, VoiceOptions
    from leonidas_tools.simulator import Scenario

DEMO = ("demo", "policies", "tools_change")
_INTERRUPTED = 130
_NEXT_STEPS = (
    "",
    "What next: write functions with @tool into my_tools.py, and `toolboxes: [my_tools]` into",
    "tools.yaml, both in one folder. There,",
    "  {program} tools call NAME   calls one of them",
    "  {program} --help            lists all commands",
)


def run(  # noqa: PLR0913, PLR0917 - the options of a command
    context: typer.Context,
    scenarios: options.Scenarios = None,
    config: Config = None,
    model: options.Model = None,
    profile: options.Profile = None,
    speed: options.Speed = 1.0,
    voice: options.Voice = None,
    microphone: options.Microphone = None,
    speaker: options.Speaker = None,
    json_lines: options.JsonLines = False,
    console: options.Console = False,
) -> None:
    """Run a conversation with tools and show each call as it happens.

    With GEMINI_API_KEY or GOOGLE_API_KEY in the environment or in .env, it is a real session. With
    GOOGLE_GENAI_USE_VERTEXAI=true it runs on Vertex AI, with the project and location of the
    environment. Speak or type.

    Without a key, or with SCENARIO, the embedded simulator plays: by default demo, policies and
    tools_change. If a scenario waits for text, type it.

    The exit code is 1 if a call was not answered exactly once or the protocol was broken, 2 for
    wrong usage or settings, and 130 after Ctrl-C. A call whose connection was lost counts as
    answered if the model receives its outcome on a later connection.

    Example: leonidas run demo

    Example: leonidas run --no-voice --json
    """
    import asyncio

    from leonidas_tools.cli.display import JsonLines, Lines
    from leonidas_tools.cli.voice.choice import VoiceOptions

    display: Display = JsonLines() if json_lines else Lines()
    sound = VoiceOptions(wanted=voice, microphone=microphone, speaker=speaker)
    access = access_of_environment()
    if profile is not None:
        check_profile(profile)
    if access and not scenarios and profile != ALL:
        model = model or model_of(profile, vertex=access.vertex)
        results = asyncio.run(
            _talk(display, config or default_config(), access, model, profile, sound, console)
        )
    else:
        if model is not None and is_typed(context, "model"):
            raise typer.BadParameter(_no_model_for(model, bool(access)))
        names = scenarios or (scenarios_of(profile) if profile else DEMO)
        files = [_find_file(name, voice=voice) for name in names]
        played = _Played(
            files=files,
            config=config,
            profile=profile,
            speed=speed or math.inf,
            has_access=bool(access),
            console=console,
        )
        results = asyncio.run(_play(display, played, sound))
        if not json_lines and tuple(names[: len(DEMO)]) == DEMO:
            _tell_next_steps()
    if any(result.interrupted for result in results):
        raise typer.Exit(_INTERRUPTED)
    if not all(result.ok for result in results):
        raise typer.Exit(1)


def _tell_next_steps() -> None:
    from leonidas_tools.cli import terminal

    installed = Path(sys.executable).with_name("leonidas")  # the environment may not be active
    program = "leonidas" if shutil.which("leonidas") else installed
    for line in _NEXT_STEPS:
        terminal.say(line.format(program=program))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Played:
    """The scenarios that the simulator plays, and how."""

    files: list[Path]
    config: Path | None  # `None` for the settings of each scenario
    profile: str | None  # for scenarios that name no generation
    speed: float
    has_access: bool  # whether a real session was possible
    console: bool


def _find_file(name: str, *, voice: bool | None) -> Path:
    try:
        return find_scenario(name)
    except ConfigurationError as error:
        if voice is None:
            raise
        message = f"{error} (--voice and --no-voice take no value: {name!r} is read as a scenario)"
        raise ConfigurationError(message) from None


def _no_model_for(model: str, has_access: bool) -> str:
    """Return why a model cannot be used in a simulation, with a remedy."""
    if has_access:
        todo = "leave out SCENARIO, or leave out --model"
    else:
        todo = f"set {KEY_VARIABLES[0]}, or leave out --model"
    return f"--model {model!r} is for a real session, but the simulator plays: {todo}"


async def _talk(  # noqa: PLR0913, PLR0917 - the options of the command
    display: "Display",
    config: Path,
    access: "Access",
    model: str,
    profile: str | None,
    options: "VoiceOptions",
    console: bool,
) -> "list[Summary]":
    """Run a real session, and return its summary."""
    from leonidas_tools import AdvancedToolProcessor
    from leonidas_tools.cli.console import console_beside
    from leonidas_tools.cli.conversation import ConversationParts
    from leonidas_tools.cli.starting import wait_for_servers
    from leonidas_tools.cli.talking import gemini_agent
    from leonidas_tools.cli.typed import TypedLines
    from leonidas_tools.cli.with_gemini import with_gemini

    terminal = sys.stdin is not None and sys.stdin.isatty()
    voice = options.choose(by_default=terminal)
    typed = None if voice.microphone is not None and not terminal else TypedLines()
    async with (
        AdvancedToolProcessor(config=config) as tools,
        console_beside(
            tools,
            wanted=console,
            agents=partial(
                gemini_agent, tools, model=model, profile=profile, api_key=access.api_key
            ),
        ),
    ):
        await wait_for_servers(tools.runtime)
        where = "Gemini Live on Vertex AI" if access.vertex else "Gemini Live"
        _announce(display, f"{where}, {model}; {_how_to_talk(voice)}", mode="live")
        parts = ConversationParts(tools=tools, display=display, voice=voice, typed=typed)
        result = await with_gemini(parts, model=model, profile=profile, api_key=access.api_key)
        display.close(result)
    return [result]


def _how_to_talk(voice: "ChosenVoice") -> str:
    if voice.ends:
        return "the recording is played"
    if voice.microphone is not None:
        return "speak or type, Ctrl-C to end; with headphones the model does not hear itself"
    why = f"; no voice, since {voice.why_not}" if voice.why_not else ""
    return f"type what you say, Ctrl-D to end{why}"


async def _play(display: "Display", played: _Played, options: "VoiceOptions") -> "list[Summary]":
    """Play scenarios in order; consecutive ones with the same settings share their servers."""
    from leonidas_tools import AdvancedToolProcessor
    from leonidas_tools.cli.console import console_beside
    from leonidas_tools.cli.conversation import ConversationParts
    from leonidas_tools.cli.generations import generation_for
    from leonidas_tools.cli.starting import wait_for_servers
    from leonidas_tools.cli.talking import simulated_agent
    from leonidas_tools.cli.typed import TypedLines
    from leonidas_tools.simulator import Scenario

    scenarios = [Scenario.load(file) for file in played.files]
    generations = [generation_for(scenario, played.profile) for scenario in scenarios]
    configs = [played.config] * len(scenarios) if played.config else configs_for(played.files)
    reason = _why_simulated(played)
    typed = TypedLines()
    results: list[Summary] = []
    pending = list(zip(scenarios, generations, configs, strict=True))
    while pending and not any(result.interrupted for result in results):
        config = pending[0][2]
        async with (
            AdvancedToolProcessor(config=config) as tools,
            console_beside(tools, wanted=played.console, agents=partial(simulated_agent, tools)),
        ):
            await wait_for_servers(tools.runtime)
            while pending and pending[0][2] == config:
                scenario, generation, _ = pending.pop(0)
                tools.executor.cache.invalidate()  # earlier scenarios must have no influence
                parts = ConversationParts(
                    tools=tools,
                    display=display,
                    voice=options.choose(by_default=False),
                    typed=typed,
                )
                result = await _play_one(parts, scenario, generation, reason, played.speed)
                results.append(result)
                if result.interrupted:
                    break
    return results


async def _play_one(
    parts: "ConversationParts",
    scenario: "Scenario",
    generation: "Generation",
    reason: str,
    speed: float,
) -> "Summary":
    from leonidas_tools.cli.with_simulator import waits_for_text, with_simulator

    more = "; it waits for text: type it" if waits_for_text(scenario) else ""
    text = f"the simulator plays {scenario.name!r}, since {reason}{more}"
    told = {"mode": "simulator", "scenario": scenario.name, "profile": generation.profile}
    _announce(parts.display, text, **told)
    result = await with_simulator(parts, scenario=scenario, generation=generation, speed=speed)
    parts.display.close(result)
    return result


def _why_simulated(played: _Played) -> str:
    if not played.has_access:
        return f"there is no {KEY_VARIABLES[0]}"
    return "all profiles are wanted" if played.profile == ALL else "a scenario was named"


def _announce(display: "Display", text: str, **data: str) -> None:
    from leonidas_tools.cli.happenings import Happening

    display.show(Happening(kind="session", at_seconds=0.0, data={"text": text, **data}))
