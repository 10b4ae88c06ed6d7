"""Cache the results of reads, and share one running read between equal calls."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import ref

from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls.call import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.calls.invocation import Invocation, current
from leonidas_tools.calls.sendable import has_only_value
from leonidas_tools.redaction import secrets_in
from leonidas_tools.results.plain import snapshot
from leonidas_tools.results.texts import join, say
from leonidas_tools.tools.metadata import Overflow, ToolEffect, fingerprint_of, hash_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from leonidas_tools.calls.call import ToolCall
    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.store.cached_results import CachedResults, StoredKey
    from leonidas_tools.tools.registry import AnyTool

Key: TypeAlias = tuple[Hashable, ...]
"""The tool's name, a user or a session, the tool's fingerprint, and a key of the arguments."""


def copy_of(result: ToolResult) -> ToolResult:
    """Return a copy of a result that shares nothing mutable with it."""
    return _copied(result, snapshot(result.result), result.message)


def _is_plain(result: ToolResult) -> bool:
    """Return whether a result has only a value, as most results do."""
    return result.status is _OK and not result.retryable and has_only_value(result)


def _copied(
    result: ToolResult, value: Any, message: str | None, *, cached: bool | None = None
) -> ToolResult:
    """Return a copy with another value and message that shares nothing mutable."""
    own = result.with_value(value, message, cached=cached)  # quicker than `replace`
    options = result.valid_options
    return own if options is None else replace(own, valid_options=snapshot(options))


_OK = ResultStatus.OK
_NOTHING_MORE = ToolResult()


class CacheEntry(NamedTuple):
    """A stored result, which shares nothing mutable with any other."""

    arguments: Mapping[str, Any]
    value: Any
    more: ToolResult
    """The rest of the result, without its value."""
    size: int
    at: float

    @classmethod
    def of(
        cls, result: ToolResult, arguments: Mapping[str, Any], size: int, at: float
    ) -> CacheEntry:
        """Copy a result, which others may continue to change."""
        more = _NOTHING_MORE if _is_plain(result) else _copied(result, None, result.message)
        return cls(arguments, snapshot(result.result), more, size, at)

    def again(self, note: str | None = None) -> ToolResult:
        """Return a copy of the result as a cached one, with a further message."""
        message = self.more.message
        if note is not None:
            message = join(message, note)
        return _copied(self.more, snapshot(self.value), message, cached=True)


class ResultCache:
    """Results of reads, limited in number and size; the least recently used are evicted first."""

    def __init__(self, *, max_entries: int = 1000, max_bytes: int = 10_000_000) -> None:
        self.max_entries = max_entries
        self.max_bytes = max_bytes
        self.stored: CachedResults | None = None
        """Results that processes share, if the settings of a tool enable that."""
        self._bytes = 0
        self._entries: OrderedDict[Key, CacheEntry] = OrderedDict()
        self._flights: dict[Key, Flight] = {}
        self._counts: dict[str, Counter[str]] = {}

    def resize(self, *, max_entries: int, max_bytes: int) -> None:
        """Set the limits, and evict the results that exceed them."""
        self.max_entries, self.max_bytes = max_entries, max_bytes
        self._make_room()

    def invalidate(
        self, tool: str | None = None, arguments: Mapping[str, Any] | None = None
    ) -> int:
        """Remove results, so that the next such call runs, also in processes that share them.

        Return the number of results that were removed in this process.
        """
        if self.stored is not None:
            self.stored.forget(tool, arguments)
        return self.forget(tool, arguments)

    def forget(self, tool: str | None = None, arguments: Mapping[str, Any] | None = None) -> int:
        """Remove results in this process only, and return their number."""

        def meant(key: Key, of: Mapping[str, Any]) -> bool:
            return tool in (None, key[0]) and all(
                name in of and of[name] == value for name, value in (arguments or {}).items()
            )

        old = [key for key, entry in self._entries.items() if meant(key, entry.arguments)]
        for key in old:
            self._drop(key)
        for key, flight in list(self._flights.items()):
            if meant(key, flight.arguments):
                del self._flights[key]
        return len(old)

    @property
    def stats(self) -> dict[str, Any]:
        """Return the size of the cache and its numbers of hits and misses, as plain JSON."""
        total: Counter[str] = Counter()
        for counts in self._counts.values():
            total.update(counts)
        return {
            "entries": len(self._entries),
            "bytes": self._bytes,
            **_counted(total),
            "tools": {name: _counted(counts) for name, counts in self._counts.items()},
        }

    def find(self, key: Key) -> CacheEntry | None:
        """Return the stored result of a call, fresh or not."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def count(self, tool: str, what: str) -> None:
        """Count a `hit`, a `miss`, a call that was `shared`, or a `stale` result."""
        counts = self._counts.get(tool)
        if counts is None:
            counts = self._counts[tool] = Counter()
        counts[what] += 1

    def keep(self, key: Key, entry: CacheEntry) -> None:
        """Store a result, unless it alone exceeds the size limit of the cache."""
        if key in self._entries:
            self._drop(key)
        if entry.size > self.max_bytes:
            return
        self._entries[key] = entry
        self._bytes += entry.size
        if len(self._entries) > self.max_entries or self._bytes > self.max_bytes:
            self._make_room()

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size

    def _make_room(self) -> None:
        """Evict the least recently used results."""
        while len(self._entries) > self.max_entries or self._bytes > self.max_bytes:
            _, entry = self._entries.popitem(last=False)
            self._bytes -= entry.size

    def flight(self, key: Key) -> Flight | None:
        """Return the running call for this key; omit an abandoned call, which may never end."""
        flight = self._flights.get(key)
        return None if flight is None or flight.maker.ended else flight

    def is_waited_for(self, invocation: Invocation) -> bool:
        """Return whether others may wait for the result of this call."""
        return any(flight.maker is invocation for flight in self._flights.values())

    def begin(self, key: Key, call: ToolCall) -> Flight:
        """Register a running call, so that equal calls can wait for its result."""
        flight = self._flights[key] = Flight(call.arguments, current())
        return flight

    def land(self, key: Key, flight: Flight, result: ToolResult | None) -> bool:
        """End the call, and return whether its result may be stored: it was not invalidated."""
        flight.land(result)
        running = self._flights.pop(key, None)
        if running is not flight and running is not None:
            self._flights[key] = running
        return running is flight


class Flight:
    """One running call, for whose result equal calls may wait."""

    __slots__ = ("_ended", "_waiting", "arguments", "maker")

    def __init__(self, arguments: Mapping[str, Any], maker: Invocation) -> None:
        self.arguments = arguments
        self.maker = maker
        self._ended: asyncio.Future[ToolResult | None] | None = None
        self._waiting: list[Invocation] = []

    async def result(self) -> ToolResult | None:
        """Wait for the result, and return it; `None` if the running call was stopped."""
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
            self.maker.sinks = (*self.maker.sinks, self._forward)
        waiting = current()
        self._waiting.append(waiting)
        try:
            return await asyncio.shield(self._ended)
        finally:
            self._waiting.remove(waiting)

    def land(self, result: ToolResult | None) -> None:
        """Send a copy of the result to all waiting calls: its maker may change its own."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None if result is None else copy_of(result))

    def _forward(self, event: ToolEvent) -> None:
        """Send an event to all waiting calls, or the result if the running call was abandoned."""
        if event.ends_call:
            self.land(event.result)
            return
        for invocation in self._waiting:
            invocation.emit(event.kind, **event.data)


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    names = {"hits": "hit", "misses": "miss", "shared": "shared", "stale": "stale"}
    return {name: counts.get(key, 0) for name, key in names.items()}


_SHAPE = ("collect", "max_result_bytes", "max_result_tokens", "overflow")
"""Options that change the form in which a function's return value is stored."""
_LONG_SECRET = 16
"""Length in characters from which a secret cannot be guessed from its hash."""
_FAILURES = frozenset({ResultStatus.FAILED, ResultStatus.TIMEOUT, ResultStatus.UNAVAILABLE})
_NOT_OF_THE_TOOL = frozenset(
    {
        ResultStatus.DENIED,
        ResultStatus.PENDING_APPROVAL,
        ResultStatus.LIMITED,
        ResultStatus.LOOP,
        ResultStatus.CANCELLED,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """Returns the recent result of an equal call instead of running a call.

    Only successful results without media are stored, separately for each user; a session without a
    user has its own. A write does not invalidate earlier reads: the option that caches a read
    limits its age.

    Args:
        cache: The stored results.
        seconds: Seconds for which a result may be reused.
        stale_seconds: Further seconds for which a result may replace a failure.
        fingerprint: The hash of the tool, its schema, its version and its parameters.
        per_session: Whether results are valid only in their own session: they may contain a handle
            with which no other session can read.
    """

    cache: ResultCache
    seconds: float
    stale_seconds: float = 0.0
    fingerprint: str = ""
    per_session: bool = False

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Return a fresh cached result, or run the call."""
        cache, name = self.cache, call.name
        user = None if self.per_session else user_of(call.session)
        whose = ref(call.session) if user is None else user
        key = (name, whose, self.fingerprint, _standing_for(call.arguments))
        known = cache.find(key)
        if known is not None and asyncio.get_running_loop().time() < known.at + self.seconds:
            cache.count(name, "hit")
            return known.again()
        result = await self._shared(key, call) if cache.flight(key) is not None else None
        if result is None:
            cache.count(name, "miss")
            flight = cache.begin(key, call)
            try:
                result = await run(call)
            finally:
                may_keep = cache.land(key, flight, result)
            if may_keep and result.ok and not result.media:
                self._keep(key, call, result)
        if not result.ok and result.status in _FAILURES:
            # The stored result may have been invalidated while the call ran.
            return self._or_stale(call, result, cache.find(key))
        return result

    async def _shared(self, key: Key, call: ToolCall) -> ToolResult | None:
        """Return the result of an equal running call; `None` if this call has to run."""
        # A nested call does not wait, nor does a call that others may wait for, such as one that
        # replaces an unknown tool: each could wait for the other.
        waiting = current()
        if waiting.outer is not None or self.cache.is_waited_for(waiting):
            return None
        while (flight := self.cache.flight(key)) is not None:
            result = await flight.result()
            # Otherwise its maker was stopped, or the result applies to another session only.
            if result is not None and result.status not in _NOT_OF_THE_TOOL:
                self.cache.count(call.name, "shared")
                return replace(copy_of(result), cached=result.ok)
        return None

    def _keep(self, key: Key, call: ToolCall, result: ToolResult) -> None:
        size = current().length_of(result.result) + len(result.message or "")
        now = asyncio.get_running_loop().time()
        self.cache.keep(key, CacheEntry.of(result, call.arguments, size, now))

    def _or_stale(self, call: ToolCall, result: ToolResult, known: CacheEntry | None) -> ToolResult:
        """Return the stored result if the tool fails and the result is not too old."""
        if known is None:
            return result
        age = asyncio.get_running_loop().time() - known.at
        if age >= self.seconds + self.stale_seconds:
            return result
        self.cache.count(call.name, "stale")
        return known.again(say("stale_result", tool=call.name, seconds=f"{age:.0f}"))


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredCache(Cache):
    """Returns the recent result of an equal call in any process with the same store.

    Results that must not be stored, because they are partly secret or too long, stay in this
    process. The store has the only copy of all others, so that all processes see an invalidation.
    """

    stored: CachedResults

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Return a fresh stored result, or run the call."""
        user = user_of(call.session)
        owner = ("session", call.session.id) if user is None else ("user", user)
        stored_key = self.stored.key(call, owner, self.fingerprint)
        if stored_key is None:
            return await Cache.__call__(self, call, run)
        cache, key = self.cache, (call.name, stored_key.digest)
        known = cache.find(key)
        if known is not None and self._is_fresh(known):
            cache.count(call.name, "hit")
            return known.again()
        result = await self._shared(key, call) if cache.flight(key) is not None else None
        if result is None:
            result = await self._read_or_run(key, stored_key, call, run)
        if not result.ok and result.status in _FAILURES:
            known = cache.find(key)
            if known is None and self.stale_seconds:
                known = (await self.stored.find(stored_key)).entry
            return self._or_stale(call, result, known)
        return result

    def _is_fresh(self, known: CacheEntry) -> bool:
        return asyncio.get_running_loop().time() < known.at + self.seconds

    async def _read_or_run(
        self, key: Key, stored_key: StoredKey, call: ToolCall, run: Run
    ) -> ToolResult:
        """Return the stored result, or run the call and store its result."""
        cache, stored = self.cache, self.stored
        flight, result = cache.begin(key, call), None
        try:
            found = await stored.find(stored_key)
            known = found.entry
            # Otherwise the stored result was invalidated meanwhile.
            if known is not None and self._is_fresh(known) and cache.flight(key) is flight:
                cache.count(call.name, "hit")
                result = known.again()
                return result
            cache.count(call.name, "miss")
            result = await run(call)
        finally:
            may_keep = cache.land(key, flight, result)
        if may_keep and result.ok and not result.media:
            may_write = await stored.keep(
                stored_key,
                call,
                result,
                generation=found.generation,
                seconds=self.seconds + self.stale_seconds,
                most=(cache.max_entries, cache.max_bytes),
            )
            if not may_write:
                self._keep(key, call, result)
        return result


def _standing_for(arguments: Mapping[str, Any]) -> Hashable:
    """Return a canonical key of the arguments."""
    for value in arguments.values():
        if type(value) is not str:
            return hash_of("", "", arguments)  # in Python, 1, 1.0 and True are equal
    return frozenset(arguments.items())


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[Cache]:
    """Yield the cache of a tool that only reads, and declares how long to reuse its results."""
    tool, metadata = options.tool, options.tool.metadata
    if not options.cache_seconds or options.effect is not ToolEffect.READ:
        return
    cache, before = shared.cache, shared.cached_functions.get(tool.name)
    if before is not tool.function:
        shared.cached_functions[tool.name] = tool.function
        # The function of an MCP tool is a new object after each listing of its server.
        is_other = before is not None and tool.origin is None
        (cache.invalidate if is_other else cache.forget)(tool.name)
    parameters = options.settings.custom_parameters
    per_session = options.overflow is Overflow.SPILL
    if cache.stored is not None and options.settings.cache_shared and not per_session:
        fingerprint = stored_fingerprint(tool, parameters, shared.settings)
        if fingerprint is not None:
            shape = {name: getattr(options, name) for name in _SHAPE}
            yield StoredCache(
                cache=cache,
                seconds=options.cache_seconds,
                stale_seconds=options.stale_if_error_seconds or 0.0,
                fingerprint=hash_of(tool.name, fingerprint, shape),
                stored=cache.stored,
            )
            return
    stands_for = {"version": metadata.version, "parameters": parameters}
    yield Cache(
        cache=cache,
        seconds=options.cache_seconds,
        stale_seconds=options.stale_if_error_seconds or 0.0,
        fingerprint=hash_of(tool.name, fingerprint_of(metadata), stands_for),
        per_session=per_session,
    )


def stored_fingerprint(
    tool: AnyTool, parameters: Mapping[str, Any], settings: Settings
) -> str | None:
    """Return the hash of a tool for all processes; `None` if it would reveal a short secret."""
    metadata, server = tool.metadata, None
    if tool.origin is not None:
        server = settings.mcp_servers.get(tool.origin.server)
    stands_for = {
        "version": metadata.version,
        "secrets": metadata.secrets,
        "parameters": parameters,
        "toolboxes": {toolbox.name: toolbox.settings for toolbox in settings.toolboxes},
        "server": server and {"args": server.args, "env": server.env, "headers": server.headers},
    }
    secrets = [*secrets_in({**stands_for, "fixed": metadata.fixed}, settings.hidden)]
    if server is not None:
        secrets += server.secrets()
    if any(len(secret) < _LONG_SECRET for secret in secrets):
        return None
    return hash_of(tool.name, fingerprint_of(metadata), stands_for)
