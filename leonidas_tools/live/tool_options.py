"""Options of tools for a live session: declarations, texts, fillers and repeated calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.live.session_setup import takes_sessions
from leonidas_tools.results.texts import AS_IT_IS
from leonidas_tools.runtime.runtime import runtime_of
from leonidas_tools.settings.effective import effect_of, either, repeats_after_resume
from leonidas_tools.tools.metadata import ToolEffect

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.genai import types

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.live.session_setup import DeclaresTools
    from leonidas_tools.results.texts import Wording
    from leonidas_tools.runtime.runtime import ToolRuntime

MEDIAN = "median"
"""Setting for the median duration of the tool's recent calls."""

_MIN_MEDIAN_SECONDS = 1.0
_UNKNOWN_MEDIAN_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Filler:
    """The latency-masking phrase of a tool, and when it is spoken."""

    after_seconds: float  # seconds of silence before it
    sentence: str | None = None  # with `None`, only the listener gets an event


def filler_for(tools: ToolRuntime, declared_name: str) -> Filler | None:
    """Return the latency-masking phrase of a tool and its delay, or `None` if it has none.

    A tool has one if a delay is configured; the sentence is optional. The median duration counts
    as at least 1 s, and as 2 s before the first measurement.
    """
    tool = tools.registry.find(declared_name)
    if tool is None:
        return None
    settings = tools.settings.current.for_tool(tool.name, tool.origin)
    after = either(settings.filler_after, tool.metadata.filler_after_seconds)
    if not after:
        return None
    if after == MEDIAN:
        median = tools.monitor.median_seconds(tool.name)
        after = max(either(median, _UNKNOWN_MEDIAN_SECONDS), _MIN_MEDIAN_SECONDS)
    return Filler(after_seconds=after, sentence=either(settings.filler, tool.metadata.filler))


def wording_of(tools: object) -> Wording:
    """Return the texts of the settings; the default ones if `tools` has no settings."""
    runtime = runtime_of(tools)
    return AS_IT_IS if runtime is None else runtime.settings.current.wording or AS_IT_IS


def declarations_for(tools: DeclaresTools, session: ToolSession) -> list[types.Tool]:
    """Return the tools that are declared in a conversation."""
    if takes_sessions(tools):
        return tools.declarations(session)
    return tools.declarations()


def follow_declarations(
    tools: DeclaresTools, session: ToolSession, listener: Callable[[], None]
) -> Callable[[], None]:
    """Call `listener` after each change of the declarations; return a function to unsubscribe."""
    if takes_sessions(tools):
        return tools.on_declarations_change(listener, session)
    return tools.on_declarations_change(listener)


def may_repeat(tools: DeclaresTools, declared_name: str, given: bool) -> bool:
    """Return whether a call runs again if the model repeats it after a reconnect."""
    runtime = runtime_of(tools)
    tool = None if runtime is None else runtime.registry.find(declared_name)
    if runtime is None or tool is None:
        return False
    settings = runtime.settings.current.for_tool(tool.name, tool.origin)
    may_be_once = runtime.executor.may_be_once(tool, settings)
    if given and effect_of(tool, settings) is ToolEffect.READ and not may_be_once:
        return True
    return repeats_after_resume(tool, settings)
