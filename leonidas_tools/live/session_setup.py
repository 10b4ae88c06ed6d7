"""The setup message of a connection: configuration, tools, voice and resumption handle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

from google.genai import types

from leonidas_tools.runtime.runtime import runtime_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leonidas_tools.calls.call import ToolSession


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
        resumption = base.session_resumption or types.SessionResumptionConfig()
        update: dict[str, Any] = {
            "tools": list(tools) or None,
            "session_resumption": resumption.model_copy(update={"handle": self.handle}),
        }
        if self.voice is not None:
            update["speech_config"] = _with_voice(base.speech_config, self.voice)
        return base.model_copy(update=update)


def _with_voice(speech: types.SpeechConfig | None, voice: str) -> types.SpeechConfig:
    named = types.VoiceConfig(prebuilt_voice_config=types.PrebuiltVoiceConfig(voice_name=voice))
    return (speech or types.SpeechConfig()).model_copy(update={"voice_config": named})
