"""`ReActAgent`: an agent that thinks, calls tools, observes, and answers."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar

from genai_processors.content_api import ProcessorPart
from google.genai import types
from pydantic_core import to_json

from leonidas_tools.agent.constrained import answer_schema
from leonidas_tools.agent.models.model import (
    DEFAULT_PARAMETERS,
    Answer,
    Budget,
    EndReason,
    Message,
    ModelCall,
    answer,
    estimated_tokens,
    ids_in,
    new_id,
    strip_decoration,
)
from leonidas_tools.agent.models.written import object_of
from leonidas_tools.agent.parameters import AdjustedParameters
from leonidas_tools.agent.parser import (
    INPUT,
    CallMarkup,
    calls_within,
    markup_in,
    parse,
    read_arguments,
)
from leonidas_tools.agent.planner import format_plan
from leonidas_tools.agent.record import AgentResult, AgentStatus, Turn
from leonidas_tools.agent.reflector import ReflectorDecision
from leonidas_tools.agent.short_term import Window
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
from leonidas_tools.results.texts import AS_IT_IS, join, say
from leonidas_tools.runtime.runtime import ToolRuntime, runtime_of
from leonidas_tools.session.tasks import TaskList, TaskStatus
from leonidas_tools.settings.effective import effect_of
from leonidas_tools.tools.metadata import ToolEffect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable

    from genai_processors import processor

    from leonidas_tools.agent.models.model import Chunk, Model, ModelParameters
    from leonidas_tools.agent.parser import ParsedCall
    from leonidas_tools.agent.planner import Planner
    from leonidas_tools.agent.reflector import Correction, Reflection, Reflector
    from leonidas_tools.agent.short_term import ShortTermMemory
    from leonidas_tools.agent.tool_choice import ToolChoice
    from leonidas_tools.approvals.question import Question
    from leonidas_tools.results.texts import Wording
    from leonidas_tools.runtime.declared import Declaration
    from leonidas_tools.session.tasks import Task
    from leonidas_tools.tools.registry import AnyTool

_logger = visible_logger(__name__)

S = TypeVar("S")

FunctionCalling: TypeAlias = Literal["auto", "native", "text", "constrained"]

_secrets_above: ContextVar[set[str] | None] = ContextVar(
    "leonidas_tools_agent_secrets_above", default=None
)
"""The secrets of the enclosing agent, or other work, whose calls run here."""


class CollectedSecrets:
    """Collects the secret arguments of agents in this block, also for the enclosing work."""

    __slots__ = ("_secrets", "_token")

    def __init__(self, secrets: set[str]) -> None:
        self._secrets = secrets

    def __enter__(self) -> None:
        self._token = _secrets_above.set(self._secrets)

    def __exit__(self, *error: object) -> None:
        _secrets_above.reset(self._token)
        _hand_up(self._secrets)


def _hand_up(secrets: set[str]) -> None:
    if secrets and (above := _secrets_above.get()) is not None:
        above |= secrets


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
_MAX_SAID_LENGTH = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentLimits:
    """The limits of a run.

    Raises:
        ValueError: A limit is below 1.
    """

    max_iterations: int = 10
    max_calls_per_turn: int = 8  # further calls are refused
    max_tokens: int | None = None  # total of all answers
    max_corrections: int = 3  # unreadable replies in a row before the run ends
    max_calls: int | None = None  # total of all turns; further calls are refused

    def __post_init__(self) -> None:
        bounds = (self.max_iterations, self.max_calls_per_turn, self.max_corrections)
        if min(*bounds, *(b for b in (self.max_tokens, self.max_calls) if b is not None)) < 1:
            raise ValueError(f"the bounds of an agent must be 1 or more: {self!r}")


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

    def __init__(  # noqa: PLR0913 - optional arguments
        self,
        model: Model,
        tools: ToolRuntime | Stage | Iterable[AnyTool | Callable[..., Any]] = (),
        *,
        max_iterations: int = 10,
        max_calls_per_turn: int = 8,
        max_tokens: int | None = None,
        max_corrections: int = 3,
        instructions: str = "",
        parameters: ModelParameters = DEFAULT_PARAMETERS,
        enable_tools: bool = True,
        react_mode: bool = True,
        function_calling: FunctionCalling = "auto",
        planner: Planner | None = None,
        reflector: Reflector | None = None,
        max_calls: int | None = None,
        may_use: Callable[[AnyTool], bool] | None = None,
        tool_choice: ToolChoice | None = None,
        short_term: ShortTermMemory | None = None,
    ) -> None:
        self.model = model
        self.runtime = as_runtime(tools)
        self.limits = AgentLimits(
            max_iterations=max_iterations,
            max_calls_per_turn=max_calls_per_turn,
            max_tokens=max_tokens,
            max_corrections=max_corrections,
            max_calls=max_calls,
        )
        self.instructions = instructions
        self.parameters = parameters
        self.enable_tools = enable_tools
        self.react_mode = react_mode
        self.function_calling: FunctionCalling = function_calling
        self.planner = planner
        self.reflector = reflector
        self.may_use = may_use
        self.tool_choice = tool_choice
        self.short_term = short_term

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
                for step in response.steps:
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


class _ReadAnswer(NamedTuple):
    """An answer of the model, and the steps parsed from it."""

    begun: float
    said: Answer
    thought: str
    calls: Sequence[ModelCall]
    problems: Sequence[str]
    final: str | None
    steps: Sequence[Step]


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
        self._limits = agent.limits
        limits = agent.limits
        self._budget = Budget(limits.max_tokens, max_calls=limits.max_calls, outer=within)
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
        self._reflected: Reflection | None = None
        self._begun = time.perf_counter()
        self._event_call = ToolCall(
            name="agent", session=session, number=next(session.numbers), id=None
        )
        # Several agents may work in a session, also in later processes, and their models may use
        # the same ids: a new call would be mistaken for an earlier one.
        self._id_prefix = "" if self._is_own_session else f"agent-{uuid.uuid4().hex[:12]}-"
        self._late = _LateResults(session.get(Approvals), self._id_prefix, on_question)

    async def __aenter__(self) -> Self:
        # A call of this runtime ends before the runtime closes, and must not close it.
        around = innermost()
        if around is None or around.host is not self._agent.runtime:
            await self._open.enter_async_context(self._agent.runtime)
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
        self._tools = self._select_tools()
        if self._agent.tool_choice is not None:
            await self._choose(self._agent.tool_choice, task)
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

    async def ask(self) -> _ReadAnswer | None:
        """Send a request to the model, and return its answer; `None` at the end of the run."""
        if self.result is not None:
            return None
        number = len(self._turns) + 1
        begun = time.perf_counter()
        self._corrections_of_turn = []
        self._emit(_ITERATION, {"number": number, "of": self._limits.max_iterations})
        said = await self._request_answer(number)
        if said is None:
            return None
        is_text = bool(self._tools) and not self._is_native
        read = await (self._read_text(said) if is_text else self._read_native(said))
        thought, calls, problems, final = read
        steps = list[Step]()
        is_read = self._agent.runtime.events.is_recording
        if calls:  # first, as the thought may contain secrets of the calls
            self._learn_secrets(calls)
        if thought:
            if is_read:
                shown = KnownSecrets(self._secrets).text(thought)[:_MAX_SAID_LENGTH]
                self._emit_step(number, step="thought", message=shown)
            steps.append(Thought(thought))
        if calls:
            if is_read:
                self._emit_step(number, step="action", tools=[call.name for call in calls])
            steps.append(CallsMade(calls, said.text.strip() if self._is_native else ""))
        return _ReadAnswer(begun, said, thought, calls, problems, final, steps)

    async def act(self, response: _ReadAnswer) -> Turn:
        """Run the calls of a turn, and return the turn."""
        number, calls = len(self._turns) + 1, response.calls
        results: Sequence[ToolResult] = ()
        if calls:
            with CollectedSecrets(self._secrets):
                results = await self._run(calls)
            if self._agent.runtime.events.is_recording:
                statuses = [result.status.value for result in results]
                self._emit_step(number, step="observation", statuses=statuses)
        turn = Turn(
            number=number,
            thought=response.thought,
            text=response.said.text,
            calls=calls,
            results=results,
            problems=response.problems,
            corrections=tuple(self._corrections_of_turn),
            usage=response.said.usage,
            end=response.said.end,
            seconds=time.perf_counter() - response.begun,
        )
        self._reflected = self._reflection(turn) if response.final is None or calls else None
        if self._reflected is not None:
            turn = replace(turn, decision=self._reflected.decision.value)
        self._turns.append(turn)
        return turn

    async def conclude(self, response: _ReadAnswer, turn: Turn) -> None:
        """Process a turn: record it, and set `result` at the end of the run."""
        self._conclude(turn, response.said, response.final)
        if self.result is None and (self._reflected or self._agent.planner):
            await self._go_on(turn, self._reflected)

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

    def _reflection(self, turn: Turn) -> Reflection | None:
        reflector = self._agent.reflector
        if reflector is None:
            return None
        return reflector.reflect(
            [*self._turns, turn], self._parameters(self._budget.left), self._tasks()
        )

    async def _go_on(self, turn: Turn, reflection: Reflection | None) -> None:
        """Apply the decision of the reflector, and plan again if a task has failed."""
        if reflection is not None:
            self._session.get(AdjustedParameters).change(**reflection.parameters)
            if reflection.decision is ReflectorDecision.STOP:
                self._end(AgentStatus.STOPPED, reflection.reason)
                return
            if reflection.advice is not None:
                self._add_message(self._wording.reword(reflection.advice) or reflection.advice)
        planner, tasks = self._agent.planner, self._tasks()
        if planner is None or self._plans > planner.max_replans:
            return
        has_failed = any(task.status is TaskStatus.FAILED for task in tasks)
        if has_failed and not any(result.retryable for result in turn.results):
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

    async def _choose(self, choice: ToolChoice, task: str) -> None:
        """Keep only the tools that are relevant to the task."""
        try:
            self._tools = await choice.choose(task, self._tools)
        except ModelError as error:
            self._end(AgentStatus.FAILED, error.reason, f"no tools were chosen: {error}")

    def _select_tools(self) -> Sequence[Declaration]:
        """Return the tools of the model, except tools that report a user's answer."""
        if not self._agent.enable_tools:
            return ()
        declared = self._agent.runtime.declared(self._session)
        return [each for each in declared if self._may_use(each.tool)]

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
        if left is not None and (left == 0 or self._is_longer(left)):
            self._end(AgentStatus.LIMIT, "max_tokens")
            return None
        is_last = number > 1 and (
            number == self._limits.max_iterations or not self._agent.react_mode
        )
        if is_last:
            self._add_message(self._wording.text("agent_last_turn"))
        self._may_call = self._agent.react_mode or number == 1
        try:
            said = await self._answer(left)
        except ModelError as error:
            self._end(AgentStatus.FAILED, error.reason, str(error))
            return None
        self._budget.add(said.usage)
        return said

    async def _answer(self, left: int | None) -> Answer:
        tools = self._tools if self._is_native and self._may_call else ()
        try:
            return await answer(
                self._agent.model,
                self._visible_messages(),
                tools,
                self._parameters(left),
                on_chunk=self._on_chunk,
            )
        except ModelError as error:
            if error.reason != "tools_unsupported" or self._agent.function_calling == "native":
                raise
        self._use_text_calls()
        return await self._answer(left)

    def _visible_messages(self) -> Sequence[Message]:
        """Return the messages that the model sees."""
        if self._window is None:
            return self._messages
        return self._window.visible_messages(self._messages, self._wording)

    def _use_text_calls(self) -> None:
        """Describe the tools in the prompt from now on, as the server accepts no declarations."""
        self._is_native = False
        rest = [message for message in self._messages if message.role != "system"]
        self._messages = [Message.system(self._system()), *rest]

    def _parameters(self, left: int | None) -> ModelParameters:
        """Return the parameters of the next request, within the remaining tokens."""
        parameters = self._agent.parameters
        adjusted = self._session.find(AdjustedParameters)
        if adjusted is not None:
            parameters = adjusted.apply_to(parameters)
        if left is not None:
            most = min(left, parameters.max_output_tokens or left)
            parameters = replace(parameters, max_output_tokens=most)
        if self._tools and self._is_constrained:
            schema = answer_schema(self._tools if self._may_call else ())
            parameters = replace(parameters, response_schema=schema)
        elif self._tools and not self._is_native:
            parameters = replace(parameters, stop=(*parameters.stop, _STOP))
        return parameters

    def _is_longer(self, left: int) -> bool:
        """Return whether the messages alone have more tokens than are left."""
        return sum(estimated_tokens(message.text) for message in self._visible_messages()) > left

    # Reading its answer

    async def _read_text(
        self, said: Answer
    ) -> tuple[str, Sequence[ModelCall], Sequence[str], str | None]:
        """Return the thought, the calls, the problems and the final answer."""
        parsed = parse(
            said.text,
            [tool.name for tool in self._tools],
            is_cut=said.end is EndReason.LENGTH,
        )
        taken = self._ids
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
            identifier = new_id(None, taken)
            taken.add(identifier)
            arguments = self._with_name(call.name, call.arguments)
            calls.append(ModelCall(id=identifier, name=call.name, arguments=arguments))
        thought = "\n".join(part for part in (said.thought, parsed.thought) if part)
        return thought, calls, self._reword(problems), parsed.answer

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

    async def _read_native(
        self, said: Answer
    ) -> tuple[str, Sequence[ModelCall], Sequence[str], str | None]:
        thought, text = said.thought, said.text.strip()
        if said.calls:
            if text:
                thought = f"{thought}\n{text}" if thought else text
            return thought, self._unique(said.calls), (), None
        if not text and said.end is not EndReason.REFUSED:
            return thought, (), self._reword([say("agent_nothing_said")]), None
        if self._tools and (markup := markup_in(text)) is not None:
            return await self._read_markup(replace(said, text=text), markup)
        return thought, (), (), text

    async def _read_markup(
        self, said: Answer, markup: CallMarkup
    ) -> tuple[str, Sequence[ModelCall], Sequence[str], str | None]:
        """Read the calls that a server has left in the text, by the rules of calls by text.

        If they are uncertain, the model is asked again; they are never the answer.
        """
        thought, calls, problems, _ = await self._read_text(said)
        names = {tool.name for tool in self._tools}
        is_certain = markup.is_last and not problems and all(call.name in names for call in calls)
        if calls and is_certain and self._agent.function_calling == "auto":
            return thought, calls, (), None
        if markup.is_tag:
            text = say("agent_call_in_text")
            return said.thought, (), problems or self._reword([text]), None
        return said.thought, (), (), said.text

    def _unique(self, calls: Sequence[ModelCall]) -> Sequence[ModelCall]:
        """Return the calls with unique ids, and the names of tools without template markup."""
        taken = self._ids
        names = {tool.name for tool in self._tools}
        unique = list[ModelCall]()
        for call in calls:
            identifier = new_id(call.id, taken)
            taken.add(identifier)
            name = call.name
            if name not in names and (bare := strip_decoration(name)) in names:
                name = bare
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
                results[at] = self._build_refusal(
                    ResultStatus.INVALID_ARGUMENT, problem, "unreadable_arguments"
                )
            elif self._is_withheld(call.name, arguments):
                text = say("unknown_tool", tool=call.name)
                results[at] = self._build_refusal(ResultStatus.NOT_FOUND, text, "unknown_tool")
            elif not self._may_call:
                results[at] = self._build_refusal(
                    ResultStatus.LIMITED, say("agent_last_turn"), "react_mode"
                )
            elif len(to_run) >= self._limits.max_calls_per_turn:
                most = self._limits.max_calls_per_turn
                text = say("agent_too_many_calls", count=len(calls), most=most)
                results[at] = self._build_refusal(ResultStatus.LIMITED, text, "max_calls_per_turn")
            elif not self._budget.may_call:
                text = say("agent_calls_used_up", most=self._budget.calls)
                results[at] = self._build_refusal(ResultStatus.LIMITED, text, "max_calls")
            else:
                self._budget.add_call()
                identifier = self._id_prefix + call.id
                to_run[at] = {"name": call.name, "arguments": arguments, "id": identifier}
        ran = await self._execute(list(to_run.values()))
        for (at, request), result in zip(to_run.items(), ran, strict=True):
            ended = await self._late.of(request["id"], result)
            results[at] = ended if ended.ok else await self._correct(calls[at], ended)
        return [results[at] for at in range(len(calls))]

    async def _execute(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[ToolResult]:
        runtime = self._agent.runtime
        if len(calls) != 1:
            return await runtime.execute_turn(calls, session=self._session)
        only = calls[0]  # a single call needs no ordering
        result = await runtime.execute(
            only["name"], only["arguments"], session=self._session, call_id=only["id"]
        )
        return [result]

    def _is_withheld(self, name: str, arguments: Mapping[str, Any]) -> bool:
        tool = self._agent.runtime.meant(name, arguments, session=self._session)
        return tool is not None and not self._may_use(tool)

    def _build_refusal(self, status: ResultStatus, message: str, reason_code: str) -> ToolResult:
        return ToolResult(
            status=status,
            message=self._wording.reword(message),
            retryable=True,
            reason_code=reason_code,
        )

    # Ending a turn or the run

    def _conclude(self, turn: Turn, said: Answer, final: str | None) -> None:
        """Write the turn into the conversation, and end the run if it is over."""
        self._write(turn, said)
        if said.end is EndReason.REFUSED and not turn.calls:
            self._end(AgentStatus.STOPPED, "refused", answer=final or None)
        elif final is not None and not turn.calls:
            self._messages_end(final)
        elif self._is_unreadable(turn):
            self._end(AgentStatus.FAILED, "unreadable", "; ".join(turn.problems) or None)
        elif turn.number >= self._limits.max_iterations:
            self._end(AgentStatus.LIMIT, "max_iterations")
        elif not self._agent.react_mode and turn.number > 1:
            self._end(AgentStatus.LIMIT, "react_mode")

    def _messages_end(self, final: str) -> None:
        self._complete_tasks()
        is_ignored = self._is_native and self._tools and not any(t.calls for t in self._turns)
        if self._turns[-1].end is EndReason.LENGTH:
            is_limit = self._budget.is_spent
            status = AgentStatus.LIMIT if is_limit else AgentStatus.COMPLETE
            self._end(status, "max_tokens" if is_limit else "cut", answer=final)
        else:
            self._end(AgentStatus.COMPLETE, "no_calls" if is_ignored else None, answer=final)

    def _is_unreadable(self, turn: Turn) -> bool:
        """Return whether too many replies in a row were unreadable."""
        unread = [r for r in turn.results if r.reason_code == "unreadable_arguments"]
        is_bad = bool(turn.problems) or (bool(unread) and len(unread) == len(turn.results))
        self._corrections = self._corrections + 1 if is_bad else 0
        return self._corrections >= self._limits.max_corrections

    def _learn_secrets(self, calls: Sequence[ModelCall]) -> None:
        """Record the secret arguments of these calls, also for the enclosing work."""
        for call in calls:
            text_or_object = call.arguments
            arguments = (
                object_of(text_or_object) if isinstance(text_or_object, str) else text_or_object
            )
            tool = self._agent.runtime.meant(call.name, arguments, session=self._session)
            if tool is not None and tool.redaction.declares:
                self._secrets.update(tool.redaction.declared_in(arguments))
        _hand_up(self._secrets)

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
        if message is None and reason is not None:
            message = _MESSAGES.get(reason)
        self.result = AgentResult(
            status=status,
            answer=answer,
            reason=reason,
            message=message,
            turns=tuple(self._turns),
            usage=self._budget.used,
            seconds=time.perf_counter() - self._begun,
            messages=tuple(self._messages),
            tools=tuple(self._tools),
            by_text=not self._is_native,
            secrets=frozenset(self._secrets),
        )

    def _emit_step(self, number: int, **data: Any) -> None:
        """Emit an `iteration` event about a step of the turn."""
        self._emit(_ITERATION, {"number": number, **data})

    def _emit(self, kind: EventKind, data: Mapping[str, Any]) -> None:
        event = ToolEvent(kind=kind, call=self._event_call, data=data)
        for sink in self._agent.runtime.executor.sinks:
            sink(event)


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

    def _own_questions(self) -> list[Question]:
        requests = [r for r in self._desk.pending() if r.call_id is not None]
        return [self._desk.question(r.id) for r in requests if self._is_own(r.call_id or "")]

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
        for question in self._own_questions():
            self._desk.withdraw(question)
        return self._waiting


def describe_tool(tool: Declaration) -> str:
    """Return a tool as text for a prompt: its name, its description and its parameters."""
    schema = json.dumps(tool.parameters, ensure_ascii=False)
    return f"{tool.name}: {tool.description}\nParameters: {schema}"


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
