"""Settings of loop guard, call limits, circuit breaker and cache."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from leonidas_tools.policies.breaker import BreakerLimits
from leonidas_tools.settings.fields import (
    Count,
    CountOrOff,
    CountOrZero,
    Duration,
    LimitOrOff,
    Names,
    Share,
    mapping,
    off_as_none,
    section_or_off,
)
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.tools.metadata import is_off


class LoopSettings(SettingsModel):
    """Repeated-call detection: when to warn the model, and when to refuse the call.

    Args:
        warn_at: The number of equal calls in a row at which the model is warned; `0` or `off` for
            never.
        refuse_at: The number of equal calls in a row at which the call is refused; `0` or `off` for
            never.
        longest_cycle: The maximum number of calls in a repeated cycle.
    """

    warn_at: CountOrZero = 3
    refuse_at: CountOrZero = 5
    longest_cycle: Count = 5


class CallLimitSettings(SettingsModel):
    """The number of calls a session may make; no limit with `0` or `off`.

    Args:
        per_turn: The maximum number each time the user speaks.
        per_minute: The maximum number in any sixty seconds.
        per_session: The maximum number in the session.
        at_once: The maximum number of calls that run or wait at the same time.
        warn_per_minute: The number of calls of one session in a minute above which the calls are
            logged and counted.
    """

    per_turn: CountOrOff = None
    per_minute: CountOrOff = None
    per_session: CountOrOff = None
    at_once: LimitOrOff = 1024
    warn_per_minute: LimitOrOff = 30


class BreakerSettings(SettingsModel):
    """The circuit breaker of failing tools.

    Args:
        error_rate: The share of failed calls, from 0 to 1, at which the breaker opens.
        window: How long a call counts: seconds, or text such as `60s`.
        min_calls: The minimum number of calls before the share counts.
        open_for: How long the breaker stays open before one call is tried.
    """

    error_rate: Share = 0.5
    window: Duration = 60.0
    min_calls: Count = 10
    open_for: Duration = 30.0

    @property
    def limits(self) -> BreakerLimits:
        """Return the limits of the circuit breaker of each tool."""
        return BreakerLimits(
            error_rate=self.error_rate,
            window_seconds=self.window,
            min_calls=self.min_calls,
            open_seconds=self.open_for,
        )


class CacheSettings(SettingsModel):
    """The size of the result cache.

    Args:
        max_entries: The maximum number of results; the least recently used are removed first.
        max_bytes: The maximum bytes of all results together.
    """

    max_entries: Count = 1000
    max_bytes: Count = 10_000_000


class ShowSettings(SettingsModel):
    """The number of tools that are declared to a model.

    Args:
        most: The maximum number of tools besides those that are always declared; the model finds
            others with `find_tools`. `0` or `off` for all.
        always: The tools that are always declared, by name, with wildcards; built-in tools always
            are.
    """

    most: LimitOrOff = 40
    always: Names = ()


def _parse_loop(value: Any) -> Any:
    """Return the limits of a section: none for "off", the defaults for an empty section."""
    return {"warn_at": 0, "refuse_at": 0} if is_off(value) else mapping(value)


_SECTION_OR_OFF = Field(json_schema_extra=section_or_off)


class GuardSettings(SettingsModel):
    """Settings of the policies for all tools.

    Args:
        loop: The numbers of equal calls after which the model is warned of a loop, and after which
            the calls are refused; `0` or `off` for never.
        calls: How many calls a session may make.
        breaker: When the circuit breaker of a failing tool opens; never, if omitted, or with `0` or
            `off`.
        cache: The size of the cache of results.
        show: How many tools are declared to a model; all of them, if omitted, or with `0` or `off`.
    """

    loop: Annotated[LoopSettings, BeforeValidator(_parse_loop), _SECTION_OR_OFF] = (
        LoopSettings.model_construct()
    )
    calls: Annotated[CallLimitSettings, BeforeValidator(mapping)] = (
        CallLimitSettings.model_construct()
    )
    breaker: Annotated[BreakerSettings | None, BeforeValidator(off_as_none), _SECTION_OR_OFF] = None
    cache: Annotated[CacheSettings, BeforeValidator(mapping)] = CacheSettings.model_construct()
    show: Annotated[ShowSettings | None, BeforeValidator(off_as_none), _SECTION_OR_OFF] = None

    @property
    def breaker_limits(self) -> BreakerLimits:
        """Return the limits of the tools with a circuit breaker."""
        return (self.breaker or BreakerSettings()).limits
