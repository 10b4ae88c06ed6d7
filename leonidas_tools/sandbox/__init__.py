"""Run untrusted programs: only these files, no network, within limits, and nothing left over."""

from leonidas_tools.sandbox.process import Finished, NoSandboxError, Running, UnrunnableError
from leonidas_tools.sandbox.sandbox import Limits, Sandbox

__all__ = ["Finished", "Limits", "NoSandboxError", "Running", "Sandbox", "UnrunnableError"]
