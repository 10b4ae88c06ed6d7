"""The options of `leonidas run`."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Scenarios: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCENARIO",
        help="Scenarios for the simulator: files, or names such as demo, policies, cancel.",
    ),
]
Model: TypeAlias = Annotated[
    str | None,
    typer.Option(envvar="LEONIDAS_MODEL", help="The live model; else one of the profile."),
]
Profile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        envvar="LEONIDAS_PROFILE",
        help="How the model behaves, such as 3.1-flash-live; else by its name. "
        "Simulated: plays that profile's scenario, or those of `all`.",
    ),
]
Speed: TypeAlias = Annotated[
    float, typer.Option(min=0.0, help="How fast; 2 is twice as fast, 0 without pauses.")
]
Voice: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        help="Use microphone and speaker. Default: if both, a terminal and a key are present."
    ),
]
Microphone: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE.wav", help="Say what is in a file: 16 kHz, mono.", readable=False),
]
Speaker: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE.wav", help="Write what is heard to a file: 24 kHz.")
]
JsonLines: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Console: TypeAlias = Annotated[
    bool,
    typer.Option("--console", help="Show the conversation on a page, where calls are decided."),
]
