"""The tool runtime of a voice agent on Gemini Live.

A function call goes in as a part, a function response comes out as a part, and nothing waits.
"""

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import ApprovalRequest, Decision
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.calls import ResultStatus, ToolCall, ToolResult, ToolSession
from leonidas_tools.context import ToolContext
from leonidas_tools.errors import LeonidasError, RetryableError, ToolError
from leonidas_tools.live.gemini import GeminiLiveProcessor
from leonidas_tools.live.session import LiveToolSession
from leonidas_tools.live.speech_output import SpeechOutputProcessor
from leonidas_tools.processors.action import ActionToolProcessor
from leonidas_tools.processors.advanced import AdvancedToolProcessor
from leonidas_tools.processors.category import CategoryProcessor
from leonidas_tools.processors.configuration import ConfigurationProcessor
from leonidas_tools.processors.generic import GenericToolProcessor
from leonidas_tools.processors.mcp import MCPToolProcessor
from leonidas_tools.processors.monitoring import MonitoringProcessor
from leonidas_tools.processors.python import PythonFunctionProcessor
from leonidas_tools.processors.registry import ToolRegistryProcessor
from leonidas_tools.processors.requests import tool_request
from leonidas_tools.processors.speech import SpeechControlProcessor
from leonidas_tools.redaction import Secret
from leonidas_tools.registry import ToolRegistry
from leonidas_tools.settings.models import Settings, ToolConfiguration
from leonidas_tools.tool import (
    Tool,
    ToolCategory,
    ToolEffect,
    ToolMetadata,
    ToolPriority,
    ToolStatus,
    tool,
)

__all__ = [
    "ActionToolProcessor",
    "AdvancedToolProcessor",
    "ApprovalRequest",
    "Approvals",
    "CategoryProcessor",
    "ConfigurationProcessor",
    "Decision",
    "GeminiLiveProcessor",
    "GenericToolProcessor",
    "LeonidasError",
    "LiveToolSession",
    "MCPToolProcessor",
    "MonitoringProcessor",
    "PythonFunctionProcessor",
    "ResultStatus",
    "RetryableError",
    "Secret",
    "SessionPolicy",
    "Settings",
    "SpeechControlProcessor",
    "SpeechOutputProcessor",
    "Tool",
    "ToolCall",
    "ToolCategory",
    "ToolConfiguration",
    "ToolContext",
    "ToolEffect",
    "ToolError",
    "ToolMetadata",
    "ToolPriority",
    "ToolRegistry",
    "ToolRegistryProcessor",
    "ToolResult",
    "ToolSession",
    "ToolStatus",
    "Transcript",
    "tool",
    "tool_request",
]
