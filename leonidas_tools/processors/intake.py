"""Turn function-call parts into `ToolCall`s, and recognise repeated calls."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.calls.call import (
    MAX_ARGUMENT_BYTES,
    ToolCall,
    ToolResult,
    ToolSession,
    are_too_large,
    comparable,
    name_called,
    repeated,
)
from leonidas_tools.processors.parts import call_id, earlier_ids
from leonidas_tools.results.jsonable import utf8_text
from leonidas_tools.settings.effective import refused
from leonidas_tools.tools.metadata import ToolEffect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.runtime.executor import Executor
    from leonidas_tools.settings.models import Settings, ToolConfiguration
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry

_REMEMBERED_IDS = 4096
_REMEMBERED_ONCE = 65_536
_KEPT_OUTCOMES = 64
_ONCE = ToolEffect.ONCE


class _OnceCall:
    """A call with a side effect: the stream that made it, and its result."""

    __slots__ = ("result", "stream")

    def __init__(self, stream: object) -> None:
        self.stream = stream
        self.result: ToolResult | None = None


class OnceCalls:
    """Remembers the calls of a session whose side effect may happen only once, over all streams.

    A digest of id, name and arguments identifies a call. The id is not enough: a server may number
    its calls from 1 on each connection. Only calls with a side effect are remembered, so that reads
    and cancellations cannot evict them.
    """

    def __init__(self) -> None:
        self._calls: OrderedDict[bytes, _OnceCall] = OrderedDict()
        self._running: dict[int, _OnceCall] = {}
        self._outcomes: deque[_OnceCall] = deque()

    def find(self, key: bytes) -> _OnceCall | None:
        """Return the call with this key, if the session has made it."""
        return self._calls.get(key)

    def begin(self, key: bytes, number: int, stream: object) -> None:
        """Remember a call by its key and its number in the session."""
        self._calls[key] = self._running[number] = _OnceCall(stream)
        if len(self._calls) > _REMEMBERED_ONCE:
            self._calls.popitem(last=False)
        if len(self._running) > _REMEMBERED_ONCE:
            del self._running[next(iter(self._running))]

    def end(self, number: int, result: ToolResult) -> None:
        """Remember the result of a call, and keep only the newest results."""
        ended = self._running.pop(number, None)
        if ended is not None:
            self._keep(ended, result)

    def end_again(self, call: ToolCall, result: ToolResult) -> None:
        """Replace the result of a call that a person has approved or retried since."""
        key = None if call.id is None else _key_of(call.id, call.name, call.arguments)
        ended = None if key is None else self._calls.get(key)
        if ended is not None:
            self._keep(ended, result)

    def _keep(self, ended: _OnceCall, result: ToolResult) -> None:
        ended.result = result
        if ended in self._outcomes:
            self._outcomes.remove(ended)
        self._outcomes.append(ended)
        if len(self._outcomes) > _KEPT_OUTCOMES:
            self._outcomes.popleft().result = None


class Intake:
    """Creates the calls of one stream, in which an id identifies a call.

    The optional executor has the settings of the tools, and answers calls of unknown tools.
    """

    def __init__(
        self, registry: ToolRegistry, session: ToolSession, *, executor: Executor | None = None
    ) -> None:
        self.registry = registry
        self.session = session
        self._executor = executor
        self._stream = object()
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._cancelled: OrderedDict[str, None] = OrderedDict()

    def take(self, part: ProcessorPart) -> tuple[ToolCall, ToolResult | None] | None:
        """Return the call of a part, with its result if it is known and the call does not run.

        The result is known if an earlier stream or connection has made the call, or if the tool is
        unknown.

        Return `None` for a call that this stream has already taken, or that was cancelled before.
        """
        function_call = part.part.function_call
        assert function_call is not None
        given = function_call.id or call_id(part)
        identifier = None if given is None else name_called(given)
        called_as = name_called(function_call.name or "")
        tool = self.registry.find(called_as)
        name = called_as if tool is None else tool.name
        arguments = _own_names(tool, function_call.args or {})
        settings = None
        if tool is not None and self._executor is not None:
            settings = self._executor.settings.for_tool(name, tool.origin)
        known: ToolResult | None = None
        key: bytes | None = None
        if identifier is not None:
            if not self._is_new(identifier):
                return None
            if tool is not None and self._is_once(tool, settings):
                compared, calls = self._comparable(arguments), self._once_calls()
                key = _key_of(identifier, name, compared)
                earlier = [_key_of(each, name, compared) for each in earlier_ids(part)]
                before = next(filter(None, map(calls.find, [*earlier, key])), None)
                if before is not None:
                    if before.stream is self._stream and not earlier:
                        return None
                    key, known = None, repeated(name, before.result)
        call = ToolCall(
            name=name,
            arguments=arguments,
            id=identifier,
            called_as=called_as,
            session=self.session,
            tool=tool,
            settings=settings,
            number=next(self.session.numbers),
            given_id=None if identifier is given else _whole_id(given, identifier),
        )
        if key is not None:
            self._once_calls().begin(key, call.number, self._stream)
        return (call, known) if tool is not None else self._meant(call)

    def _meant(self, call: ToolCall) -> tuple[ToolCall, ToolResult | None]:
        """Return a call of the only tool that an unknown name can mean, or else the failure."""
        if self._executor is None:
            return call, None
        similar = self._executor.similar(call)
        return (call, self._executor.unknown(call)) if similar is None else (similar, None)

    def cancel(self, call_id: str) -> None:
        """Ignore a later call with this id: its result is not wanted."""
        call_id = name_called(call_id)
        if call_id in self._seen:
            return
        self._cancelled[call_id] = None
        if len(self._cancelled) > _REMEMBERED_IDS:
            self._cancelled.popitem(last=False)

    def _is_once(self, tool: AnyTool, settings: ToolConfiguration | None) -> bool:
        """Return whether a call has an effect that may happen only once."""
        if settings is None or self._executor is None:
            return tool.metadata.effect is _ONCE
        return tool.metadata.effect is _ONCE or self._executor.may_be_once(tool, settings)

    def _once_calls(self) -> OnceCalls:
        known = self.session.find(OnceCalls)
        if known is None:
            known = self.session.get(OnceCalls)
            self.session.get(Approvals).on_outcome(known.end_again)
        return known

    def _is_new(self, identifier: str) -> bool:
        """Return whether this stream has neither taken nor cancelled a call with this id."""
        if identifier in self._seen or identifier in self._cancelled:
            return False
        self._seen[identifier] = None
        if len(self._seen) > _REMEMBERED_IDS:
            self._seen.popitem(last=False)
        return True

    def _comparable(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments, or none if they are too large: such a call does not run."""
        max_bytes = MAX_ARGUMENT_BYTES
        if self._executor is not None:
            max_bytes = self._executor.settings.policies.max_argument_bytes
        return {} if are_too_large(arguments, max_bytes) else arguments


def remember(call: ToolCall, result: ToolResult) -> None:
    """Keep the result of a call that has ended, for a later stream that repeats the call."""
    once = call.session.find(OnceCalls)
    if once is not None:
        once.end(call.number, result)


def pinned(
    call: ToolCall, tool: AnyTool, executor: Executor, current: Settings
) -> tuple[ToolCall, ToolResult | None]:
    """Return a call with the current settings, and its result if its tool is disabled."""
    executor.apply(current)
    settings = current.for_tool(call.name, tool.origin)
    under = call if call.settings is settings else call.under(settings)
    return under, refused(tool, settings)


def _whole_id(given: str | None, identifier: str | None) -> str | None:
    """Return the full id for the response, if it is longer than the id of the call."""
    return utf8_text(given) if given and len(given) > len(identifier or "") else None


def _own_names(tool: AnyTool | None, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments by the tool's own parameter names instead of the declared ones."""
    if tool is None:
        return arguments
    own = tool.declared_parameters[1]
    return {own.get(k, k): v for k, v in arguments.items()} if own else arguments


def _key_of(identifier: str, name: str, arguments: Mapping[str, Any]) -> bytes:
    """Return a digest of a call; equivalent spellings of the arguments have the same digest."""
    try:
        text = _to_json([identifier, name, comparable(arguments)])
    except Exception:  # noqa: BLE001 - no JSON, or nested too deep to compare: id and name decide
        text = _to_json([identifier, name])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_to_json = json.JSONEncoder(sort_keys=True, default=repr).encode
