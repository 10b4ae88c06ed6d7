"""`ToolRuntime`: tools with all that their calls need, in no framework's form."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from leonidas_tools.calls.call import ToolCall, ToolResult, ToolSession, name_called
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
from leonidas_tools.runtime.interrupted_calls import telling_interrupted_calls
from leonidas_tools.runtime.on_demand import OnDemandTools
from leonidas_tools.runtime.store_binding import StoreBinding
from leonidas_tools.runtime.toolboxes import Toolboxes
from leonidas_tools.session.notices import Notices
from leonidas_tools.settings.check import check_against, without_description
from leonidas_tools.settings.problem import Finding
from leonidas_tools.settings.watch import WatchedSettings
from leonidas_tools.toolboxes import action, speech
from leonidas_tools.tools import exports
from leonidas_tools.tools.registry import AnyTool, ToolRegistry
from leonidas_tools.tools.tool import as_tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.calls.events import Sink
    from leonidas_tools.mcp.features import ClientFeatures
    from leonidas_tools.monitoring.event_stream import EventStream
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.runtime.declared import Declaration
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.store import Store
    from leonidas_tools.store.reminders import ReminderTable

logger = visible_logger(__name__)


class FunctionCallLike(Protocol):
    """A function call as google-genai has it: an object with `name`, `args` and `id`."""

    name: str | None
    args: dict[str, Any] | None
    id: str | None


_Pair: TypeAlias = tuple[str, Mapping[str, Any] | str | None]
TurnCall: TypeAlias = _Pair | Mapping[str, Any] | FunctionCallLike
"""A call of a turn, in the forms that models give it."""


class ToolRuntime:
    """Run tools under policies, for any number of sessions and callers.

    It has the registry, the settings, the executor, the events, the store, the MCP servers and the
    toolboxes. `async with` opens what they need: the watcher of the file, the servers, threads; it
    may be entered any number of times. `AdvancedToolProcessor` runs it on genai-processors streams.

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
        asks: ClientFeatures | None = None,
    ) -> None:
        self.settings = config if isinstance(config, WatchedSettings) else WatchedSettings(config)
        if registry is not None and not isinstance(registry, ToolRegistry):
            raise TypeError(f"registry takes a ToolRegistry, not {registry!r}")
        _check_types(policies, approval)
        self.registry = ToolRegistry() if registry is None else registry
        self.session = ToolSession("direct")
        """The session of calls that are made by `execute` and name no other."""
        # A program makes them, which may poll; the loop guard stops models.
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
        self._stored.resume_with(self.executor.outcome, self.executor.may_be_once)
        self._register(as_tools(tools), builtin_tools=builtin_tools)
        self._declared = DeclaredTools(self.registry, self.settings, update=on_demand.update)
        servers, tell = self.settings.current.mcp_servers, self.monitor.events.publish
        self.mcp_servers = MCPServers(self.registry, servers, asks, tell)
        self._opened = RefCountedResource(self._open)
        self.notices = Notices()
        """The conversations that run now, to be told what happens beside their calls."""
        self._toolboxes = Toolboxes(self.registry, self.settings)
        for problem in self._apply(self.settings.current):
            raise problem
        on_demand.update()
        self._warned: set[Finding] = set()
        self._undescribed: set[str] = set()
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
            name: The tool's own name, or one it is declared with.
            arguments: By parameter name, or a JSON text of that.
            session: The session it belongs to. Without one, a program makes the call, and the
                loop guard does not count it; inside a call, it belongs to the session of that.
            call_id: An id for the call, for logs and events. With `store.durable`, a call that
                happens only once does not run again under an id that its session has used for it.
            autonomous: Whether this one call runs as in a session of that mode: what
                `requires_approval` does not ask. Rules of yours and `read_only` still apply.
        """
        call, refusal = self._made(name, arguments, session, call_id)
        if autonomous:
            call = replace(call, autonomous=True)
        if call.tool is None:
            similar = None if refusal is not None else self.executor.similar(call)
            if similar is None:
                return self.executor.settle(call, self.executor.unknown(call))
            call = similar
        if refusal is not None:
            return self.executor.settle(call, refusal)
        return await self.executor.run(call)

    def session_around(self) -> ToolSession | None:
        """Return the session of the call of this runtime inside which this runs, if any."""
        around = innermost()
        while around is not None and around.host is not self:
            around = around.outer
        return None if around is None else around.call.session

    def meant(
        self, name: str, arguments: Mapping[str, Any], *, session: ToolSession | None = None
    ) -> AnyTool | None:
        """Return the tool that a call would run, also one that stands in; `None` if unknown.

        Args:
            name: The name in the call.
            arguments: The arguments of the call.
            session: The session it belongs to.
        """
        tool = self.registry.get(name) or exports.find(self.registry, name_called(name))
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
            arguments: By parameter name, as they were checked there.
            session: The session it belongs to.
            call_id: The id of the call.
            sinks: Listeners to the events of the call.

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
        """Wait for the outcome of a call that another process has begun; begin none.

        Args:
            name: The tool's own name.
            arguments: By parameter name; they may be without secrets.
            session: A session with the id and the user of the one that made the call.
            call_id: The id of the call.

        Returns:
            The call, and its outcome; `None` for a tool that ended with its process.
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
            arguments: By parameter name.
            session: A session with the id and the user of the one that made the call.
            call_id: The id of the call.
            approval_id: The id that the question had, and has again.
            digest: The hash of what it was about.

        Returns:
            The call, and its result: `pending_approval`, or why it was not asked about.
        """
        call, refusal = self._made(name, arguments, session, call_id)
        if call.tool is None:
            return call, self.executor.settle(call, self.executor.unknown(call))
        if refusal is not None:
            return call, self.executor.settle(call, refusal)
        return call, await self.executor.ask_again(call, approval_id, digest)

    async def execute_turn(
        self,
        calls: Iterable[TurnCall],
        *,
        session: ToolSession | None = None,
        concurrency: int = 8,
    ) -> list[ToolResult]:
        """Run the calls of one model turn, and return their results in the same order.

        Reads run side by side. A call that changes something waits for all before it, and all after
        it wait for it. Each call has its own result: one that fails does not stop the others.
        Without `store.durable` every call runs, even with the id of an earlier one: the ids of a
        model may start anew with each turn.

        Args:
            calls: Pairs of name and arguments, mappings of `name`, `arguments` and `id`, or
                function calls of google-genai.
            session: The session they belong to; without one as in `execute`.
            concurrency: How many of them may run at once.

        Raises:
            TypeError: What is given is no call; nothing has run.
        """
        asked = [_asked(each) for each in calls]
        made = [self._made(name, arguments, session, id_) for name, arguments, id_ in asked]
        return await self.executor.execute_turn(made, concurrency=concurrency)

    def cancel(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """Stop a call because a person wants it stopped: its work ends, and it is answered once.

        Args:
            call_id: The id of the call, or its trace id.
            session: The session it belongs to, where the id alone is not enough.

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
            session: The session it belongs to, where the id alone is not enough.

        Returns:
            How the new run ends; it need not be awaited.

        Raises:
            ToolError: No such call has failed, or it was decided already, or several match.
        """
        return self.executor.retry(call_id, session=session)

    def skip(
        self, call_id: str, *, session: ToolSession | None = None
    ) -> asyncio.Future[ToolResult]:
        """Go on without a call, because a person has decided so; one that runs is stopped.

        Args:
            call_id: The id of the call, or its trace id.
            session: The session it belongs to, where the id alone is not enough.

        Returns:
            What the model is told; it need not be awaited.

        Raises:
            ToolError: No such call runs or has failed, or several match.
        """
        return self.executor.skip(call_id, session=session)

    def offered(self, session: ToolSession | None = None) -> list[AnyTool]:
        """Return the tools that are declared: neither switched off, nor denied in every case.

        Args:
            session: The session; by default that of the calls that name no other.
        """
        return self._declared.tools(session or self.session)

    def declared(self, session: ToolSession | None = None) -> tuple[Declaration, ...]:
        """Return the declarations of those tools; the identical tuple while none of them changes.

        Args:
            session: The session; by default that of the calls that name no other.
        """
        return self._declared.declarations(session or self.session)

    def on_declarations_change(
        self, listener: Callable[[], None], session: ToolSession | None = None
    ) -> Callable[[], None]:
        """Call back each time the declarations have changed.

        Args:
            listener: Called on the event loop that runs now, once for all changes of one turn of
                it, wherever they were made. What it raises is logged.
            session: The session; by default that of the calls that name no other.

        Returns:
            A function that ends it.

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
        """Return the store of what has happened, if the settings have one."""
        return self._stored.store

    @property
    def reminders(self) -> ReminderTable | None:
        """Return the reminders of all users, if the settings have a store."""
        return None if self.store is None else self.store.reminders

    def begin(self, session: ToolSession | None) -> None:
        """Start to read what is stored of a session, ahead of its first call."""
        self._stored.begin(session)

    async def ready(self, timeout_seconds: float = 30.0) -> bool:
        """Wait until every MCP server has listed its tools, or until the time is up."""
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
            await stack.enter_async_context(telling_interrupted_calls(self))
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
        """Apply the settings while sessions may run: what is wrong with them ends none."""
        if self.settings.current is not self._applied:
            for problem in self._apply(self.settings.current):
                logger.log(log_level(problem), "The settings are not fully in force: %s", problem)
            self._warn()

    def _refused(self, settings: Settings) -> list[Finding]:
        """Return what is wrong with other settings, and is not wrong already.

        A rule for a tool whose name is misspelt protects nothing, and a toolbox that cannot be
        loaded takes its tools away: such an edit changes nothing, as one that is no YAML.
        """
        try:
            tools = self._toolboxes.tools_with(settings)
        except ToolboxError as error:
            found = error.problems or (error,)
            return [Finding(severity="error", key=each.key, message=each.why) for each in found]
        present = {tool.name: tool for tool in self.registry}
        known = {_told(finding) for finding in self._errors(self._applied, present)}
        return [each for each in self._errors(settings, tools) if _told(each) not in known]

    def _errors(self, settings: Settings, tools: Mapping[str, AnyTool]) -> list[Finding]:
        more_may_come = self.mcp_servers.may_list_more(settings.mcp_servers)
        findings = check_against(settings, _known(tools), more_may_come=more_may_come)
        return [
            finding
            for finding in findings
            # A yes that was to be remembered and names nothing is asked for again: no harm.
            if finding.severity == "error" and not finding.key.startswith("policies.always.")
        ]

    def _warn(self) -> None:
        """Log what does less than it says, each once while it is so."""
        findings = set(check_against(self._applied, _known(self.registry.by_name)))
        findings.update(self._toolboxes.warnings(self._applied))
        for finding in sorted(findings - self._warned, key=lambda each: each.key):
            place = self.settings.locate(finding.key)
            logger.warning("In the settings, %s", f"{place}: {finding}" if place else finding)
        self._warned = findings
        own = {name: tool for name, tool in self.registry.by_name.items() if tool.origin is None}
        for name in without_description(self._applied, own):
            if name not in self._undescribed:
                self._undescribed.add(name)
                logger.warning(
                    "The tool %r has no description, and the model has only its name to go by: "
                    "write a docstring, or set tools.%s.description",
                    name,
                    name,
                )

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
        """Return the call of a program, with its result where it cannot run."""
        is_by_program = session is None
        session = session or self.session_around() or self.session
        if not isinstance(session, ToolSession):
            raise TypeError(
                f"session takes a ToolSession, such as ToolSession('a'), not {session!r}"
            )
        refusal = None
        try:
            parsed = parse_arguments(arguments)
        except ToolValidationError as error:
            parsed, refusal = {}, ToolResult.from_error(error)
        tool = self.registry.get(name) if type(name) is str else None
        if tool is None:
            name = name_called(name)
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
        raise TypeError(f"policies takes a list, such as [my_policy], not {policies!r}")
    if approval is not None and not callable(approval):
        raise TypeError(
            f"approval takes an async function that asks a person, not {approval!r}; without one "
            "the model asks by voice"
        )


def runtime_of(tools: object) -> ToolRuntime | None:
    """Return the runtime that `tools` is, or stands on; `None` for a processor without one."""
    runtime = getattr(tools, "runtime", tools)
    return runtime if isinstance(runtime, ToolRuntime) else None


def _known(tools: Mapping[str, AnyTool]) -> dict[str, AnyTool]:
    """Return the tools with the built-in ones, which settings may name where they are not used."""
    return {**{tool.name: tool for tool in (*action.TOOLS, *speech.TOOLS)}, **tools}


def _told(finding: Finding) -> tuple[str, str]:
    """Return a finding without the numbers of list items, which move as items come and go."""
    return ".".join(step for step in finding.key.split(".") if not step.isdigit()), finding.message


def _asked(call: TurnCall) -> tuple[str, Any, str | None]:
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
            f"{call!r} is not a call: give (name, arguments), a mapping with name and arguments, "
            "or a FunctionCall"
        )
    return str(name or ""), arguments, None if identifier is None else str(identifier)


def _on_this_loop(callback: Callable[[], object]) -> Callable[[object], None]:
    """Wrap `callback` so that any thread may call it; it runs on this event loop.

    Called in the loop's own thread it runs at once, else in the loop's next turn.
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
    """Open a resource for its first user, and close it after its last.

    `open_resource` returns the stack that closes it.
    """

    def __init__(self, open_resource: Callable[[], Awaitable[AsyncExitStack]]) -> None:
        self._open = open_resource
        self._users = 0
        self._opened: AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    async def enter(self) -> None:
        """Add a user; the first one opens the resource."""
        async with self._lock_of_loop():
            if self._users == 0:
                self._opened = await self._open()
            self._users += 1

    async def leave(self) -> None:
        """Remove a user; the last one closes the resource."""
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
