"""`AdvancedToolProcessor`: a runtime on streams.

It does in one stage what registry → configuration → categories → monitoring do.
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
    from leonidas_tools.mcp.features import ClientFeatures
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

    One instance serves many streams at a time. `async with` holds what they share: the watcher
    of the file, MCP servers, threads; without it each stream holds them while it runs.

    Args:
        tools: Tools and functions.
        config: A YAML file, which is watched; a mapping, or settings. `None` stands for defaults.
        registry: Tools that are registered already.
        builtin_tools: Whether the agent's own tools (think, set_speech_rate, …) are there too.
        categories: Processors of user-defined categories, asked before ours; the tools they bring
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

    @known_arguments_only
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
        # The stages and the runtime are loaded by the first processor, not by the import.
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
            asks=asks,
        )
        """The runtime that runs the calls; it has everything but streams."""
        self.registry = self.runtime.registry
        self.settings = self.runtime.settings
        self.session = self.runtime.session
        self.executor = self.runtime.executor
        self.monitor = self.runtime.monitor
        self.mcp_servers = self.runtime.mcp_servers
        self._gemini = GeminiDeclarations()
        self._calls = self._made_stream(json_requests=json_requests)

    def _call_impl(self, content: Any, current_trace: Any) -> AsyncIterator[ProcessorPart]:  # type: ignore[misc]  # final upstream
        is_own = type(self).call is AdvancedToolProcessor.call
        if not is_own or current_trace is not None or context_lib.task_group() is None:
            return super()._call_impl(content, current_trace)
        # Upstream's two generators around `call` would only look whether it yields parts.
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

    def declarations(self, session: ToolSession | None = None) -> list[types.Tool]:
        """Return the tools for a Live setup: all that can be called in a session, by legal name.

        Args:
            session: The session; by default that of the calls that name no other.
        """
        return self._gemini.write(self.runtime.declared(session))

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
        """Return these tools for one conversation, whose state the caller can see.

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
        """See `ToolRuntime.ready`."""
        return await self.runtime.ready(timeout_seconds)

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.runtime.__aexit__(*error)

    def _made_stream(self, *, json_requests: bool) -> CallStream:
        # One stage that does what four do: each generator that a part passes costs time.
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
