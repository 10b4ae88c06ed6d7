"""Models behind an OpenAI-compatible endpoint: llama.cpp, vLLM, Ollama and most vendors."""

from __future__ import annotations

import os
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leonidas_tools.agent.models.attempts import AnswerLimits, ServedModel
from leonidas_tools.agent.models.model import (
    Chunk,
    Declared,
    End,
    EndReason,
    Message,
    ModelCall,
    ModelParameters,
    TextDelta,
    Usage,
    ids_in,
    new_id,
)
from leonidas_tools.agent.models.written import parsed_arguments, written_arguments
from leonidas_tools.errors import ConfigurationError, ModelError
from leonidas_tools.redaction import KnownSecrets
from leonidas_tools.redaction.addresses import shown_place
from leonidas_tools.tools.names import undotted_names

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence

    import openai

_CONNECT_SECONDS = 10.0
_NO_KEY = "none"
_END = {"length": EndReason.LENGTH, "content_filter": EndReason.REFUSED}
_REASONING = ("reasoning_content", "reasoning")
"""Fields with the reasoning of a model; OpenAI itself does not send it."""


class OpenAIModel(ServedModel):
    """A model behind an OpenAI-compatible endpoint.

    Needs the extra `agent`.

    Args:
        model: The name of the model at the endpoint.
        base_url: The base URL, such as `http://127.0.0.1:8080/v1`; by default `OPENAI_BASE_URL` of
            the environment, else OpenAI's own.
        api_key: The API key; by default `OPENAI_API_KEY` of the environment, which is never sent
            to a `base_url` given as an argument.
        calls_functions: Whether the model supports function calling; with `False`, its prompt
            describes the tools.
        timeout_seconds: The timeout of a whole answer in seconds, including all attempts.
        retries: The maximum number of retries after a retryable error.
        backoff_seconds: The wait before the first retry in seconds; it doubles with each retry.

    Raises:
        ConfigurationError: There is no API key for OpenAI, or the extra is not installed.
        ValueError: A limit is out of range.
    """

    def __init__(  # noqa: PLR0913 - optional arguments
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        calls_functions: bool = True,
        timeout_seconds: float = 120.0,
        retries: int = 2,
        backoff_seconds: float = 0.5,
    ) -> None:
        self.calls_functions = calls_functions
        limits = AnswerLimits(
            timeout_seconds=timeout_seconds, retries=retries, backoff_seconds=backoff_seconds
        )
        if base_url is None:
            base_url = os.environ.get("OPENAI_BASE_URL") or None
            api_key = api_key or os.environ.get("OPENAI_API_KEY")
            if base_url is None and not api_key:
                raise ConfigurationError(
                    "no API key for OpenAI is set: set OPENAI_API_KEY, or give base_url for "
                    "another server"
                )
        super().__init__(model, limits, KnownSecrets([api_key] if api_key else ()))
        self._base_url = base_url
        self._api_key = api_key or _NO_KEY
        _openai()

    def __repr__(self) -> str:
        place = "" if self._base_url is None else f" at {shown_place(self._base_url)}"
        return f"<OpenAIModel {self.name!r}{place}>"

    async def _attempt(
        self, messages: Sequence[Message], tools: Sequence[Declared], parameters: ModelParameters
    ) -> AsyncGenerator[Chunk]:
        openai = _openai()
        names = undotted_names([*(tool.name for tool in tools), *names_in(messages)])
        pieces = _Pieces({name: own for own, name in names.items()}, ids_in(messages))
        try:
            create: Any = self._connected().chat.completions.create
            chunks = await create(
                model=self.name,
                messages=[chat_message(each, names) for each in messages],
                stream=True,
                stream_options={"include_usage": True},
                **_options(tools, parameters, names),
            )
            async with aclosing(chunks):
                async for chunk in chunks:
                    for piece in pieces.read(chunk):
                        yield piece
        except openai.APIError as error:
            raise _model_error(error, declares=bool(tools)) from None
        except (openai.OpenAIError, OSError, ValueError) as error:
            raise ModelError(
                f"the server's answer cannot be read: {error}", reason="protocol", retryable=True
            ) from None
        for piece in pieces.end():
            yield piece

    def _open(self) -> Any:
        openai = _openai()
        return openai.AsyncOpenAI(
            api_key=self._api_key,
            base_url=self._base_url,
            max_retries=0,
            timeout=openai.Timeout(None, connect=_CONNECT_SECONDS),
        )

    async def _close(self, client: openai.AsyncOpenAI) -> None:
        await client.close()


def _openai() -> Any:
    try:
        import openai
    except ImportError:
        raise ConfigurationError(
            "openai is not installed: pip install 'leonidas-tools[agent]'"
        ) from None
    return openai


def _options(
    tools: Sequence[Declared], parameters: ModelParameters, names: Mapping[str, str]
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "temperature": parameters.temperature,
        "top_p": parameters.top_p,
        "max_tokens": parameters.max_output_tokens,
        "seed": parameters.seed,
        "stop": list(parameters.stop) or None,
        "tools": [chat_function(tool, names) for tool in tools] or None,
    }
    return {name: value for name, value in options.items() if value is not None}


def chat_function(tool: Declared, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a tool in the format of the OpenAI API.

    `names` has the name for the API by the name of the function.
    """
    function = {
        "name": names[tool.name],
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def names_in(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the names of the functions called in a conversation."""
    for message in messages:
        yield from (call.name for call in message.calls)


def chat_message(message: Message, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a message in the format of the OpenAI API.

    `names` has the name for the API by the name of the function.
    """
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id or "", "content": message.text}
    if not message.calls:
        return {"role": message.role, "content": message.text}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": names[call.name],
                "arguments": written_arguments(call.arguments),
            },
        }
        for call in message.calls
    ]
    return {"role": message.role, "content": message.text or None, "tool_calls": calls}


@dataclass(slots=True)
class _CallInPieces:
    """A call that is still being received."""

    id: str | None = None
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class _Pieces:
    """Parses the streamed chunks of the server.

    `own_names` has the name of a function by its name for the API; `taken` has ids of other calls.
    """

    def __init__(self, own_names: Mapping[str, str], taken: set[str]) -> None:
        self._own_names = own_names
        self._taken = taken
        self._calls: list[_CallInPieces] = []
        self._at: dict[int, _CallInPieces] = {}
        self._end: EndReason | None = None

    def read(self, chunk: Any) -> Iterator[Chunk]:
        """Yield thoughts, text and usage at once, and collect calls for `end`."""
        for choice in (chunk.choices or ())[:1]:
            delta = choice.delta
            if delta is not None:
                yield from self._delta(delta)
            if choice.finish_reason:
                self._end = self._end or _END.get(choice.finish_reason, EndReason.STOP)
        if (usage := chunk.usage) is not None:
            yield Usage(
                input_tokens=usage.prompt_tokens or 0, output_tokens=usage.completion_tokens or 0
            )

    def _delta(self, delta: Any) -> Iterator[Chunk]:
        more = delta.model_extra or {}
        thoughts = [text for key in _REASONING if isinstance(text := more.get(key), str) and text]
        if thoughts:  # some servers send both names
            yield TextDelta(thoughts[0], is_thought=True)
        if delta.content:
            yield TextDelta(delta.content)
        if delta.refusal:
            self._end = EndReason.REFUSED
            yield TextDelta(delta.refusal)
        for piece in delta.tool_calls or ():
            self._call(piece)

    def _call(self, piece: Any) -> None:
        index = piece.index if piece.index is not None else len(self._at)
        call = self._at.get(index)
        # Some servers send each call whole, all of them with the same index.
        if call is None or (piece.id and call.id and piece.id != call.id):
            call = self._at[index] = _CallInPieces()
            self._calls.append(call)
        call.id = piece.id or call.id
        if piece.function is not None:
            call.name += piece.function.name or ""
            call.arguments.append(piece.function.arguments or "")

    def end(self) -> Iterator[Chunk]:
        """Yield the calls and the end of the answer.

        Raises:
            ModelError: The stream ended before the answer was complete.
        """
        if self._end is None:
            raise ModelError(
                "the server closed the stream before its answer was complete",
                reason="connection",
                retryable=True,
            )
        for call in self._calls:
            identifier = new_id(call.id, self._taken)
            self._taken.add(identifier)
            yield ModelCall(
                id=identifier,
                name=self._own_names.get(call.name, call.name),
                arguments=parsed_arguments("".join(call.arguments)),
            )
        yield End(self._end)


def _model_error(error: openai.APIError, *, declares: bool) -> ModelError:
    openai = _openai()
    message = f"{error.message}"
    if isinstance(error, openai.APIStatusError):
        status = error.status_code
        reason, retryable = _kind(status, message, declares=declares)
        return ModelError(
            f"the server returned {status}: {message}",
            reason=reason,
            retryable=retryable,
            retry_after_seconds=_retry_after(error.response.headers.get("retry-after")),
        )
    if isinstance(error, openai.APIConnectionError):
        why = type(error.__cause__ or error).__name__
        return ModelError(
            f"cannot connect to the server ({why}): check its address and that it runs",
            reason="connection",
            retryable=True,
        )
    return ModelError(f"the server says: {message}", reason="server", retryable=True)


def _kind(status: int, said: str, *, declares: bool) -> tuple[Any, bool]:
    """Return the reason of a failure for a status, and whether it is retryable."""
    lowered = said.lower()
    if status in (401, 403):
        return "authentication", False
    if status == 429:  # noqa: PLR2004 - too many requests
        return "rate_limited", "quota" not in lowered
    if declares and status < 501 and ("tool" in lowered or "jinja" in lowered):  # noqa: PLR2004
        return "tools_unsupported", False
    if "context" in lowered and ("length" in lowered or "size" in lowered or "window" in lowered):
        return "context_length", False
    if status in (408, 409) or status >= 500:  # noqa: PLR2004 - server errors
        return "server", True
    return "request", False


def _retry_after(value: str | None) -> float | None:
    try:
        return None if value is None else max(float(value), 0.0)
    except ValueError:  # a date
        return None
