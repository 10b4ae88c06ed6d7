"""Second stage: pin the current settings to each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leonidas_tools.processors import stream
from leonidas_tools.processors.answers import settled_parts
from leonidas_tools.processors.intake import pinned
from leonidas_tools.processors.parts import CallPart, asks_nothing, attached, executor_of
from leonidas_tools.processors.requests import Answer, build_answer, is_request
from leonidas_tools.processors.stage import Stage
from leonidas_tools.settings.shown import to_display
from leonidas_tools.settings.watch import WatchedSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Mapping
    from pathlib import Path

    from genai_processors import processor
    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.settings.models import Settings


class ConfigurationProcessor(Stage):
    """Pins the current settings to each call, so that an edit never affects a running call.

    A call of a disabled tool is answered at once. The file is watched while a stream runs.

    Args:
        source: A YAML file, a mapping, settings, or settings that are watched already.
    """

    def __init__(
        self, source: str | Path | Mapping[str, Any] | Settings | WatchedSettings | None = None
    ) -> None:
        self.settings = source if isinstance(source, WatchedSettings) else WatchedSettings(source)
        self.answers: dict[str, Answer] = {
            "get_configuration": self._get,
            "update_configuration": self._update,
            "reload_configuration": self._reload,
        }

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Yield the parts, with settings pinned to each call."""
        sinks = stream.sinks()
        async with self.settings:
            async for part in content:
                if asks_nothing(part):
                    yield part
                    continue
                call = attached(part)
                executor = None if call is None else executor_of(part)
                if call is None or call.tool is None or executor is None:
                    yield await build_answer(part, self.answers) if is_request(part) else part
                    continue
                call, result = pinned(call, call.tool, executor, self.settings.current)
                if result is None:
                    if isinstance(part, CallPart):
                        part.pin(call)
                        yield part
                    else:  # a user's stage has copied the part
                        yield CallPart(part, call, executor)
                    continue
                for output in settled_parts(executor, call, result, sinks):
                    yield output

    def _get(self, tool: str | None = None) -> dict[str, Any]:
        return to_display(self.settings.current, tool)

    def _update(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        self.settings.update(changes)
        return {"generation": self.settings.generation}

    def _reload(self) -> dict[str, Any]:
        self.settings.reload()
        return {"generation": self.settings.generation}
