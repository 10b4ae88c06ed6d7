"""The ready-made chain: registry → configuration → categories → monitoring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from genai_processors import context as context_lib
from genai_processors import processor
from google.genai import types

from leonidas_tools.calls.call import ToolCall, ToolResult, ToolSession
from leonidas_tools.errors import log_level
from leonidas_tools.mcp.servers import MCPServers
from leonidas_tools.monitoring.monitor import Monitor
from leonidas_tools.monitoring.vitals import Vitals
from leonidas_tools.policies.loop_guard import LoopHistory, LoopLimits
from leonidas_tools.processors import stream
from leonidas_tools.processors.approval import VoiceApproval
from leonidas_tools.processors.category import (
    ActionToolProcessor,
    CategoryGroup,
    CategoryProcessor,
    GenericToolProcessor,
    PythonFunctionProcessor,
    SpeechControlProcessor,
)
from leonidas_tools.processors.configuration import ConfigurationProcessor
from leonidas_tools.processors.declared import DeclaredTools
from leonidas_tools.processors.intake import read_arguments
from leonidas_tools.processors.keeping import Keeping
from leonidas_tools.processors.mcp import MCPToolProcessor
from leonidas_tools.processors.monitoring import MonitoringProcessor
from leonidas_tools.processors.ready import ReadyTools
from leonidas_tools.processors.registry import ToolRegistryProcessor
from leonidas_tools.processors.shared_hold import SharedHold, on_this_loop
from leonidas_tools.processors.stage import Stage
from leonidas_tools.processors.stream import InSession
from leonidas_tools.processors.toolboxes import Toolboxes
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.runtime.executor import Executor
from leonidas_tools.settings.check import check_against
from leonidas_tools.settings.check_rules import check_rules
from leonidas_tools.settings.watch import WatchedSettings
from leonidas_tools.toolboxes import action, speech
from leonidas_tools.tools import exports
from leonidas_tools.tools.names import name_called
from leonidas_tools.tools.registry import AnyTool, ToolRegistry
from leonidas_tools.tools.tool import as_tools

logger = visible_logger(__name__)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
    from pathlib import Path

    from genai_processors.content_api import ProcessorPart
    from google.genai.live import AsyncSession

    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.errors import ToolboxError
    from leonidas_tools.mcp.features import ClientFeatures
    from leonidas_tools.monitoring.event_stream import EventStream
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.store import Store


_Pair: TypeAlias = tuple[str, Mapping[str, Any] | str | None]
TurnCall: TypeAlias = _Pair | Mapping[str, Any] | types.FunctionCall
"""A call of a turn, in the forms that models give it."""


class AdvancedToolProcessor(Stage):
    """Turns function-call parts into function-response parts; all other parts pass at once.

    One instance serves many streams at a time. `async with` holds what they share: the watcher
    of the file, MCP servers, threads; without it each stream holds them while it runs.

    Args:
        tools: Tools and functions.
        config: A YAML file, which is watched; a mapping, or settings. `None` stands for defaults.
        registry: Tools that are registered already.
        builtin_tools: Whether the agent's own tools (think, set_speech_rate, …) are there too.
        categories: Processors of categories of one's own, asked before ours; the tools they bring
            are registered.
        policies: Policies of the user, put around every call outside all others.
        approval: Asks a person where the rules say so; by default the model asks, by voice.
        asks: Answers what MCP servers ask of a model.
        json_requests: Whether parts in JSON may ask for what changes nothing.

    Raises:
        ConfigurationError: The settings are wrong.
        RegistryError: A tool is.
        TypeError: An argument is of a wrong type.

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
        categories: Iterable[CategoryProcessor] = (),
        policies: Sequence[Policy] = (),
        approval: Channel | None = None,
        asks: ClientFeatures | None = None,
        json_requests: bool = False,
    ) -> None:
        self.settings = config if isinstance(config, WatchedSettings) else WatchedSettings(config)
        if registry is not None and not isinstance(registry, ToolRegistry):
            raise TypeError(f"registry takes a ToolRegistry, not {registry!r}")
        self.registry = ToolRegistry() if registry is None else registry
        self.session = ToolSession("direct")
        """The conversation of calls that are made by `execute` and name no other."""
        # A program makes them, which may poll; the loop guard stops models.
        self.session.get(LoopHistory).limits = LoopLimits(warn_at=0, refuse_at=0)
        self._keeping = Keeping(self.settings.current.store)
        self.monitor = Monitor(vitals=self._vitals())
        voice = VoiceApproval(self.registry, self.settings)
        self.executor = Executor(
            self.registry,
            settings=self.settings.current,
            policies=[*policies, *self._keeping.policies],
            sinks=(self.monitor,),
            approval=approval or voice,
            save=self.settings.update,
        )
        self._categories = _own_categories(categories)
        brought = [tool for category in self._categories for tool in category.tools]
        self._register([*as_tools(tools), *brought], builtin_tools=builtin_tools)
        ready = ReadyTools(self.registry, self.settings, None if approval else voice.keep_ready)
        self._declared = DeclaredTools(self.registry, self.settings, ready)
        servers, tell = self.settings.current.mcp_servers, self.monitor.events.publish
        self.mcp_servers = MCPServers(self.registry, servers, asks, tell)
        self._stages = self._made_stages(json_requests=json_requests)
        self._shared = SharedHold(self._hold)
        self._toolboxes = Toolboxes(self.registry, self.settings)
        for problem in self._apply(self.settings.current):
            raise problem
        self._declared.prepare()
        for finding in check_against(self.settings.current, self.registry.by_name):
            logger.warning("In the settings, %s", finding)

    def _call_impl(self, content: Any, current_trace: Any) -> AsyncIterator[ProcessorPart]:  # type: ignore[misc]  # final upstream
        is_own = type(self).call is AdvancedToolProcessor.call
        if not is_own or current_trace is not None or context_lib.task_group() is None:
            return super()._call_impl(content, current_trace)
        # Upstream's two generators around `call` would only look whether it yields parts.
        parts = processor._normalize_part_stream(content, producer=self)  # noqa: SLF001 - as upstream
        return self.call(processor.ProcessorStream(parts, trace=None))  # type: ignore[return-value]

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
        autonomous: bool = False,
    ) -> ToolResult:
        """Runs one call without a stream, under the same policies.

        Args:
            name: The tool's own name, or one it is declared with.
            arguments: By parameter name, or a JSON text of that.
            session: The conversation it belongs to. Without one, a program makes the call, and the
                loop guard does not count it.
            call_id: An id for the call, for logs and events.
            autonomous: Whether this one call runs as in a session of that mode: what
                `requires_approval` does not ask. Rules of yours and `read_only` still hold.
        """
        call, refusal = self._made(name, arguments, session, call_id)
        if autonomous:
            call = replace(call, autonomous=True)
        if call.tool is None:
            similar = None if refusal is not None else self.executor.similar(call)
            if similar is None:
                return self.executor.settle_unknown(call)
            call = similar
        if refusal is not None:
            return self.executor.settle(call, refusal)
        return await self.executor.run(call)

    async def execute_turn(
        self,
        calls: Iterable[TurnCall],
        *,
        session: ToolSession | None = None,
        concurrency: int = 8,
    ) -> list[ToolResult]:
        """Run the calls of one turn of a model, and return their results in the order of the calls.

        Reads run side by side. A call that changes something waits for all before it, and all after
        it wait for it. Each call has its own result: one that fails does not stop the others.

        Args:
            calls: Pairs of name and arguments, mappings of `name`, `arguments` and `id`, or
                function calls of google-genai.
            session: The conversation they belong to.
            concurrency: How many of them may run at once.

        Raises:
            TypeError: What is given is no call; nothing has run.
        """
        asked = [_asked(each) for each in calls]
        made = [self._made(name, arguments, session, id_) for name, arguments, id_ in asked]
        return await self.executor.execute_turn(made, concurrency=concurrency)

    def _made(
        self, name: str, arguments: Any, session: ToolSession | None, call_id: str | None
    ) -> tuple[ToolCall, ToolResult | None]:
        """Return the call of a program, with its result where it cannot run."""
        session = session or self.session
        parsed, refusal = read_arguments(arguments)
        name = name_called(name)
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
        return call, refusal

    def cancel(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """Stop a call because a person wants it stopped: its work ends, and it is answered once.

        Args:
            call_id: The id of the call, or its trace id.
            session: The conversation it belongs to, where the id alone is not enough.

        Returns:
            What the call is answered; it need not be awaited.

        Raises:
            ToolError: No such call runs, or several do.
        """
        return self.executor.cancel(call_id, session=session)

    def retry(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """Run a call that failed once more, because a person has decided so.

        It runs under all policies, also where its side effect happens once. The model is told the
        new outcome.

        Args:
            call_id: The id of the call, or its trace id.
            session: The conversation it belongs to, where the id alone is not enough.

        Returns:
            How the new run ends; it need not be awaited.

        Raises:
            ToolError: No such call has failed, or it was decided about, or there are several.
        """
        return self.executor.retry(call_id, session=session)

    def skip(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """Go on without a call, because a person has decided so; one that runs is stopped.

        Args:
            call_id: The id of the call, or its trace id.
            session: The conversation it belongs to, where the id alone is not enough.

        Returns:
            What the model is told; it need not be awaited.

        Raises:
            ToolError: No such call runs or has failed, or there are several.
        """
        return self.executor.skip(call_id, session=session)

    def declarations(self, session: ToolSession | None = None) -> list[types.Tool]:
        """What a Live setup declares: every tool that can be called in a session, by legal name.

        Args:
            session: The conversation; by default that of the calls that name no other.
        """
        return self._declared.declarations(session or self.session)

    def offered(self, session: ToolSession | None = None) -> list[AnyTool]:
        """The tools that are declared: neither switched off, nor denied in every case.

        Args:
            session: The conversation; by default that of the calls that name no other.
        """
        return self._declared.tools(session or self.session)

    def on_declarations_change(
        self, listener: Callable[[], None], session: ToolSession | None = None
    ) -> Callable[[], None]:
        """Calls back each time `declarations()` has become different.

        Args:
            listener: Called on the event loop that runs now, once for all changes of one turn of
                it, wherever they were made. What it raises is logged.
            session: The conversation; by default that of the calls that name no other.

        Returns:
            A function that ends it.

        Raises:
            RuntimeError: No event loop is running.
        """
        return self._declared.on_change(listener, session or self.session)

    def openai_tools(self) -> list[dict[str, Any]]:
        """The same as tool definitions of an OpenAI-compatible endpoint."""
        return exports.openai_tools(self.registry, self.offered())

    def prompt_text(self) -> str:
        """The same as text for a prompt."""
        return exports.prompt_text(self.registry, self.offered())

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

    def attach(
        self,
        session: AsyncSession,
        *,
        model: str | None = None,
        conversation: ToolSession | None = None,
    ) -> AbstractAsyncContextManager[ToolSession]:
        """Answer the calls of a plain google-genai session while your own loop receives.

        Inside `async with tools.attach(session)`, each message that `session.receive()` gives you
        is shown to the tools first, and answers are sent as they are ready. Declare the tools
        yourself, with `declarations()`, and send no tool responses.

        Args:
            session: An open session, as `client.aio.live.connect` gives it.
            model: The name it was opened with. Without it only what works with every model is
                sent: no interim answers, no scheduling, no changed tools.
            conversation: Continues an earlier conversation, such as that of a lost connection.

        Returns:
            A context manager that gives the conversation and ends with the block. Calls that still
            run then are stopped or finish by themselves, as after any conversation.

        Raises:
            ValueError: Tools are attached to this session already.
        """
        from leonidas_tools.live.attach import attached

        return attached(self, session, model=model, conversation=conversation)

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
            if self.settings.current is self._applied:
                self._warn_of_rules()
            self._follow()
            await stack.enter_async_context(self._keeping.held(self.monitor))
            await stack.enter_async_context(self.executor)
            await stack.enter_async_context(self.mcp_servers)
            page = self.monitor.serving(self.settings.current.monitoring.prometheus_port)
            await stack.enter_async_context(page)
            return stack.pop_all()

    def _made_stages(self, *, json_requests: bool) -> tuple[Any, ...]:
        categories = CategoryGroup(
            [
                *self._categories,
                ActionToolProcessor(),
                SpeechControlProcessor(),
                PythonFunctionProcessor(),
                MCPToolProcessor(self.mcp_servers),
                GenericToolProcessor(),
            ]
        )
        return (
            ToolRegistryProcessor(executor=self.executor, json_requests=json_requests),
            ConfigurationProcessor(self.settings),
            categories.to_processor(),
            MonitoringProcessor(self.monitor),
        )

    def _register(self, tools: Iterable[AnyTool], *, builtin_tools: bool) -> None:
        for tool in tools:
            self.registry.register(tool)
        if builtin_tools:
            for tool in (*action.TOOLS, *speech.TOOLS):
                self.registry.register(tool, builtin=True)

    def _apply(self, settings: Settings) -> list[ToolboxError]:
        self._applied = settings
        self.executor.apply(settings)
        self.monitor.configure(
            history_size=settings.monitoring.history_size,
            alerts=settings.monitoring.alerts,
            warn_per_minute=settings.policies.calls.warn_per_minute or None,
        )
        self.mcp_servers.configure(settings.mcp_servers)
        return self._toolboxes.load(settings.toolboxes)

    def _follow(self) -> None:
        """Applies the settings while sessions may run: what is wrong with them ends none."""
        if self.settings.current is not self._applied:
            for problem in self._apply(self.settings.current):
                logger.log(log_level(problem), "The settings are not fully in force: %s", problem)
            self._warn_of_rules()

    def _warn_of_rules(self) -> None:
        for finding in check_rules(self._applied, self.registry.by_name):
            logger.warning("In the settings, %s", finding)

    def _vitals(self) -> Vitals:
        return Vitals(
            abandoned_threads=lambda: self.executor.workers.abandoned,
            settings_error=lambda: None if (e := self.settings.last_error) is None else str(e),
            store_error=self._keeping.error,
            loop_lag_seconds=lambda: self.executor.loop_lag_seconds,
            breakers=lambda: self.executor.breakers,
            cache=lambda: self.executor.cache.stats,
        )


def _asked(call: TurnCall) -> tuple[str, Any, str | None]:
    """Return the name, the arguments and the id of a call, in whatever form it is given."""
    name: object
    identifier: object
    if isinstance(call, tuple) and len(call) == 2:  # noqa: PLR2004 - a pair
        name, arguments, identifier = *call, None
    elif isinstance(call, Mapping):
        name, arguments = call.get("name"), call.get("arguments", call.get("args"))
        identifier = call.get("id")
    elif isinstance(call, types.FunctionCall):
        name, arguments, identifier = call.name, call.args, call.id
    else:
        raise TypeError(
            f"{call!r} is not a call: give (name, arguments), a mapping with name and arguments, "
            "or a FunctionCall"
        )
    return str(name or ""), arguments, None if identifier is None else str(identifier)


def _own_categories(categories: Iterable[CategoryProcessor]) -> list[CategoryProcessor]:
    if isinstance(categories, str | type) or not isinstance(categories, Iterable):
        raise TypeError(f"categories takes a list of category processors, not {categories!r}")
    own = list(categories)
    for category in own:
        if not isinstance(category, CategoryProcessor):
            raise TypeError(
                f"{category!r} is not a category processor: give an instance of a subclass of "
                f"CategoryProcessor, such as BillingProcessor()"
            )
    return own
