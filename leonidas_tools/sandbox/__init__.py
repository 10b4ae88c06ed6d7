"""Run untrusted programs: only these files, no network, within limits, and nothing left over."""

from leonidas_tools.sandbox.process import Finished, Running
from leonidas_tools.sandbox.sandbox import Limits, NoSandboxError, Sandbox

__all__ = ["Finished", "Limits", "NoSandboxError", "Running", "Sandbox"]
