"""The ready-made chain: registry → configuration → categories → monitoring."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, Self

from leonidas_tools import exports
from leonidas_tools.calls import ToolCall, ToolResult, ToolSession
from leonidas_tools.executor import Executor
from leonidas_tools.mcp.servers import MCPServers
from leonidas_tools.monitoring.monitor import Monitor
from leonidas_tools.monitoring.vitals import Vitals
from leonidas_tools.processors import stream
from leonidas_tools.processors.action import ActionToolProcessor
from leonidas_tools.processors.approval import VoiceApproval
from leonidas_tools.processors.configuration import ConfigurationProcessor
from leonidas_tools.processors.declared import DeclaredTools
from leonidas_tools.processors.generic import GenericToolProcessor
from leonidas_tools.processors.in_session import InSession
from leonidas_tools.processors.intake import read_arguments
from leonidas_tools.processors.keeping import Keeping
from leonidas_tools.processors.mcp import MCPToolProcessor
from leonidas_tools.processors.monitoring import MonitoringProcessor
from leonidas_tools.processors.on_loop import on_this_loop
from leonidas_tools.processors.python import PythonFunctionProcessor
from leonidas_tools.processors.ready import ReadyTools
from leonidas_tools.processors.registry import ToolRegistryProcessor
from leonidas_tools.processors.shared_hold import SharedHold
from leonidas_tools.processors.speech import SpeechControlProcessor
from leonidas_tools.processors.stage import Stage
from leonidas_tools.processors.toolboxes import Toolboxes
from leonidas_tools.registry import AnyTool, ToolRegistry
from leonidas_tools.settings.check import check_against
from leonidas_tools.settings.check_rules import check_rules
from leonidas_tools.settings.watch import WatchedSettings
from leonidas_tools.toolboxes import action, speech

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from genai_processors import processor
    from genai_processors.content_api import ProcessorPart
    from google.genai import types

    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.errors import RegistryError
    from leonidas_tools.event_stream import EventStream
    from leonidas_tools.mcp.asks import Asks
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.store import Store


class AdvancedToolProcessor(Stage):
    """Turns function-call parts into function-response parts; all other parts pass at once.

    One instance serves many streams at a time. `async with` holds what they share: the watcher
    of the file, MCP servers, threads; without it each stream holds them while it runs.

    Args:
        tools: Tools and functions.
        config: A YAML file, which is watched; a mapping, or settings. `None` stands for defaults.
        registry: Tools that are registered already.
        builtin_tools: Whether the agent's own tools (think, set_speech_rate, …) are there too.
        policies: Policies of the user, put around every call outside all others.
        approval: Asks a person where the rules say so; by default the model asks, by voice.
        asks: Answers what MCP servers ask of a model.

    Raises:
        ConfigurationError: The settings are wrong.
        RegistryError: A tool is.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> import asyncio
        >>> tools = AdvancedToolProcessor(tools=[add])
        >>> asyncio.run(tools.execute("add", {"a": 1, "b": "2"})).to_response()
        {'status': 'ok', 'result': 3, 'retryable': False}
    """

    def __init__(  # noqa: PLR0913 - each is left out as a rule
        self,
        tools: Iterable[AnyTool | Callable[..., Any]] = (),
        config: str | Path | Mapping[str, Any] | Settings | WatchedSettings | None = None,
        registry: ToolRegistry | None = None,
        builtin_tools: bool = True,
        *,
        policies: Sequence[Policy] = (),
        approval: Channel | None = None,
        asks: Asks | None = None,
    ) -> None:
        self.settings = config if isinstance(config, WatchedSettings) else WatchedSettings(config)
        self.registry = ToolRegistry() if registry is None else registry
        self.session = ToolSession("direct")
        """The conversation of calls that are made by `execute` and name no other."""
        self.monitor = Monitor(vitals=self._vitals())
        self._keeping = Keeping(self.settings.current.store)
        voice = VoiceApproval(self.registry, self.settings)
        self.executor = Executor(
            self.registry,
            settings=self.settings.current,
            policies=[*policies, *self._keeping.policies],
            sinks=(self.monitor,),
            approval=approval or voice,
            save=self.settings.update,
        )
        self._register(tools, builtin_tools=builtin_tools)
        ready = ReadyTools(self.registry, self.settings, None if approval else voice.keep_ready)
        self._declared = DeclaredTools(self.registry, self.settings, ready, ready.choose)
        servers, tell = self.settings.current.mcp_servers, self.monitor.events.publish
        self.mcp_servers = MCPServers(self.registry, servers, asks, tell)
        self._stages = self._made_stages()
        self._shared = SharedHold(self._hold)
        self._toolboxes = Toolboxes(self.registry)
        for problem in self._apply(self.settings.current):
            raise problem
        self._declared.prepare()
        for finding in check_against(self.settings.current, self.registry.by_name):
            logger.warning("In the settings, %s", finding)

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Parts in, parts out."""
        # Not `processor.chain`: it wraps each stage in four generators and a queue, for tracing
        # and reserved substreams, which costs a call more than all our policies do.
        async with self, AsyncExitStack() as stack:
            self._keeping.begin(stream.named_session())
            parts: Any = content
            for stage in self._stages:
                parts = await stack.enter_async_context(aclosing(stage.call(parts)))
            async for part in parts:
                yield part

    async def execute(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        session: ToolSession | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Runs one call without a stream, under the same policies.

        Args:
            name: The tool's own name, or one it is declared with.
            arguments: By parameter name, or a JSON text of that.
            session: The conversation it belongs to.
            call_id: An id for the call, for logs and events.
        """
        session = session or self.session
        parsed, refusal = read_arguments(arguments)
        tool = exports.find(self.registry, name)
        held = self.executor.settings
        call = ToolCall(
            name=name if tool is None else tool.name,
            arguments=parsed,
            id=call_id,
            called_as=name,
            session=session,
            tool=tool,
            settings=None if tool is None else held.for_tool(tool.name, tool.origin),
            number=next(session.numbers),
        )
        if tool is None:
            return self.executor.settle_unknown(call)
        if refusal is not None:
            return self.executor.settle(call, refusal)
        return await self.executor.run(call)

    def declarations(self, session: ToolSession | None = None) -> list[types.Tool]:
        """What a Live setup declares: every tool that can be called in a session, by legal name."""
        return self._declared.declarations(session)

    def offered(self) -> list[AnyTool]:
        """The tools that are declared: neither switched off, nor denied in every case."""
        return self._declared.tools()

    def on_declarations_change(
        self, listener: Callable[[], None], session: ToolSession | None = None
    ) -> Callable[[], None]:
        """Calls back each time `declarations()` has become different.

        Args:
            listener: Called on the event loop that runs now, once for all changes of one turn of
                it, wherever they were made. What it raises is logged.
            session: The conversation it is about.

        Returns:
            A function that ends it.

        Raises:
            RuntimeError: No event loop is running.
        """
        return self._declared.on_change(listener, session)

    def openai_tools(self) -> list[dict[str, Any]]:
        """The same as tool definitions of an OpenAI-compatible endpoint."""
        return exports.openai_tools(self.registry, self._declared.tools())

    def prompt_text(self) -> str:
        """The same as text for a prompt."""
        return exports.prompt_text(self.registry, self._declared.tools())

    @property
    def events(self) -> EventStream:
        """All that happens, for any number of readers: `async for … in events.subscribe()`."""
        return self.monitor.events

    @property
    def store(self) -> Store | None:
        """Where what happened is kept, if the settings say so."""
        return self._keeping.store

    def in_session(self, session: ToolSession) -> processor.Processor:
        """These tools for one conversation, whose state the caller can see.

        Args:
            session: Holds the `AgentState` and the `SpeechState`.
        """
        return InSession(self, session)

    async def ready(self, timeout_seconds: float = 30.0) -> bool:
        """Waits until every MCP server has said what it has, or until the time is up."""
        return await self.mcp_servers.ready(timeout_seconds)

    async def __aenter__(self) -> Self:
        await self._shared.enter()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._shared.leave()

    async def _hold(self) -> AsyncExitStack:
        async with AsyncExitStack() as stack:
            stack.callback(self.settings.on_change(on_this_loop(self._follow)))
            await stack.enter_async_context(self.settings)
            self._follow()
            await stack.enter_async_context(self._keeping.held(self.monitor))
            await stack.enter_async_context(self.executor)
            await stack.enter_async_context(self.mcp_servers)
            page = self.monitor.serving(self.settings.current.monitoring.prometheus_port)
            await stack.enter_async_context(page)
            return stack.pop_all()

    def _made_stages(self) -> tuple[Any, ...]:
        categories = (
            ActionToolProcessor()
            // SpeechControlProcessor()
            // PythonFunctionProcessor()
            // MCPToolProcessor(self.mcp_servers)
            // GenericToolProcessor()
        )
        return (
            ToolRegistryProcessor(executor=self.executor),
            ConfigurationProcessor(self.settings),
            categories.to_processor(),
            MonitoringProcessor(self.monitor),
        )

    def _register(
        self, tools: Iterable[AnyTool | Callable[..., Any]], *, builtin_tools: bool
    ) -> None:
        for thing in tools:
            self.registry.register(thing)
        if builtin_tools:
            for tool in (*action.TOOLS, *speech.TOOLS):
                self.registry.register(tool, builtin=True)

    def _apply(self, settings: Settings) -> list[RegistryError]:
        self._applied = settings
        self.executor.apply(settings)
        self.monitor.configure(
            history_size=settings.monitoring.history_size,
            alerts=settings.monitoring.alerts,
            warn_per_minute=settings.policies.calls.warn_per_minute,
        )
        self.mcp_servers.configure(settings.mcp_servers)
        return self._toolboxes.load(settings.toolboxes)

    def _follow(self) -> None:
        """Applies the settings while sessions may run: what is wrong with them ends none."""
        if self.settings.current is not self._applied:
            for problem in self._apply(self.settings.current):
                logger.warning("The settings are not fully in force: %s", problem)
            for finding in check_rules(self._applied, self.registry.by_name):
                logger.warning("In the settings, %s", finding)

    def _vitals(self) -> Vitals:
        return Vitals(
            abandoned_threads=lambda: self.executor.workers.abandoned,
            settings_error=lambda: None if (e := self.settings.last_error) is None else str(e),
            loop_lag_seconds=lambda: self.executor.loop_lag_seconds,
            breakers=lambda: self.executor.breakers,
            cache=lambda: self.executor.cache.stats,
        )
