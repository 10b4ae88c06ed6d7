"""Connect a runtime to the store of its settings."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from leonidas_tools.calls.call import Run, ToolCall, ToolSession
    from leonidas_tools.monitoring.monitor import Monitor
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.store_settings import StoreSettings
    from leonidas_tools.settings.tool_configuration import ToolConfiguration
    from leonidas_tools.store import Store
    from leonidas_tools.store.cached_results import CachedResults
    from leonidas_tools.tools.registry import AnyTool


class StoreBinding:
    """Connects a runtime to its store, or to none; later changes of the settings have no effect.

    Raises:
        ConfigurationError: The store's address is invalid, or its driver is not installed.
    """

    def __init__(self, settings: StoreSettings) -> None:
        self.store: Store | None = _made(settings) if settings.enabled else None

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Return the policies that the store adds to calls."""
        return () if self.store is None else self.store.policies

    def resume_with(
        self,
        outcome: Callable[[ToolCall], Run | None],
        may_be_once: Callable[[AnyTool, ToolConfiguration], bool],
    ) -> None:
        """Pass the store the functions with which it resumes calls."""
        if self.store is not None:
            self.store.resume_with(outcome, may_be_once)

    def cached_results(self, settings: Settings) -> CachedResults | None:
        """Return the results that processes share, if the settings of a tool enable that."""
        if self.store is None or not settings.shares_results:
            return None
        return self.store.cached_results

    def error(self) -> str | None:
        """Return the error of the store, if there is one."""
        if self.store is None:
            return None
        status = self.store.status
        return status.error or status.lost

    def begin(self, session: ToolSession | None) -> None:
        """Start to read the stored data of a session before its first call."""
        if self.store is not None and session is not None:
            self.store.begin(session)

    @asynccontextmanager
    async def opened(self, monitor: Monitor) -> AsyncIterator[None]:
        """Open the store, and pass it the monitor's events; a failing store stops no call."""
        if self.store is None:
            yield
            return
        async with self.store:
            live = monitor.events.live_listeners
            ends = [monitor.subscribe(self.store.sink), live.subscribe(self.store.usage.on_live)]
            try:
                yield
            finally:
                for end in ends:
                    end()


def _made(settings: StoreSettings) -> Store:
    from leonidas_tools.store import Store  # importing SQLAlchemy is slow

    return Store(settings)
