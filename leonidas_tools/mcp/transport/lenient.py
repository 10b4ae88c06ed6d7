"""Repair responses that the client library would reject as a whole."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import mcp_types
from mcp.shared.dispatcher import coerce_request_id
from mcp_types import methods
from pydantic import ValidationError

from leonidas_tools.mcp.transport.unreadable import TOO_LONG
from leonidas_tools.results.texts import shorten

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from mcp.client import Transport
    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

    from leonidas_tools.mcp.listing.output_schemas import OutputSchemas

    Streams = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]

_SLICE = 64
"""Tools checked in one iteration of the event loop."""
_MAX_AT_ONCE = 1_000
"""Most tools that the library checks in one iteration, at about 25 microseconds each."""
_MAX_ITEMS = 10_000
"""Most entries of a message that the library checks: each may block the event loop for about 25
microseconds, and need 5 kB of memory."""
_TOO_MANY = f"more than {_MAX_ITEMS:,} entries"
_MAX_UNSENT = 100
"""Most answers to the server's requests that wait to be sent. Each waits in a separate task, and
a server may send requests faster than it takes the answers."""
_TOO_FAST = "requests faster than their answers are taken"
_NOT_LOOKED_INTO = frozenset({"_meta", "structuredContent", "data"})
"""Fields that may contain any JSON, which is not checked."""
_MAX_REASON_LENGTH = 8_192
"""Most characters of an error that are used: its message is scanned several times."""
_AROUND = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Fields that some protocol version requires in a listing besides its tools."""


class LenientTransport:
    """Repairs the responses of a server before the client library reads them.

    The library checks every response against the protocol, and rejects an invalid response as a
    whole: a single invalid tool hides all other tools. It also does not support calls that run as
    tasks, although its types do: their responses lack a field that it requires.

    The library checks every entry of a message, and describes each invalid one. So a message with
    too many entries is not passed on, and a listing with too many is checked tool by tool. Nor is a
    request passed on while too many answers wait to be sent.

    `outputs` removes the output schemas from listings; `cut` masks a long error and shortens it.
    """

    def __init__(
        self,
        outputs: OutputSchemas,
        without_tokens: Callable[[Any], Any],
        version: Callable[[], str],
        cut: Callable[[str, int], str] = shorten,
    ) -> None:
        self.refused: dict[str, str] = {}
        """Reasons for the removal of tools from listings, by name."""
        self.left: list[Any] = []
        """Tools of the last page that were not passed on, because there were too many at once."""
        self._outputs = outputs
        self._without_tokens = without_tokens
        self._version = version
        self._cut = cut
        self.unsent = 0
        """Number of answers that wait to be sent."""
        self._checks_by_tool = False
        self._asked: dict[object, str] = {}

    @asynccontextmanager
    async def of(
        self, transport: Transport | AbstractAsyncContextManager[Streams]
    ) -> AsyncIterator[Streams]:
        """Open a transport whose responses are repaired."""
        async with transport as (read, write):
            yield _Read(read, self), _Write(write, self)

    @property
    def checks_by_tool(self) -> bool:
        """Return whether all listings are checked tool by tool, not only the long ones."""
        return self._checks_by_tool

    def check_by_tool(self) -> None:
        """Remove invalid tools from listings."""
        self._checks_by_tool = True

    def sent(self, item: SessionMessage) -> None:
        """Record the requests whose responses may need a repair."""
        message = item.message
        if isinstance(message, mcp_types.JSONRPCRequest):
            is_task = message.method == "tools/call" and "task" in (message.params or {})
            if is_task or message.method == "tools/list":
                self._asked[message.id] = message.method
        elif isinstance(message, mcp_types.JSONRPCNotification) and message.params:
            self._asked.pop(message.params.get("requestId"), None)  # the request is cancelled

    async def repaired(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """Return the message without tokens; repair a response if needed."""
        if isinstance(item, Exception):
            return item
        item = replace(item, message=self._mask_message(item.message))
        message = item.message
        if isinstance(message, mcp_types.JSONRPCRequest | mcp_types.JSONRPCNotification):
            fault = self._fault(message)
            return item if fault is None else ValueError(fault)
        asked = None if message.id is None else self._asked.pop(coerce_request_id(message.id), None)
        if isinstance(message, mcp_types.JSONRPCError):
            return replace(item, message=self._short(message))
        result = message.result
        if asked == "tools/list":
            result = await self._listing(result)
        elif _has_too_many_items(result):
            error = mcp_types.ErrorData(code=TOO_LONG, message=_TOO_MANY)
            instead = mcp_types.JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
            return replace(item, message=instead)
        elif asked is not None and isinstance(result.get("task"), dict):
            result = {"content": [], **result}
        else:
            return item
        return replace(item, message=message.model_copy(update={"result": result}))

    def _fault(
        self, message: mcp_types.JSONRPCRequest | mcp_types.JSONRPCNotification
    ) -> str | None:
        """Return why a message of the server is not passed on; `None` if it is."""
        if isinstance(message, mcp_types.JSONRPCRequest) and self.unsent >= _MAX_UNSENT:
            return _TOO_FAST
        return _TOO_MANY if _has_too_many_items(message.params) else None

    def _mask_message(self, message: mcp_types.JSONRPCMessage) -> mcp_types.JSONRPCMessage:
        """Return the message without tokens; the same object if there are none."""
        part = next(part for part in ("result", "error", "params") if hasattr(message, part))
        said = getattr(message, part)
        if isinstance(said, mcp_types.ErrorData):
            shown = said.model_dump()
            masked = self._without_tokens(shown)
            masked = said if masked == shown else mcp_types.ErrorData.model_validate(masked)
        else:
            masked = self._without_tokens(said)
        return message if masked == said else message.model_copy(update={part: masked})

    async def _listing(self, result: dict[str, Any]) -> dict[str, Any]:
        self.left = []
        tools = result.get("tools")
        if not isinstance(tools, list):
            return result
        if self._checks_by_tool or len(tools) > _MAX_AT_ONCE or _has_too_many_items(tools):
            tools = await self._filter_tools(tools, self._version())
        self.left = tools[_MAX_AT_ONCE:]
        return {**result, "tools": self._outputs.remove_schemas(tools[:_MAX_AT_ONCE])}

    async def _filter_tools(self, tools: list[Any], version: str) -> list[Any]:
        kept: list[Any] = []
        for number, tool in enumerate(tools, 1):
            if number % _SLICE == 0:
                await asyncio.sleep(0)
            if _has_too_many_items(tool):
                self._refuse(tool, number, f"its definition has {_TOO_MANY}")
                continue
            try:
                kept.append(_repair_tool(tool, version))
            except ValidationError as error:
                self._refuse(tool, number, _reason(error))
        return kept

    def _short(self, message: mcp_types.JSONRPCError) -> mcp_types.JSONRPCError:
        """Return an error with a shortened message; the same object if the message is short."""
        text = message.error.message
        if len(text) <= _MAX_REASON_LENGTH:
            return message
        short = self._cut(text, _MAX_REASON_LENGTH)
        error = message.error.model_copy(update={"message": short})
        return message.model_copy(update={"error": error})

    def _refuse(self, tool: Any, number: int, why: str) -> None:
        name = tool.get("name") if isinstance(tool, dict) else None
        self.refused[name if isinstance(name, str) else f"number {number} of its listing"] = why


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
            inner = [value for key, value in each.items() if key not in _NOT_LOOKED_INTO]
        elif isinstance(each, list):
            inner = each
        else:
            continue
        count += len(inner)
        if count > _MAX_ITEMS:
            return True
        left += inner
    return False


def _repair_tool(tool: Any, version: str) -> Any:
    """Return the tool in a form that the client library accepts."""
    try:
        return _check_tool(tool, version)
    except ValidationError as error:
        typed = _set_schema_type(tool)
        if typed == tool:
            raise
        try:
            return _check_tool(typed, version)
        except ValidationError:
            raise error from None


def _check_tool(tool: Any, version: str) -> Any:
    methods.validate_server_result("tools/list", version, {**_AROUND, "tools": [tool]})
    mcp_types.ListToolsResult.model_validate({"tools": [tool]}, by_name=False)
    return tool


def _set_schema_type(tool: Any) -> Any:
    """Return the tool; set the type of a schema without a type to `object`."""
    if not isinstance(tool, dict):
        return tool
    schemas = {key: tool[key] for key in ("inputSchema", "outputSchema") if key in tool}
    said = {
        key: {"type": "object", **each} for key, each in schemas.items() if isinstance(each, dict)
    }
    return {**tool, **said}


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"][2:]))
    return f"its definition is invalid: {where or 'the tool'}: {first['msg']}"


class _Read:
    """A stream of the server's repaired messages."""

    def __init__(
        self, stream: ReadStream[SessionMessage | Exception], lenient: LenientTransport
    ) -> None:
        self._stream = stream
        self._lenient = lenient

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._lenient.repaired(await self._stream.receive())

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Read:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return await self._lenient.repaired(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.aclose()


class _Write:
    """A stream of messages to the server, which records requests."""

    def __init__(self, stream: WriteStream[SessionMessage], lenient: LenientTransport) -> None:
        self._stream = stream
        self._lenient = lenient

    async def send(self, item: SessionMessage, /) -> None:
        self._lenient.sent(item)
        if not isinstance(item.message, mcp_types.JSONRPCResponse | mcp_types.JSONRPCError):
            await self._stream.send(item)
            return
        self._lenient.unsent += 1
        try:
            await self._stream.send(item)
        finally:
            self._lenient.unsent -= 1

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.aclose()
