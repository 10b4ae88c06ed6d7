"""Models behind an OpenAI-compatible endpoint: llama.cpp, vLLM, Ollama and most vendors."""

from __future__ import annotations

import os
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from leonidas_tools.agent.models.chat_stream import AnswerReader, error_text, read_events
from leonidas_tools.agent.models.model import (
    Chunk,
    Declared,
    Message,
    ModelParameters,
    format_arguments,
    ids_in,
)
from leonidas_tools.agent.models.served_model import (
    ServedModel,
    connection_error,
    connection_errors,
)
from leonidas_tools.errors import ConfigurationError, ModelError, ModelErrorReason
from leonidas_tools.redaction.addresses import shown_place
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.tools.names import undotted_names

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence

    import openai


_logger = visible_logger(__name__)

_CONNECT_SECONDS = 10.0
_NO_KEY = "none"
_MAX_REFUSALS = 20
_MAX_REASON_CHARACTERS = 300
_REFUSING_STATUSES = frozenset({400, 404, 422, 500, 501})
_REASONING = "reasoning_content"
_INSTEAD = {"max_tokens": "max_completion_tokens"}
"""Newer names of parameters that a server may refuse."""
_NO_TOOLS = re.compile(
    r"--jinja\b|\btool choice requires\b"
    r"|\bsupport\w*\b[^.]{0,40}\b(?:tools|tool use|tool calling|function calling)\b"
    r"|\b(?:tools|tool use|tool calling|function calling)\b[^.]{0,20}\bnot (?:\w+ )?"
    r"(?:supported|enabled|available)\b",
    re.IGNORECASE,
)
"""How servers refuse all tools, other than by the name of the parameter."""
_TOOL_INDEX = re.compile(r"\b(?:tools|function_declarations|functions)[.\[](\d{1,4})")
_SCHEMA_WORDS = re.compile(r"schema|parameter|function|propert|declaration", re.IGNORECASE)


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
        headers: Further headers of each request; their values are masked in errors.
        extra_body: Further fields of each request, such as `{"cache_prompt": True}`; they replace
            those of the same name.
        tool_choice: Whether the model may call (`auto`), must (`required`) or must not (`none`), or
            the name of the function that it must call; by default the server decides.

    A parameter that the server refuses by its name is left out from then on, and so is a function
    whose schema it refuses; both are logged.

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
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        tool_choice: str | None = None,
    ) -> None:
        self.calls_functions = calls_functions
        if base_url is None:
            base_url = os.environ.get("OPENAI_BASE_URL") or None
            api_key = api_key or os.environ.get("OPENAI_API_KEY")
            if base_url is None and not api_key:
                raise ConfigurationError(
                    "no API key for OpenAI is set: set OPENAI_API_KEY, or give base_url for "
                    "another server"
                )
        headers = dict(headers or {})
        super().__init__(
            model,
            filter(None, [api_key, *headers.values()]),
            timeout_seconds=timeout_seconds,
            retries=retries,
            backoff_seconds=backoff_seconds,
        )
        self._base_url = base_url
        self._api_key = api_key or _NO_KEY
        self._headers = headers
        self._extra_body = dict(extra_body or {})
        self._tool_choice = tool_choice
        self._left_out = set[str]()
        """The parameters that the server has refused."""
        self._refused_schemas: dict[str, Any] = {}
        """The schemas that the server has refused, by the name of the function."""
        self._reasoning_field: str | None = None
        """The field in which the server sends reasoning, and may demand it back."""
        _openai()

    def __repr__(self) -> str:
        place = "" if self._base_url is None else f" at {shown_place(self._base_url)}"
        return f"<OpenAIModel {self.name!r}{place}>"

    async def _attempt(
        self, messages: Sequence[Message], tools: Sequence[Declared], parameters: ModelParameters
    ) -> AsyncGenerator[Chunk]:
        openai = _openai()
        for _ in range(_MAX_REFUSALS):
            declared = [tool for tool in tools if self._is_accepted(tool)]
            names = undotted_names([*(tool.name for tool in declared), *names_in(messages)])
            body = self._body(messages, declared, parameters, names)
            try:
                async with aclosing(self._chunks(body, names, ids_in(messages))) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except openai.APIStatusError as error:
                if not self._leave_out(error, body, declared, names):
                    raise _status_error(error, declares=bool(declared)) from None
            except (openai.OpenAIError, *connection_errors()) as error:
                raise connection_error(error.__cause__ or error) from None
            except (ValueError, TypeError, RecursionError) as error:
                raise ModelError(f"the request cannot be sent: {error}", reason="request") from None
            else:
                return
        raise ModelError("the server refuses one parameter after another", reason="request")

    async def _chunks(
        self, body: dict[str, Any], names: Mapping[str, str], taken: set[str]
    ) -> AsyncGenerator[Chunk]:
        """Send a request, and yield the chunks of its answer."""
        reader = AnswerReader({name: own for own, name in names.items()}, taken)
        create: Any = self._connect().chat.completions.with_streaming_response.create
        asked = {"model": self.name, "messages": body["messages"], "stream": True}
        async with create(**asked, extra_body=body) as response:
            async with aclosing(read_events(response.iter_bytes())) as events:
                async for event in events:
                    for chunk in reader.read(event):
                        yield chunk
            headers = response.headers
        self._reasoning_field = self._reasoning_field or reader.reasoning_field
        # Without these headers, a connection that breaks looks like the end of the answer.
        is_whole = "content-length" in headers or "transfer-encoding" in headers
        for chunk in reader.end(is_whole=is_whole):
            yield chunk

    def _body(
        self,
        messages: Sequence[Message],
        tools: Sequence[Declared],
        parameters: ModelParameters,
        names: Mapping[str, str],
    ) -> dict[str, Any]:
        """Return the body of a request, without the parameters that the server has refused."""
        left_out = self._left_out
        reasoning = None if self._reasoning_field in left_out else self._reasoning_field
        choice: Any = self._tool_choice
        if choice not in (None, "auto", "required", "none"):
            choice = {"type": "function", "function": {"name": names.get(choice, choice)}}
        schema = parameters.response_schema
        answer_format = {"name": "answer", "schema": schema}
        options: dict[str, Any] = {
            "stream_options": {"include_usage": True},
            "temperature": parameters.temperature,
            "top_p": parameters.top_p,
            "max_tokens": parameters.max_output_tokens,
            "seed": parameters.seed,
            "stop": list(parameters.stop) or None,
            "tools": [chat_function(tool, names) for tool in tools] or None,
            "tool_choice": choice if tools else None,
            "response_format": None
            if schema is None
            else {"type": "json_schema", "json_schema": answer_format},
        }
        for name, other in _INSTEAD.items():
            options |= {other: options[name] if name in left_out else None}
        return {
            "model": self.name,
            "messages": [
                chat_message(each, names, reasoning)
                for each in messages
                if each.text or each.calls or each.role != "assistant"
            ],
            "stream": True,
            **{k: v for k, v in options.items() if v is not None and k not in left_out},
            **self._extra_body,
        }

    def _is_accepted(self, tool: Declared) -> bool:
        """Return whether a tool is declared: not if its schema is unusable or was refused."""
        schema = tool.parameters
        if tool.name in self._refused_schemas and self._refused_schemas[tool.name] == schema:
            return False
        if isinstance(schema, dict) and schema.get("type", "object") == "object":
            return True
        self._refuse_schema(tool, "its schema is not one of an object")
        return False

    def _refuse_schema(self, tool: Declared, why: str) -> None:
        self._refused_schemas[tool.name] = tool.parameters
        why = self._secrets.text(why)[:_MAX_REASON_CHARACTERS]
        _logger.warning("The tool %r is not declared to the model: %s", tool.name, why)

    def _leave_out(
        self,
        error: openai.APIStatusError,
        body: Mapping[str, Any],
        tools: Sequence[Declared],
        names: Mapping[str, str],
    ) -> bool:
        """Disable the option that a server rejected by name; return whether to retry."""
        if error.status_code not in _REFUSING_STATUSES:
            return False
        text = error_text(error.body)
        if tool := _find_refused_tool(text, tools, names):
            self._refuse_schema(tool, text)
            return True
        if self._reasoning_field is None and _REASONING in text:  # it is demanded back
            self._reasoning_field = _REASONING
            return True
        optional = body.keys() - {"model", "messages", "stream", "tools"} - self._extra_body.keys()
        if self._reasoning_field is not None:
            optional |= {self._reasoning_field} - self._left_out
        refused = _find_refused_parameter(error.body, text, optional)
        if refused is None:
            return False
        self._left_out.add(refused)
        _logger.warning("The parameter %r is left out: the server refuses it", refused)
        return True

    def _open(self) -> Any:
        openai = _openai()
        return openai.AsyncOpenAI(
            api_key=self._api_key,
            base_url=self._base_url,
            default_headers=self._headers,
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


def chat_message(
    message: Message, names: Mapping[str, str], reasoning: str | None = None
) -> dict[str, Any]:
    """Return a message in the format of the OpenAI API.

    `names` has the name for the API by the name of the function; `reasoning` is the field for the
    reasoning before calls.
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
                "arguments": format_arguments(call.arguments),
            },
        }
        for call in message.calls
    ]
    thought = {} if reasoning is None else {reasoning: message.thought}
    return {"role": message.role, "content": message.text or None, "tool_calls": calls, **thought}


def _find_refused_parameter(body: Any, text: str, optional: Iterable[str]) -> str | None:
    """Return the parameter that a server's error names: as `param`, or in its message.

    A name that is also a word, such as `stop`, counts only in quotes.
    """
    named = body.get("param") if isinstance(body, dict) else None
    for name in sorted(optional, key=len, reverse=True):
        word = rf"\b{name}\b" if "_" in name else rf"""["'`]{name}["'`]"""
        if named == name or re.search(word, text):
            return name
    return None


def _find_refused_tool(
    text: str, tools: Sequence[Declared], names: Mapping[str, str]
) -> Declared | None:
    """Return the function whose schema a server's error names."""
    if not _SCHEMA_WORDS.search(text):
        return None
    for tool in tools:
        if re.search(rf"""["'`]{re.escape(names[tool.name])}["'`]""", text):
            return tool
    places = _TOOL_INDEX.findall(text)
    at = int(places[-1]) if places else len(tools)
    return tools[at] if at < len(tools) else None


def _status_error(error: openai.APIStatusError, *, declares: bool) -> ModelError:
    text = error_text(error.body) or str(error)
    reason, retryable = _kind(error.status_code, text, error.body, declares=declares)
    return ModelError(
        f"the server returned {error.status_code}: {text}",
        reason=reason,
        retryable=retryable,
        retry_after_seconds=_retry_after(error.response.headers.get("retry-after")),
    )


def _kind(status: int, text: str, body: Any, *, declares: bool) -> tuple[ModelErrorReason, bool]:
    """Return the reason of a failure for a status, and whether it is retryable."""
    lowered = text.lower()
    if status in (401, 403):
        return "authentication", False
    if status == 429:  # noqa: PLR2004 - too many requests
        return "rate_limited", "quota" not in lowered
    refuses_tools = _NO_TOOLS.search(text) or _find_refused_parameter(body, text, ["tools"])
    if declares and status in _REFUSING_STATUSES and refuses_tools:
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
