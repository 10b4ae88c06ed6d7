"""`ReActAgent`: an agent that thinks, calls tools, observes, and answers."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    contextmanager,
    nullcontext,
    suppress,
)
from contextvars import ContextVar
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar

from genai_processors.content_api import ProcessorPart
from google.genai import types
from pydantic_core import to_json

from leonidas_tools.agent.memory import ShortTermMemory, Window, tokens_of
from leonidas_tools.agent.models.model import (
    DEFAULT_PARAMETERS,
    Answer,
    Budget,
    Chunk,
    EndReason,
    Message,
    Model,
    ModelCall,
    ModelParameters,
    answer,
    ids_in,
    new_id,
    object_of,
    strip_decoration,
)
from leonidas_tools.agent.parameters import AdjustedParameters
from leonidas_tools.agent.parser import (
    INPUT,
    ParsedCall,
    calls_within,
    markup_in,
    parse,
    read_arguments,
)
from leonidas_tools.agent.planner import Planner, format_plan
from leonidas_tools.agent.record import AgentResult, AgentStatus, Correction, Turn
from leonidas_tools.agent.reflector import Reflection, Reflector, ReflectorDecision
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.calls.call import (
    REPEATED,
    ResultStatus,
    ToolCall,
    ToolResult,
    ToolSession,
    same_arguments,
)
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.calls.invocation import innermost
from leonidas_tools.calls.turns import Turns
from leonidas_tools.errors import ModelError, ToolError
from leonidas_tools.processors.stage import Stage
from leonidas_tools.redaction import KnownSecrets
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import AS_IT_IS, Wording, join, say
from leonidas_tools.runtime.runtime import ToolRuntime, runtime_of
from leonidas_tools.session.tasks import Task, TaskList, TaskStatus
from leonidas_tools.settings.effective import effect_of
from leonidas_tools.tools.metadata import ToolEffect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator

    from genai_processors import processor

    from leonidas_tools.agent.tool_choice import ToolChoice
    from leonidas_tools.approvals.question import Question
    from leonidas_tools.runtime.declared import Declaration
    from leonidas_tools.tools.registry import AnyTool

_logger = visible_logger(__name__)

S = TypeVar("S")

FunctionCalling: TypeAlias = Literal["auto", "native", "text", "constrained"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EnclosingWork:
    """The work of an agent that other agents in its calls belong to."""

    secrets: set[str]  # secret arguments of the calls of all agents in it
    budget: Budget | None = None
    on_step: Callable[[str, Step], None] | None = None  # with the name of the inner agent
    on_question: OnQuestion | None = None  # called with each question that no channel handles
    outer: EnclosingWork | None = None


enclosing_work: ContextVar[EnclosingWork | None] = ContextVar(
    "leonidas_tools_agent_enclosing_work", default=None
)


@contextmanager
def enclose(secrets: set[str], **more: Any) -> Iterator[None]:
    """Make agents in this block part of this work, with what is not given of the work around it."""
    outer = enclosing_work.get()
    if outer is None:
        work = EnclosingWork(secrets=secrets, **more)
    else:
        work = replace(outer, secrets=secrets, outer=outer, **more)
    token = enclosing_work.set(work)
    try:
        yield
    finally:
        enclosing_work.reset(token)


THOUGHT_SUBSTREAM = "thought"
CALL_SUBSTREAM = "function_call"
STATUS_SUBSTREAM = "status"
AGENT_RESULT = "agent_result"
"""Metadata key of the `AgentResult` on the last part of a run."""

_OPEN = (TaskStatus.PENDING, TaskStatus.IN_PROGRESS)
_STOP = "\nObservation:"
_NOTE = "note"
"""Key of a note for the model in the last result of a turn."""
_ITERATION = EventKind.ITERATION
_MAX_THOUGHT_LENGTH = 300


class Thought(NamedTuple):
    """The thought of the model in a turn."""

    text: str


class CallsMade(NamedTuple):
    """The calls of a turn before they run, with the accompanying text of the model."""

    calls: Sequence[ModelCall]
    text: str = ""


class TurnEnded(NamedTuple):
    """A turn with the results of its calls."""

    turn: Turn


OnQuestion: TypeAlias = "Callable[[ToolCall, ToolResult], None]"

Step: TypeAlias = Thought | CallsMade | TurnEnded | AgentResult
"""One event of a run; the result is the last."""


@dataclass(eq=False, repr=False)
class ReActAgent(Stage):
    """An agent that works on a task in turns: the model thinks, calls tools, and reads the results.

    It is a processor: the text of the default substream is the task. It yields thoughts (substream
    `thought`), calls and results (substream `function_call`) and the answer (default substream).
    The last part has the `AgentResult` under `agent_result` in its metadata; without an answer it
    is a part in the substream `status`. All other parts pass through.

    The calls of a turn run like those of any model, under all policies. Reads run concurrently, and
    the results have the order of the calls.

    Args:
        model: The model.
        tools: A `ToolRuntime`, a processor that has one, or tools and functions.
        max_iterations: The maximum number of turns of the model.
        max_calls_per_turn: The maximum number of calls in one turn; further calls are refused.
        max_tokens: The maximum number of tokens of all answers; `None` for no limit.
        max_corrections: The number of unreadable replies in a row after which the run ends.
        instructions: Instructions for the model.
        parameters: The parameters of the model.
        enable_tools: Whether the model has tools; without tools it only answers.
        react_mode: Whether further calls may follow those of the first turn.
        function_calling: How the model calls: `native`, by `text`, or `auto`: as the model
            supports it, and by text if its server accepts no tools. With `constrained`, the server
            constrains each answer to a call or the final answer (`response_format`), for models
            whose server ignores tools.
        planner: Writes the task list of the session first, and again if a task fails.
        reflector: Decides after each turn how to continue.
        max_calls: The maximum number of calls of the run; further calls are refused.
        may_use: Returns whether the agent has a tool; by default the agent has all tools.
        tool_choice: Chooses the tools relevant to the task, from very many; by default all.
        short_term: Limits the messages of a long run that the model sees; by default it sees all.

    Raises:
        ValueError: A limit is below 1.
        ConfigurationError: The settings of new tools are wrong.

    Example:
        >>> from leonidas_tools.agent.models import ScriptedModel
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> model = ScriptedModel([{"calls": [("add", {"a": 1, "b": 2})]}, "It is 3."])
        >>> asyncio.run(ReActAgent(model, [add]).run("What is 1 + 2?")).answer
        'It is 3.'
    """

    model: Model
    tools: InitVar[ToolRuntime | Stage | Iterable[AnyTool | Callable[..., Any]]] = ()
    _: KW_ONLY
    max_iterations: int = 10
    max_calls_per_turn: int = 8
    max_tokens: int | None = None
    max_corrections: int = 3
    instructions: str = ""
    parameters: ModelParameters = DEFAULT_PARAMETERS
    enable_tools: bool = True
    react_mode: bool = True
    function_calling: FunctionCalling = "auto"
    planner: Planner | None = None
    reflector: Reflector | None = None
    max_calls: int | None = None
    may_use: Callable[[AnyTool], bool] | None = None
    tool_choice: ToolChoice | None = None
    short_term: ShortTermMemory | None = None
    runtime: ToolRuntime = field(init=False)

    def __post_init__(
        self, tools: ToolRuntime | Stage | Iterable[AnyTool | Callable[..., Any]]
    ) -> None:
        check_bounds(
            self,
            "max_iterations",
            "max_calls_per_turn",
            "max_tokens",
            "max_corrections",
            "max_calls",
        )
        self.runtime = as_runtime(tools)

    async def run(  # noqa: PLR0913 - optional arguments
        self,
        task: str,
        *,
        session: ToolSession | None = None,
        history: Sequence[Message] = (),
        on_step: Callable[[Step], None] | None = None,
        on_chunk: Callable[[Chunk], None] | None = None,
        on_question: OnQuestion | None = None,
        within: Budget | None = None,
    ) -> AgentResult:
        """Run a task to its end. Cancelling this cancels the calls.

        Args:
            task: The task.
            session: The session of the calls; by default that of the call in which this runs, else
                a new session.
            history: The previous conversation, without instructions.
            on_step: Called with each step.
            on_chunk: Called with each chunk of the model's answers as it arrives.
            on_question: Called with each question of a call that no channel handles: the call, and
                the result with the question for a model.
            within: The budget of the enclosing work.
        """
        steps = self.steps(
            task,
            session=session,
            history=history,
            on_chunk=on_chunk,
            on_question=on_question,
            within=within,
        )
        async with aclosing(steps):
            async for step in steps:
                if on_step is not None:
                    on_step(step)
        assert isinstance(step, AgentResult)
        return step

    async def steps(
        self,
        task: str,
        *,
        session: ToolSession | None = None,
        history: Sequence[Message] = (),
        on_chunk: Callable[[Chunk], None] | None = None,
        on_question: OnQuestion | None = None,
        within: Budget | None = None,
    ) -> AsyncGenerator[Step]:
        """Run a task like `run`, and yield each step; the last step is the result."""
        async with _Run(self, session, on_chunk, on_question, within) as run:
            await run.begin(task, history)
            while (response := await run.ask()) is not None:
                for step in run.steps(response):
                    yield step
                turn = await run.act(response)
                yield TurnEnded(turn)
                await run.conclude(response, turn)
        assert run.result is not None
        yield run.result

    def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Run the task in the parts, and yield the parts of its steps, with the answer last."""
        return task_to_parts(content, self.steps, parts_of)

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.runtime.__aexit__(*error)


class _Reply(NamedTuple):
    """The parts of an answer of the model."""

    thought: str
    calls: Sequence[ModelCall] = ()
    problems: Sequence[str] = ()
    final: str | None = None


class _Response(NamedTuple):
    """An answer of the model, the parts of it, and the time of its request."""

    said: Answer
    reply: _Reply
    begun: float


class _Run:
    """A run of an agent.

    `on_question` is called with each question that no channel handles; `within` is the budget of
    the enclosing work.
    """

    def __init__(
        self,
        agent: ReActAgent,
        session: ToolSession | None,
        on_chunk: Callable[[Chunk], None] | None,
        on_question: OnQuestion | None,
        within: Budget | None,
    ) -> None:
        session = session or agent.runtime.session_around()
        self._is_own_session = session is None
        session = session or ToolSession()
        self.result: AgentResult | None = None
        self._agent = agent
        self._session = session
        self._open = AsyncExitStack()
        self._on_chunk = on_chunk
        self._budget = Budget(agent.max_tokens, max_calls=agent.max_calls, outer=within)
        self._turns: list[Turn] = []
        self._messages: list[Message] = []
        self._window: Window | None = None
        self._is_native = agent.function_calling == "native" or (
            agent.function_calling == "auto" and agent.model.calls_functions
        )
        self._corrections = 0
        self._may_call = True
        self._task = ""
        self._ids: set[str] = set()
        self._secrets: set[str] = set()
        self._plans = 0
        self._corrections_of_turn: list[Correction] = []
        self._reflection: Reflection | None = None
        self._begun = time.perf_counter()
        self._event_call = ToolCall(
            name="agent", session=session, number=next(session.numbers), id=None
        )
        # Several agents may work in a session, also in later processes, and their models may use
        # the same ids: a new call would be mistaken for an earlier one.
        self._id_prefix = "" if self._is_own_session else f"agent-{uuid.uuid4().hex[:12]}-"
        self._late = _LateResults(session.get(Approvals), self._id_prefix, on_question)

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(open_runtime(self._agent.runtime))
        self._open.callback(self._close)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._open.aclose()

    async def begin(self, task: str, history: Sequence[Message]) -> None:
        """Start the conversation with the model, with a plan if a planner is set."""
        self._task = task
        if innermost() is None:  # else the run belongs to the turn of the enclosing call
            self._session.get(Turns).next()
        self._late.follow()
        declared = self._agent.runtime.declared(self._session) if self._agent.enable_tools else ()
        self._tools: Sequence[Declaration] = [e for e in declared if self._may_use(e.tool)]
        if self._agent.tool_choice is not None:
            try:
                self._tools = await self._agent.tool_choice.choose(task, self._tools)
            except ModelError as error:
                self._end(AgentStatus.FAILED, error.reason, f"no tools were chosen: {error}")
        system = self._system()
        self._messages = [Message.system(system)] if system else []
        self._messages += [*history, Message.user(task)]
        if self._agent.short_term is not None:
            self._window = Window(self._agent.short_term, self._agent.model, history=len(history))
        self._ids = ids_in(self._messages)
        if self._agent.planner is not None and self.result is None:
            await self._plan(self._agent.planner)

    def _close(self) -> None:
        """Withdraw the open questions of the run, and cancel the calls that it waits for."""
        for call_id in self._late.close():
            with suppress(ToolError):  # the call has ended, or has not started
                self._agent.runtime.cancel(call_id, session=self._session)
        if self._is_own_session:  # also the questions of nested calls
            self._session.get(Approvals).withdraw_all()

    async def ask(self) -> _Response | None:
        """Send a request to the model, and return its answer; `None` at the end of the run."""
        if self.result is not None:
            return None
        number = len(self._turns) + 1
        begun = time.perf_counter()
        self._corrections_of_turn = []
        self._emit(_ITERATION, {"number": number, "of": self._agent.max_iterations})
        said = await self._request_answer(number)
        if said is None:
            return None
        is_text = bool(self._tools) and not self._is_native
        reply = await (self._read_text(said) if is_text else self._read_native(said))
        self._learn_secrets(reply.calls)  # first, as the thought may contain them
        return _Response(said, reply, begun)

    def steps(self, response: _Response) -> Iterator[Step]:
        """Yield the steps of an answer, before its calls run."""
        thought, calls = response.reply.thought, response.reply.calls
        if thought:
            shown = KnownSecrets(self._secrets).text(thought) if self._secrets else thought
            self._emit_step(step="thought", message=shown[:_MAX_THOUGHT_LENGTH])
            yield Thought(thought)
        if calls:
            self._emit_step(step="action", tools=[call.name for call in calls])
            yield CallsMade(calls, response.said.text.strip() if self._is_native else "")

    async def act(self, response: _Response) -> Turn:
        """Run the calls of a turn, and return the turn."""
        reply = response.reply
        results: Sequence[ToolResult] = ()
        if reply.calls:
            with enclose(self._secrets):
                results = await self._run(reply.calls)
            self._emit_step(step="observation", statuses=[each.status.value for each in results])
        turn = Turn(
            number=len(self._turns) + 1,
            thought=reply.thought,
            text=response.said.text,
            calls=reply.calls,
            results=results,
            problems=reply.problems,
            corrections=tuple(self._corrections_of_turn),
            usage=response.said.usage,
            end=response.said.end,
            seconds=time.perf_counter() - response.begun,
        )
        self._reflection = None
        if self._agent.reflector is not None and (reply.final is None or reply.calls):
            self._reflection = self._agent.reflector.reflect(
                [*self._turns, turn], self._parameters(), self._tasks()
            )
            turn = replace(turn, decision=self._reflection.decision.value)
        self._turns.append(turn)
        return turn

    async def conclude(self, response: _Response, turn: Turn) -> None:
        """Write a turn into the conversation, and set `result` at the end of the run."""
        self._write(turn, response.said)
        self._end_if_over(turn, response.said, response.reply.final)
        if self.result is None:
            self._reflect()
        if self.result is None and self._agent.planner is not None:
            await self._plan_again(self._agent.planner, turn)

    # Planning and reflecting

    async def _plan(self, planner: Planner, so_far: Sequence[Task] = ()) -> None:
        """Write the task list of the session, and add it to the conversation."""
        self._plans += 1
        try:
            plan = await planner.plan(self._task, self._tools, so_far=so_far, wording=self._wording)
        except ModelError as error:
            self._end(AgentStatus.FAILED, error.reason, str(error))
            return
        self._budget.add(plan.usage)
        if not plan.tasks:
            return
        list_ = self._session.get(TaskList)
        done = [task for task in so_far if task.status is TaskStatus.COMPLETED]
        list_.put(done)
        own = {tool.name: tool.tool.name for tool in self._tools}
        tasks = list_.write(
            [*(task.title for task in done), *(task.title for task in plan.tasks)],
            [*((),) * len(done), *([own[name] for name in t.tools] for t in plan.tasks)],
        )
        self._emit(EventKind.TASK_LIST, {"tasks": [task.to_json() for task in tasks]})
        self._add_message(self._wording.text("agent_plan", tasks=format_plan(tasks)))

    def _tasks(self) -> Sequence[Task]:
        list_ = self._session.find(TaskList)
        return () if list_ is None else list_.tasks

    def _reflect(self) -> None:
        """Apply the decision of the reflector."""
        reflection = self._reflection
        if reflection is None:
            return
        self._session.get(AdjustedParameters).change(**reflection.parameters)
        if reflection.decision is ReflectorDecision.STOP:
            self._end(AgentStatus.STOPPED, reflection.reason)
        elif reflection.advice is not None:
            self._add_message(self._wording.reword(reflection.advice) or reflection.advice)

    async def _plan_again(self, planner: Planner, turn: Turn) -> None:
        """Plan again if a task has failed for good."""
        tasks = self._tasks()
        has_failed = any(task.status is TaskStatus.FAILED for task in tasks)
        is_final = not any(result.retryable for result in turn.results)
        if has_failed and is_final and self._plans <= planner.max_replans:
            await self._plan(planner, tasks)

    def _complete_tasks(self) -> None:
        """Complete the open tasks without calls, since the work is done."""
        list_ = self._session.find(TaskList)
        for task in self._tasks() if self._agent.planner is not None else ():
            if list_ is not None and not task.tools and task.status in _OPEN:
                moved = list_.update(task.id, TaskStatus.COMPLETED)
                self._emit(EventKind.TASK_UPDATE, {"task": moved.to_json()})

    async def _correct(self, call: ModelCall, result: ToolResult) -> ToolResult:
        """Return the result of a failed call, or of its corrected code."""
        reflector = self._agent.reflector
        if reflector is None or isinstance(call.arguments, str):
            return result

        async def run(arguments: Mapping[str, Any]) -> ToolResult:
            identifier = self._id_prefix + new_id(None, ())
            again = await self._agent.runtime.execute(
                call.name, arguments, session=self._session, call_id=identifier
            )
            return await self._late.of(identifier, again)

        try:
            made = await reflector.correct(call, call.arguments, result, run, wording=self._wording)
        except ModelError as error:
            _logger.warning("The code of %r was not corrected: %s", call.name, error)
            return result
        self._corrections_of_turn += made
        for correction in made:
            self._budget.add(correction.usage)
        if not made:
            return result
        last = made[-1]
        text = say("agent_code_corrected", error=result.message or "-", code=last.code)
        message = join(self._wording.reword(text), last.result.message)
        return replace(last.result, message=message)

    # Asking the model

    def _may_use(self, tool: AnyTool) -> bool:
        may_use = self._agent.may_use
        return not tool.metadata.answers_questions and (may_use is None or may_use(tool))

    def _system(self) -> str:
        parts = [self._agent.instructions]
        if self._tools and not self._is_native:
            described = "\n\n".join(describe_tool(tool) for tool in self._tools)
            key = "agent_json_format" if self._is_constrained else "agent_format"
            parts.append(self._wording.text(key, tools=described))
        return "\n\n".join(part for part in parts if part)

    @property
    def _is_constrained(self) -> bool:
        return self._agent.function_calling == "constrained"

    @property
    def _wording(self) -> Wording:
        return self._agent.runtime.settings.current.wording or AS_IT_IS

    async def _request_answer(self, number: int) -> Answer | None:
        """Send a request to the model, and end the run if the model does not answer."""
        if self._window is not None:
            self._budget.add(await self._window.fit(self._messages, self._wording))
        left = self._budget.left
        if left is not None and (left == 0 or tokens_of(self._visible_messages()) > left):
            self._end(AgentStatus.LIMIT, "max_tokens")
            return None
        is_last = number > 1 and (
            number == self._agent.max_iterations or not self._agent.react_mode
        )
        if is_last:
            self._add_message(self._wording.text("agent_last_turn"))
        self._may_call = self._agent.react_mode or number == 1
        try:
            said = await self._answer()
        except ModelError as error:
            self._end(AgentStatus.FAILED, error.reason, str(error))
            return None
        self._budget.add(said.usage)
        return said

    async def _answer(self) -> Answer:
        tools = self._tools if self._is_native and self._may_call else ()
        try:
            return await answer(
                self._agent.model,
                self._visible_messages(),
                tools,
                self._parameters(),
                on_chunk=self._on_chunk,
            )
        except ModelError as error:
            if error.reason != "tools_unsupported" or self._agent.function_calling == "native":
                raise
        self._is_native = False  # the tools are described in the prompt from now on
        rest = [message for message in self._messages if message.role != "system"]
        self._messages = [Message.system(self._system()), *rest]
        return await self._answer()

    def _visible_messages(self) -> Sequence[Message]:
        """Return the messages that the model sees."""
        if self._window is None:
            return self._messages
        return self._window.visible_messages(self._messages, self._wording)

    def _parameters(self) -> ModelParameters:
        """Return the parameters of the next request, within the remaining tokens."""
        parameters = self._agent.parameters
        adjusted = self._session.find(AdjustedParameters)
        if adjusted is not None:
            parameters = adjusted.apply_to(parameters)
        parameters = self._budget.limit(parameters)
        if self._tools and self._is_constrained:
            schema = answer_schema(self._tools if self._may_call else ())
            parameters = replace(parameters, response_schema=schema)
        elif self._tools and not self._is_native:
            parameters = replace(parameters, stop=(*parameters.stop, _STOP))
        return parameters

    # Reading its answer

    async def _read_text(self, said: Answer) -> _Reply:
        """Read the calls from the text of an answer."""
        parsed = parse(
            said.text,
            [tool.name for tool in self._tools],
            is_cut=said.end is EndReason.LENGTH,
        )
        calls = list[ModelCall]()
        problems = list(parsed.problems)
        read = await self._read_in_results(parsed.calls)
        for call in parsed.calls:
            if any(
                each.name == call.name and same_arguments(each.arguments, call.arguments)
                for each in read
            ):
                problems.append(say("agent_call_quoted", tool=call.name))
                continue
            arguments = self._with_name(call.name, call.arguments)
            calls.append(ModelCall(id=self._new_id(None), name=call.name, arguments=arguments))
        thought = "\n".join(part for part in (said.thought, parsed.thought) if part)
        return _Reply(thought, calls, self._reword(problems), parsed.answer)

    def _new_id(self, given: str | None) -> str:
        identifier = new_id(given, self._ids)
        self._ids.add(identifier)
        return identifier

    async def _read_in_results(self, calls: Sequence[ParsedCall]) -> Sequence[ParsedCall]:
        """Return the calls with an effect that occur in tool results.

        A model without native calls may only quote them, and its text looks like a real call.
        """
        changing = {call.name for call in calls if self._may_change(call)}
        if not changing:
            return ()
        before = [message.text for message in self._messages if message.role == "tool"]
        read = [result.to_response() for turn in self._turns for result in turn.results]
        return await asyncio.to_thread(calls_within, [*before, *read], changing)  # may be slow

    def _may_change(self, call: ParsedCall) -> bool:
        arguments = self._with_name(call.name, call.arguments)
        tool = self._agent.runtime.meant(call.name, arguments, session=self._session)
        if tool is None:
            return False
        settings = self._agent.runtime.settings.current.for_tool(tool.name, tool.origin)
        return effect_of(tool, settings) is not ToolEffect.READ

    async def _read_native(self, said: Answer) -> _Reply:
        """Read the native calls of an answer, and those that a server has left in its text.

        If those are uncertain, the model is asked again; they are never the answer.
        """
        thought, text = said.thought, said.text.strip()
        if said.calls:
            thought = "\n".join(part for part in (thought, text) if part)
            return _Reply(thought, self._unique(said.calls))
        if not text and said.end is not EndReason.REFUSED:
            return _Reply(thought, problems=self._reword([say("agent_nothing_said")]))
        markup = markup_in(text) if self._tools else None
        if markup is None:
            return _Reply(thought, final=text)
        reply = await self._read_text(replace(said, text=text))
        names = {tool.name for tool in self._tools}
        is_certain = not reply.problems and all(call.name in names for call in reply.calls)
        is_read = markup.is_last and self._agent.function_calling == "auto"
        if reply.calls and is_certain and is_read:
            return reply._replace(final=None)
        if markup.is_tag:
            problems = reply.problems or self._reword([say("agent_call_in_text")])
            return _Reply(thought, problems=problems)
        return _Reply(thought, final=text)

    def _unique(self, calls: Sequence[ModelCall]) -> Sequence[ModelCall]:
        """Return the calls with unique ids, and the names of tools without template markup."""
        names = {tool.name for tool in self._tools}
        unique = list[ModelCall]()
        for call in calls:
            name = call.name
            if name not in names and (bare := strip_decoration(name)) in names:
                name = bare
            identifier = self._new_id(call.id)
            is_same = identifier == call.id and name == call.name
            unique.append(call if is_same else replace(call, id=identifier, name=name))
        return unique

    def _reword(self, problems: Sequence[str]) -> Sequence[str]:
        return [self._wording.reword(problem) or problem for problem in problems]

    def _with_name(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Assign a value without a name to the only parameter that it can mean."""
        tool = next((tool for tool in self._tools if tool.name == name), None)
        if tool is None or arguments.keys() != {INPUT}:
            return arguments
        known = tool.parameters.get("properties", {})
        required = tool.parameters.get("required", ())
        if INPUT in known or not known:
            return arguments
        only = list(required) if len(required) == 1 else list(known)
        return {only[0]: arguments[INPUT]} if len(only) == 1 else arguments

    # Running its calls

    async def _run(self, calls: Sequence[ModelCall]) -> Sequence[ToolResult]:
        """Return the results of the calls of a turn, in their order."""
        results = dict[int, ToolResult]()
        to_run = dict[int, Mapping[str, Any]]()
        for at, call in enumerate(calls):
            arguments, problem = read_arguments(call.name, call.arguments)
            if arguments is None:
                results[at] = self._refuse("unreadable_arguments", problem)
            elif refusal := self._refusal(call.name, arguments, len(to_run), len(calls)):
                results[at] = refusal
            else:
                self._budget.add_call()
                identifier = self._id_prefix + call.id
                to_run[at] = {"name": call.name, "arguments": arguments, "id": identifier}
        ran = await self._execute(list(to_run.values()))
        for (at, request), result in zip(to_run.items(), ran, strict=True):
            ended = await self._late.of(request["id"], result)
            results[at] = ended if ended.ok else await self._correct(calls[at], ended)
        return [results[at] for at in range(len(calls))]

    def _refusal(
        self, name: str, arguments: Mapping[str, Any], run: int, count: int
    ) -> ToolResult | None:
        """Return the refusal of a call that the agent must not make; `None` if it may."""
        tool = self._agent.runtime.meant(name, arguments, session=self._session)
        if tool is not None and not self._may_use(tool):
            return self._refuse("unknown_tool", say("unknown_tool", tool=name))
        if not self._may_call:
            return self._refuse("react_mode", say("agent_last_turn"))
        if run >= (most := self._agent.max_calls_per_turn):
            text = say("agent_too_many_calls", count=count, most=most)
            return self._refuse("max_calls_per_turn", text)
        if not self._budget.may_call:
            return self._refuse("max_calls", say("agent_calls_used_up", most=self._budget.calls))
        return None

    def _refuse(self, reason_code: str, message: str) -> ToolResult:
        return ToolResult(
            status=_REFUSED_AS.get(reason_code, ResultStatus.LIMITED),
            message=self._wording.reword(message),
            retryable=True,
            reason_code=reason_code,
        )

    async def _execute(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[ToolResult]:
        runtime = self._agent.runtime
        if len(calls) != 1:
            return await runtime.execute_turn(calls, session=self._session)
        only = calls[0]  # a single call needs no ordering
        result = await runtime.execute(
            only["name"], only["arguments"], session=self._session, call_id=only["id"]
        )
        return [result]

    # Ending a turn or the run

    def _end_if_over(self, turn: Turn, said: Answer, final: str | None) -> None:
        """End the run if this turn is its last."""
        if said.end is EndReason.REFUSED and not turn.calls:
            self._end(AgentStatus.STOPPED, "refused", answer=final or None)
        elif final is not None and not turn.calls:
            self._complete_tasks()
            self._end(*self._completion(turn), answer=final)
        elif self._is_unreadable(turn):
            self._end(AgentStatus.FAILED, "unreadable", "; ".join(turn.problems) or None)
        elif turn.number >= self._agent.max_iterations:
            self._end(AgentStatus.LIMIT, "max_iterations")
        elif not self._agent.react_mode and turn.number > 1:
            self._end(AgentStatus.LIMIT, "react_mode")

    def _completion(self, turn: Turn) -> tuple[AgentStatus, str | None]:
        """Return the status and the reason of a run with an answer."""
        if turn.end is EndReason.LENGTH and self._budget.is_spent:
            return AgentStatus.LIMIT, "max_tokens"
        if turn.end is EndReason.LENGTH:
            return AgentStatus.COMPLETE, "cut"
        is_ignored = self._is_native and self._tools and not any(t.calls for t in self._turns)
        return AgentStatus.COMPLETE, "no_calls" if is_ignored else None

    def _is_unreadable(self, turn: Turn) -> bool:
        """Return whether too many replies in a row were unreadable."""
        unread = [r for r in turn.results if r.reason_code == "unreadable_arguments"]
        is_bad = bool(turn.problems) or (bool(unread) and len(unread) == len(turn.results))
        self._corrections = self._corrections + 1 if is_bad else 0
        return self._corrections >= self._agent.max_corrections

    def _learn_secrets(self, calls: Sequence[ModelCall]) -> None:
        """Record the secret arguments of these calls, also for the enclosing work."""
        for call in calls:
            arguments = object_of(call.arguments)
            tool = self._agent.runtime.meant(call.name, arguments, session=self._session)
            if tool is not None and tool.redaction.declares:
                self._secrets.update(tool.redaction.declared_in(arguments))
        work = enclosing_work.get()
        while work is not None:
            work.secrets.update(self._secrets)
            work = work.outer

    def _write(self, turn: Turn, said: Answer) -> None:
        """Write a turn into the conversation."""
        observed = [to_json(result.to_response()).decode() for result in turn.results]
        if self._is_native:
            text = said.text if said.calls or not turn.calls else ""  # else the text is the calls
            if text or turn.calls:  # servers refuse an empty message
                message = Message.assistant(text, turn.calls, said.thought)
                self._messages.append(message)
            self._messages += [
                Message.result(call, text) for call, text in zip(turn.calls, observed, strict=True)
            ]
            lines = list(turn.problems)
        else:
            self._messages += [Message.assistant(said.text)] if said.text else []
            lines = [f"Observation: {text}" for text in observed] + list(turn.problems)
        if lines:
            self._add_message("\n".join(lines))

    def _add_message(self, text: str) -> None:
        """Add a note for the model to the last result or user message, or as a user message.

        Some servers accept no user message after a result, or after another one.
        """
        last = self._messages[-1]
        if last.role == "tool":
            result = object_of(last.text)
            note = "\n\n".join(filter(None, (result.get(_NOTE), text)))
            self._messages[-1] = replace(last, text=to_json({**result, _NOTE: note}).decode())
        elif last.role == "user":
            self._messages[-1] = Message.user(f"{last.text}\n\n{text}")
        else:
            self._messages.append(Message.user(text))

    def _end(
        self,
        status: AgentStatus,
        reason: str | None = None,
        message: str | None = None,
        *,
        answer: str | None = None,
    ) -> None:
        self.result = AgentResult(
            status=status,
            answer=answer,
            reason=reason,
            message=_MESSAGES.get(reason or "") if message is None else message,
            turns=tuple(self._turns),
            usage=self._budget.used,
            seconds=time.perf_counter() - self._begun,
            messages=tuple(self._messages),
            tools=tuple(self._tools),
            by_text=not self._is_native,
            secrets=frozenset(self._secrets),
        )

    def _emit_step(self, **data: Any) -> None:
        """Emit an `iteration` event about a step of the turn, if events are read."""
        if self._agent.runtime.events.is_recording:
            self._emit(_ITERATION, {"number": len(self._turns) + 1, **data})

    def _emit(self, kind: EventKind, data: Mapping[str, Any]) -> None:
        event = ToolEvent(kind=kind, call=self._event_call, data=data)
        for sink in self._agent.runtime.executor.sinks:
            sink(event)


_REFUSED_AS = {
    "unreadable_arguments": ResultStatus.INVALID_ARGUMENT,
    "unknown_tool": ResultStatus.NOT_FOUND,
}
_MESSAGES = {
    "max_iterations": "max_iterations is reached: raise it, or give a smaller task",
    "max_tokens": "max_tokens is reached: raise it, or give a smaller task",
    "react_mode": "the model called tools again, which needs react_mode: switch it on",
    "denied": "a person has denied the calls of two turns",
    "failing": "no call of the last turns has succeeded",
    "loop": "the calls repeat without progress",
    "refused": "the model has refused to answer",
    "no_calls": "the model has called none of its tools: if it needs them, its server may ignore "
    "them, so try function_calling='text' or 'constrained'",
    "cut": "the answer was cut off at max_output_tokens",
}


class _LateResults:
    """Waits for the results of calls that need a person's approval.

    `on_question` is called with each question of these calls that no channel handles.
    """

    def __init__(self, desk: Approvals, id_prefix: str, on_question: OnQuestion | None) -> None:
        self._desk = desk
        self._id_prefix = id_prefix
        self._on_question = on_question
        self._results: dict[str, list[ToolResult]] = {}
        self._waiting: set[str] = set()
        self._came = asyncio.Event()
        self._ends: list[Callable[[], None]] = []

    def follow(self) -> None:
        """Subscribe to the questions and results of the session."""
        self._ends = [self._desk.on_outcome(self._receive), self._desk.on_left(self._hand_on)]

    def _receive(self, call: ToolCall, result: ToolResult) -> None:
        if result.reason_code != REPEATED and call.id is not None and self._is_own(call.id):
            self._results.setdefault(call.id, []).append(result)
            self._came.set()

    def _hand_on(self, question: Question) -> None:
        if self._on_question is not None and self._is_own(question.call.id or ""):
            self._on_question(question.call, self._desk.pending_result(question))

    def _is_own(self, call_id: str) -> bool:
        return call_id.startswith(self._id_prefix)

    async def of(self, call_id: str, result: ToolResult) -> ToolResult:
        """Return the result of a call, after the approval if it needs one."""
        heard = 0
        while result.status is ResultStatus.PENDING_APPROVAL:
            self._waiting.add(call_id)
            while len(self._results.get(call_id, ())) <= heard:
                self._came.clear()
                await self._came.wait()
            result = self._results[call_id][heard]
            heard += 1
        self._waiting.discard(call_id)
        return result

    def close(self) -> set[str]:
        """Withdraw the open questions, and return the ids of the waiting calls."""
        for end in self._ends:
            end()
        for request in self._desk.pending():
            if request.call_id is not None and self._is_own(request.call_id):
                self._desk.withdraw(self._desk.question(request.id))
        return self._waiting


def describe_tool(tool: Declaration) -> str:
    """Return a tool as text for a prompt: its name, its description and its parameters."""
    schema = json.dumps(tool.parameters, ensure_ascii=False)
    return f"{tool.name}: {tool.description}\nParameters: {schema}"


def check_bounds(owner: object, *names: str) -> None:
    """Raise `ValueError` if one of these attributes is a number below 1."""
    for name in names:
        bound = getattr(owner, name)
        if bound is not None and bound < 1:
            raise ValueError(f"{name} must be 1 or more, not {bound!r}")


def open_runtime(runtime: ToolRuntime) -> AbstractAsyncContextManager[Any]:
    """Return a context manager that opens a runtime, except in its own calls.

    A call of a runtime ends before the runtime closes, and must not close it.
    """
    around = innermost()
    return nullcontext() if around is not None and around.host is runtime else runtime


def as_runtime(tools: Any) -> ToolRuntime:
    """Return the runtime for the tools of an agent."""
    runtime = runtime_of(tools)
    if runtime is not None:
        return runtime
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise TypeError(
            f"tools must be a ToolRuntime, a processor with one, or tools, not {tools!r}"
        )
    return ToolRuntime(tools, builtin_tools=False)


async def task_to_parts(
    content: AsyncIterable[ProcessorPart],
    steps: Callable[[str], AsyncGenerator[S]],
    parts: Callable[[S], Iterable[ProcessorPart]],
) -> AsyncIterator[ProcessorPart]:
    """Run the task in the default substream, and yield its parts and all other parts."""
    task = list[str]()
    async for part in content:
        if part.substream_name == "" and part.part.text and not part.part.thought:
            task.append(part.part.text)
        else:
            yield part
    async with aclosing(steps("".join(task))) as made:
        async for step in made:
            for part in parts(step):
                yield part


def parts_of(step: Step) -> Iterable[ProcessorPart]:
    """Return the parts of a step."""
    match step:
        case Thought(text=text):
            return [ProcessorPart(text, role="model", substream_name=THOUGHT_SUBSTREAM)]
        case CallsMade(calls=calls):
            return [_call_part(call) for call in calls]
        case TurnEnded(turn=turn):
            pairs = zip(turn.calls, turn.results, strict=True)
            return [_result_part(call, result) for call, result in pairs]
    return [_end_part(step)]


def _call_part(call: ModelCall) -> ProcessorPart:
    arguments = call.arguments if not isinstance(call.arguments, str) else {}
    made = types.FunctionCall(id=call.id, name=call.name, args=dict(arguments))
    return ProcessorPart(
        types.Part(function_call=made), role="model", substream_name=CALL_SUBSTREAM
    )


def _result_part(call: ModelCall, result: ToolResult) -> ProcessorPart:
    response = types.FunctionResponse(id=call.id, name=call.name, response=result.to_response())
    return ProcessorPart(
        types.Part(function_response=response), role="user", substream_name=CALL_SUBSTREAM
    )


def _end_part(result: AgentResult) -> ProcessorPart:
    metadata = {AGENT_RESULT: result}
    if result.answer is not None:
        return ProcessorPart(result.answer, role="model", metadata=metadata)
    body = {"event": "agent_end", "status": result.status.value, "reason": result.reason}
    return ProcessorPart(
        json.dumps(body),
        mimetype="application/json",
        substream_name=STATUS_SUBSTREAM,
        metadata=metadata,
    )


# Constrained answers ------------------------------------------------------------------------------


def answer_schema(tools: Sequence[Declaration]) -> dict[str, Any]:
    """Return the schema of an answer: a call of one of the tools, or the final answer.

    Example:
        >>> answer_schema([])["anyOf"][0]["required"]
        ['final_answer']
    """
    final = _object({"final_answer": {"type": "string"}})
    calls = [
        _object(
            {"name": {"const": tool.name}, "arguments": _move_references(tool.parameters, number)}
        )
        for number, tool in enumerate(tools, start=1)
    ]
    return {"anyOf": [final, *calls]}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _move_references(schema: Any, number: int) -> Any:
    """Return a schema with references to its new place in the schema of the answer."""
    if isinstance(schema, list):
        return [_move_references(each, number) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _move_references(value, number) for key, value in schema.items()}
    if isinstance(place := schema.get("$ref"), str) and place.startswith("#"):
        moved["$ref"] = f"#/anyOf/{number}/properties/arguments{place[1:]}"
    return moved
