"""The ready-made chain: registry → configuration → categories → monitoring."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, Self

from genai_processors import processor

from leonidas_tools import exports
from leonidas_tools.calls import ToolCall, ToolResult, ToolSession
from leonidas_tools.errors import ToolValidationError
from leonidas_tools.executor import Executor
from leonidas_tools.json_schema import parse_arguments
from leonidas_tools.mcp.servers import MCPServers
from leonidas_tools.monitoring.monitor import Monitor
from leonidas_tools.monitoring.vitals import Vitals
from leonidas_tools.overrides import refused
from leonidas_tools.processors import stream
from leonidas_tools.processors.action import ActionToolProcessor
from leonidas_tools.processors.configuration import ConfigurationProcessor
from leonidas_tools.processors.declarations import declare
from leonidas_tools.processors.generic import GenericToolProcessor
from leonidas_tools.processors.mcp import MCPToolProcessor
from leonidas_tools.processors.monitoring import MonitoringProcessor
from leonidas_tools.processors.python import PythonFunctionProcessor
from leonidas_tools.processors.registry import ToolRegistryProcessor
from leonidas_tools.processors.speech import SpeechControlProcessor
from leonidas_tools.processors.stage import Stage
from leonidas_tools.processors.toolboxes import Toolboxes
from leonidas_tools.registry import AnyTool, ToolRegistry
from leonidas_tools.settings.check import check_against
from leonidas_tools.settings.watch import WatchedSettings
from leonidas_tools.toolboxes import action, speech

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from genai_processors.content_api import ProcessorPart
    from google.genai import types

    from leonidas_tools.errors import RegistryError
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.settings.models import Settings


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

    Raises:
        ConfigurationError: The settings are wrong.
        RegistryError: A tool is.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> tools = AdvancedToolProcessor(tools=[add])
        >>> asyncio.run(tools.execute("add", {"a": 1, "b": "2"})).to_response()
        {'status': 'ok', 'result': 3, 'retryable': False}
    """

    def __init__(
        self,
        tools: Iterable[AnyTool | Callable[..., Any]] = (),
        config: str | Path | Mapping[str, Any] | Settings | WatchedSettings | None = None,
        registry: ToolRegistry | None = None,
        builtin_tools: bool = True,
        *,
        policies: Sequence[Policy] = (),
    ) -> None:
        self.settings = config if isinstance(config, WatchedSettings) else WatchedSettings(config)
        self.registry = ToolRegistry() if registry is None else registry
        self.session = ToolSession("direct")
        """The conversation of calls that are made by `execute` and name no other."""
        self.monitor = Monitor(
            vitals=Vitals(
                abandoned_threads=lambda: self.executor.workers.abandoned,
                settings_error=self._settings_error,
                loop_lag_seconds=lambda: self.executor.loop_lag_seconds,
            )
        )
        self.executor = Executor(
            self.registry,
            settings=self.settings.current,
            policies=policies,
            sinks=(self.monitor,),
        )
        self._register(tools, builtin_tools=builtin_tools)
        self.mcp_servers = MCPServers(self.registry, self.settings.current.mcp_servers)
        self._stages = self._made_stages()
        self._users = 0
        self._held: AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._toolboxes = Toolboxes(self.registry)
        for problem in self._apply(self.settings.current):
            raise problem
        for finding in check_against(self.settings.current, self.registry.by_name):
            logger.warning("In the settings, %s", finding)

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Parts in, parts out."""
        # Not `processor.chain`: it wraps each stage in four generators and a queue, for tracing
        # and reserved substreams, which costs a call more than all our policies do.
        async with self, AsyncExitStack() as stack:
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
        parsed, refusal = _parsed(arguments)
        tool = self.registry.get(name) or self.registry.find(name) or self._for_openai(name)
        call = ToolCall(
            name=name if tool is None else tool.name,
            arguments=parsed,
            id=call_id,
            called_as=name,
            session=session,
            tool=tool,
            settings=None if tool is None else self.executor.settings.for_tool(tool.name),
            number=next(session.numbers),
        )
        if tool is None:
            return self.executor.settle_unknown(call)
        if refusal is not None:
            self.executor.settle(call, refusal)
            return refusal
        return await self.executor.run(call)

    def declarations(self) -> list[types.Tool]:
        """What a Live setup declares: every tool that can be called, under its legal name."""
        return declare(self.registry, self._callable(), self.settings.current)

    def openai_tools(self) -> list[dict[str, Any]]:
        """The same as tool definitions of an OpenAI-compatible endpoint."""
        return exports.openai_tools(self.registry, self._callable())

    def prompt_text(self) -> str:
        """The same as text for a prompt."""
        return exports.prompt_text(self.registry, self._callable())

    def in_session(self, session: ToolSession) -> processor.Processor:
        """These tools for one conversation, whose state the caller can see.

        Args:
            session: Holds the `AgentState` and the `SpeechState`.
        """
        return _InSession(self, session)

    async def ready(self, timeout_seconds: float = 30.0) -> bool:
        """Waits until every MCP server has said what it has, or until the time is up."""
        return await self.mcp_servers.ready(timeout_seconds)

    async def __aenter__(self) -> Self:
        async with self._entrance():
            if self._users == 0:
                self._held = await self._hold()
            self._users += 1
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        async with self._entrance():
            self._users -= 1
            if self._users == 0 and self._held is not None:
                held, self._held = self._held, None
                await held.aclose()

    def _entrance(self) -> asyncio.Lock:
        """One comes or goes at a time; a lock serves the event loop it was first waited for in."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock

    async def _hold(self) -> AsyncExitStack:
        async with AsyncExitStack() as stack:
            stack.callback(self.settings.on_change(self._follow))
            await stack.enter_async_context(self.settings)
            self._follow(self.settings.current)
            await stack.enter_async_context(self.executor)
            await stack.enter_async_context(self.mcp_servers)
            port = self.settings.current.monitoring.prometheus_port
            if port is not None:
                # In a thread: the server's thread takes half a second to end.
                serving = self.monitor.prometheus().serve(port)
                await asyncio.to_thread(serving.__enter__)
                stack.push_async_callback(asyncio.to_thread, serving.__exit__, None, None, None)
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
            history_size=settings.monitoring.history_size, alerts=settings.monitoring.alerts
        )
        self.mcp_servers.configure(settings.mcp_servers)
        return self._toolboxes.load(settings.toolboxes)

    def _follow(self, settings: Settings) -> None:
        """Applies settings while sessions may run: what is wrong with them ends none."""
        if settings is not self._applied:
            for problem in self._apply(settings):
                logger.warning("The settings are not fully in force: %s", problem)

    def _for_openai(self, name: str) -> AnyTool | None:
        return self.registry.get(exports.openai_names(self.registry).get(name, ""))

    def _settings_error(self) -> str | None:
        return None if self.settings.last_error is None else str(self.settings.last_error)

    def _callable(self) -> list[AnyTool]:
        settings = self.settings.current
        return [t for t in self.registry if refused(t, settings.for_tool(t.name)) is None]


def _parsed(
    arguments: Mapping[str, Any] | str | None,
) -> tuple[Mapping[str, Any], ToolResult | None]:
    """The arguments as a mapping, or why they are none."""
    try:
        return parse_arguments(arguments), None
    except ToolValidationError as error:
        return {}, ToolResult.from_error(error)


class _InSession(processor.Processor):
    """The tools for one conversation."""

    def __init__(self, tools: AdvancedToolProcessor, session: ToolSession) -> None:
        self._tools = tools
        self._session = session

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        with stream.shared(session=self._session):
            async for part in self._tools(content):
                yield part
