"""A model that answers the sampling requests of servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.genai import Client

    from leonidas_tools.calls.call import Media


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingTurn:
    """A message in a sampling request.

    Args:
        role: `user` or `assistant`.
        content: Texts, images and audio.
    """

    role: str
    content: Sequence[str | Media] = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingRequest:
    """A sampling request of a server.

    Args:
        server: The server's name.
        model: The name of the model.
        turns: The messages of the request.
        max_tokens: Most tokens of the answer.
        system_prompt: The system prompt of the server.
        temperature: The sampling temperature.
        stop_sequences: Texts at which the answer ends.
    """

    server: str
    model: str
    turns: Sequence[SamplingTurn] = field(repr=False)
    max_tokens: int
    system_prompt: str | None = field(default=None, repr=False)
    temperature: float | None = None
    stop_sequences: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingAnswer:
    """The answer of a model.

    Args:
        text: The answer.
        model: The name of the model that answered.
        stop_reason: The reason for its end: `endTurn`, `maxTokens` or `stopSequence`.
    """

    text: str = field(repr=False)
    model: str
    stop_reason: str = "endTurn"


SamplingModel: TypeAlias = Callable[[SamplingRequest], Awaitable[SamplingAnswer]]
"""Answers a request, without tools and without access to the conversation."""


class GeminiSampling:
    """Answers requests with google-genai.

    Args:
        client: The client; by default one with the key of the environment, made on first use.
    """

    def __init__(self, client: Client | None = None) -> None:
        self._client = client

    async def __call__(self, request: SamplingRequest) -> SamplingAnswer:
        """Send a request to the model, and return its answer."""
        from google import genai
        from google.genai import types

        if self._client is None:
            self._client = genai.Client()
        answer = await self._client.aio.models.generate_content(
            model=request.model,
            contents=[_content(turn, types) for turn in request.turns],
            config=types.GenerateContentConfig(
                max_output_tokens=request.max_tokens,
                system_instruction=request.system_prompt,
                temperature=request.temperature,
                stop_sequences=list(request.stop_sequences) or None,
            ),
        )
        reason = answer.candidates[0].finish_reason if answer.candidates else None
        is_cut = reason is types.FinishReason.MAX_TOKENS
        return SamplingAnswer(
            text=answer.text or "",
            model=answer.model_version or request.model,
            stop_reason="maxTokens" if is_cut else "endTurn",
        )


def _content(turn: SamplingTurn, types: Any) -> Any:
    parts = [
        types.Part.from_text(text=each)
        if isinstance(each, str)
        else types.Part.from_bytes(data=each.data, mime_type=each.mime_type)
        for each in turn.content
    ]
    content: types.Content = types.Content(
        role="user" if turn.role == "user" else "model", parts=parts
    )
    return content
