"""Turn function-call parts into `ToolCall`s, and recognise repeated calls."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.calls.call import (
    MAX_ARGUMENT_BYTES,
    ToolCall,
    ToolResult,
    ToolSession,
    are_too_large,
    build_repeated_result,
    cheap_hash,
    normalize_name,
)
from leonidas_tools.calls.once_calls import OnceCalls, digest_of
from leonidas_tools.processors.parts import call_id, earlier_ids
from leonidas_tools.results.jsonable import utf8_text
from leonidas_tools.settings.effective import refusal_of
from leonidas_tools.tools.metadata import ToolEffect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.runtime.executor import Executor
    from leonidas_tools.settings.models import Settings, ToolConfiguration
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry

_REMEMBERED_IDS = 4096
_ONCE = ToolEffect.ONCE


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
        identifier = None if given is None else normalize_name(given)
        called_as = normalize_name(function_call.name or "")
        tool = self.registry.find(called_as)
        name = called_as if tool is None else tool.name
        declared: Mapping[str, Any] = function_call.args or {}
        arguments = declared if tool is None else tool.own_arguments(declared)
        settings = None
        if tool is not None and self._executor is not None:
            settings = self._executor.settings.for_tool(name, tool.origin)
        known: ToolResult | None = None
        key = None
        if identifier is not None:
            if not self._is_new(identifier):
                return None
            if tool is not None and self._is_once(tool, settings):
                digest = digest_of(name, self._comparable(arguments))
                key, calls = (identifier, digest), self._once_calls()
                earlier = [(each, digest) for each in earlier_ids(part)]
                before = next(filter(None, map(calls.find, [*earlier, key])), None)
                if before is not None:
                    if before.stream is self._stream and not earlier:
                        return None
                    key, known = None, build_repeated_result(name, before.result)
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
            self._once_calls().begin(call, key, self._stream)
        return (call, known) if tool is not None else self._meant(call)

    def _meant(self, call: ToolCall) -> tuple[ToolCall, ToolResult | None]:
        """Return the call that an unknown name means, and its result if nothing runs."""
        return (call, None) if self._executor is None else self._executor.meant(call, None)

    def cancel(self, call_id: str) -> None:
        """Ignore a later call with this id, or note that the result of an ended one is not read."""
        call_id = normalize_name(call_id)
        once = self.session.find(OnceCalls)
        if once is not None:
            once.cancel_ended(call_id, self._stream)
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
        """Return the arguments, or a hash if they are too large: such a call does not run."""
        max_bytes = MAX_ARGUMENT_BYTES
        if self._executor is not None:
            max_bytes = self._executor.settings.policies.max_argument_bytes
        return {"": cheap_hash(arguments)} if are_too_large(arguments, max_bytes) else arguments


def remember(call: ToolCall, result: ToolResult, *, begun: bool = False) -> None:
    """Keep the result of a call that has ended, in case it is repeated.

    `begun` tells whether its side effect may have begun.
    """
    once = call.session.find(OnceCalls)
    if once is not None:
        once.end(call.number, result, begun=begun)


def pinned(
    call: ToolCall, tool: AnyTool, executor: Executor, current: Settings
) -> tuple[ToolCall, ToolResult | None]:
    """Return a call with the current settings, and its result if its tool is disabled."""
    executor.apply(current)
    settings = current.for_tool(call.name, tool.origin)
    under = call if call.settings is settings else call.under(settings)
    return under, refusal_of(tool, settings)


def _whole_id(given: str | None, identifier: str | None) -> str | None:
    """Return the full id for the response, if it is longer than the id of the call."""
    return utf8_text(given) if given and len(given) > len(identifier or "") else None
