"""Whether a server works, and if not, why: step by step, each with what to do about it."""

from leonidas_tools.mcp.doctor.examination import examine
from leonidas_tools.mcp.doctor.finding import Finding

__all__ = ["Finding", "examine"]
