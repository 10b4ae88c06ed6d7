"""What keeps calls from being too many, too often or in vain, compiled for each tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.request import hash_of
from leonidas_tools.policies.breaker import Breaker, BreakerLimits, CircuitBreaker
from leonidas_tools.policies.cache import Cache, ResultCache
from leonidas_tools.policies.call_limits import CallLimits, MostCalls
from leonidas_tools.policies.loop_guard import LoopGuard, LoopLimits
from leonidas_tools.policies.result_budget import ResultBudget
from leonidas_tools.settings.overrides import effect_of, either
from leonidas_tools.settings.policy_settings import BreakerSettings
from leonidas_tools.tools.metadata import fingerprint_of
from leonidas_tools.tools.tool import Overflow, ToolEffect, ToolPriority

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leonidas_tools.policies.base import Policy
    from leonidas_tools.settings.models import PolicySettings, ToolConfiguration
    from leonidas_tools.tools.registry import AnyTool


class Guards:
    """Makes the policies that guard a tool, and keeps what they share.

    Args:
        settings: What holds for all tools.
    """

    def __init__(self, settings: PolicySettings) -> None:
        self.settings = settings
        self.cache = ResultCache(**settings.cache.model_dump())
        self._cached: dict[str, object] = {}
        self._breakers: dict[str, Breaker] = {}

    def apply(self, settings: PolicySettings) -> None:
        """Puts other settings in force for the calls that begin from now on."""
        before, self.settings = self.settings, settings
        if settings.cache != before.cache:
            self.cache.resize(**settings.cache.model_dump())

    @property
    def loop_guard(self) -> LoopGuard | None:
        """What watches for loops, if anything does."""
        loop = self.settings.loop
        if not (loop.warn_at or loop.refuse_at):
            return None
        limits = LoopLimits(
            warn_at=loop.warn_at, refuse_at=loop.refuse_at, longest_cycle=loop.longest_cycle
        )
        return LoopGuard(limits=limits)

    def outermost(self, tool: AnyTool, settings: ToolConfiguration) -> list[Policy]:
        """What stands around everything else."""
        guard = self.loop_guard
        if guard is None:
            return []
        exempt = either(settings.polling, tool.metadata.polling)
        return [LoopGuard(limits=guard.limits, exempt=True) if exempt else guard]

    def caching(self, tool: AnyTool, settings: ToolConfiguration) -> list[Policy]:
        """What answers a call as it was answered before."""
        own = tool.metadata
        seconds = either(settings.cache_seconds, own.cache_seconds)
        if not seconds or effect_of(tool, settings) is not ToolEffect.READ:
            return []
        if self._cached.get(tool.name) is not tool.function:
            self._cached[tool.name] = tool.function
            self.cache.invalidate(tool.name)
        stale_seconds = either(settings.stale_if_error, own.stale_if_error_seconds)
        stands_for = {"version": own.version, "parameters": settings.custom_parameters}
        return [
            Cache(
                cache=self.cache,
                seconds=seconds,
                stale_seconds=stale_seconds or 0.0,
                fingerprint=hash_of(tool.name, fingerprint_of(own), stands_for),
                per_session=either(settings.overflow, own.overflow) is Overflow.SPILL,
            )
        ]

    def limiting(self, tool: AnyTool, settings: ToolConfiguration) -> list[Policy]:
        """What refuses a call that is one too many."""
        if either(settings.priority, tool.metadata.priority) is ToolPriority.CRITICAL:
            return []
        total = self.settings.calls
        limits = (
            MostCalls(
                per_turn=total.per_turn or None,
                per_minute=total.per_minute or None,
                per_session=total.per_session or None,
            ),
            MostCalls(
                tool=tool.name,
                per_turn=settings.calls_per_turn or None,
                per_minute=settings.calls_per_minute or None,
                per_session=settings.calls_per_session or None,
            ),
        )
        limited = [most for most in limits if most.any]
        return [CallLimits(limits=limited)] if limited else []

    def breaking(self, tool: AnyTool, settings: ToolConfiguration) -> list[Policy]:
        """What leaves a tool alone that keeps failing."""
        said = self.settings.breaker
        if not either(settings.breaker, said is not None):
            self._breakers.pop(tool.name, None)
            return []
        said = said or BreakerSettings()
        limits = BreakerLimits(
            error_rate=said.error_rate,
            window_seconds=said.window,
            min_calls=said.min_calls,
            open_seconds=said.open_for,
        )
        breaker = self._breakers.setdefault(tool.name, Breaker(limits))
        breaker.limits = limits
        return [CircuitBreaker(breaker=breaker)]

    def budgeting(
        self,
        tool: AnyTool,
        settings: ToolConfiguration,
        max_bytes: int,
        in_thread: Callable[..., Awaitable[Any]],
    ) -> list[Policy]:
        """Return what bounds a result beyond the number of its bytes."""
        tokens = either(settings.max_result_tokens, tool.metadata.max_result_tokens)
        overflow = either(settings.overflow, tool.metadata.overflow)
        if not tokens and overflow is Overflow.HEAD:
            return []
        room = min(max_bytes, 4 * tokens) if tokens else max_bytes
        return [ResultBudget(max_bytes=room, overflow=overflow, in_thread=in_thread)]

    def breakers(self) -> dict[str, str]:
        """The state of every breaker, by tool."""
        return {name: breaker.state.value for name, breaker in self._breakers.items()}
