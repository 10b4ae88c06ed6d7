"""The toolbox `delegate`: delegation to a model from the settings."""

import os
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from leonidas_tools.agent.delegation import Delegation
from leonidas_tools.agent.models import GeminiModel, OpenAIModel
from leonidas_tools.agent.short_term import ShortTermMemory
from leonidas_tools.agent.tool_choice import ToolChoice
from leonidas_tools.embeddings import EmbedderSettings, make_embedder
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.settings.fields import Count, Duration, Name, OptionalCount, Switch
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.tools.tool import Tool
from leonidas_tools.tools.toolbox import Toolbox

ServedModel: TypeAlias = OpenAIModel | GeminiModel


class DelegateSettings(SettingsModel):
    """Settings of delegation.

    Args:
        provider: `openai` (any compatible endpoint, such as llama.cpp's) or `gemini`.
        model: The name of the model.
        base_url: The base URL of the endpoint, such as `http://127.0.0.1:8080/v1`; by default the
            provider's own.
        api_key_variable: The environment variable with the API key; by default the provider's own.
        text_calls: Whether the model writes calls as text, for a model without function calling.
        answer_timeout: The timeout of one answer of the model.
        instructions: Instructions for the model.
        max_at_once: The maximum number of delegations of a session that run at once.
        max_depth: The maximum depth of nested delegations; with 1, the agent cannot delegate.
        max_seconds: The timeout of a delegation, including the wait for approvals.
        max_iterations: The maximum number of turns of the model.
        max_calls: The maximum number of tool calls.
        max_tokens: The maximum number of tokens of all turns.
        progress_seconds: The minimum time between two progress reports.
        most_tools: The maximum number of tools, the most relevant to the task; by default all.
        embeddings: The embeddings that choose the tools by meaning.
        window_tokens: The number of tokens that the model sees; older messages are summarized.
    """

    provider: Literal["openai", "gemini"] = "openai"
    model: Name
    base_url: Name | None = None
    api_key_variable: Name | None = None
    text_calls: Switch = False
    answer_timeout: Duration = 120.0
    instructions: str = ""
    max_at_once: Count = 3
    max_depth: Count = 1
    max_seconds: Duration = 600.0
    max_iterations: Count = 20
    max_calls: Count = 60
    max_tokens: Count = 100_000
    progress_seconds: Duration = 10.0
    most_tools: OptionalCount = None
    embeddings: EmbedderSettings = EmbedderSettings()
    window_tokens: Annotated[int, Field(ge=100)] | None = None


def _model(settings: DelegateSettings) -> ServedModel:
    """Return the model, which the caller must close."""
    key = None
    if settings.api_key_variable is not None:
        key = os.environ.get(settings.api_key_variable)
        if not key:
            raise ConfigurationError(
                f"no API key is set: set the environment variable {settings.api_key_variable!r}"
            )
    if settings.provider == "gemini":
        return GeminiModel(
            settings.model,
            api_key=key,
            base_url=settings.base_url,
            timeout_seconds=settings.answer_timeout,
        )
    return OpenAIModel(
        settings.model,
        base_url=settings.base_url,
        api_key=key,
        calls_functions=not settings.text_calls,
        timeout_seconds=settings.answer_timeout,
    )


def _short_term(settings: DelegateSettings) -> ShortTermMemory | None:
    most = settings.window_tokens
    return None if most is None else ShortTermMemory(max_tokens=most)


def _tool_choice(settings: DelegateSettings) -> ToolChoice | None:
    if settings.most_tools is None:
        return None
    return ToolChoice(make_embedder(settings.embeddings), most=settings.most_tools)


def _make(settings: DelegateSettings) -> Sequence[Tool[..., Any]]:
    _model(settings)  # raises now if a package or key is missing, not during a conversation
    return Delegation(
        partial(_model, settings),
        max_at_once=settings.max_at_once,
        max_depth=settings.max_depth,
        max_seconds=settings.max_seconds,
        max_iterations=settings.max_iterations,
        max_calls=settings.max_calls,
        max_tokens=settings.max_tokens,
        progress_seconds=settings.progress_seconds,
        instructions=settings.instructions,
        tool_choice=_tool_choice(settings),
        short_term=_short_term(settings),
    ).tools


TOOLBOX = Toolbox(
    summary="An agent that works on tasks of several steps while the conversation continues.",
    make=_make,
    settings=DelegateSettings,
    access=frozenset({"network"}),
)
