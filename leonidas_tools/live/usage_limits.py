"""Publish the tokens of a live session, and end it at a limit."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Literal, NamedTuple

from leonidas_tools.approvals.session_policy import SessionPolicy, user_of
from leonidas_tools.calls.call import ToolCall, ToolResult
from leonidas_tools.errors import LeonidasError
from leonidas_tools.live.live_events import live_event
from leonidas_tools.live.tool_options import wording_of
from leonidas_tools.live.usage import TurnUsage
from leonidas_tools.monitoring.live_tokens import sum_keys
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.runtime.runtime import ToolRuntime
    from leonidas_tools.settings.usage_settings import UsageSettings

logger = visible_logger(__name__)

_MAX_UNCOUNTED = 3
_DIGITS = 6
_STORE_SECONDS = 2.0


class _Limit(NamedTuple):
    """A limit, and how much of it is used; infinitely much if that cannot be known."""

    share: float
    name: str
    unit: Literal["tokens", "cost"]
    most: float
    used: float


class SessionUsage:
    """Counts the tokens of one live session, and enforces the limits of the settings.

    Args:
        runtime: The runtime of the tools.
        session: The session.
        model: The processor of the model, whose `model` is its name.
        show: Receives a status part for the listener.
        tell: Sends the model the result of a call, to tell the user.
        end: Ends the session after the model's reply.
    """

    def __init__(
        self,
        runtime: ToolRuntime,
        session: ToolSession,
        model: object,
        *,
        show: Callable[[ProcessorPart], None],
        tell: Callable[[ToolCall, ToolResult], None],
        end: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._session = session
        self._model = str(getattr(model, "model", None) or "unknown").rpartition("/")[2]
        self._show, self._tell, self._end = show, tell, end
        self._turns = TurnUsage()
        self._sums = runtime.monitor.live_tokens
        self._is_unreadable = self._is_low = False
        self.is_reached = False
        """Whether a limit is reached, so that the session ends."""

    async def admits(self) -> bool:
        """Return whether the session may begin, with what the user has used before."""
        store, user, now = self._runtime.store, user_of(self._session), time.time()
        if store is not None and self._settings.has_limits:
            try:
                async with asyncio.timeout(_STORE_SECONDS):
                    stored = await store.usage.spent(self._session.id, user=user, at=now)
                for key in sum_keys(self._session, user, now):
                    self._sums.restore(key, *stored[key.limit])
            except (LeonidasError, TimeoutError) as error:
                logger.warning("What %r has used before cannot be read: %s", user, error)
                self._is_unreadable = store.settings.unwritable == "refuse"
        limit = self._nearest_limit()
        if limit is not None and limit.share >= 1:
            self._publish_limit("reached", limit)
        return not self.is_reached

    def heard(self, part: ProcessorPart) -> None:
        """Count the tokens of a part of the model's output, and enforce the limits."""
        more = self._turns.add(part)
        if more is not None:
            self._publish(more.to_json())
        elif "turn_complete" not in part.metadata:
            return
        limit = None if self.is_reached else self._nearest_limit()
        if limit is None:
            return
        if limit.share >= 1 and self._turns.is_over:
            self._publish_limit("reached", limit)
            self._say("usage_reached")
            self._end()
        elif limit.share >= self._settings.warn_at and not self._is_low:
            self._is_low = True
            self._publish_limit("low", limit)
            self._say("usage_low", percent=round(100 * max(1 - limit.share, 0)))

    @property
    def _settings(self) -> UsageSettings:
        return self._runtime.settings.current.usage

    def _publish(self, tokens: Mapping[str, Mapping[str, int]]) -> None:
        prices = self._settings.prices.get(self._model)
        cost = None if prices is None else prices.cost_of(tokens)
        read, generated = (sum(counts.values()) for counts in tokens.values())
        keys = sum_keys(self._session, user_of(self._session), time.time())
        for key in keys:
            self._sums.spend(key, read + generated, cost or 0.0)
        self._sums.count(self._model, tokens)
        total = self._sums.spent(keys[0])
        event = {
            "turn": self._turns.turn,
            "model": self._model,
            "input_tokens": read,
            "output_tokens": generated,
            "tokens": tokens,
            "session_tokens": total.tokens,
        }
        if cost is not None:
            event["cost"] = round(cost, _DIGITS)
            event["session_cost"] = round(total.cost, _DIGITS)
            event["currency"] = self._settings.currency
        self._runtime.events.live("usage", self._session, **event)

    def _nearest_limit(self) -> _Limit | None:
        """Return the limit of which the greatest share is used."""
        is_unknown = self._is_unreadable or self._turns.uncounted >= _MAX_UNCOUNTED
        is_unpriced = is_unknown or self._model not in self._settings.prices
        limits = []
        for key in sum_keys(self._session, user_of(self._session), time.time()):
            limit, spent = getattr(self._settings, key.limit), self._sums.spent(key)
            if (most := limit.tokens) is not None:
                used = math.inf if is_unknown else spent.tokens
                limits.append(_Limit(used / most, key.limit, "tokens", most, used))
            if (most := limit.cost) is not None:
                used = math.inf if is_unpriced else spent.cost
                limits.append(_Limit(used / most, key.limit, "cost", most, used))
        return max(limits, default=None)

    def _publish_limit(self, state: Literal["low", "reached"], limit: _Limit) -> None:
        self.is_reached = state == "reached"
        event = {"state": state, "limit": limit.name, "unit": limit.unit, "most": limit.most}
        if limit.used < math.inf:
            event["used"] = round(limit.used, _DIGITS)
        elif self.is_reached:
            logger.error(
                "The session %r ends, since what it has used of usage.%s.%s is unknown: the model "
                "%r has no price, its server counts no tokens, or the store cannot be read",
                *(self._session.id, limit.name, limit.unit, self._model),
            )
        self._runtime.events.live("usage_limit", self._session, **event)
        self._show(live_event("usage_limit", **event))

    def _say(self, key: str, **values: object) -> None:
        """Have the model tell the user a sentence, in the language of the session."""
        wording, policy = wording_of(self._runtime), self._session.get(SessionPolicy)
        call = ToolCall(name="system_usage", id=key, session=self._session)
        speech = wording.template(key, policy.language).format(**values)
        self._tell(call, ToolResult(message=wording.text(f"tell_{key}"), speech=speech))
