"""Built-in tools that are registered only while something needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.rules.subject import subject_of
from leonidas_tools.settings.effective import after_untrusted_of, either, refusal_of
from leonidas_tools.toolboxes.approval import answer_question, confirm_action
from leonidas_tools.toolboxes.results import read_result
from leonidas_tools.toolboxes.tool_search import ToolSearch
from leonidas_tools.tools.tool import AfterUntrusted, Overflow

if TYPE_CHECKING:
    from leonidas_tools.approvals.request import ApprovalRequest
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.watch import WatchedSettings
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry

logger = visible_logger(__name__)


class OnDemandTools:
    """Registers each of these tools while it is needed, and unregisters it afterwards.

    - `confirm_action`: while a rule or an MCP server may ask, if the model asks by voice;
      permanently, once a session's own rule has asked.
    - `answer_question`: while an MCP server may ask, likewise. No server announces whether it will
      ask (`elicitation`). Some models accept other tools only in a new connection, which may not
      know the question. So both tools are declared from the start, at a cost of 1,500 characters.
    - `read_result`: while a tool offloads large results.
    - `find_tools`: while only some of the tools are declared to the model.
    """

    def __init__(
        self, registry: ToolRegistry, settings: WatchedSettings, *, by_voice: bool
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._by_voice = by_voice
        self._find_tools = ToolSearch(registry, self._can_be_called).find_tools
        self._asked_by_voice: set[str] = set()
        self._updated_for: tuple[int, Settings] | None = None

    def update(self) -> None:
        """Register and unregister the tools; this is cheap if nothing has changed."""
        settings = self._settings.current
        if self._updated_for == (self._registry.generation, settings):
            return
        if self._by_voice:
            servers_may_ask = self._servers_may_ask()
            may_ask = servers_may_ask or self._rules_may_ask() or self._may_ask_after_untrusted()
            self._keep_answering(confirm_action, needed=may_ask)
            self._keep_answering(answer_question, needed=servers_may_ask)
        self._keep(read_result, needed=any(map(self._offloads, self._registry)))
        show = settings.policies.show
        most = None if show is None else show.most or None
        self._keep(self._find_tools, needed=most is not None and len(self._registry) > most)
        self._updated_for = (self._registry.generation, settings)

    async def ask_by_voice(self, request: ApprovalRequest) -> None:
        """Register the tools with which the model reports the answer, which comes later."""
        # `update` knows neither the rules of a session nor a new tool.
        answering = (
            (confirm_action,) if request.schema is None else (confirm_action, answer_question)
        )
        for tool in answering:
            self._asked_by_voice.add(tool.name)
            self._keep_answering(tool, needed=True)

    def _keep(self, tool: AnyTool, *, needed: bool) -> None:
        if needed and tool.name not in self._registry:
            self._registry.register(tool, builtin=True)
        elif not needed and self._registry.get(tool.name) is tool:
            self._registry.unregister(tool.name)

    def _keep_answering(self, tool: AnyTool, *, needed: bool) -> None:
        needed = needed or tool.name in self._asked_by_voice
        taken = self._registry.get(tool.name) if needed else None
        if taken is not None and not taken.metadata.answers_questions:
            logger.warning(
                "The tool %r has the name of the built-in tool that reports answers, so nothing "
                "can be approved by voice; rename it",
                tool.name,
            )
        self._keep(tool, needed=needed)

    def _servers_may_ask(self) -> bool:
        """Return whether an MCP server with registered tools may ask while one of them runs."""
        servers = self._settings.current.mcp_servers
        asking = {name for name, each in servers.items() if each.elicitation and each.enabled}
        origins = (tool.origin for tool in self._registry) if asking else ()
        return any(origin is not None and origin.server in asking for origin in origins)

    def _rules_may_ask(self) -> bool:
        settings = self._settings.current
        rules = settings.policies.rule_book()
        return any(
            rules.for_tool(
                subject_of(tool.metadata, settings.for_tool(tool.name, tool.origin))
            ).may_ask
            for tool in self._registry
        )

    def _may_ask_after_untrusted(self) -> bool:
        """Return whether a call may need approval after a tool with untrusted results."""
        settings = self._settings.current
        named = [(tool, settings.for_tool(tool.name, tool.origin)) for tool in self._registry]
        return any(either(own.untrusted, tool.metadata.untrusted) for tool, own in named) and any(
            after_untrusted_of(tool, own, settings.policies) in (None, AfterUntrusted.ASK)
            for tool, own in named
        )

    def _offloads(self, tool: AnyTool) -> bool:
        configured = self._settings.current.for_tool(tool.name, tool.origin).overflow
        return either(configured, tool.metadata.overflow) is Overflow.SPILL

    def _can_be_called(self, tool: AnyTool) -> bool:
        return refusal_of(tool, self._settings.current.for_tool(tool.name, tool.origin)) is None
