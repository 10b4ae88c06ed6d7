"""`leonidas live probe`: measure what a live model supports, and write its profile."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leonidas_tools.cli.access import KEY_VARIABLES, access_of_environment
from leonidas_tools.cli.generations import Generation, generation_for
from leonidas_tools.cli.places import Config, config_to_change
from leonidas_tools.errors import ConfigurationError, SimulatorError

if TYPE_CHECKING:
    from google.genai import Client

    from leonidas_tools.live.probe import Finding, Probe
    from leonidas_tools.simulator import SimulatedSession

_MAX_WAIT_SECONDS = 86_400.0


def commands() -> typer.Typer:
    """Return the commands about live models."""
    app = typer.Typer(callback=_group)  # without one, a single command is not a group
    app.command("probe")(probe)
    return app


def _group() -> None:
    """Measure what a live model supports."""


def probe(
    model: Annotated[
        str | None, typer.Option(envvar="LEONIDAS_MODEL", help="The live model to measure.")
    ] = None,
    config: Config = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where to write. Default: profiles/MODEL.yaml beside the settings."
        ),
    ] = None,
    simulator: Annotated[
        str | None,
        typer.Option(
            metavar="GENERATION",
            help="Measure a simulated model, such as 3.8-live; it is written only with --out.",
        ),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Open no more sessions after so many tokens.")
    ] = 50_000,
) -> None:
    """Measure what a live model supports, and write a profile that the settings can name.

    Opens about 25 short sessions with your key, three at once, for at most five minutes: thinking
    levels, behaviors, scheduling, interim responses, client content, context updates, JSON Schema,
    files in responses, affective dialog, compression and resumption. A refusal is shown with the
    close code and the reason of the server. The tokens that the server counts are yours.

    A fact that cannot be measured gets the most careful value. The exit code is 1 if there is one,
    and 2 for wrong usage or settings.

    Example: leonidas live probe --model gemini-9-live

    Example: leonidas live probe --simulator 3.8-live
    """
    from leonidas_tools.cli import terminal
    from leonidas_tools.live.profiles import write_profile
    from leonidas_tools.simulator import Scenario

    simulated = None
    if simulator is not None:
        simulated = generation_for(Scenario(name="--simulator", generation=simulator), None)
        model = model or simulated.model
    name = (model or "").rpartition("/")[2]
    if model is None or not name:
        raise typer.BadParameter("name the model to measure: --model NAME")
    settings, file = config or config_to_change(), out
    if file is None and simulated is None:
        file = settings.parent / "profiles" / f"{name}.yaml"
        if file.exists():
            raise ConfigurationError("exists already: remove it, or give it as --out", file=file)
    probed = asyncio.run(_run(model, simulated, max_tokens))
    terminal.say(f"{probed.sessions} sessions, {probed.tokens} tokens, as the server counts them")
    unknown = sum(not each.measured for each in probed.findings.values())
    if unknown == len(probed.findings):
        raise ConfigurationError(f"nothing about {model!r} could be measured: no file is written")
    if file is not None:
        server = "" if simulated is None else f" --simulator {simulated.server}"
        source = f"leonidas live probe{server}, {datetime.now(tz=UTC).date()}"
        write_profile(probed.profile(source), file, comment=f"measured by {source}")
        relative = os.path.relpath(file, settings.parent)
        terminal.say(f"{file} is written; to use it, add to {settings}: profiles: [{relative}]")
    if unknown:
        raise typer.Exit(1)


async def _run(model: str, simulated: Generation | None, max_tokens: int) -> "Probe":
    from leonidas_tools.cli import terminal
    from leonidas_tools.live.probe import Bounds, Probe

    async with _open_client(model, simulated) as client:
        probed = Probe(client, model, bounds=Bounds(tokens=max_tokens), on_finding=_show)
        terminal.say(f"Measuring {model}")
        await probed.run()
    return probed


@asynccontextmanager
async def _open_client(model: str, simulated: Generation | None) -> AsyncIterator["Client"]:
    """Yield a client of the real server, or of a simulated one."""
    if simulated is None:
        from leonidas_tools.cli.with_gemini import gemini_model
        from leonidas_tools.live.profiles import UNKNOWN

        access = access_of_environment()
        if not access:
            raise ConfigurationError(
                f"There is no key: set {KEY_VARIABLES[0]}, or measure a simulated model with "
                "--simulator 3.8-live"
            )
        yield gemini_model(None, model=model, profile=UNKNOWN, api_key=access.api_key).client
        return
    from leonidas_tools.cli.with_simulator import simulated_model
    from leonidas_tools.simulator import LiveSimulator

    logging.getLogger("leonidas_tools.simulator").setLevel(logging.ERROR)
    with suppress(SimulatorError):  # it reports the refusals that are measured here
        async with LiveSimulator(obey, generation=simulated.server) as server:
            yield simulated_model(None, server, simulated).client


def _show(field: str, finding: "Finding") -> None:
    from leonidas_tools.cli import terminal

    value = finding.value if finding.measured else "unknown"
    if isinstance(value, frozenset | tuple):
        value = ", ".join(value if isinstance(value, tuple) else sorted(value)) or "none"
    words: dict[object, str] = {True: "yes", False: "no", None: "any"}
    terminal.say(f"{field:20} {words.get(value, value)} ({finding.evidence})")


async def obey(model: "SimulatedSession") -> None:
    """Play a model that repeats each text, or calls the function that the text names."""
    turns: set[asyncio.Task[None]] = set()
    try:
        while True:
            (heard,) = await model.wait_for_input("text", within_seconds=_MAX_WAIT_SECONDS)
            turns.add(asyncio.create_task(_take_turn(model, heard.text), name="simulator:turn"))
            await asyncio.sleep(0)
            if model.is_blocked:
                await model.wait_for_answers(within_seconds=_MAX_WAIT_SECONDS)
    finally:
        for task in turns:
            task.cancel()
        await asyncio.gather(*turns, return_exceptions=True)


async def _take_turn(model: "SimulatedSession", text: str) -> None:
    from leonidas_tools.simulator import FunctionCall

    for name in [each for each in model.declared if each in text]:
        schema = model.declared[name].get("parametersJsonSchema", {})
        call = FunctionCall(name, dict.fromkeys(schema.get("properties", ()), text))
        (answer,) = await model.call(call, within_seconds=_MAX_WAIT_SECONDS)
        text = str(answer.response["result"])
    await model.say(text, audio_seconds=0.1)
    await model.usage({"totalTokenCount": 100})
    await model.turn_complete()
