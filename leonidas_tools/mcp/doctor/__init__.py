"""Diagnose a server step by step, each finding with what to do."""

from leonidas_tools.mcp.doctor.check_result import CheckResult
from leonidas_tools.mcp.doctor.examination import examine

__all__ = ["CheckResult", "examine"]
