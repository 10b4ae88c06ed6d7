"""`AdvancedToolProcessor`: a tool runtime for streams.

It combines the stages registry → configuration → categories → monitoring in one stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any, Self

from genai_processors import context as context_lib
from genai_processors import processor

from leonidas_tools.processors.gemini_declarations import GeminiDeclarations
from leonidas_tools.processors.stage import Stage
from leonidas_tools.processors.stream import InSession
from leonidas_tools.runtime.arguments import known_arguments_only
from leonidas_tools.tools.tool import as_tools

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
    from pathlib import Path

    from genai_processors.content_api import ProcessorPart
    from google.genai import types
    from google.genai.live import AsyncSession

    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.calls.call import ToolResult, ToolSession
    from leonidas_tools.mcp.servers import HeadersHook
    from leonidas_tools.monitoring.event_stream import EventStream
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.processors.call_stream import CallStream
    from leonidas_tools.processors.category import CategoryProcessor
    from leonidas_tools.runtime.runtime import TurnCall
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.watch import WatchedSettings
    from leonidas_tools.store import Store
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry


class AdvancedToolProcessor(Stage):
    """Turns function-call parts into function-response parts; all other parts pass at once.

    One instance serves many streams at a time. `async with` keeps their shared resources open: the
    watcher of the file, MCP servers, threads. Without it, each stream opens them while it runs.

    Args:
        tools: Tools and functions.
        config: A YAML file, which is watched; a mapping, or settings. `None` means the defaults.
        registry: The registry of the tools; by default a new one.
        builtin_tools: Whether to add the agent's own tools (think, set_speech_rate, …).
        categories: Processors of user-defined categories, matched before the built-in ones; their
            tools are registered.
        policies: The user's policies, which wrap every call outside all other policies.
        approval: Asks a person if the rules require it; by default the model asks, by voice.
        mcp_headers: Returns fresh HTTP headers for each request to an MCP server, such as the token
            of the user: `await mcp_headers(server, context)`. Outside a call, the context is
            `None`.
        json_requests: Whether parts in JSON may make read-only requests.

    Raises:
        ConfigurationError: The settings are invalid.
        RegistryError: A tool is invalid.
        TypeError: An argument is of a wrong type.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> import asyncio
        >>> tools = AdvancedToolProcessor(tools=[add])
        >>> asyncio.run(tools.execute("add", {"a": 1, "b": "2"})).to_response()
        {'status': 'ok', 'result': 3, 'retryable': False}
    """

    @known_arguments_only
    def __init__(  # noqa: PLR0913 - all are optional
        self,
        tools: Iterable[AnyTool | Callable[..., Any]] = (),
        config: str | Path | Mapping[str, Any] | Settings | WatchedSettings | None = None,
        registry: ToolRegistry | None = None,
        builtin_tools: bool = True,
        *,
        categories: Iterable[CategoryProcessor] = (),
        policies: Sequence[Policy] = (),
        approval: Channel | None = None,
        mcp_headers: HeadersHook | None = None,
        json_requests: bool = False,
    ) -> None:
        # Imported with the first processor, not with this module.
        from leonidas_tools.runtime.runtime import ToolRuntime

        self._categories = _own_categories(categories)
        brought = [tool for category in self._categories for tool in category.tools]
        self.runtime = ToolRuntime(
            [*as_tools(tools), *brought],
            config,
            registry,
            builtin_tools,
            policies=policies,
            approval=approval,
            mcp_headers=mcp_headers,
        )
        """The runtime that runs the calls; it needs no streams."""
        self.registry = self.runtime.registry
        self.settings = self.runtime.settings
        self.session = self.runtime.session
        self.executor = self.runtime.executor
        self.monitor = self.runtime.monitor
        self.mcp_servers = self.runtime.mcp_servers
        self._gemini = GeminiDeclarations()
        self._calls = self._build_stream(json_requests=json_requests)

    def _call_impl(self, content: Any, current_trace: Any) -> AsyncIterator[ProcessorPart]:  # type: ignore[misc]  # final upstream
        is_own = type(self).call is AdvancedToolProcessor.call
        if not is_own or current_trace is not None or context_lib.task_group() is None:
            return super()._call_impl(content, current_trace)
        # Upstream's two generators around `call` would only check that it yields parts.
        parts = processor._normalize_part_stream(content, producer=self)  # noqa: SLF001 - as upstream
        return self._calls.call(processor.ProcessorStream(parts, trace=None))  # type: ignore[return-value]

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Yield the parts, with each call answered."""
        stream: Any = self._calls.call(content)
        async with aclosing(stream) as parts:
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
        """See `ToolRuntime.execute`."""
        return await self.runtime.execute(
            name, arguments, session=session, call_id=call_id, autonomous=autonomous
        )

    async def execute_turn(
        self,
        calls: Iterable[TurnCall],
        *,
        session: ToolSession | None = None,
        concurrency: int = 8,
    ) -> list[ToolResult]:
        """See `ToolRuntime.execute_turn`."""
        return await self.runtime.execute_turn(calls, session=session, concurrency=concurrency)

    def cancel(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """See `ToolRuntime.cancel`."""
        return self.runtime.cancel(call_id, session=session)

    def retry(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """See `ToolRuntime.retry`."""
        return self.runtime.retry(call_id, session=session)

    def skip(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """See `ToolRuntime.skip`."""
        return self.runtime.skip(call_id, session=session)

    def declarations(
        self, session: ToolSession | None = None, *, model: str | None = None, vertex: bool = False
    ) -> list[types.Tool]:
        """Return the tools for a Live setup: all that can be called in a session, by legal name.

        Args:
            session: The session; by default that of calls without a session.
            model: The live model that reads them, which need not read JSON Schema or `behavior`.
                A `GeminiLiveProcessor` needs no such form.
            vertex: Whether the model is on Vertex AI.
        """
        tools = self._gemini.write(self.runtime.declared(session))
        if model is None:
            return tools
        from leonidas_tools.live.attach import adapt_declarations

        return adapt_declarations(tools, self, model, vertex=vertex)

    def offered(self, session: ToolSession | None = None) -> list[AnyTool]:
        """See `ToolRuntime.offered`."""
        return self.runtime.offered(session)

    def on_declarations_change(
        self, listener: Callable[[], None], session: ToolSession | None = None
    ) -> Callable[[], None]:
        """See `ToolRuntime.on_declarations_change`."""
        return self.runtime.on_declarations_change(listener, session)

    def openai_tools(self) -> list[dict[str, Any]]:
        """See `ToolRuntime.openai_tools`."""
        return self.runtime.openai_tools()

    def prompt_text(self) -> str:
        """See `ToolRuntime.prompt_text`."""
        return self.runtime.prompt_text()

    @property
    def events(self) -> EventStream:
        """See `ToolRuntime.events`."""
        return self.runtime.events

    @property
    def store(self) -> Store | None:
        """See `ToolRuntime.store`."""
        return self.runtime.store

    def in_session(self, session: ToolSession) -> processor.Processor:
        """Return a processor that runs these tools in one conversation.

        Args:
            session: The conversation, with its `AgentState` and `SpeechState`.
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

        Inside `async with tools.attach(session)`, the tools see each message of `session.receive()`
        first, and function responses are sent as they become ready. Declare the tools yourself,
        with `declarations()`, and send no tool responses.

        Args:
            session: An open session of `client.aio.live.connect`.
            model: The name of the session's model. Without a name, only features of every model are
                used: no interim responses, no scheduling, no changed tools.
            conversation: An earlier conversation to continue, such as that of a lost connection.

        Returns:
            A context manager for the conversation. Calls that still run at the end of the block
            are stopped or finish by themselves, as after any conversation.

        Raises:
            ValueError: Tools are attached to this session already.
        """
        from leonidas_tools.live.attach import attached

        return attached(self, session, model=model, conversation=conversation)

    async def ready(self, timeout_seconds: float = 30.0) -> bool:
        """See `ToolRuntime.ready`."""
        return await self.runtime.ready(timeout_seconds)

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.runtime.__aexit__(*error)

    def _build_stream(self, *, json_requests: bool) -> CallStream:
        # One stage instead of four: each generator that a part passes costs time.
        from leonidas_tools.processors.call_stream import CallStream, Front
        from leonidas_tools.processors.category import (
            ActionToolProcessor,
            CategoryGroup,
            GenericToolProcessor,
            PythonFunctionProcessor,
            SpeechControlProcessor,
        )
        from leonidas_tools.processors.configuration import ConfigurationProcessor
        from leonidas_tools.processors.mcp import MCPToolProcessor
        from leonidas_tools.processors.monitoring import MonitoringProcessor
        from leonidas_tools.processors.registry import ToolRegistryProcessor

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
        stages = (
            ToolRegistryProcessor(executor=self.executor),
            ConfigurationProcessor(self.settings),
            MonitoringProcessor(self.monitor),
        )
        answers = {name: answer for stage in stages for name, answer in stage.answers.items()}
        front = Front(
            runtime=self.runtime,
            answers=answers,
            json_requests=json_requests,
            asks_categories=bool(self._categories),
        )
        return CallStream(categories.categories, front)


def _own_categories(categories: Iterable[CategoryProcessor]) -> list[CategoryProcessor]:
    from leonidas_tools.processors.category import CategoryProcessor

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
