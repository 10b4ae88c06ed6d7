"""The tool runtime of a voice agent on Gemini Live.

A function call goes in as a part, a function response comes out as a part, and nothing waits.

What tools are written with is there at once; what runs them is loaded when it is first named.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.call import Media, ResultStatus, ToolCall, ToolResult, ToolSession
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import LeonidasError, RetryableError, ToolError
from leonidas_tools.redaction import Secret
from leonidas_tools.tools.tool import (
    Tool,
    ToolCategory,
    ToolEffect,
    ToolMetadata,
    ToolPriority,
    ToolStatus,
    tool,
)

if TYPE_CHECKING:
    from leonidas_tools.approvals.desk import Approvals
    from leonidas_tools.approvals.request import ApprovalRequest, Decision
    from leonidas_tools.approvals.session_policy import SessionPolicy
    from leonidas_tools.approvals.transcript import Transcript
    from leonidas_tools.live.gemini import GeminiLiveProcessor
    from leonidas_tools.live.session import LiveToolSession
    from leonidas_tools.live.speech.output import SpeechOutputProcessor
    from leonidas_tools.processors.advanced import AdvancedToolProcessor
    from leonidas_tools.processors.category import (
        ActionToolProcessor,
        CategoryProcessor,
        GenericToolProcessor,
        PythonFunctionProcessor,
        SpeechControlProcessor,
    )
    from leonidas_tools.processors.configuration import ConfigurationProcessor
    from leonidas_tools.processors.mcp import MCPToolProcessor
    from leonidas_tools.processors.monitoring import MonitoringProcessor
    from leonidas_tools.processors.registry import ToolRegistryProcessor
    from leonidas_tools.processors.requests import tool_request
    from leonidas_tools.runtime.runtime import ToolRuntime
    from leonidas_tools.settings.models import Settings, ToolConfiguration
    from leonidas_tools.tools.registry import ToolRegistry
    from leonidas_tools.tools.toolbox import Toolbox
else:  # hidden from the type checker, for which it would stand for every wrong name as well

    def __getattr__(name: str) -> Any:
        """Load a public name from its module, once."""
        if name not in _LOADED_WHEN_NAMED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_LOADED_WHEN_NAMED[name]), name)
        globals()[name] = value
        return value


_LOADED_WHEN_NAMED = {
    "ActionToolProcessor": "leonidas_tools.processors.category",
    "AdvancedToolProcessor": "leonidas_tools.processors.advanced",
    "ApprovalRequest": "leonidas_tools.approvals.request",
    "Approvals": "leonidas_tools.approvals.desk",
    "CategoryProcessor": "leonidas_tools.processors.category",
    "ConfigurationProcessor": "leonidas_tools.processors.configuration",
    "Decision": "leonidas_tools.approvals.request",
    "GeminiLiveProcessor": "leonidas_tools.live.gemini",
    "GenericToolProcessor": "leonidas_tools.processors.category",
    "LiveToolSession": "leonidas_tools.live.session",
    "MCPToolProcessor": "leonidas_tools.processors.mcp",
    "MonitoringProcessor": "leonidas_tools.processors.monitoring",
    "PythonFunctionProcessor": "leonidas_tools.processors.category",
    "SessionPolicy": "leonidas_tools.approvals.session_policy",
    "Settings": "leonidas_tools.settings.models",
    "SpeechControlProcessor": "leonidas_tools.processors.category",
    "SpeechOutputProcessor": "leonidas_tools.live.speech.output",
    "ToolConfiguration": "leonidas_tools.settings.models",
    "ToolRegistry": "leonidas_tools.tools.registry",
    "ToolRegistryProcessor": "leonidas_tools.processors.registry",
    "ToolRuntime": "leonidas_tools.runtime.runtime",
    "Toolbox": "leonidas_tools.tools.toolbox",
    "Transcript": "leonidas_tools.approvals.transcript",
    "tool_request": "leonidas_tools.processors.requests",
}

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
    "Media",
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
    "ToolRuntime",
    "ToolSession",
    "ToolStatus",
    "Toolbox",
    "Transcript",
    "tool",
    "tool_request",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
