"""The agent: language models, and what thinks, acts and observes with them."""

from leonidas_tools.agent.models import GeminiModel, OpenAIModel, ScriptedModel
from leonidas_tools.agent.parser import parse
from leonidas_tools.agent.react import ReActAgent
from leonidas_tools.agent.record import AgentResult, AgentStatus, Turn

__all__ = [
    "AgentResult",
    "AgentStatus",
    "GeminiModel",
    "OpenAIModel",
    "ReActAgent",
    "ScriptedModel",
    "Turn",
    "parse",
]
