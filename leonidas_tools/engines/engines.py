"""The engines of a runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.errors import RetryableError
from leonidas_tools.results.texts import say
from leonidas_tools.workers.jobs import in_own_thread

if TYPE_CHECKING:
    from leonidas_tools.engines.base import Engine, TemporalPlace


class Engines:
    """The engines of a runtime, each loaded for its first call.

    Args:
        temporal: The place of the Temporal server.
    """

    def __init__(self, *, temporal: TemporalPlace) -> None:
        self._temporal = temporal
        self._engines: dict[str, Engine] = {}

    async def get(self, name: str) -> Engine:
        """Return an engine.

        Raises:
            RetryableError: Its package is not installed.
        """
        engine = self._engines.get(name)
        if engine is None:
            try:
                engine = await in_own_thread(self._loaded, name)  # it takes half a second
            except ImportError:
                raise RetryableError(
                    say("engine_missing", engine=name),
                    status="unavailable",
                    reason_code="engine_away",
                ) from None
            engine = self._engines.setdefault(name, engine)
        return engine

    def _loaded(self, name: str) -> Engine:
        if name != "temporal":
            raise ImportError(name)
        from leonidas_tools.engines.temporal import TemporalEngine

        return TemporalEngine(self._temporal)

    async def aclose(self) -> None:
        """Let go of all connections; a later call opens new ones."""
        engines, self._engines = self._engines, {}
        for engine in engines.values():
            await engine.aclose()
