"""What can be set of the policies that keep a model from doing too much of something."""

from typing import Annotated

from pydantic import BeforeValidator

from leonidas_tools.settings.fields import (
    Count,
    CountFromZero,
    Duration,
    Names,
    OptionalCount,
    Share,
    mapping,
)
from leonidas_tools.settings.model import Model


class LoopSettings(Model):
    """When a model that goes round in circles is told so, and when it is stopped.

    Args:
        warn_at: The repeat, running, at which the model is told; 0 for never.
        refuse_at: The repeat at which the call is refused; 0 for never.
        longest_cycle: How many calls in turn may make up what is repeated.
    """

    warn_at: CountFromZero = 3
    refuse_at: CountFromZero = 5
    longest_cycle: Count = 5


class CallLimitSettings(Model):
    """How many calls a session may make; no limit where nothing is said.

    Args:
        per_turn: How many for each time the user speaks.
        per_minute: How many in any sixty seconds.
        per_session: How many in all.
        warn_per_minute: More calls of one session than this, in a minute, are logged and counted.
    """

    per_turn: OptionalCount = None
    per_minute: OptionalCount = None
    per_session: OptionalCount = None
    warn_per_minute: OptionalCount = 30


class BreakerSettings(Model):
    """When a tool that fails is left alone for a while.

    Args:
        error_rate: The share of failed calls, from 0 to 1, at which it is.
        window: How long a call counts: seconds, or text such as `60s`.
        min_calls: How many calls there must be before the share says anything.
        open_for: How long it is left alone before a single call tries it.
    """

    error_rate: Share = 0.5
    window: Duration = 60.0
    min_calls: Count = 10
    open_for: Duration = 30.0


class CacheSettings(Model):
    """How much the results may take up that are kept to be used again.

    Args:
        max_entries: How many; those longest unused go first.
        max_bytes: How long they may be together.
    """

    max_entries: Count = 1000
    max_bytes: Count = 10_000_000


class ShowSettings(Model):
    """How many tools are shown to a model where there are very many.

    Args:
        most: How many, besides those that are always shown; the model finds others with
            `find_tools`.
        always: Which are always shown, by name, with wildcards; built-in tools always are.
    """

    most: Count = 40
    always: Names = ()


class GuardSettings(Model):
    """What keeps a model from doing too much of something.

    Args:
        loop: When a model that goes round in circles is told so, and when it is stopped.
        calls: How many calls a session may make.
        breaker: When a tool that keeps failing is left alone for a while; never, when left out.
        cache: How much the results may take up that are kept to be used again.
        show: How many tools are shown to a model; all of them, when left out.
    """

    loop: Annotated[LoopSettings, BeforeValidator(mapping)] = LoopSettings.model_construct()
    calls: Annotated[CallLimitSettings, BeforeValidator(mapping)] = (
        CallLimitSettings.model_construct()
    )
    breaker: BreakerSettings | None = None
    cache: Annotated[CacheSettings, BeforeValidator(mapping)] = CacheSettings.model_construct()
    show: ShowSettings | None = None
