"""Tools that print wherever they can, as soon as they are loaded."""

import os
import subprocess
import sys
import time
from pathlib import Path

from leonidas_tools import ToolContext, tool


def shout(text):
    """Prints in three ways."""
    print(text)
    sys.stdout.flush()
    os.write(1, text.encode() + b"\n")
    subprocess.run(["echo", text], check=True)


shout("loaded")


@tool(effect="read")
def noisy(text: str) -> str:
    """Prints, and reads what is not for it."""
    shout(text)
    read = sys.stdin.read()
    child = subprocess.run(["cat"], check=True, capture_output=True).stdout
    return f"read {read!r} and {child!r}"


@tool(effect="once", requires_approval=False)
def pay(begun: str, done: str) -> str:
    """Takes a moment, in which it must not be stopped."""
    Path(begun).touch()
    time.sleep(0.5)
    Path(done).touch()
    return "paid"


@tool(effect="read", lane="looking")  # beside what is paid
def look(begun: str, ctx: ToolContext) -> str:
    """Looks until it is stopped."""
    Path(begun).touch()
    while not ctx.cancelled:
        time.sleep(0.01)
    return "stopped"
