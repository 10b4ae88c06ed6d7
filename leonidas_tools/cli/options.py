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
    typer.Option(envvar="LEONIDAS_MODEL", help="The live model. Default: one of the profile."),
]
Profile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        envvar="LEONIDAS_PROFILE",
        help="The profile of the model, such as 3.1-flash-live. Default: by its name. "
        "Simulator: plays the scenario of this profile, or of `all`.",
    ),
]
Speed: TypeAlias = Annotated[
    float, typer.Option(min=0.0, help="Speed: 2 is twice as fast, 0 is without pauses.")
]
Voice: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        help="Use microphone and speaker. Default: on if both, a terminal and an API key are "
        "present."
    ),
]
Microphone: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.wav", help="Use a WAV file as the microphone: 16 kHz, mono.", readable=False
    ),
]
Speaker: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE.wav", help="Write the model's audio to a WAV file: 24 kHz."),
]
JsonLines: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
Console: TypeAlias = Annotated[
    bool,
    typer.Option("--console", help="Show the conversation on a page, where calls are decided."),
]
