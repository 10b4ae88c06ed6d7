"""`Orchestrator`: recall, delegate a task to fragments, evaluate the outcome, and learn."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from genai_processors.content_api import ProcessorPart

from leonidas_tools.agent.fragments import Fragment, Fragments, FragmentStep, register
from leonidas_tools.agent.malformed_json import json_values
from leonidas_tools.agent.memory import AgentMemory, ShortTermMemory
from leonidas_tools.agent.models.model import (
    DEFAULT_PARAMETERS,
    Budget,
    Message,
    Model,
    ModelParameters,
    answer,
)
from leonidas_tools.agent.react import (
    STATUS_SUBSTREAM,
    OnQuestion,
    ReActAgent,
    Step,
    TurnEnded,
    as_runtime,
    check_bounds,
    enclose,
    open_runtime,
    parts_of,
    task_to_parts,
)
from leonidas_tools.agent.record import AgentResult, AgentStatus, Turn
from leonidas_tools.approvals.untrusted import has_read_untrusted
from leonidas_tools.calls.call import ToolSession
from leonidas_tools.errors import LeonidasError, ModelError, StoreError
from leonidas_tools.processors.stage import Stage
from leonidas_tools.redaction import PLAIN_REDACTION, KnownSecrets
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import AS_IT_IS, Wording

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
    from typing import Any

    from genai_processors import processor

    from leonidas_tools.agent.planner import Planner
    from leonidas_tools.agent.reflector import Reflector
    from leonidas_tools.agent.tool_choice import ToolChoice
    from leonidas_tools.runtime.runtime import ToolRuntime
    from leonidas_tools.tools.registry import AnyTool

_logger = visible_logger(__name__)

FRAGMENT = "fragment"
"""Metadata key of the name of the fragment that produced a part."""

_INSTRUCTIONS = (
    "You lead a piece of work. Hand each part of it to the expert whose description fits, by "
    "calling it with a complete and self-contained task: it knows nothing else. If one fails, try "
    "another one, or word the task differently. Write the final answer yourself."
)
_MAX_STEPS_LENGTH = 4_000
_MAX_LESSON_LENGTH = 500


class Recalled(NamedTuple):
    """Memories that may help with the task."""

    memories: Sequence[str]


class Evaluated(NamedTuple):
    """The evaluation of a task by the model.

    Args:
        is_done: Whether the task is done; `None` if the evaluation cannot be parsed.
        missing: The missing part of the task.
        lesson: The lesson to remember.
    """

    is_done: bool | None
    missing: str = ""
    lesson: str = ""


class Learned(NamedTuple):
    """A lesson that the memory has stored."""

    lesson: str


OrchestratorStep: TypeAlias = "Recalled | Step | FragmentStep | Evaluated | Learned"
"""One event of a run; the `AgentResult` is the last."""


class Orchestrator(Stage):
    """An agent that delegates parts of a task to fragments, evaluates the outcome, and learns.

    First it recalls memories about the task. Its model then calls fragments, one after another or
    several at once, and writes the answer. It chooses them by their descriptions and statistics.
    Finally the model evaluates the answer, continues if something is missing, and the memory stores
    a lesson. The orchestrator is a processor, like `ReActAgent`.

    Args:
        model: The model that leads and evaluates, and the default model of the fragments.
        tools: A runtime, a processor with a runtime, or tools; fragments use these tools by name.
        fragments: The fragments, which are registered in the runtime as tools.
        models: The models by the names that fragments use.
        memory: The memory, which recalls and learns.
        max_iterations: The maximum number of turns of the model; fragments have their own limits.
        max_calls: The maximum number of calls, including those of the fragments.
        max_tokens: The maximum number of tokens, including the fragments; `None` for no limit.
        max_attempts: The maximum number of attempts while the model evaluates the task as not done.
        max_seconds: The timeout of a task in seconds, including the wait for approvals; `None` for
            no timeout.
        evaluates: Whether the model evaluates the outcome, at the cost of one more answer.
        instructions: Instructions for the model, added to those about how to lead.
        parameters: The parameters of the model.
        planner: Plans the parts of the task for fragments, as the task list.
        reflector: Decides after each turn how to continue, also for fragments.
        tool_choice: Chooses the fragments relevant to the task, from very many fragments.
        short_term: Limits the messages of a long run that the models see, also for fragments.

    Raises:
        TypeError: `memory` has no methods `recall` and `learn`.
        ValueError: A limit is too small, no fragments are given, or `models` is given twice.
        ConfigurationError: A fragment names an unknown fragment or model, or shares its name.
        DuplicateToolError: A tool has the name of a fragment.

    Example:
        >>> from leonidas_tools.agent.fragments import Fragment
        >>> from leonidas_tools.agent.models import ScriptedModel
        >>> baker = Fragment(name="baker", description="Knows bread.")
        >>> script = [{"calls": [("baker", {"task": "Which?"})]}, "Rye.", "Rye.", '{"done": true}']
        >>> lead = Orchestrator(ScriptedModel(script), fragments=[baker])
        >>> asyncio.run(lead.run("Which bread?")).answer
        'Rye.'
    """

    def __init__(  # noqa: PLR0913 - optional arguments
        self,
        model: Model,
        tools: ToolRuntime | Stage | Iterable[AnyTool | Callable[..., Any]] = (),
        *,
        fragments: Fragments | Iterable[Fragment],
        models: Mapping[str, Model] | None = None,
        memory: AgentMemory | None = None,
        max_iterations: int = 10,
        max_calls: int = 60,
        max_tokens: int | None = None,
        max_attempts: int = 2,
        max_seconds: float | None = None,
        evaluates: bool = True,
        instructions: str = "",
        parameters: ModelParameters = DEFAULT_PARAMETERS,
        planner: Planner | None = None,
        reflector: Reflector | None = None,
        tool_choice: ToolChoice | None = None,
        short_term: ShortTermMemory | None = None,
    ) -> None:
        self.model = model
        self.max_iterations, self.max_calls, self.max_tokens = max_iterations, max_calls, max_tokens
        self.max_attempts, self.max_seconds = max_attempts, max_seconds
        self.memory, self.evaluates, self.instructions = memory, evaluates, instructions
        self.parameters, self.short_term = parameters, short_term
        self.planner, self.reflector, self.tool_choice = planner, reflector, tool_choice
        check_bounds(self, "max_iterations", "max_calls", "max_tokens", "max_attempts")
        if max_seconds is not None and max_seconds <= 0:
            raise ValueError(f"max_seconds must be above 0, not {max_seconds!r}")
        if not isinstance(fragments, Fragments):
            fragments = Fragments(
                model,
                fragments,
                models=models,
                reflector=reflector,
                parameters=parameters,
                short_term=short_term,
            )
        elif models is not None:
            raise ValueError(
                "models cannot be given with Fragments, which have their own: set it there"
            )
        if not fragments.by_name:
            raise ValueError("there are no fragments: give some, or use ReActAgent")
        if memory is not None and not isinstance(memory, AgentMemory):
            raise TypeError(
                "memory must be an object with recall(task, session=…) and learn(lesson, "
                f"session=…), such as a StoredMemory, not {memory!r}"
            )
        self.fragments = fragments
        self.runtime = as_runtime(tools)
        register(self.runtime, fragments.tools)

    async def run(
        self,
        task: str,
        *,
        session: ToolSession | None = None,
        history: Sequence[Message] = (),
        on_step: Callable[[OrchestratorStep], None] | None = None,
        on_question: OnQuestion | None = None,
    ) -> AgentResult:
        """Run a task to its end. Cancelling this stops the fragments and their calls.

        Args:
            task: The task.
            session: The session of the calls; by default that of the call in which this runs, else
                a new session.
            history: The previous conversation, without instructions.
            on_step: Called with each step, including the steps of fragments.
            on_question: Called with each question of a call that no channel handles.

        Returns:
            The result, with the turns of this model, and the token usage including fragments. The
            status is `limit` if the model evaluates the last attempt as not done, or if the task
            times out.
        """
        session = session or self.runtime.session_around() or ToolSession()
        work = _LedWork(self, task, session, on_step or (lambda _step: None), on_question)
        async with open_runtime(self.runtime):
            try:
                async with asyncio.timeout(self.max_seconds) as limit:
                    result = await work.run(history)
            except TimeoutError:
                if not limit.expired():
                    raise
                result = AgentResult(
                    status=AgentStatus.LIMIT,
                    reason="max_seconds",
                    message=work.wording.text("fragment_late", seconds=f"{self.max_seconds:g}"),
                    messages=(*history, Message.user(task)),
                )
        result = replace(result, **work.record())
        work.emit_step(result)
        return result

    async def steps(
        self,
        task: str,
        *,
        session: ToolSession | None = None,
        history: Sequence[Message] = (),
        on_question: OnQuestion | None = None,
    ) -> AsyncGenerator[OrchestratorStep]:
        """Run a task like `run`, and yield each step; the last step is the result."""
        steps: asyncio.Queue[OrchestratorStep | None] = asyncio.Queue()
        work = asyncio.create_task(
            self.run(
                task,
                session=session,
                history=history,
                on_step=steps.put_nowait,
                on_question=on_question,
            )
        )
        work.add_done_callback(lambda _: steps.put_nowait(None))
        try:
            while (step := await steps.get()) is not None:
                yield step
            await work
        finally:
            work.cancel()
            await asyncio.wait([work])

    def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Run the task in the parts, and yield the parts of its steps, with the answer last."""
        return task_to_parts(content, self.steps, _parts)

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.runtime.__aexit__(*error)


class _LedWork:
    """One task of an orchestrator."""

    def __init__(
        self,
        lead: Orchestrator,
        task: str,
        session: ToolSession,
        emit_step: Callable[[OrchestratorStep], None],
        on_question: OnQuestion | None,
    ) -> None:
        self.emit_step = emit_step
        self._lead = lead
        self._task = task
        self._session = session
        self._on_question = on_question
        self._budget = Budget(lead.max_tokens, max_calls=lead.max_calls)
        self._turns: list[Turn] = []
        self._secrets: set[str] = set()
        self._begun = time.perf_counter()

    async def run(self, history: Sequence[Message]) -> AgentResult:
        """Recall, work and evaluate until the task is done or a limit is reached, then learn."""
        instructions = await self._instructions()
        prompt = self._task
        for attempt in range(1, self._lead.max_attempts + 1):
            result = await self._attempt(prompt, history, instructions)
            evaluated = await self._evaluate(result)
            if not result.ok or evaluated is None or evaluated.is_done is not False:
                break
            missing = f"missing: {evaluated.missing or 'the task is not done'}"
            result = replace(result, status=AgentStatus.LIMIT, reason="not_done", message=missing)
            if attempt == self._lead.max_attempts or self._iterations_left < 1:
                break
            history = [each for each in result.messages if each.role != "system"]
            prompt = self.wording.text("agent_not_done", missing=evaluated.missing or "-")
        if evaluated is not None and evaluated.lesson:
            await self._learn(evaluated.lesson)
        return result

    def record(self) -> dict[str, Any]:
        """Return the record of the whole work."""
        return {
            "turns": tuple(self._turns),
            "usage": self._budget.used,
            "seconds": time.perf_counter() - self._begun,
            "secrets": frozenset(self._secrets),
        }

    @property
    def _iterations_left(self) -> int:
        return self._lead.max_iterations - len(self._turns)

    @property
    def wording(self) -> Wording:
        """Return the texts of the settings."""
        return self._lead.runtime.settings.current.wording or AS_IT_IS

    async def _attempt(
        self, prompt: str, history: Sequence[Message], instructions: str
    ) -> AgentResult:
        """Run the model, which delegates parts of the task to fragments, until it answers."""
        lead = self._lead
        agent = ReActAgent(
            lead.model,
            lead.runtime,
            max_iterations=self._iterations_left,
            instructions=instructions,
            parameters=lead.parameters,
            planner=lead.planner,
            reflector=lead.reflector,
            tool_choice=lead.tool_choice,
            short_term=lead.short_term,
            may_use=lambda tool: tool.name in self._lead.fragments.by_name,
        )
        with enclose(
            self._secrets,
            budget=self._budget,
            on_step=lambda name, step: self.emit_step(FragmentStep(name, step)),
            on_question=self._on_question,
        ):
            return await agent.run(
                prompt,
                session=self._session,
                history=history,
                on_step=self._follow,
                on_question=self._on_question,
                within=self._budget,
            )

    def _follow(self, step: Step) -> None:
        if isinstance(step, TurnEnded):
            self._turns.append(replace(step.turn, number=len(self._turns) + 1))
        if not isinstance(step, AgentResult):  # `run` sends the final result
            self.emit_step(step)

    async def _instructions(self) -> str:
        """Return the instructions for the model, with statistics and memories."""
        said = list(filter(None, (_INSTRUCTIONS, self._lead.instructions)))
        if lines := await self._format_measures():
            said.append(self.wording.text("agent_measures", measures="\n".join(lines)))
        if memories := await self._recall():
            self.emit_step(Recalled(memories))
            listed = "\n".join(f"- {each}" for each in memories)
            said.append(self.wording.text("agent_recalled", memories=listed))
        return "\n\n".join(said)

    async def _format_measures(self) -> list[str]:
        try:
            measures = await self._lead.fragments.measures(self._lead.runtime.store)
        except StoreError as error:
            _logger.warning("The success rates of fragments cannot be read: %s", error)
            measures = await self._lead.fragments.measures()
        return [
            "- "
            + self.wording.text(
                "agent_measure",
                name=name,
                successes=each.successes,
                runs=each.runs,
                seconds=f"{each.seconds / each.runs:.1f}",
                tokens=each.tokens // each.runs,
            )
            for name, each in measures.items()
            if each.runs
        ]

    async def _recall(self) -> Sequence[str]:
        if self._lead.memory is None:
            return ()
        try:
            return await self._lead.memory.recall(self._task, session=self._session)
        except LeonidasError as error:
            _logger.warning("Memories for a task cannot be recalled: %s", error)
            return ()

    async def _evaluate(self, result: AgentResult) -> Evaluated | None:
        """Ask the model to evaluate the task; return `None` without an evaluation."""
        is_reached = result.status is not AgentStatus.FAILED and not self._budget.is_spent
        if not self._lead.evaluates or not is_reached:
            return None
        steps = [step for turn in self._turns for step in turn.steps]
        prompt = self.wording.text(
            "agent_evaluate_ask",
            task=self._task,
            steps="\n".join(steps)[-_MAX_STEPS_LENGTH:] or "-",
            answer=result.answer or result.message or "-",
        )
        parameters = self._budget.limit(self._lead.parameters)
        try:
            said = await answer(self._lead.model, [Message.user(prompt)], (), parameters)
        except ModelError as error:
            _logger.warning("The outcome of a task cannot be evaluated: %s", error)
            return None
        self._budget.add(said.usage)
        evaluated = _read(said.text, KnownSecrets(self._secrets))
        self.emit_step(evaluated)
        return evaluated

    async def _learn(self, lesson: str) -> None:
        memory = self._lead.memory
        # Otherwise the author of untrusted content could inject text into later conversations.
        if memory is None or has_read_untrusted(self._session):
            return
        try:
            await memory.learn(lesson, session=self._session)
        except LeonidasError as error:
            _logger.warning("A lesson cannot be stored: %s", error)
        else:
            self.emit_step(Learned(lesson))


def _read(text: str, secrets: KnownSecrets) -> Evaluated:
    """Parse the evaluation in the text of the model, and mask secrets."""
    for value in json_values(text):
        if isinstance(value, dict) and isinstance(is_done := value.get("done"), bool):
            missing, lesson = (
                PLAIN_REDACTION(secrets.text(said).strip()[:_MAX_LESSON_LENGTH])
                if isinstance(said, str)
                else ""
                for said in (value.get("missing"), value.get("lesson"))
            )
            return Evaluated(is_done, missing, lesson)
    return Evaluated(None)


def _parts(step: OrchestratorStep) -> Iterable[ProcessorPart]:
    """Return the parts of a step; parts of a fragment have its name in their metadata."""
    match step:
        case FragmentStep(fragment=name, step=inner):
            if isinstance(inner, AgentResult):
                return []  # the result of the call has it
            parts = list(parts_of(inner))
            for part in parts:
                part.metadata[FRAGMENT] = name
            return parts
        case Recalled(memories=memories):
            return [_status("recalled", memories=list(memories))]
        case Evaluated(is_done=is_done, missing=missing):
            return [_status("evaluated", done=is_done, missing=missing)]
        case Learned(lesson=lesson):
            return [_status("learned", lesson=lesson)]
    return parts_of(step)


def _status(event: str, **body: Any) -> ProcessorPart:
    return ProcessorPart(
        json.dumps({"event": event, **body}, ensure_ascii=False),
        mimetype="application/json",
        substream_name=STATUS_SUBSTREAM,
    )
