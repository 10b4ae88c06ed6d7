"""Diagnose a server step by step, and report each finding with a remedy."""

from leonidas_tools.mcp.doctor.check_result import CheckResult
from leonidas_tools.mcp.doctor.examination import examine

__all__ = ["CheckResult", "examine"]
