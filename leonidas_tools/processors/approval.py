"""Asking by voice: the model puts the question, and tells the answer by `confirm_action`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.rules.engine import RuleBook
from leonidas_tools.rules.rule import CONFIRM
from leonidas_tools.rules.subject import subject_of
from leonidas_tools.toolboxes.approval import confirm_action

if TYPE_CHECKING:
    from leonidas_tools.approvals.request import ApprovalRequest
    from leonidas_tools.registry import ToolRegistry
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.watch import WatchedSettings


class VoiceApproval:
    """The channel by which a live model asks; it waits for nobody.

    While anything may be asked about, the tool `confirm_action` is registered.

    Args:
        registry: Where the tool is registered.
        settings: Whose rules may ask.
    """

    def __init__(self, registry: ToolRegistry, settings: WatchedSettings) -> None:
        self._registry = registry
        self._settings = settings
        self._looked_at: tuple[int, Settings] | None = None

    async def __call__(self, _: ApprovalRequest) -> None:
        """Has the model told to ask: the answer comes later."""
        if CONFIRM not in self._registry:  # a rule of the session asks, or a new tool
            self._registry.register(confirm_action, builtin=True)

    def keep_ready(self) -> None:
        """Registers the tool if anything may be asked about, and else takes it out."""
        looked_at = (self._registry.generation, self._settings.current)
        if looked_at == self._looked_at:
            return
        is_there = self._registry.get(CONFIRM) is confirm_action
        is_needed = self._may_ask()
        if is_needed and CONFIRM not in self._registry:
            self._registry.register(confirm_action, builtin=True)
        elif is_there and not is_needed:
            self._registry.unregister(CONFIRM)
        self._looked_at = (self._registry.generation, self._settings.current)

    def _may_ask(self) -> bool:
        settings = self._settings.current
        rules = RuleBook(settings.policies.all_rules())
        return any(
            rules.for_tool(
                subject_of(tool.metadata, settings.for_tool(tool.name, tool.origin))
            ).may_ask
            for tool in self._registry
        )
