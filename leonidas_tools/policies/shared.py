"""State that the policies of all tools share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.policies.cache import ResultCache
from leonidas_tools.policies.lane import Lanes
from leonidas_tools.policies.limit import Limiter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leonidas_tools.approvals.question import Asking
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.policies.breaker import Breaker
    from leonidas_tools.policies.fallback import Resolve
    from leonidas_tools.settings.models import PolicySettings, Settings
    from leonidas_tools.workers.threads import Workers


class Shared:
    """State that the policies of all tools share: rules, lanes, limits, breakers, the cache.

    The `users_policies` are in order, outermost first; `resolve` returns the call and the run of a
    fallback tool.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        users_policies: Sequence[Policy],
        workers: Workers,
        asking: Asking,
        resolve: Resolve,
        has_tool: Callable[[str], bool],
    ) -> None:
        self.settings = settings
        self.users_policies = tuple(users_policies)
        self.workers = workers
        self.asking = asking
        self.resolve = resolve
        self.has_tool = has_tool
        policies = settings.policies
        self.rules = policies.rule_book()
        self.cache = ResultCache(**policies.cache.model_dump())
        self.cached_functions: dict[str, object] = {}
        self.breakers: dict[str, Breaker] = {}
        self.lanes = Lanes()
        self.limiter = Limiter(policies.concurrency) if policies.concurrency else None
        self.limiters: dict[str, Limiter] = {}

    @property
    def policies(self) -> PolicySettings:
        """Return the settings of the policies."""
        return self.settings.policies

    def apply(self, settings: Settings) -> None:
        """Apply other settings to the calls that start from now on."""
        before, after = self.settings.policies, settings.policies
        self.settings = settings
        if after == before:
            return
        if after.cache != before.cache:
            self.cache.resize(**after.cache.model_dump())
        self.rules = after.rule_book()
        self.workers.threads = after.threads
        self.workers.processes.most = after.processes
        self.limiter = Limiter(after.concurrency) if after.concurrency else None
