"""Run untrusted programs with only the given files, no network, limits, and full clean-up."""

from leonidas_tools.sandbox.process import Finished, NoSandboxError, Running, UnrunnableError
from leonidas_tools.sandbox.sandbox import Limits, Sandbox

__all__ = ["Finished", "Limits", "NoSandboxError", "Running", "Sandbox", "UnrunnableError"]
