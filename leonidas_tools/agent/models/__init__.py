"""Language models with one small interface: messages and tools in, text and calls out."""

from leonidas_tools.agent.models.gemini_model import GeminiModel
from leonidas_tools.agent.models.model import (
    Answer,
    Budget,
    Chunk,
    Declared,
    End,
    EndReason,
    FunctionDeclaration,
    Message,
    Model,
    ModelCall,
    ModelParameters,
    Restart,
    TextDelta,
    Usage,
    answer,
    estimated_tokens,
)
from leonidas_tools.agent.models.openai_model import OpenAIModel
from leonidas_tools.agent.models.scripted_model import ScriptedModel
from leonidas_tools.agent.models.served_model import AnswerLimits

__all__ = [
    "Answer",
    "AnswerLimits",
    "Budget",
    "Chunk",
    "Declared",
    "End",
    "EndReason",
    "FunctionDeclaration",
    "GeminiModel",
    "Message",
    "Model",
    "ModelCall",
    "ModelParameters",
    "OpenAIModel",
    "Restart",
    "ScriptedModel",
    "TextDelta",
    "Usage",
    "answer",
    "estimated_tokens",
]
