"""Whether a server works, and if not, why: step by step, each with what to do about it."""

from leonidas_tools.mcp.doctor.check_result import CheckResult
from leonidas_tools.mcp.doctor.examination import examine

__all__ = ["CheckResult", "examine"]
