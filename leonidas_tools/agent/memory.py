"""The memory of agents: a window on a long conversation, and lessons in the store."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from leonidas_tools.agent.models.model import (
    DEFAULT_PARAMETERS,
    Message,
    Model,
    ModelParameters,
    Usage,
    answer,
    estimated_tokens,
)
from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.errors import ModelError
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.embeddings import Embedder
    from leonidas_tools.results.texts import Wording
    from leonidas_tools.store.memories import MemoryTable

_logger = visible_logger(__name__)

_FEWEST_TOKENS = 100
_MAX_QUOTED_LENGTH = 2000
_CHARACTERS_OF_A_TOKEN = 4

SOURCE = "agent"
"""The source of memories that agents have learned."""
_OWN_SOURCES = ("", SOURCE)
_MAX_LOOKED_AT = 100
"""Number of nearest memories to read, before those read from files are left out."""
_MAX_LESSON_LENGTH = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ShortTermMemory:
    """Limits the tokens of the conversation that a model sees.

    If the conversation is longer, the model summarizes its oldest part. The task and the newest
    messages stay unchanged. The record of the run keeps every message.

    Args:
        max_tokens: The maximum number of tokens of the messages, as estimated.
        model: The model that summarizes; by default the model of the agent.
        parameters: The parameters of the model that summarizes.

    Raises:
        ValueError: `max_tokens` is below 100.

    Example:
        >>> from leonidas_tools.agent import ReActAgent, ScriptedModel
        >>> agent = ReActAgent(ScriptedModel([]), short_term=ShortTermMemory(max_tokens=4000))
    """

    max_tokens: int = 8000
    model: Model | None = None
    parameters: ModelParameters = DEFAULT_PARAMETERS

    def __post_init__(self) -> None:
        if self.max_tokens < _FEWEST_TOKENS:
            raise ValueError(
                f"max_tokens must be {_FEWEST_TOKENS} or more, not {self.max_tokens!r}"
            )


class Window:
    """The part of a growing conversation that its model sees.

    `model` summarizes, unless the memory has its own; `history` is the number of messages before
    the task.
    """

    def __init__(self, memory: ShortTermMemory, model: Model, *, history: int = 0) -> None:
        self._memory = memory
        self._model = memory.model or model
        self._task = history
        self._begin = 0
        """Index of the first message that is not yet summarized."""
        self._summary = ""

    def visible_messages(self, messages: Sequence[Message], wording: Wording) -> Sequence[Message]:
        """Return the instructions, the task with the summary, and the messages since then."""
        if not self._summary:
            return messages
        system = [message for message in messages if message.role == "system"]
        rest = messages[len(system) :]
        told = wording.text("agent_summary", summary=self._summary)
        task = Message.user(f"{rest[self._task].text}\n\n{told}")
        return [*system, task, *rest[self._begin :]]

    async def fit(self, messages: Sequence[Message], wording: Wording) -> Usage:
        """Summarize the oldest messages if the token limit is exceeded; return the token usage."""
        if tokens_of(self.visible_messages(messages, wording)) <= self._memory.max_tokens:
            return Usage()
        rest = [message for message in messages if message.role != "system"]
        begin = self._new_begin(rest)
        if begin <= self._begin:
            return Usage()  # a single turn is too long: keep it
        oldest = [
            message
            for place, message in enumerate(rest[self._begin : begin], start=self._begin)
            if place != self._task
        ]
        prompt = wording.text(
            "agent_summarize",
            task=rest[self._task].text[:_MAX_QUOTED_LENGTH],
            summary=self._summary or "-",
            messages=_quote_messages(oldest, self._memory.max_tokens * _CHARACTERS_OF_A_TOKEN),
        )
        usage, said = Usage(), ""
        try:
            made = await answer(self._model, [Message.user(prompt)], (), self._memory.parameters)
            usage, said = made.usage, made.text.strip()
        except ModelError as error:
            _logger.warning("The conversation cannot be summarised and is truncated: %s", error)
        said = said or f"{self._summary}\n({len(oldest)} messages are left out)".strip()
        self._summary = said[: self._memory.max_tokens]  # at most a quarter of the tokens
        self._begin = begin
        return usage

    def _new_begin(self, rest: Sequence[Message]) -> int:
        """Return the start of the newest turns within half of the tokens; keep at least one."""
        begins = [
            place
            for place, message in enumerate(rest)
            if message.role == "assistant" and place > self._task
        ]
        half = self._memory.max_tokens // 2
        fitting = (place for place in begins if tokens_of(rest[place:]) <= half)
        return next(fitting, begins[-1] if begins else self._begin)


def tokens_of(messages: Sequence[Message]) -> int:
    """Estimate the number of tokens of messages with their calls."""
    return sum(
        estimated_tokens(message.text) + sum(estimated_tokens(str(call)) for call in message.calls)
        for message in messages
    )


def _quote_messages(messages: Sequence[Message], most_characters: int) -> str:
    """Return the newest messages as text of limited length, each one limited too."""
    lines = []
    for message in messages:
        calls = "".join(f" [calls {call.name} {call.arguments}]" for call in message.calls)
        lines.append(
            f"{message.role}: {message.text[:_MAX_QUOTED_LENGTH]}{calls[:_MAX_QUOTED_LENGTH]}"
        )
    return "\n".join(lines)[-most_characters:]


# Stored memory ------------------------------------------------------------------------------------


@runtime_checkable
class AgentMemory(Protocol):
    """The memory of an orchestrator, separate for each user."""

    async def recall(self, task: str, *, session: ToolSession) -> Sequence[str]:
        """Return memories that help with a task, best first."""

    async def learn(self, lesson: str, *, session: ToolSession) -> None:
        """Keep a lesson from a task."""


@dataclass
class StoredMemory:
    """Keeps the lessons of an agent among the memories of its user, and recalls them for a task.

    The toolbox `memory` uses the same memories, if its embeddings are the same. A task recalls
    what the user has asked to remember, and the tool `recall` finds the lessons of agents. Only
    `recall` returns text read from files: others may have written it, and only the result of a
    tool can be marked untrusted.

    Args:
        keeper: The table of memories, such as `store.memories`.
        embedder: Turns texts into vectors.
        limit: The maximum number of memories for a task.
        least_similarity: The minimum cosine similarity of a memory to the task.

    Raises:
        ValueError: `limit` is below 1.

    Example:
        >>> from leonidas_tools.embeddings import LocalEmbedder
        >>> from leonidas_tools.store import Store
        >>> store = Store("agent.db")
        >>> memory = StoredMemory(store.memories, LocalEmbedder())
    """

    keeper: MemoryTable
    embedder: Embedder
    _: KW_ONLY
    limit: int = 5
    least_similarity: float = 0.0

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit must be 1 or more, not {self.limit!r}")

    async def recall(self, task: str, *, session: ToolSession) -> Sequence[str]:
        """Return the memories of the user that are relevant to a task, the nearest first.

        Args:
            task: The task.
            session: The session of the run, which has the user.

        Raises:
            ModelError: The task cannot be embedded.
            StoreError: The memories cannot be read.
        """
        user, least = user_of(session), self.least_similarity
        found = await self.keeper.recall(user, task, self.embedder, limit=_MAX_LOOKED_AT)
        texts = [
            each.text
            for each in found
            if each.source in _OWN_SOURCES and (each.similarity or 0.0) >= least
        ]
        return texts[: self.limit]

    async def learn(self, lesson: str, *, session: ToolSession) -> None:
        """Keep a lesson for the user; do not keep a known lesson twice.

        Args:
            lesson: The lesson.
            session: The session of the run.

        Raises:
            TooManyEntriesError: The user already has the maximum number of memories.
            ModelError: The lesson cannot be embedded.
            StoreError: The lesson cannot be written.
        """
        text = lesson.strip()[:_MAX_LESSON_LENGTH]
        if text:
            await self.keeper.remember(user_of(session), [text], self.embedder, source=SOURCE)
