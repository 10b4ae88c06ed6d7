"""`Delegation`: the voice model delegates a task to an agent, and continues the conversation."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from leonidas_tools.agent.memory import ShortTermMemory
from leonidas_tools.agent.models import GeminiModel, OpenAIModel
from leonidas_tools.agent.models.model import DEFAULT_PARAMETERS, Model, ModelParameters
from leonidas_tools.agent.react import CallsMade, ReActAgent, Step, check_bounds
from leonidas_tools.agent.sub_agent import (
    OF_THE_VOICE,
    OpensModel,
    SubAgent,
    Task,
    budget_within,
    nesting,
    runtime_around,
    sub_agent_tool,
)
from leonidas_tools.agent.tool_choice import ToolChoice
from leonidas_tools.calls.call import ToolResult
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.calls.invocation import current
from leonidas_tools.embeddings import EmbedderSettings, make_embedder
from leonidas_tools.errors import ConfigurationError, ToolError
from leonidas_tools.redaction import KnownSecrets
from leonidas_tools.results.texts import say
from leonidas_tools.runtime.runtime import ToolRuntime, runtime_of
from leonidas_tools.settings.fields import Count, Duration, Name, OptionalCount, Switch
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.tools.metadata import Scheduling, ToolScheduling
from leonidas_tools.tools.tool import Tool
from leonidas_tools.tools.toolbox import Toolbox

DELEGATE, STOP = "delegate", "stop_delegated"

_INSTRUCTIONS = (
    "You work on a task for a voice assistant that talks with the user in the meantime. You "
    "cannot ask the user yourself. When there is progress worth reporting, write one short "
    "sentence about it along with your calls. End with an answer of a few sentences that can be "
    "spoken."
)
_WHEN_IDLE = ToolScheduling.WHEN_IDLE


@dataclass(eq=False, repr=False)
class Delegation:
    """The tools `delegate` and `stop_delegated`: an agent works while the conversation continues.

    The agent uses the tools of the runtime that runs `delegate`, in the session of the call: under
    the same policies, for the same user, with the same approvals. The voice model asks the user
    the questions of the agent's calls. Cancelling the call of `delegate` stops the agent and all
    its calls; a barge-in alone does not.

    Args:
        model: The model of the agent, or a function that opens one for each task.
        max_at_once: The maximum number of delegations of a session that run at once.
        max_depth: The maximum depth of nested delegations; with 1, the agent cannot delegate.
        max_seconds: The timeout of a delegation in seconds, including the wait for approvals.
        max_iterations: The maximum number of turns of the model.
        max_calls: The maximum number of tool calls, including those of fragments below.
        max_tokens: The maximum number of tokens of all turns, including fragments below.
        progress_seconds: The minimum number of seconds between two progress reports.
        instructions: Instructions for the model, added to those about how to report.
        parameters: The parameters of the model.
        tool_choice: Chooses the tools relevant to a task, from very many tools.
        short_term: Limits the messages of a long run that the model sees.

    Raises:
        ValueError: A limit is too small.

    Example:
        >>> from leonidas_tools import ToolRuntime
        >>> from leonidas_tools.agent.models import ScriptedModel
        >>> model = ScriptedModel(["Booked for noon."])
        >>> tools = ToolRuntime(Delegation(model).tools, builtin_tools=False)
        >>> asyncio.run(tools.execute("delegate", {"task": "Book a table."})).result["answer"]
        'Booked for noon.'
    """

    model: Model | OpensModel
    _: KW_ONLY
    max_at_once: int = 3
    max_depth: int = 1
    max_seconds: float = 600.0
    max_iterations: int = 20
    max_calls: int = 60
    max_tokens: int = 100_000
    progress_seconds: float = 10.0
    instructions: str = ""
    parameters: ModelParameters = DEFAULT_PARAMETERS
    tool_choice: ToolChoice | None = None
    short_term: ShortTermMemory | None = None
    tools: tuple[Tool[..., Any], ...] = field(init=False)
    """The tools to add to a runtime or a processor."""

    def __post_init__(self) -> None:
        check_bounds(self, "max_at_once", "max_depth", "max_iterations", "max_calls", "max_tokens")
        if self.max_seconds <= 0 or self.progress_seconds < 0:
            raise ValueError(
                "max_seconds must be above 0, and progress_seconds 0 or more, not "
                f"{self.max_seconds!r} and {self.progress_seconds!r}"
            )
        self.tools = (
            sub_agent_tool(
                self._delegate,
                name=DELEGATE,
                max_seconds=self.max_seconds,
                behavior="NON_BLOCKING",
                scheduling=Scheduling(
                    ok=_WHEN_IDLE, error=_WHEN_IDLE, late=_WHEN_IDLE, progress=_WHEN_IDLE
                ),
            ),
            Tool(
                self._stop_delegated,
                name=STOP,
                category="action",
                effect="idempotent",
                lane="off",
                tags=["agent"],
            ),
        )

    async def _delegate(  # noqa: D417 - models read it; `ctx` is not an argument
        self, task: Task, ctx: ToolContext
    ) -> ToolResult:
        """Delegate a task of several steps to an agent that works on it in the background.

        Continue the conversation in the meantime: the answer arrives by itself, maybe minutes
        later. Do not call it again for the same task. If the agent's own calls need an answer, you
        receive a question with an id: ask the user and answer it as any other.

        Args:
            task: What to do, complete and self-contained: the agent does not know the conversation.
        """
        runtime = runtime_around("delegation")
        depth = nesting({DELEGATE})
        if depth > self.max_depth:
            raise ToolError(say("delegation_too_deep"), status="limited", reason_code="max_depth")
        running = ctx.session.get(_Running)
        if len(running.tasks) >= self.max_at_once:
            message = say("too_many_delegations", most=self.max_at_once)
            raise ToolError(message, status="limited", retryable=True, reason_code="max_at_once")
        withheld = OF_THE_VOICE | ({DELEGATE, STOP} if depth == self.max_depth else set())
        secrets = set[str]()
        work = SubAgent(
            kind="delegation",
            model=self.model,
            make=partial(self._agent, runtime, withheld),
            max_seconds=self.max_seconds,
            budget=budget_within(self.max_tokens, self.max_calls),
            secrets=secrets,
        )
        running.tasks[ctx.call.trace_id] = task
        try:
            return await work.run(task, ctx, on_step=_Progress(ctx, self.progress_seconds, secrets))
        finally:
            running.tasks.pop(ctx.call.trace_id, None)

    async def _stop_delegated(  # noqa: D417 - models read it; `ctx` is not an argument
        self, ctx: ToolContext, task: str = ""
    ) -> ToolResult:
        """Stop delegated tasks and their calls, because the user does not want them.

        Args:
            task: Words of the task to stop, if several run; empty stops all.
        """
        running, runtime = ctx.session.get(_Running), runtime_of(current().host)
        wanted = task.casefold().strip()
        found = {key: text for key, text in running.tasks.items() if wanted in text.casefold()}
        if not found or runtime is None:
            options = list(running.tasks.values()) or None
            return ToolResult.not_found(say("nothing_delegated"), valid_options=options)
        for trace_id in found:
            runtime.cancel(trace_id, session=ctx.session)
        return ToolResult(result={"stopped": list(found.values())})

    def _agent(self, runtime: ToolRuntime, withheld: frozenset[str], model: Model) -> ReActAgent:
        return ReActAgent(
            model,
            runtime,
            max_iterations=self.max_iterations,
            instructions="\n\n".join(filter(None, (_INSTRUCTIONS, self.instructions))),
            parameters=self.parameters,
            may_use=lambda tool: tool.name not in withheld,
            tool_choice=self.tool_choice,
            short_term=self.short_term,
        )


class _Running:
    """The delegated tasks of a session that are running, by the trace id of their call."""

    def __init__(self) -> None:
        self.tasks: dict[str, str] = {}


class _Progress:
    """Reports the text that accompanies calls as progress, at intervals and without secrets."""

    def __init__(self, ctx: ToolContext, interval_seconds: float, secrets: set[str]) -> None:
        self._ctx = ctx
        self._interval_seconds = interval_seconds
        self._secrets = secrets
        self._next_at = float("-inf")

    def __call__(self, step: Step) -> None:
        now = asyncio.get_running_loop().time()
        if isinstance(step, CallsMade) and step.text and now >= self._next_at:
            self._next_at = now + self._interval_seconds
            self._ctx.progress(KnownSecrets(self._secrets).text(step.text))


# The toolbox --------------------------------------------------------------------------------------

ServedModel: TypeAlias = OpenAIModel | GeminiModel


class DelegateSettings(SettingsModel):
    """Settings of delegation.

    Args:
        provider: `openai` (any compatible endpoint, such as llama.cpp's) or `gemini`.
        model: The name of the model.
        base_url: The base URL of the endpoint, such as `http://127.0.0.1:8080/v1`; by default the
            provider's own.
        api_key_variable: The environment variable with the API key; by default the provider's own.
        text_calls: Whether the model writes calls as text, for a model without function calling.
        answer_timeout: The timeout of one answer of the model.
        instructions: Instructions for the model.
        max_at_once: The maximum number of delegations of a session that run at once.
        max_depth: The maximum depth of nested delegations; with 1, the agent cannot delegate.
        max_seconds: The timeout of a delegation, including the wait for approvals.
        max_iterations: The maximum number of turns of the model.
        max_calls: The maximum number of tool calls.
        max_tokens: The maximum number of tokens of all turns.
        progress_seconds: The minimum time between two progress reports.
        most_tools: The maximum number of tools, the most relevant to the task; by default all.
        embeddings: The embeddings that choose the tools by meaning.
        window_tokens: The number of tokens that the model sees; older messages are summarized.
    """

    provider: Literal["openai", "gemini"] = "openai"
    model: Name
    base_url: Name | None = None
    api_key_variable: Name | None = None
    text_calls: Switch = False
    answer_timeout: Duration = 120.0
    instructions: str = ""
    max_at_once: Count = 3
    max_depth: Count = 1
    max_seconds: Duration = 600.0
    max_iterations: Count = 20
    max_calls: Count = 60
    max_tokens: Count = 100_000
    progress_seconds: Duration = 10.0
    most_tools: OptionalCount = None
    embeddings: EmbedderSettings = EmbedderSettings()
    window_tokens: Annotated[int, Field(ge=100)] | None = None


_LIMITS = ("max_at_once", "max_depth", "max_seconds", "max_iterations", "max_calls", "max_tokens")
_PASSED_ON = {*_LIMITS, "progress_seconds", "instructions"}


def _open_model(settings: DelegateSettings) -> ServedModel:
    """Return the model, which the caller must close."""
    key = None
    if settings.api_key_variable is not None:
        key = os.environ.get(settings.api_key_variable)
        if not key:
            raise ConfigurationError(
                f"no API key is set: set the environment variable {settings.api_key_variable!r}"
            )
    common: dict[str, Any] = {
        "api_key": key,
        "base_url": settings.base_url,
        "timeout_seconds": settings.answer_timeout,
    }
    if settings.provider == "gemini":
        return GeminiModel(settings.model, **common)
    return OpenAIModel(settings.model, calls_functions=not settings.text_calls, **common)


def _make(settings: DelegateSettings) -> Sequence[Tool[..., Any]]:
    _open_model(settings)  # raises now if a package or key is missing, not during a conversation
    most, window = settings.most_tools, settings.window_tokens
    embedder = None if most is None else make_embedder(settings.embeddings)
    return Delegation(
        partial(_open_model, settings),
        tool_choice=None if embedder is None or most is None else ToolChoice(embedder, most=most),
        short_term=None if window is None else ShortTermMemory(max_tokens=window),
        **settings.model_dump(include=_PASSED_ON),
    ).tools


TOOLBOX = Toolbox(
    summary="An agent that works on tasks of several steps while the conversation continues.",
    make=_make,
    settings=DelegateSettings,
    access=frozenset({"network"}),
)
