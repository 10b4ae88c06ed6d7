"""Check the results of a server item by item: an invalid item costs that item."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import mcp_types
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from leonidas_tools.errors import SchemaError
from leonidas_tools.json_schema import ArgumentValidator
from leonidas_tools.mcp.listing.drafts import upgrade_schema
from leonidas_tools.mcp.transport.limits import TOO_LONG
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import say, shorten

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from mcp.client import Transport
    from mcp.shared._stream_protocols import ReadStream, WriteStream

    Streams = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]

logger = visible_logger(__name__)

_SLICE = 64
"""Items checked in one iteration of the event loop."""
_MAX_TOOLS = 1_000
"""Most items that are checked in one iteration, at about 25 microseconds each."""
_MAX_ITEMS = 10_000
"""Most entries of a message that the library checks: each may block the event loop for about 25
microseconds, and need 5 kB of memory."""
_TOO_FAST = "requests faster than their answers are taken"
_MAX_UNSENT = 100
"""Most answers to the server's requests that wait to be sent: a server may send requests faster
than it takes the answers."""
_TOO_MANY = f"more than {_MAX_ITEMS:,} entries"
_UNCHECKED_FIELDS = frozenset({"_meta", "structuredContent", "data"})
"""Fields that may contain any JSON, which is not checked."""
_MAX_REASON_LENGTH = 8_192
"""Most characters of an error that are used: its message is scanned several times."""
_REQUIRED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Fields that some protocol version requires in a result besides its items."""
_PROBE_SECONDS = 2.0
_SILENT = "no response"
_NOTE = "leonidas-tools/only-structure"
"""The key of a result that had no content."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kind:
    """The list in the results of a method, and the library's model of the result."""

    items: str
    model: type[mcp_types.Result]


_CALL = _Kind(items="content", model=mcp_types.CallToolResult)
_KINDS = {
    "tools/list": _Kind(items="tools", model=mcp_types.ListToolsResult),
    "tools/call": _CALL,
    "resources/list": _Kind(items="resources", model=mcp_types.ListResourcesResult),
    "resources/templates/list": _Kind(
        items="resourceTemplates", model=mcp_types.ListResourceTemplatesResult
    ),
    "resources/read": _Kind(items="contents", model=mcp_types.ReadResourceResult),
    "prompts/list": _Kind(items="prompts", model=mcp_types.ListPromptsResult),
    "prompts/get": _Kind(items="messages", model=mcp_types.GetPromptResult),
}


class CheckedTransport:
    """Checks the results of a server before the client library reads them.

    The library rejects a result as a whole if any part of it is invalid. Here, an invalid item of a
    list is left out, and content of an unknown type becomes text. The library's check of results
    against output schemas is replaced, too: it fails a call that has run.

    `mask` masks the tokens in a message; `version` returns the protocol version; `cut` masks a long
    error and shortens it. `on_end` is called at the end, before the calls that wait fail.
    """

    def __init__(
        self,
        server: str,
        mask: Callable[[Any], Any],
        version: Callable[[], str],
        cut: Callable[[str, int], str] = shorten,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self.on_end = on_end or (lambda: None)
        self.refused: dict[str, str] = {}
        """Reasons for the removal of tools from listings, by name."""
        self.rest: list[Any] = []
        """Tools of the last page that were not passed on, because there were too many at once."""
        self.unsent = 0
        """Number of answers that wait to be sent."""
        self.ignores_discover = False
        """Whether the server was silent to `server/discover`."""
        self._probe: int | str | None = None
        self._probed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once `server/discover` has been answered or given up."""
        self._receiving: asyncio.Future[SessionMessage | Exception] | None = None
        self._server = server
        self._mask = mask
        self._version = version
        self._cut = cut
        self._outputs: dict[str, Any] = {}
        self._validators: dict[str, ArgumentValidator] = {}
        self._methods: dict[object, str] = {}

    @asynccontextmanager
    async def open(
        self, transport: Transport | AbstractAsyncContextManager[Streams]
    ) -> AsyncIterator[Streams]:
        """Open a transport whose results are checked."""
        async with transport as (read, write):
            try:
                yield _Read(read, self), _Write(write, self)
            finally:
                if self._receiving is not None:
                    self._receiving.cancel()
                    await asyncio.wait({self._receiving})

    @property
    def is_probing(self) -> bool:
        """Return whether `server/discover` was sent and is unanswered."""
        return self._probe is not None and not self._probed.done()

    async def receive(
        self, receive: Callable[[], Awaitable[SessionMessage | Exception]]
    ) -> SessionMessage | Exception:
        """Return the next message, or an error that answers `server/discover` for a silent server.

        The library would wait for ten seconds.
        """
        if self._receiving is None:
            if self._probed.done():
                return await self.check(await receive())
            self._receiving = asyncio.ensure_future(receive())
        first: set[asyncio.Future[Any]] = {self._receiving, self._probed}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if not self._receiving.done() and self._probe is not None and self.ignores_discover:
            error = mcp_types.ErrorData(code=mcp_types.METHOD_NOT_FOUND, message=_SILENT)
            request, self._probe = self._probe, None
            return SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=request, error=error))
        message = await self._receiving
        self._receiving = None
        return await self.check(message)

    def _start_probe(self, message: mcp_types.JSONRPCRequest) -> None:
        if message.method == "server/discover":
            self._probe = message.id
            asyncio.get_running_loop().call_later(_PROBE_SECONDS, self._give_up_probe)
        else:
            self._end_probe()

    def _give_up_probe(self) -> None:
        if not self._probed.done():
            self.ignores_discover = True
            self._end_probe()

    def _end_probe(self) -> None:
        if not self._probed.done():
            self._probed.set_result(None)

    def note_on(self, tool: str, answer: mcp_types.CallToolResult) -> str | None:
        """Return a note for the model on a result that is not as the protocol or the tool says.

        A result that is too costly to validate has no note.
        """
        if (answer.meta or {}).get(_NOTE):  # a server can set it, too, but not its text
            return say("mcp_only_structure")
        schema = self._outputs.get(tool)
        if schema is None or answer.is_error:
            return None
        try:
            if tool not in self._validators:
                self._validators[tool] = ArgumentValidator(upgrade_schema(schema))
            validator, content = self._validators[tool], answer.structured_content
            fits = validator.is_too_costly(content) or validator.is_valid(content)
        except SchemaError:  # an invalid schema describes nothing
            return None
        except ValueError:  # a number that JSON does not have
            fits = False
        return None if fits else say("mcp_other_structure")

    def keep_outputs(self, tools: set[str]) -> None:
        """Forget the output schemas of all other tools."""
        self._outputs = {name: each for name, each in self._outputs.items() if name in tools}

    def record_sent(self, item: SessionMessage) -> None:
        """Record the requests whose results are checked."""
        message = item.message
        if isinstance(message, mcp_types.JSONRPCRequest):
            if message.method in _KINDS:
                self._methods[message.id] = message.method
            elif self._probe is None and not self._probed.done():
                self._start_probe(message)
        elif isinstance(message, mcp_types.JSONRPCNotification) and message.params:
            self._methods.pop(message.params.get("requestId"), None)  # the request is cancelled

    async def check(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """Return the message without tokens, with a valid result if possible."""
        if isinstance(item, Exception):
            return item
        message = self._mask_message(item.message)
        if isinstance(message, mcp_types.JSONRPCRequest | mcp_types.JSONRPCNotification):
            is_fast = isinstance(message, mcp_types.JSONRPCRequest) and self.unsent >= _MAX_UNSENT
            if is_fast or _has_too_many_items(message.params):
                return ValueError(_TOO_FAST if is_fast else _TOO_MANY)
            return replace(item, message=message)
        self._end_probe()
        return replace(item, message=await self._check_response(message))

    async def _check_response(
        self, message: mcp_types.JSONRPCResponse | mcp_types.JSONRPCError
    ) -> mcp_types.JSONRPCMessage:
        request = None if message.id is None else coerce_request_id(message.id)
        method = self._methods.pop(request, None)
        if isinstance(message, mcp_types.JSONRPCError):
            return self._shorten_error(message)
        result = message.result
        if method == "tools/list":
            result = await self._check_tools(result)
        elif _has_too_many_items(result):
            error = mcp_types.ErrorData(code=TOO_LONG, message=_TOO_MANY)
            return mcp_types.JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
        elif method is not None and not self._is_valid(method, result):
            result = await self._repair(method, result)
        return message.model_copy(update={"result": result})

    def _mask_message(self, message: mcp_types.JSONRPCMessage) -> mcp_types.JSONRPCMessage:
        """Return the message without tokens; the same object if there are none."""
        part = next(part for part in ("result", "error", "params") if hasattr(message, part))
        value = getattr(message, part)
        if isinstance(value, mcp_types.ErrorData):
            plain = value.model_dump()
            masked = self._mask(plain)
            masked = value if masked == plain else mcp_types.ErrorData.model_validate(masked)
        else:
            masked = self._mask(value)
        return message if masked == value else message.model_copy(update={part: masked})

    def _shorten_error(self, message: mcp_types.JSONRPCError) -> mcp_types.JSONRPCError:
        """Return an error with a shortened message; the same object if the message is short."""
        text = message.error.message
        if len(text) <= _MAX_REASON_LENGTH:
            return message
        short = self._cut(text, _MAX_REASON_LENGTH)
        error = message.error.model_copy(update={"message": short})
        return message.model_copy(update={"error": error})

    async def _check_tools(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a page of tools without its invalid tools, and without output schemas."""
        self.rest = []
        tools = result.get("tools")
        if not isinstance(tools, list):
            return result
        tools = [self._remove_output_schema(tool) for tool in tools]
        result = {**result, "tools": tools}
        is_long = len(tools) > _MAX_TOOLS or _has_too_many_items(tools)
        if is_long or not self._is_valid("tools/list", result):
            result = await self._repair("tools/list", result)
        self.rest = result["tools"][_MAX_TOOLS:]
        return {**result, "tools": result["tools"][:_MAX_TOOLS]}

    def _remove_output_schema(self, tool: Any) -> Any:
        """Return a tool without its output schema, which is kept here for its results."""
        if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
            return tool
        schema = tool.get("outputSchema")
        self._validators.pop(name, None)
        self._outputs[name] = schema if isinstance(schema, dict) else None
        return {key: value for key, value in tool.items() if key != "outputSchema"}

    def _is_valid(self, method: str, result: Any) -> bool:
        try:
            self._validate(method, result)
        except ValidationError:
            return False
        return True

    def _validate(self, method: str, result: Any) -> None:
        """Validate a result as the library does."""
        if (method, self._version()) in methods.SERVER_RESULTS:
            methods.validate_server_result(method, self._version(), result)
        if not methods.is_input_required(result):
            _KINDS[method].model.model_validate(result, by_name=False)

    async def _repair(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result of valid items; its other fields are replaced or dropped if invalid."""
        kind = _KINDS[method]
        if kind is _CALL:
            result = self._repair_call(result)
        items = result.get(kind.items)
        if not isinstance(items, list) or methods.is_input_required(result):
            return result
        meta = result.get("_meta")
        repaired = {
            **result,
            **_REQUIRED,
            kind.items: [item async for item in self._valid_items(method, items)],
            "_meta": meta if isinstance(meta, dict) else {},
        }
        if not isinstance(result.get("nextCursor"), str):
            repaired.pop("nextCursor", None)
        return repaired

    def _repair_call(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a call with a list as its content."""
        content, structure = result.get("content"), result.get("structuredContent")
        known = {"content", "structuredContent", "isError", "_meta", *_REQUIRED}
        rest = {key: value for key, value in result.items() if key not in known}
        takes_any = self._version() in MODERN_PROTOCOL_VERSIONS
        if structure is not None and not isinstance(structure, dict) and not takes_any:
            rest, structure = structure, None
        repaired = {key: result[key] for key in ("_meta",) if isinstance(result.get(key), dict)}
        if structure is not None:
            repaired["structuredContent"] = structure
        if content is None:
            content = [] if structure is not None or not rest else [rest]
            repaired["_meta"] = {**repaired.get("_meta", {}), _NOTE: True}
        repaired["isError"] = result.get("isError") in (True, "true")
        return {**repaired, "content": content if isinstance(content, list) else [content]}

    async def _valid_items(self, method: str, items: list[Any]) -> AsyncIterator[Any]:
        kind = _KINDS[method]
        for number, item in enumerate(items, 1):
            if number % _SLICE == 0:
                await asyncio.sleep(0)
            if _has_too_many_items(item):
                self._leave_out(kind, item, number, f"its definition has {_TOO_MANY}")
                continue
            for each in _candidates_for(kind, item):
                try:
                    self._validate(method, {**_REQUIRED, kind.items: [each]})
                except ValidationError as error:
                    problem = error
                else:
                    yield each
                    break
            else:
                self._leave_out(kind, item, number, _reason(problem))

    def _leave_out(self, kind: _Kind, item: Any, number: int, why: str) -> None:
        name = item.get("name") if isinstance(item, dict) else None
        name = name if isinstance(name, str) else f"number {number} of its listing"
        if kind.items == "tools":
            self.refused[name] = why
        else:
            logger.info(
                "MCP server %r: one of its %s is left out: %s", self._server, kind.items, why
            )


def _candidates_for(kind: _Kind, item: Any) -> list[Any]:
    """Return an item, and what it may stand for if it is invalid."""
    if kind is _CALL:
        return [item, _text_block(item)]
    if kind.items != "tools" or not isinstance(item, dict):
        return [item]
    schema = item.get("inputSchema")
    upgraded = upgrade_schema(schema) if isinstance(schema, dict) else {}
    return [item, {**item, "inputSchema": {"type": "object", **upgraded}}]


def _text_block(value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {"type": "text", "text": text}


def _has_too_many_items(value: Any) -> bool:
    """Return whether a message has more entries than the library may check.

    Example:
        >>> [_has_too_many_items({key: [{}] * 10_000}) for key in ("content", "structuredContent")]
        [True, False]
    """
    left, count = [value], 0
    while left:
        each = left.pop()
        if isinstance(each, dict):
            inner = [value for key, value in each.items() if key not in _UNCHECKED_FIELDS]
        elif isinstance(each, list):
            inner = each
        else:
            continue
        count += len(inner)
        if count > _MAX_ITEMS:
            return True
        left += inner
    return False


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"][2:]))
    return f"its definition is invalid: {where or 'the tool'}: {first['msg']}"


class _Stream:
    """A stream that is closed with the stream that it wraps."""

    def __init__(self, stream: Any, checked: CheckedTransport) -> None:
        self._stream = stream
        self._checked = checked

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.aclose()


class _Read(_Stream):
    """A stream of the server's checked messages."""

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._checked.receive(self._stream.receive)

    def __aiter__(self) -> _Read:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self._checked.receive(self._stream.__anext__)
        except StopAsyncIteration:
            self._checked.on_end()
            raise


class _Write(_Stream):
    """A stream of messages to the server, which records requests."""

    async def send(self, item: SessionMessage, /) -> None:
        self._checked.record_sent(item)
        is_answer = isinstance(item.message, mcp_types.JSONRPCResponse | mcp_types.JSONRPCError)
        self._checked.unsent += is_answer
        try:
            await self._stream.send(item)
        finally:
            self._checked.unsent -= is_answer
