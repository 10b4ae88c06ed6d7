"""`leonidas run`: a conversation with tools, shown as it happens."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leonidas_tools.cli.places import default_config, find_scenario

if TYPE_CHECKING:
    from leonidas_tools.cli.display import Display
    from leonidas_tools.cli.summary import Summary

DEFAULT_MODEL = "gemini-2.5-flash-native-audio-preview-12-2025"
KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_INTERRUPTED = 130


def run(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO]...",
            help="Scenarios for the simulator: files, or names such as demo, cancel, burst.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(envvar="LEONIDAS_CONFIG", help="The settings; else config/tools.yaml."),
    ] = None,
    model: Annotated[
        str, typer.Option(envvar="LEONIDAS_MODEL", help="The live model of a real session.")
    ] = DEFAULT_MODEL,
    speed: Annotated[
        float, typer.Option(min=0.01, help="How fast a scenario is played; inf without pauses.")
    ] = 1.0,
    json_lines: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Hold a conversation and show what is said, called, answered and cancelled.

    With GEMINI_API_KEY or GOOGLE_API_KEY in the environment, or in a file .env, it is a real
    session: type what you have to say. Without, or for a named scenario, the embedded simulator
    plays. Audio devices are not used: what is spoken is shown as text.

    Ends with 1 if any call was not answered exactly once or the protocol was broken, 2 for wrong
    usage or settings, 130 after Ctrl-C.
    """
    import asyncio

    from leonidas_tools.cli.display import JsonLines, Lines

    display: Display = JsonLines() if json_lines else Lines()
    key = next(filter(None, map(os.environ.get, KEY_VARIABLES)), None)
    config = config or default_config()
    if key and not scenarios:
        results = asyncio.run(_talk(display, config, key, model))
    else:
        files = [find_scenario(name) for name in scenarios or ["demo"]]
        results = asyncio.run(_play(display, config, files, speed, has_key=bool(key)))
    if not all(result.ok for result in results):
        raise typer.Exit(1)
    if any(result.interrupted for result in results):
        raise typer.Exit(_INTERRUPTED)


async def _talk(display: "Display", config: Path, key: str, model: str) -> "list[Summary]":
    """A real session."""
    from leonidas_tools.cli.conversation import with_gemini
    from leonidas_tools.cli.starting import started

    async with started(config) as tools:
        _announce(display, f"Gemini Live, {model}; type what you say, Ctrl-D to end", mode="live")
        result = await with_gemini(tools, display, api_key=key, model=model)
        display.close(result)
    return [result]


async def _play(
    display: "Display", config: Path, files: list[Path], speed: float, *, has_key: bool
) -> "list[Summary]":
    """Scenarios, one after another."""
    from leonidas_tools.cli.conversation import with_simulator
    from leonidas_tools.cli.starting import started
    from leonidas_tools.live.simulator import Scenario

    scenarios = [Scenario.load(file) for file in files]
    reason = "a scenario was named" if has_key else f"there is no {KEY_VARIABLES[0]}"
    results: list[Summary] = []
    async with started(config) as tools:
        for scenario in scenarios:
            text = f"the simulator plays {scenario.name!r}, since {reason}"
            _announce(display, text, mode="simulator", scenario=scenario.name)
            result = await with_simulator(tools, display, scenario=scenario, speed=speed)
            display.close(result)
            results.append(result)
            if result.interrupted:
                break
    return results


def _announce(display: "Display", text: str, **data: str) -> None:
    from leonidas_tools.cli.happenings import Happening

    display.show(Happening(kind="session", at_seconds=0.0, data={"text": text, **data}))
