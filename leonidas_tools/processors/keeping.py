"""The store that the settings ask for, beside the calls."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.monitoring.monitor import Monitor
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.settings.store_settings import StoreSettings
    from leonidas_tools.store import Store


class Keeping:
    """Holds the store of a chain, or nothing where nothing is to be kept.

    Args:
        settings: What is to be kept, and where; what they become later is not followed.

    Raises:
        ConfigurationError: The address of the store is none, or its driver is not installed.
    """

    def __init__(self, settings: StoreSettings) -> None:
        self.store: Store | None = _made(settings) if settings.enabled else None

    @property
    def policies(self) -> tuple[Policy, ...]:
        """What the store puts around calls."""
        return () if self.store is None else self.store.policies

    def error(self) -> str | None:
        """Return what is wrong with the store, if anything."""
        if self.store is None:
            return None
        status = self.store.status
        return status.error or status.lost

    def begin(self, session: ToolSession | None) -> None:
        """Reads what is kept of a conversation that begins, ahead of its first call."""
        if self.store is not None and session is not None:
            self.store.begin(session)

    @asynccontextmanager
    async def held(self, monitor: Monitor) -> AsyncIterator[None]:
        """Opens the store and has it hear of every call; a store that fails stops no call.

        Args:
            monitor: Hears of all that happens.
        """
        if self.store is None:
            yield
            return
        async with self.store:
            unsubscribe = monitor.subscribe(self.store.sink)
            try:
                yield
            finally:
                unsubscribe()


def _made(settings: StoreSettings) -> Store:
    from leonidas_tools.store import Store  # SQLAlchemy takes its time to load

    return Store(settings)
