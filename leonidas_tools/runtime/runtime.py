"""`ToolRuntime`: tools and everything that their calls need, independent of a framework."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from leonidas_tools.calls.call import ToolCall, ToolResult, ToolSession, normalize_name
from leonidas_tools.calls.invocation import innermost
from leonidas_tools.errors import RetryableError, ToolboxError, ToolValidationError, log_level
from leonidas_tools.json_schema import parse_arguments
from leonidas_tools.mcp.servers import MCPServers
from leonidas_tools.monitoring.health import Vitals
from leonidas_tools.monitoring.monitor import Monitor
from leonidas_tools.policies.loop_guard import LoopHistory, LoopLimits
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import say
from leonidas_tools.runtime.arguments import known_arguments_only
from leonidas_tools.runtime.declared import DeclaredTools
from leonidas_tools.runtime.executor import Executor
from leonidas_tools.runtime.interrupted_calls import reporting_interrupted_calls
from leonidas_tools.runtime.on_demand import OnDemandTools
from leonidas_tools.runtime.store_binding import StoreBinding
from leonidas_tools.runtime.toolboxes import Toolboxes
from leonidas_tools.session.notices import Notices
from leonidas_tools.settings.check import check_against
from leonidas_tools.settings.problem import Finding
from leonidas_tools.settings.watch import WatchedSettings
from leonidas_tools.toolboxes import action, speech
from leonidas_tools.tools import exports
from leonidas_tools.tools.registry import AnyTool, ToolRegistry
from leonidas_tools.tools.tool import as_tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.calls.events import Sink
    from leonidas_tools.mcp.servers import HeadersHook
    from leonidas_tools.monitoring.event_stream import EventStream
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.runtime.declared import Declaration
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.store import Store
    from leonidas_tools.store.reminders import ReminderTable

logger = visible_logger(__name__)


class FunctionCallLike(Protocol):
    """A function call as in google-genai: an object with `name`, `args` and `id`."""

    name: str | None
    args: dict[str, Any] | None
    id: str | None


_Pair: TypeAlias = tuple[str, Mapping[str, Any] | str | None]
TurnCall: TypeAlias = _Pair | Mapping[str, Any] | FunctionCallLike
"""A call of a turn, in the forms that model APIs use."""


class ToolRuntime:
    """Runs tools under policies, for any number of sessions and callers.

    The runtime has the registry, the settings, the executor, the events, the store, the MCP servers
    and the toolboxes. `async with` starts the file watcher, the servers and the threads; it may be
    entered any number of times. `AdvancedToolProcessor` runs it on genai-processors streams.

    Args:
        tools: Tools and functions.
        config: A YAML file, which is watched; a mapping, or settings. `None` for the defaults.
        registry: A registry, which may already contain tools.
        builtin_tools: Whether to add the agent's own tools (think, set_speech_rate, …).
        policies: Your policies; only tracing, the loop guard and refusals run outside them.
        approval: Asks a person if a rule requires it; by default the model asks, by voice.
        mcp_headers: Returns fresh HTTP headers for each request to an MCP server, such as the token
            of the user: `await mcp_headers(server, context)`. Outside a call, the context is
            `None`.

    Raises:
        ConfigurationError: The settings are invalid.
        RegistryError: A tool is invalid.
        TypeError: An argument is of a wrong type.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> runtime = ToolRuntime([add])
        >>> asyncio.run(runtime.execute("add", {"a": 1, "b": "2"})).to_response()
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
        policies: Sequence[Policy] = (),
        approval: Channel | None = None,
        mcp_headers: HeadersHook | None = None,
    ) -> None:
        self.settings = config if isinstance(config, WatchedSettings) else WatchedSettings(config)
        if registry is not None and not isinstance(registry, ToolRegistry):
            raise TypeError(f"registry must be a ToolRegistry, not {registry!r}")
        _check_types(policies, approval)
        self.registry = ToolRegistry() if registry is None else registry
        self.session = ToolSession("direct")
        """The session of calls by `execute` without a session."""
        # Programs make these calls, and may poll; the loop guard is for models.
        self.session.get(LoopHistory).limits = LoopLimits(warn_at=0, refuse_at=0)
        self._stored = StoreBinding(self.settings.current.store)
        self.monitor = Monitor(vitals=self._vitals())
        by_voice = approval is None
        on_demand = OnDemandTools(self.registry, self.settings, by_voice=by_voice)
        self.executor = Executor(
            self.registry,
            settings=self.settings.current,
            policies=[*policies, *self._stored.policies],
            sinks=(self.monitor,),
            approval=approval or on_demand.ask_by_voice,
            save=self.settings.update,
        )
        self.executor.host = self
        self._at_start = self.settings.current
        self._stored.resume_with(self.executor.outcome, self.executor.may_be_once)
        self._register(as_tools(tools), builtin_tools=builtin_tools)
        self._declared = DeclaredTools(self.registry, self.settings, update=on_demand.update)
        servers, publish = self.settings.current.mcp_servers, self.monitor.events.publish
        self.mcp_servers = MCPServers(self.registry, servers, publish, mcp_headers)
        self._opened = RefCountedResource(self._open)
        self.notices = Notices()
        """The running conversations, which receive notices beside the results of their calls."""
        self._toolboxes = Toolboxes(self.registry, self.settings)
        for problem in self._apply(self.settings.current):
            raise problem
        on_demand.update()
        self._warned: set[Finding] = set()
        self._warn()

    async def execute(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        session: ToolSession | None = None,
        call_id: str | None = None,
        autonomous: bool = False,
    ) -> ToolResult:
        """Run one call, and return its result.

        Args:
            name: The tool's own name, or its declared name.
            arguments: The arguments by parameter name, or as a JSON text.
            session: The session of the call; by default the outer call's, else `runtime.session`.
                The loop guard ignores a call without a session.
            call_id: The id of the call, for logs and events. With `store.durable`, a call that must
                not happen twice does not run again under an id that its session has used for it.
            autonomous: Whether this call runs as in a session of that mode, without questions of
                `requires_approval`. Your own rules and `read_only` still apply.
        """
        call, refusal = self._made(name, arguments, session, call_id)
        if autonomous:
            call = replace(call, autonomous=True)
        call, refusal = self.executor.meant(call, refusal)
        if refusal is not None:
            return self.executor.end_unstarted(call, refusal)
        return await self.executor.run(call)

    def session_around(self) -> ToolSession | None:
        """Return the session of the innermost running call of this runtime, if there is one."""
        around = innermost()
        while around is not None and around.host is not self:
            around = around.outer
        return None if around is None else around.call.session

    def meant(
        self, name: str, arguments: Mapping[str, Any], *, session: ToolSession | None = None
    ) -> AnyTool | None:
        """Return the tool that a call would run, even a similar one; `None` if there is none.

        Args:
            name: The name in the call.
            arguments: The arguments of the call.
            session: The session of the call.
        """
        tool = self.registry.get(name) or exports.find(self.registry, normalize_name(name))
        if tool is not None:
            return tool
        call, _ = self._made(name, arguments, session, None)
        similar = self.executor.similar(call)
        return None if similar is None else similar.tool

    async def execute_alone(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        session: ToolSession,
        call_id: str | None = None,
        sinks: tuple[Sink, ...] = (),
    ) -> ToolResult:
        """Run a tool once, without its policies: for a worker that serves calls of other processes.

        Args:
            name: The tool's own name.
            arguments: The arguments by parameter name, validated by the other process.
            session: The session of the call.
            call_id: The id of the call.
            sinks: Receive the events of the call.

        Raises:
            RetryableError: There is no such tool.
        """
        call, refusal = self._made(name, arguments, session, call_id)
        if call.tool is None or refusal is not None:
            message = say("temporal_no_tool", tool=name)
            raise RetryableError(message, status="unavailable", reason_code="unknown_tool")
        return await self.executor.run_alone(call, sinks)

    async def outcome(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        session: ToolSession,
        call_id: str | None,
    ) -> tuple[ToolCall, ToolResult | None]:
        """Wait for the result of a call that another process has started; start no call.

        Args:
            name: The tool's own name.
            arguments: The arguments by parameter name; secrets may be missing.
            session: A session with the id and the user of the session that made the call.
            call_id: The id of the call.

        Returns:
            The call, and its result; `None` for a tool that ended with its process.
        """
        call, _ = self._made(name, arguments, session, call_id)
        run = None if call.tool is None else self.executor.outcome(call)
        return call, None if run is None else await self.executor.run_alone(call, run=run)

    async def ask_again(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        session: ToolSession,
        call_id: str | None,
        approval_id: str,
        digest: str,
    ) -> tuple[ToolCall, ToolResult]:
        """Ask a person about a call that another process has asked about, without running it.

        Args:
            name: The tool's own name.
            arguments: The arguments by parameter name.
            session: A session with the id and the user of the session that made the call.
            call_id: The id of the call.
            approval_id: The id of the question, which stays the same.
            digest: The hash of the call that the question was about.

        Returns:
            The call, and its result: `pending_approval`, or the reason why no question was asked.
        """
        call, refusal = self._made(name, arguments, session, call_id)
        if call.tool is None:
            return call, self.executor.end_unstarted(call, self.executor.unknown(call))
        if refusal is not None:
            return call, self.executor.end_unstarted(call, refusal)
        return call, await self.executor.ask_again(call, approval_id, digest)

    async def execute_turn(
        self,
        calls: Iterable[TurnCall],
        *,
        session: ToolSession | None = None,
        concurrency: int = 8,
    ) -> list[ToolResult]:
        """Run the calls of one model turn, and return their results in the same order.

        Reads run concurrently. A call that changes something waits for all calls before it, and all
        calls after it wait for it. Each call has its own result: a failed call stops no other one.
        Without `store.durable`, every call runs, even with the id of an earlier one: a model may
        use the same ids in each turn.

        Args:
            calls: Pairs of name and arguments, mappings of `name`, `arguments` and `id`, or
                function calls of google-genai.
            session: The session of the calls; by default as in `execute`.
            concurrency: Maximum number of calls that run at once.

        Raises:
            TypeError: An item is not a call; no call has run.
        """
        asked = [_call_parts(each) for each in calls]
        made = [self._made(name, arguments, session, id_) for name, arguments, id_ in asked]
        return await self.executor.execute_turn(made, concurrency=concurrency)

    def cancel(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """Stop a call by a person's decision; its result is sent once.

        Args:
            call_id: The id of the call, or its trace id.
            session: The session of the call, if the id alone is ambiguous.

        Returns:
            A future with the result of the call; it need not be awaited.

        Raises:
            ToolError: No such call runs, or several do.
        """
        return self.executor.cancel(call_id, session=session)

    def retry(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """Retry a failed call by a person's decision.

        The call runs under all policies, even if its side effect must not happen twice. The model
        receives the new result.

        Args:
            call_id: The id of the call, or its trace id.
            session: The session of the call, if the id alone is ambiguous.

        Returns:
            A future with the result of the new run; it need not be awaited.

        Raises:
            ToolError: No such call has failed, a person has already decided, or several match.
        """
        return self.executor.retry(call_id, session=session)

    def skip(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """Skip a call by a person's decision; stop the call if it runs.

        Args:
            call_id: The id of the call, or its trace id.
            session: The session of the call, if the id alone is ambiguous.

        Returns:
            A future with the result that the model receives; it need not be awaited.

        Raises:
            ToolError: No such call runs or has failed, or several match.
        """
        return self.executor.skip(call_id, session=session)

    def offered(self, session: ToolSession | None = None) -> list[AnyTool]:
        """Return the tools that are declared: neither disabled, nor denied in every case.

        Args:
            session: The session; by default that of the calls without a session.
        """
        return self._declared.tools(session or self.session)

    def declared(self, session: ToolSession | None = None) -> tuple[Declaration, ...]:
        """Return the declarations of the offered tools, as the identical tuple while none changes.

        Args:
            session: The session; by default that of the calls without a session.
        """
        return self._declared.declarations(session or self.session)

    def on_declarations_change(
        self, listener: Callable[[], None], session: ToolSession | None = None
    ) -> Callable[[], None]:
        """Call a listener each time the declarations have changed.

        Args:
            listener: Called on the running event loop, once for all changes in one iteration of the
                loop, made in any thread. Its exceptions are logged.
            session: The session; by default that of the calls without a session.

        Returns:
            A function that unsubscribes.

        Raises:
            RuntimeError: No event loop is running.
        """
        return self._declared.on_change(listener, session or self.session)

    def openai_tools(self) -> list[dict[str, Any]]:
        """Return the tools as definitions for an OpenAI-compatible endpoint."""
        return exports.openai_tools(self.registry, self.offered())

    def prompt_text(self) -> str:
        """Return the tools as text for a prompt."""
        return exports.prompt_text(self.registry, self.offered())

    @property
    def events(self) -> EventStream:
        """Return all events, for any number of readers: `async for … in events.subscribe()`."""
        return self.monitor.events

    @property
    def store(self) -> Store | None:
        """Return the store, if the settings enable one."""
        return self._stored.store

    @property
    def reminders(self) -> ReminderTable | None:
        """Return the reminders of all users, if the settings enable a store."""
        return None if self.store is None else self.store.reminders

    def begin(self, session: ToolSession | None) -> None:
        """Start to read the stored data of a session before its first call."""
        self._stored.begin(session)

    async def ready(self, timeout_seconds: float = 30.0) -> bool:
        """Wait until every MCP server was tried, or the timeout; return whether all are usable."""
        return await self.mcp_servers.ready(timeout_seconds)

    async def __aenter__(self) -> Self:
        await self._opened.enter()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._opened.leave()

    async def _open(self) -> AsyncExitStack:
        async with AsyncExitStack() as stack:
            stack.callback(self.settings.on_change(_on_this_loop(self._follow)))
            stack.callback(self.settings.add_check(self._refused))
            await stack.enter_async_context(self.settings)
            self._follow()
            self._warn()
            await stack.enter_async_context(self._stored.opened(self.monitor))
            await stack.enter_async_context(reporting_interrupted_calls(self))
            await stack.enter_async_context(self.executor)
            await stack.enter_async_context(self.mcp_servers)
            await stack.enter_async_context(self._toolboxes.serving(self))
            page = self.monitor.serving(self.settings.current.monitoring.prometheus_port)
            await stack.enter_async_context(page)
            return stack.pop_all()

    def _register(self, tools: Iterable[AnyTool], *, builtin_tools: bool) -> None:
        for tool in tools:
            self.registry.register(tool)
        if builtin_tools:
            for tool in (*action.TOOLS, *speech.TOOLS):
                self.registry.register(tool, builtin=True)

    def _apply(self, settings: Settings) -> list[ToolboxError]:
        self._applied = settings
        self.executor.cache.stored = self._stored.cached_results(settings)
        self.executor.apply(settings)
        self.monitor.configure(
            history_size=settings.monitoring.history_size,
            alerts=settings.monitoring.alerts,
            warn_per_minute=settings.policies.calls.warn_per_minute or None,
        )
        self.monitor.trace(wanted=settings.monitoring.tracing)
        self.mcp_servers.configure(settings.mcp_servers)
        return self._toolboxes.load(settings)

    def _follow(self) -> None:
        """Apply the settings while sessions may run: log problems, and raise none."""
        if self.settings.current is not self._applied:
            for problem in self._apply(self.settings.current):
                logger.log(log_level(problem), "The settings are not fully applied: %s", problem)
            self._warn()

    def _refused(self, settings: Settings) -> list[Finding]:
        """Return the errors in other settings that the current settings do not have.

        A rule for a misspelt tool name protects nothing, and a toolbox that cannot be loaded has no
        tools. So such an edit is refused, like invalid YAML.
        """
        try:
            tools = self._toolboxes.tools_with(settings)
        except ToolboxError as error:
            found = error.problems or (error,)
            return [Finding(severity="error", key=each.key, message=each.why) for each in found]
        findings = self._errors(settings, tools)
        if not findings:
            return []
        present = {tool.name: tool for tool in self.registry}
        known = {_without_indexes(finding) for finding in self._errors(self._applied, present)}
        return [each for each in findings if _without_indexes(each) not in known]

    def _errors(self, settings: Settings, tools: Mapping[str, AnyTool]) -> list[Finding]:
        more_may_come = self.mcp_servers.may_list_more(settings.mcp_servers)
        findings = check_against(settings, _known(tools), more_may_come=more_may_come)
        return [
            finding
            for finding in findings
            # An "always" for an unknown tool is harmless: the question is asked again.
            if finding.severity == "error" and not finding.key.startswith("policies.always.")
        ]

    def _warn(self) -> None:
        """Log the warnings about the settings, each only once while it applies."""
        findings = set(check_against(self._applied, _known(self.registry.by_name)))
        findings.update(self._toolboxes.warnings(self._applied))
        findings.update(_read_once(self._at_start, self._applied))
        for finding in sorted(findings - self._warned, key=lambda each: each.key):
            place = self.settings.locate(finding.key)
            logger.warning("In the settings, %s", f"{place}: {finding}" if place else finding)
        self._warned = findings

    def _vitals(self) -> Vitals:
        return Vitals(
            abandoned_threads=lambda: self.executor.workers.abandoned,
            settings_error=lambda: None if (e := self.settings.last_error) is None else str(e),
            store_error=self._stored.error,
            loop_lag_seconds=lambda: self.executor.loop_lag_seconds,
            breakers=lambda: self.executor.breakers,
            cache=lambda: self.executor.cache.stats,
        )

    def _made(
        self, name: str, arguments: Any, session: ToolSession | None, call_id: str | None
    ) -> tuple[ToolCall, ToolResult | None]:
        """Return the call of a program, with its result if it cannot run."""
        is_by_program = session is None
        session = session or self.session_around() or self.session
        if not isinstance(session, ToolSession):
            raise TypeError(
                f"session must be a ToolSession, such as ToolSession('a'), not {session!r}"
            )
        refusal = None
        try:
            parsed = parse_arguments(arguments)
        except ToolValidationError as error:
            parsed, refusal = {}, ToolResult.from_error(error)
        tool = self.registry.get(name) if type(name) is str else None
        if tool is None:
            name = normalize_name(name)
            tool = exports.find(self.registry, name)
        call = ToolCall(
            name=name if tool is None else tool.name,
            arguments=parsed,
            id=call_id,
            called_as=name,
            session=session,
            tool=tool,
            settings=None
            if tool is None
            else self.executor.settings.for_tool(tool.name, tool.origin),
            number=next(session.numbers),
            by_program=is_by_program,
        )
        return call, refusal


def _check_types(policies: object, approval: object) -> None:
    if isinstance(policies, str) or not isinstance(policies, Iterable):
        raise TypeError(f"policies must be a list, such as [my_policy], not {policies!r}")
    if approval is not None and not callable(approval):
        raise TypeError(
            f"approval must be an async function that asks a person, not {approval!r}; leave it "
            "out to let the model ask by voice"
        )


def runtime_of(tools: object) -> ToolRuntime | None:
    """Return the runtime that `tools` is or contains; `None` for a processor without one."""
    runtime = getattr(tools, "runtime", tools)
    return runtime if isinstance(runtime, ToolRuntime) else None


def _known(tools: Mapping[str, AnyTool]) -> dict[str, AnyTool]:
    """Return the tools and the built-in ones, which settings may name even if they are unused."""
    return {**{tool.name: tool for tool in (*action.TOOLS, *speech.TOOLS)}, **tools}


def _read_once(at_start: Settings, now: Settings) -> Iterator[Finding]:
    """Yield a warning for each changed setting that is read at the start alone."""
    before, after = at_start.store, now.store
    names = type(after).model_fields
    changed = [f"store.{name}" for name in names if getattr(before, name) != getattr(after, name)]
    if at_start.monitoring.prometheus_port != now.monitoring.prometheus_port:
        changed.append("monitoring.prometheus_port")
    for key in changed:
        why = "has changed, and takes effect when the program starts again"
        yield Finding(severity="warning", key=key, message=why)


def _without_indexes(finding: Finding) -> tuple[str, str]:
    """Return a finding without the indexes of list items, which may change."""
    return ".".join(step for step in finding.key.split(".") if not step.isdigit()), finding.message


def _call_parts(call: TurnCall) -> tuple[str, Any, str | None]:
    """Return the name, the arguments and the id of a call in any form."""
    name: object
    identifier: object
    if isinstance(call, tuple) and len(call) == 2:  # noqa: PLR2004 - a pair
        name, arguments, identifier = *call, None
    elif isinstance(call, Mapping):
        name, arguments = call.get("name"), call.get("arguments", call.get("args"))
        identifier = call.get("id")
    elif all(hasattr(call, each) for each in ("name", "args", "id")):
        name, arguments, identifier = call.name, call.args, call.id
    else:
        raise TypeError(
            f"{call!r} is not a call: expected (name, arguments), a mapping with name and "
            "arguments, or a FunctionCall"
        )
    return str(name or ""), arguments, None if identifier is None else str(identifier)


def _on_this_loop(callback: Callable[[], object]) -> Callable[[object], None]:
    """Wrap `callback` so that any thread may call it; it runs on this event loop.

    A call in the loop's own thread runs it at once, another one in the loop's next iteration.
    """
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def call(_: object) -> None:
        if threading.get_ident() == thread:
            callback()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(callback)

    return call


class RefCountedResource:
    """Opens a resource for its first user, and closes it after its last.

    `open_resource` returns the exit stack that closes the resource.
    """

    def __init__(self, open_resource: Callable[[], Awaitable[AsyncExitStack]]) -> None:
        self._open = open_resource
        self._users = 0
        self._opened: AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    async def enter(self) -> None:
        """Add a user, and open the resource for the first one."""
        async with self._lock_of_loop():
            if self._users == 0:
                self._opened = await self._open()
            self._users += 1

    async def leave(self) -> None:
        """Remove a user, and close the resource after the last one."""
        async with self._lock_of_loop():
            self._users -= 1
            if self._users == 0 and self._opened is not None:
                opened, self._opened = self._opened, None
                await opened.aclose()

    def _lock_of_loop(self) -> asyncio.Lock:
        """Return the lock of the running event loop; a lock works in one loop only."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock
