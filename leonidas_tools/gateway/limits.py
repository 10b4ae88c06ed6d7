"""Limits on conversations, and which of them may run."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.calls.last_minute import MINUTE_SECONDS, LastMinute
from leonidas_tools.errors import StoreError
from leonidas_tools.gateway.wire import BUSY, CloseError
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leonidas_tools.store import Store

logger = visible_logger(__name__)

_STORE_SECONDS = 10.0
_AT_ONCE = "Too many conversations of this user: end one"
_IN_A_MINUTE = "Too many conversations in a minute: wait"


@dataclass(frozen=True, kw_only=True, slots=True)
class GatewayLimits:
    """The limits of one gateway process; user limits apply to all processes that share a store.

    Args:
        conversations: The maximum of concurrent conversations.
        conversations_per_user: The maximum of concurrent conversations of one user.
        starts_per_user_minute: Conversations that one user may start in a minute.
        frame_seconds: The longest frame of audio.
        idle_seconds: The maximum time without a message from the client.
        longest_seconds: The longest duration of a conversation.
        unsent_seconds: The most audio that may wait for a client that reads slowly.
        grace_seconds: The longest duration of a conversation once the gateway drains.
    """

    conversations: int = 200
    conversations_per_user: int = 2
    starts_per_user_minute: int = 20
    frame_seconds: float = 1.0
    idle_seconds: float = 60.0
    longest_seconds: float = 7200.0
    unsent_seconds: float = 120.0
    grace_seconds: float = 60.0


class Admission:
    """Admits conversations within the limits, and counts running ones.

    Args:
        limits: The limits.
        store: Counts the conversations of a user in all processes; `None` if this is the only one.
    """

    def __init__(self, limits: GatewayLimits, store: Store | None) -> None:
        self._limits = limits
        self._store = store
        self._now: Counter[str] = Counter()
        self._starts: dict[str, LastMinute] = {}

    @property
    def conversations(self) -> int:
        """Return the number of conversations."""
        return self._now.total()

    @asynccontextmanager
    async def admit(self, user: str) -> AsyncIterator[None]:
        """Count a conversation while it lasts.

        Raises:
            CloseError: A limit is reached.
        """
        self._check(user)
        self._now[user] += 1
        try:
            id_ = None if self._store is None else await self._begin(self._store, user)
            try:
                yield
            finally:
                if self._store is not None and id_ is not None:
                    self._store.conversations.end(id_)
        finally:
            self._now[user] -= 1
            if not self._now[user]:
                del self._now[user]

    async def _begin(self, store: Store, user: str) -> str | None:
        """Count a conversation in the store; return its id.

        If the store fails, a user has one conversation in this process, or none.
        """
        limits = self._limits
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                start = await store.conversations.begin(
                    user,
                    at_once=limits.conversations_per_user,
                    per_minute=limits.starts_per_user_minute,
                )
        except (StoreError, TimeoutError) as error:
            logger.warning("The conversations of %r cannot be counted: %s", user, error)
            if store.settings.unwritable == "refuse" or self._now[user] > 1:
                reason = "Conversations cannot be counted now: try again later"
                raise CloseError(BUSY, "store", reason) from None
            return None
        if start.id is None:
            is_at_once = start.at_once >= limits.conversations_per_user
            raise CloseError(BUSY, "user_limit", _AT_ONCE if is_at_once else _IN_A_MINUTE)
        return start.id

    def _check(self, user: str) -> None:
        limits, now = self._limits, time.monotonic()
        since = now - MINUTE_SECONDS
        self._starts = {name: at for name, at in self._starts.items() if at and at[-1] > since}
        if self.conversations >= limits.conversations:
            raise CloseError(BUSY, "limit", "Too many conversations: try again later")
        if self._now[user] >= limits.conversations_per_user:
            raise CloseError(BUSY, "user_limit", _AT_ONCE)
        starts = self._starts.setdefault(user, LastMinute())
        if not starts.admits(limits.starts_per_user_minute, now):
            raise CloseError(BUSY, "user_limit", _IN_A_MINUTE)


class _RunningSession:
    def __init__(self) -> None:
        self.is_wanted = asyncio.Event()
        self.is_free = asyncio.Event()


class RunningSessions:
    """The sessions whose conversations run in this process.

    A client may resume a session whose conversation has not noticed yet that its connection is
    lost, or use a resumption twice at once. Two models would then make the same call.
    """

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], _RunningSession] = {}

    @asynccontextmanager
    async def begin(self, user: str, session: str) -> AsyncIterator[asyncio.Event]:
        """Wait until no other conversation of the session runs, after asking it to end.

        Yields:
            An event that is set once another conversation wants the session.
        """
        key = (user, session)
        while (other := self._sessions.get(key)) is not None:
            other.is_wanted.set()
            await other.is_free.wait()
        running = self._sessions[key] = _RunningSession()
        try:
            yield running.is_wanted
        finally:
            del self._sessions[key]
            running.is_free.set()
