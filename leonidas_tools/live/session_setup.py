"""The setup message of a connection: configuration, tools, voice and resumption handle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

from google.genai import types

from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.runtime.runtime import runtime_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.live.profiles import ModelProfile

logger = visible_logger(__name__)


@runtime_checkable
class DeclaresTools(Protocol):
    """A source of tool declarations, such as an `AdvancedToolProcessor`."""

    def declarations(self) -> list[types.Tool]:
        """Return the tools that a Live setup declares."""
        ...

    def on_declarations_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each change; return a function that unsubscribes it."""
        ...


class DeclaresInSessions(Protocol):
    """A source of tool declarations that may differ from one conversation to the next."""

    def declarations(self, session: ToolSession) -> list[types.Tool]:
        """Return the tools that a Live setup declares in a conversation."""
        ...

    def on_declarations_change(
        self, listener: Callable[[], None], session: ToolSession
    ) -> Callable[[], None]:
        """Call `listener` after each change; return a function that unsubscribes it."""
        ...


def takes_sessions(tools: object) -> TypeGuard[DeclaresInSessions]:
    """Return whether a source has a runtime, whose declarations depend on the conversation."""
    return runtime_of(tools) is not None


def declarer(tools: object) -> DeclaresTools:
    """Return a source of declarations for a list of tools, or the given source itself.

    Raises:
        TypeError: `tools` is neither a list of declarations nor a source.
    """
    if isinstance(tools, list | tuple) and all(isinstance(tool, types.Tool) for tool in tools):
        return FixedTools(tools=tuple(tools))
    if isinstance(tools, DeclaresTools) and not isinstance(tools, type):
        return tools
    raise TypeError(
        f"tools takes an AdvancedToolProcessor, or declarations, not {tools!r}: leave it out, and "
        f"give LiveToolSession(live, AdvancedToolProcessor(tools=[...]))"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedTools:
    """Declarations that never change."""

    tools: Sequence[types.Tool] = ()

    def declarations(self) -> list[types.Tool]:
        """Return the tools that a Live setup declares."""
        return list(self.tools)

    def on_declarations_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Ignore the listener: the declarations never change."""
        del listener
        return lambda: None


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """The part of the setup that may differ between connections of a conversation."""

    tools: Sequence[types.Tool] = ()
    voice: str | None = None  # `None` for the configured one
    handle: str | None = None  # resumes a session; `None` begins a new one

    def config(
        self, base: types.LiveConnectConfig, tools: Sequence[Any]
    ) -> types.LiveConnectConfig:
        """Return the configuration of the connection."""
        update: dict[str, Any] = {"tools": list(tools) or None}
        if base.session_resumption is not None:
            resumption = base.session_resumption.model_copy(update={"handle": self.handle})
            update["session_resumption"] = resumption
        if self.voice is not None:
            update["speech_config"] = _set_voice(base.speech_config, self.voice)
        return base.model_copy(update=update)


def _set_voice(speech: types.SpeechConfig | None, voice: str) -> types.SpeechConfig:
    named = types.VoiceConfig(prebuilt_voice_config=types.PrebuiltVoiceConfig(voice_name=voice))
    return (speech or types.SpeechConfig()).model_copy(update={"voice_config": named})


def fit_config(
    config: types.LiveConnectConfig, profile: ModelProfile, *, transcribed: bool
) -> types.LiveConnectConfig:
    """Return the user's configuration, completed, and without fields that the model refuses.

    Args:
        config: The configuration of the user, which has precedence.
        profile: The profile of the model.
        transcribed: Whether to transcribe the speech of both sides.
    """
    defaults = _defaults(config, profile, transcribed=transcribed)
    missing = {name: value for name, value in defaults.items() if getattr(config, name) is None}
    return config.model_copy(update={**missing, **_replacements(config, profile)})


def _defaults(
    config: types.LiveConnectConfig, profile: ModelProfile, *, transcribed: bool
) -> dict[str, Any]:
    """Return the values of fields that the user's configuration may leave out."""
    generation = config.generation_config
    modalities = config.response_modalities or (generation and generation.response_modalities)
    defaults: dict[str, Any] = {}
    if not modalities:
        modalities = defaults["response_modalities"] = [types.Modality.AUDIO]
    if transcribed:
        defaults["input_audio_transcription"] = types.AudioTranscriptionConfig()
        if types.Modality.AUDIO in modalities:
            defaults["output_audio_transcription"] = types.AudioTranscriptionConfig()
    if profile.session_resumption:
        defaults["session_resumption"] = types.SessionResumptionConfig()
    if profile.context_compression:
        defaults["context_window_compression"] = types.ContextWindowCompressionConfig(
            sliding_window=types.SlidingWindow()
        )
    return defaults


def _replacements(config: types.LiveConnectConfig, profile: ModelProfile) -> dict[str, Any]:
    """Return other values for the fields that the model would refuse."""
    replaced: dict[str, Any] = {}
    if config.enable_affective_dialog and not profile.affective_dialog:
        logger.warning("The model (%s) does not support affective dialog: left out", profile.name)
        replaced["enable_affective_dialog"] = None
    if profile.thinking_levels is None:
        return replaced
    generation = config.generation_config or types.GenerationConfig()
    given = config.thinking_config or generation.thinking_config
    replaced["thinking_config"] = _thinking(given, profile.thinking_levels, profile.name)
    if generation.thinking_config is not None:
        replaced["generation_config"] = generation.model_copy(update={"thinking_config": None})
    return replaced


def _thinking(
    given: types.ThinkingConfig | None, levels: Sequence[str], model: str
) -> types.ThinkingConfig | None:
    """Return the thinking configuration with one of the supported levels, if there are any."""
    if not levels:
        if given is not None:
            logger.warning("The model (%s) takes no thinking configuration: left out", model)
        return None
    chosen = given or types.ThinkingConfig()
    level = chosen.thinking_level
    if level in levels and chosen.thinking_budget is None:
        return chosen
    if level is not None or chosen.thinking_budget is not None:
        logger.warning(
            "The model (%s) takes a thinking level of %s, and no budget: the level is %s",
            model,
            ", ".join(levels),
            level if level in levels else levels[0],
        )
    kept = level if level in levels else types.ThinkingLevel(levels[0])
    return chosen.model_copy(update={"thinking_level": kept, "thinking_budget": None})
