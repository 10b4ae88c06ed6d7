"""Pipecat's Gemini Live service, where `PIPECAT_PYTHON` names an interpreter that has it.

It needs an older google-genai than ours, so it runs in an environment and a program of its own:

    python -m venv pipecat && pipecat/bin/pip install 'pipecat-ai[google]'
    PIPECAT_PYTHON=pipecat/bin/python make bench
"""

import json
import os
import subprocess
from pathlib import Path

_PROGRAM = Path(__file__).with_name("pipecat_program.py")
_MAX_SECONDS = 100


def installed() -> list[str]:
    """Return its adapter, if it is there."""
    return ["pipecat"] if os.environ.get("PIPECAT_PYTHON") else []


def talk(sessions: int, frames: int, warm_up: int) -> tuple[float, list[tuple[int, float]]]:
    """Processor time of a second of a session, and number and delay of each frame heard."""
    numbers = [str(number) for number in (sessions, frames, warm_up)]
    done = subprocess.run(
        [os.environ["PIPECAT_PYTHON"], "-I", str(_PROGRAM), *numbers],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_MAX_SECONDS,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return found["cost"], [(number, delay) for number, delay in found["heard"]]
