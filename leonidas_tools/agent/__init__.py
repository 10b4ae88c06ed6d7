"""Agents: language models, and the loops that reason, call tools and observe with them."""

from leonidas_tools.agent.delegation import Delegation
from leonidas_tools.agent.fragments import (
    Fragment,
    FragmentMeasures,
    Fragments,
    FragmentStep,
    found_fragments,
)
from leonidas_tools.agent.memory import AgentMemory, ShortTermMemory, StoredMemory
from leonidas_tools.agent.models import GeminiModel, OpenAIModel, ScriptedModel
from leonidas_tools.agent.orchestrator import (
    Evaluated,
    Learned,
    Orchestrator,
    OrchestratorStep,
    Recalled,
)
from leonidas_tools.agent.parameters import adjust_llm_parameters
from leonidas_tools.agent.parser import parse
from leonidas_tools.agent.planner import Planner
from leonidas_tools.agent.react import ReActAgent
from leonidas_tools.agent.record import AgentResult, AgentStatus, Turn
from leonidas_tools.agent.reflector import Reflection, Reflector, ReflectorDecision
from leonidas_tools.agent.tool_choice import ToolChoice
from leonidas_tools.agent.trajectory import trajectory, trajectory_line

__all__ = [
    "AgentMemory",
    "AgentResult",
    "AgentStatus",
    "Delegation",
    "Evaluated",
    "Fragment",
    "FragmentMeasures",
    "FragmentStep",
    "Fragments",
    "GeminiModel",
    "Learned",
    "OpenAIModel",
    "Orchestrator",
    "OrchestratorStep",
    "Planner",
    "ReActAgent",
    "Recalled",
    "Reflection",
    "Reflector",
    "ReflectorDecision",
    "ScriptedModel",
    "ShortTermMemory",
    "StoredMemory",
    "ToolChoice",
    "Turn",
    "adjust_llm_parameters",
    "found_fragments",
    "parse",
    "trajectory",
    "trajectory_line",
]
