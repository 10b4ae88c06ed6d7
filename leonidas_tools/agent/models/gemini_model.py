"""Gemini as a text model, with google-genai."""

from __future__ import annotations

import json
import os
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from leonidas_tools.agent.models.model import (
    Chunk,
    Declared,
    EndReason,
    Message,
    ModelCall,
    ModelParameters,
    TextDelta,
    Usage,
    ids_in,
    new_id,
    object_of,
)
from leonidas_tools.agent.models.served_model import (
    ServedModel,
    check_complete,
    connection_error,
    connection_errors,
)
from leonidas_tools.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

    from google.genai import Client, types

_REFUSED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE"}
)


class GeminiModel(ServedModel):
    """A Gemini model that answers in text.

    Args:
        model: The name of the model.
        api_key: The API key; by default `GOOGLE_API_KEY`, else `GEMINI_API_KEY` of the environment.
        base_url: The base URL of the API, such as a proxy; by default `GOOGLE_GEMINI_BASE_URL` of
            the environment, else Google's own.
        client: Returns the client to use instead of a new one, for example for Vertex AI.
        timeout_seconds: The timeout of a whole answer in seconds, including all attempts.
        retries: The maximum number of retries after a retryable error.
        backoff_seconds: The wait before the first retry in seconds; it doubles with each retry.

    Raises:
        ConfigurationError: There is no API key.
        ValueError: A limit is out of range.
    """

    calls_functions = True

    def __init__(  # noqa: PLR0913 - optional arguments
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: Callable[[], Client] | None = None,
        timeout_seconds: float = 120.0,
        retries: int = 2,
        backoff_seconds: float = 0.5,
    ) -> None:
        key = api_key or os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")
        if client is None and not key:
            raise ConfigurationError("no API key for Gemini is set: set GEMINI_API_KEY")
        super().__init__(
            model,
            filter(None, [key]),
            timeout_seconds=timeout_seconds,
            retries=retries,
            backoff_seconds=backoff_seconds,
        )
        self._make = client or partial(_client, key, base_url)

    def __repr__(self) -> str:
        return f"<GeminiModel {self.name!r}>"

    async def _attempt(
        self, messages: Sequence[Message], tools: Sequence[Declared], parameters: ModelParameters
    ) -> AsyncGenerator[Chunk]:
        from google.genai import errors

        taken, end = ids_in(messages), None
        try:
            responses: Any = await self._connect().aio.models.generate_content_stream(
                model=self.name,
                contents=_contents(messages),
                config=_config(messages, tools, parameters),
            )
            async with aclosing(responses):
                async for response in responses:
                    end = end or _end_of(response)
                    for chunk in _chunks(response, taken):
                        yield chunk
        except errors.APIError as error:
            raise _model_error(error) from None
        except connection_errors() as error:
            raise connection_error(error) from None
        except (ValueError, TypeError, AttributeError, LookupError) as error:  # of an odd shape
            raise ModelError(
                f"the server's answer cannot be read: {error}", reason="protocol", retryable=True
            ) from None
        yield check_complete(end)

    def _open(self) -> Client:
        return self._make()

    async def _close(self, client: Client) -> None:
        await client.aio.aclose()


def _client(key: str | None, base_url: str | None) -> Client:
    from google.genai import Client, types

    once = types.HttpRetryOptions(attempts=1)  # `bounded` retries, within the timeout
    options = types.HttpOptions(retry_options=once, base_url=base_url)
    return Client(api_key=key, vertexai=False, http_options=options)


def _config(
    messages: Sequence[Message], tools: Sequence[Declared], parameters: ModelParameters
) -> types.GenerateContentConfig:
    from google.genai import types

    from leonidas_tools.processors.gemini_declarations import for_gemini

    system = "\n\n".join(each.text for each in messages if each.role == "system")
    functions = [
        types.FunctionDeclaration(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=for_gemini(tool.parameters),
        )
        for tool in tools
    ]
    return types.GenerateContentConfig(
        system_instruction=system or None,
        tools=[types.Tool(function_declarations=functions)] if functions else None,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        temperature=parameters.temperature,
        top_p=parameters.top_p,
        max_output_tokens=parameters.max_output_tokens,
        seed=parameters.seed,
        stop_sequences=list(parameters.stop) or None,
        response_mime_type=None if parameters.response_schema is None else "application/json",
        response_json_schema=parameters.response_schema,
    )


def _contents(messages: Sequence[Message]) -> list[types.Content]:
    """Return the conversation, with consecutive messages of a role merged into one content."""
    from google.genai import types

    contents = list[types.Content]()
    for message in messages:
        if message.role == "system":
            continue
        role = "model" if message.role == "assistant" else "user"
        parts = list(_parts(message))
        if contents and contents[-1].role == role:
            contents[-1].parts = [*(contents[-1].parts or ()), *parts]
        else:
            contents.append(types.Content(role=role, parts=parts))
    return contents


def _parts(message: Message) -> Iterator[types.Part]:
    from google.genai import types

    if message.role == "tool":
        body = _object(message.text)
        yield types.Part(
            function_response=types.FunctionResponse(
                id=message.call_id, name=message.name, response=body
            )
        )
        return
    if message.text or not message.calls:
        yield types.Part(text=message.text)
    for call in message.calls:
        yield types.Part(
            function_call=types.FunctionCall(
                id=call.id, name=call.name, args=object_of(call.arguments)
            ),
            thought_signature=call.signature,
        )


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return value if isinstance(value, dict) else {"result": value}


def _chunks(response: types.GenerateContentResponse, taken: set[str]) -> Iterator[Chunk]:
    """Yield the chunks of a response; their ids are added to those taken."""
    for candidate in (response.candidates or ())[:1]:
        for part in (candidate.content.parts if candidate.content else None) or ():
            if part.text:
                yield TextDelta(part.text, is_thought=bool(part.thought))
            if (call := part.function_call) is not None:
                identifier = new_id(call.id, taken)
                taken.add(identifier)
                yield ModelCall(
                    id=identifier,
                    name=call.name or "",
                    arguments=call.args or {},
                    signature=part.thought_signature,
                )
    if (usage := response.usage_metadata) is not None:
        thought, said = usage.thoughts_token_count, usage.candidates_token_count
        yield Usage(
            input_tokens=usage.prompt_token_count or 0, output_tokens=(said or 0) + (thought or 0)
        )


def _end_of(response: types.GenerateContentResponse) -> EndReason | None:
    """Return why the answer ended with a response; `None` if it did not."""
    if response.prompt_feedback is not None and response.prompt_feedback.block_reason:
        return EndReason.REFUSED
    reason = response.candidates[0].finish_reason if response.candidates else None
    if not reason:
        return None
    if reason.name == "MAX_TOKENS":
        return EndReason.LENGTH
    return EndReason.REFUSED if reason.name in _REFUSED else EndReason.STOP


def _model_error(error: Any) -> ModelError:
    status, said = error.code, f"{error.message}"
    reason: Any = "request"
    if status in (401, 403) or "API key" in said:
        reason = "authentication"
    elif status == 429:  # noqa: PLR2004 - too many requests
        reason = "rate_limited"
    elif "token count" in said:
        reason = "context_length"
    elif not isinstance(status, int) or status >= 500 or status == 408:  # noqa: PLR2004
        reason = "server"
    return ModelError(
        f"the server returned {status}: {said}",
        reason=reason,
        retryable=reason in ("rate_limited", "server"),
    )
