"""Publish the tokens of a live session, and end it at a limit."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from leonidas_tools.approvals.session_policy import SessionPolicy, user_of
from leonidas_tools.calls.call import ToolCall, ToolResult
from leonidas_tools.errors import LeonidasError
from leonidas_tools.live.live_events import live_event
from leonidas_tools.live.tool_options import wording_of
from leonidas_tools.live.usage import TurnUsage
from leonidas_tools.monitoring.live_tokens import Spent, sum_keys
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.live.usage import Usage
    from leonidas_tools.runtime.runtime import ToolRuntime
    from leonidas_tools.settings.usage_settings import ModelPrices

logger = visible_logger(__name__)

_MAX_UNCOUNTED = 3
_DIGITS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class _Limit:
    """A limit, and how much of it is used; infinitely much if that cannot be known."""

    name: str
    unit: Literal["tokens", "cost"]
    most: float
    used: float

    @property
    def share(self) -> float:
        return self.used / self.most


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
        self._cannot_read = self._is_low = False
        self.is_reached = False
        """Whether a limit is reached, so that the session ends."""

    async def admits(self) -> bool:
        """Return whether the session may begin, with what the user has used before."""
        settings, store = self._runtime.settings.current.usage, self._runtime.store
        if store is not None and settings.has_limits:
            user, now = user_of(self._session), time.time()
            try:
                stored = await store.usage.spent(self._session.id, user=user, at=now)
            except LeonidasError as error:
                logger.warning("What %r has used before cannot be read: %s", user, error)
                self._cannot_read = store.settings.unwritable == "refuse"
            else:
                for name, key in sum_keys(self._session, user, now).items():
                    self._sums.restore(key, Spent(*stored[name]))
        limit = self._nearest_limit()
        if limit is not None and limit.share >= 1:
            self._publish_limit("reached", limit)
        return not self.is_reached

    def heard(self, part: ProcessorPart) -> None:
        """Count the tokens of a part of the model's output, and enforce the limits."""
        more = self._turns.add(part)
        if more is not None:
            self._publish(more)
        elif "turn_complete" not in part.metadata:
            return
        limit = None if self.is_reached else self._nearest_limit()
        if limit is None:
            return
        if limit.share >= 1 and self._turns.is_over:
            self._publish_limit("reached", limit)
            self._say("usage_reached")
            self._end()
        elif self._runtime.settings.current.usage.warn_at <= limit.share and not self._is_low:
            self._is_low = True
            self._publish_limit("low", limit)
            left = max(limit.most - limit.used, 0)
            currency = self._runtime.settings.current.usage.currency
            amount = f"{left:.2f} {currency}" if limit.unit == "cost" else f"{left:.0f} tokens"
            percent = round(100 * left / limit.most)
            self._say("usage_low", percent=percent, left=amount)

    @property
    def _prices(self) -> ModelPrices | None:
        return self._runtime.settings.current.usage.prices.get(self._model)

    def _publish(self, more: Usage) -> None:
        tokens, now, prices = more.to_json(), time.time(), self._prices
        cost = None if prices is None else prices.cost_of(tokens)
        spent = Spent(tokens=more.input_tokens + more.output_tokens, cost=cost or 0.0)
        keys = sum_keys(self._session, user_of(self._session), now)
        totals = {name: self._sums.spend(key, spent) for name, key in keys.items()}
        self._sums.count(self._model, tokens)
        total = totals["session"]
        priced = {} if cost is None else {
            "cost": round(cost, _DIGITS),
            "session_cost": round(total.cost, _DIGITS),
            "currency": self._runtime.settings.current.usage.currency,
        }  # fmt: skip
        self._runtime.events.live(
            "usage",
            self._session,
            turn=self._turns.turn,
            model=self._model,
            input_tokens=more.input_tokens,
            output_tokens=more.output_tokens,
            tokens=tokens,
            session_tokens=total.tokens,
            **priced,
        )

    def _nearest_limit(self) -> _Limit | None:
        """Return the limit of which the greatest share is used."""
        settings, now = self._runtime.settings.current.usage, time.time()
        keys = sum_keys(self._session, user_of(self._session), now)
        is_unknown = self._cannot_read or self._turns.uncounted >= _MAX_UNCOUNTED
        limits = []
        for name, key in keys.items():
            limit, spent = getattr(settings, name), self._sums.spent(key)
            if limit.tokens is not None:
                used = math.inf if is_unknown else spent.tokens
                limits.append(_Limit(name=name, unit="tokens", most=limit.tokens, used=used))
            if limit.cost is not None:
                used = math.inf if is_unknown or self._prices is None else spent.cost
                limits.append(_Limit(name=name, unit="cost", most=limit.cost, used=used))
        return max(limits, key=lambda each: each.share, default=None)

    def _publish_limit(self, state: Literal["low", "reached"], limit: _Limit) -> None:
        self.is_reached = state == "reached"
        if limit.used == math.inf:
            logger.error(
                "The session %r ends: what it uses of usage.%s.%s is unknown (model %r): %s",
                self._session.id, limit.name, limit.unit, self._model,
                "write its prices" if self._prices is None and limit.unit == "cost"
                else "its server counts no tokens, or the store cannot be read",
            )  # fmt: skip
        known = {} if limit.used == math.inf else {"used": round(limit.used, _DIGITS)}
        data = {"state": state, "limit": limit.name, "unit": limit.unit, "most": limit.most}
        self._runtime.events.live("usage_limit", self._session, **data, **known)
        self._show(live_event("usage_limit", **data, **known))

    def _say(self, key: str, **values: object) -> None:
        """Have the model tell the user a sentence, in the language of the session."""
        wording, policy = wording_of(self._runtime), self._session.get(SessionPolicy)
        call = ToolCall(name="system_usage", id=key, session=self._session)
        speech = wording.template(key, policy.language).format(**values)
        self._tell(call, ToolResult(message=wording.text(f"tell_{key}"), speech=speech))
