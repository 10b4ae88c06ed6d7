"""Asking by voice: the model puts the question, and tells the answer by a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.rules.engine import RuleBook
from leonidas_tools.rules.subject import subject_of
from leonidas_tools.toolboxes.approval import answer_question, confirm_action

if TYPE_CHECKING:
    from leonidas_tools.approvals.request import ApprovalRequest
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.watch import WatchedSettings
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry


logger = visible_logger(__name__)


class VoiceApproval:
    """The channel by which a live model asks; it waits for nobody.

    While anything may be asked about, the tool `confirm_action` is registered, and while a server
    may want to know something, `answer_question`.

    No server says in advance whether it will ask, so any of them may whose settings let it
    (`elicitation`). Once it has asked it is too late for some models: one that takes no other tools
    in mid-session gets them with another connection, which may know nothing of the question. So the
    two are there from the start, for 1,500 characters of declarations, and stay.

    Args:
        registry: Where the tools are registered.
        settings: Whose rules may ask.
    """

    def __init__(self, registry: ToolRegistry, settings: WatchedSettings) -> None:
        self._registry = registry
        self._settings = settings
        self._looked_at: tuple[int, Settings] | None = None

    async def __call__(self, request: ApprovalRequest) -> None:
        """Has the model told to ask: the answer comes later."""
        # A rule of the session asks, or a new tool.
        self._keep(confirm_action, needed=True)
        if request.schema is not None:
            self._keep(answer_question, needed=True)

    def keep_ready(self) -> None:
        """Registers the tools that answer if anything may be asked, and else takes them out."""
        looked_at = (self._registry.generation, self._settings.current)
        if looked_at == self._looked_at:
            return
        may_ask = self._servers_may_ask()
        self._keep(confirm_action, needed=may_ask or self._rules_may_ask())
        self._keep(answer_question, needed=may_ask)
        self._looked_at = (self._registry.generation, self._settings.current)

    def _keep(self, tool: AnyTool, *, needed: bool) -> None:
        taken = self._registry.get(tool.name)
        if needed and taken is None:
            self._registry.register(tool, builtin=True)
        elif needed and taken is not None and not taken.metadata.answers_questions:
            logger.warning(
                "The tool %r has the name of the one by which questions are answered: nothing can "
                "be approved by voice. Give it another name",
                tool.name,
            )
        elif not needed and self._registry.get(tool.name) is tool:
            self._registry.unregister(tool.name)

    def _servers_may_ask(self) -> bool:
        """Whether a server with tools here may ask something while one of them runs."""
        servers = self._settings.current.mcp_servers
        asking = {name for name, each in servers.items() if each.elicitation and each.enabled}
        origins = (tool.origin for tool in self._registry) if asking else ()
        return any(origin is not None and origin.server in asking for origin in origins)

    def _rules_may_ask(self) -> bool:
        settings = self._settings.current
        rules = RuleBook(settings.policies.all_rules())
        return any(
            rules.for_tool(
                subject_of(tool.metadata, settings.for_tool(tool.name, tool.origin))
            ).may_ask
            for tool in self._registry
        )
