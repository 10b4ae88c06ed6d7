"""Cached results of reads, shared by all processes with the same store."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import bindparam, delete, func, insert, literal, select, text, true, update

from leonidas_tools.calls.call import ResultStatus, ToolResult
from leonidas_tools.calls.sendable import sendable
from leonidas_tools.errors import LeonidasError, log_level
from leonidas_tools.policies.cache import CacheEntry
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import from_json, to_json
from leonidas_tools.store.recorder import clean
from leonidas_tools.store.schema import cache_generations, cached_results
from leonidas_tools.tools.metadata import hash_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.calls.call import ToolCall
    from leonidas_tools.store.database import Database

T = TypeVar("T")

logger = visible_logger(__name__)

_WAITING_SECONDS = 0.5
_AT_ONCE = 2
"""Maximum number of concurrent transactions, since others need the few connections too."""
_REST_SECONDS = 5.0
"""Seconds without a query after the database failed, so that few calls wait for it."""
_MAX_BYTES = 65_536
"""Maximum length of a stored result, since the event loop searches it for secrets."""
_MAX_FORGOTTEN = 64
_EVICTED_AT_ONCE = 64
_ALL_TOOLS = ""
_SAID = ("message", "retry_hint")
_FIELDS = ("result", "retryable", "reason_code", "valid_options", "speech")
_LOCK = text("SELECT pg_advisory_xact_lock(4776320110)")
"""Lets one process write at a time, since rows are locked in no fixed order."""


# Built once: building the query takes a fifth as long as running it.
_GENERATION = (
    select(func.coalesce(func.sum(cache_generations.c.generation), 0))
    .where(cache_generations.c.tool.in_((_ALL_TOOLS, bindparam("its_tool"))))
    .scalar_subquery()
)
_FOUND = select(
    _GENERATION.label("generation"), cached_results.c.content, cached_results.c.created
).select_from(
    select(literal(1))
    .subquery()
    .outerjoin(cached_results, cached_results.c.key == bindparam("its_key"))
)


class StoredKey(NamedTuple):
    """The cache key of a call: a hash that covers its owner, its tool, its arguments as JSON."""

    digest: str
    tool: str
    arguments: str


class FoundResult(NamedTuple):
    """A cached result of a call, and the generation of its tool."""

    entry: CacheEntry | None
    generation: int | None
    """The generation of the tool's results; `None` if the database did not answer."""


class CachedResults:
    """Caches results of reads for all processes; results with secrets are not stored.

    If the database is slow, unreachable or damaged, nothing is found or stored. After such a
    failure, the cache sends no query for five seconds.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rests_until = 0.0
        self._failed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._forgotten: dict[int, tuple[str | None, Mapping[str, Any] | None]] = {}
        self._forgetting: asyncio.Task[None] | None = None
        self._numbers = itertools.count()

    def key(self, call: ToolCall, owner: tuple[str, str], fingerprint: str) -> StoredKey | None:
        """Return a call's cache key; `None` if its arguments are secret, long or not plain JSON."""
        redaction, arguments = call.redaction, dict(call.arguments)
        try:
            written = json.dumps(arguments)
            if (
                len(written) > _MAX_BYTES
                or (redaction.everything and arguments)
                or redaction.hides(arguments)
            ):
                return None
            digest = hash_of(call.name, fingerprint, {"owner": owner, "arguments": arguments})
        except (TypeError, ValueError, RecursionError):  # no plain JSON
            return None
        return StoredKey(digest, clean(call.name), written)

    async def find(self, key: StoredKey) -> FoundResult:
        """Return the cached result of a call, fresh or not."""
        return await self._run_in_time(partial(self._find, key)) or FoundResult(None, None)

    async def keep(
        self,
        key: StoredKey,
        call: ToolCall,
        result: ToolResult,
        *,
        generation: int | None,
        seconds: float,
        most: tuple[int, int],
    ) -> bool:
        """Store a result unless it was invalidated since; return whether it may be stored at all.

        `generation` is the one that `find` returned before the call ran. `most` limits the number
        and the bytes of a tool's results: the oldest are deleted first.
        """
        content = _serialize(call, result)
        if content is None:
            return False
        size, now = len(content) + len(key.arguments), time.time()
        if generation is not None and size <= most[1]:
            row = {
                "key": key.digest,
                "tool": key.tool,
                "arguments": key.arguments,
                "size": size,
                "created": now,
                "expires": now + seconds,
                "content": content,
            }
            await self._run_in_time(partial(self._keep, row, generation, most))
        return True

    def forget(self, tool: str | None, arguments: Mapping[str, Any] | None) -> None:
        """Invalidate results like `ResultCache.invalidate`: at once here, soon elsewhere."""
        if len(self._forgotten) >= _MAX_FORGOTTEN:
            self._forgotten.clear()
            tool = arguments = None
        self._forgotten[next(self._numbers)] = (tool, arguments)
        if not self._is_resting:  # else the next query deletes them
            with contextlib.suppress(RuntimeError):  # outside of an event loop
                self._forget_soon()

    async def close(self) -> None:
        """Wait half a second for running transactions, and cancel the rest."""
        if self._forgotten:
            self._forget_soon()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_WAITING_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_WAITING_SECONDS)

    async def _run_in_time(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Return the result of `work`; `None` if the database fails or does not answer in time."""
        if self._is_resting:
            return None
        turns = self._turns_of_loop()
        try:
            async with asyncio.timeout(_WAITING_SECONDS):
                await turns.acquire()
        except TimeoutError:
            if self._failed:  # else many calls wait
                self._fail(TimeoutError("the store does not respond"))
            return None
        if self._is_resting:
            turns.release()
            return None
        task = self._create_task(work())
        task.add_done_callback(lambda _: turns.release())
        await asyncio.wait([task], timeout=_WAITING_SECONDS)
        if not task.done():  # it continues: cancelling may take as long as finishing
            self._fail(TimeoutError("the store does not respond"))
            return None
        return None if task.cancelled() or task.exception() is not None else task.result()

    def _turns_of_loop(self) -> asyncio.Semaphore:
        """Return the semaphore of the running event loop, since one works in one loop only."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._turns = loop, asyncio.Semaphore(_AT_ONCE)
        return self._turns

    @property
    def _is_resting(self) -> bool:
        return time.monotonic() < self._rests_until

    def _create_task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name="store-cache")
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _forget_soon(self) -> asyncio.Task[None]:
        if self._forgetting is None or self._forgetting.done():
            asyncio.get_running_loop()  # raises before there is a coroutine to await
            self._forgetting = self._create_task(self._forget())
        return self._forgetting

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._fail(error)
        else:
            self._failed = False

    def _fail(self, error: BaseException) -> None:
        """Pause all queries for a moment; log the error once until the database is back."""
        self._rests_until = time.monotonic() + _REST_SECONDS
        level = logging.DEBUG if self._failed else log_level(error)
        self._failed = True
        is_told = isinstance(error, LeonidasError | TimeoutError)
        why = str(error) if is_told else type(error).__name__
        logger.log(level, "Cached results are not shared, so the calls run again: %s", why)

    async def _find(self, key: StoredKey) -> FoundResult:
        if self._forgotten:
            await self._forget_soon()
        sought = {"its_key": key.digest, "its_tool": key.tool}
        async with self._database.reading() as connection:
            found = (await connection.execute(_FOUND, sought)).one()
        entry = None
        if found.content is not None:
            entry = _read(key, found.content, age=time.time() - found.created)
        return FoundResult(entry, int(found.generation))

    async def _keep(self, row: Mapping[str, Any], generation: int, most: tuple[int, int]) -> None:
        if self._forgotten:
            await self._forget_soon()
        table, tool = cached_results, row["tool"]
        async with self._database.writing() as connection:
            await self._lock(connection)
            now = await connection.execute(select(_GENERATION), {"its_tool": tool})
            if int(now.scalar_one()) != generation:
                return
            is_over = (table.c.tool == tool) & (table.c.expires <= row["created"])
            await connection.execute(delete(table).where((table.c.key == row["key"]) | is_over))
            await connection.execute(insert(table).values(row))
            await _evict(connection, tool, *most)

    async def _forget(self) -> None:
        """Delete the invalidated results, and prevent older ones from being stored."""
        while self._forgotten:
            asked = dict(self._forgotten)
            async with self._database.writing() as connection:
                await self._lock(connection)
                for tool, arguments in asked.values():
                    await _delete(connection, tool, arguments or {})
            for number in asked:
                self._forgotten.pop(number, None)

    async def _lock(self, connection: AsyncConnection) -> None:
        if not self._database.is_file:  # a file has one writer at a time
            await connection.execute(_LOCK)


def _serialize(call: ToolCall, result: ToolResult) -> str | None:
    """Return a result as JSON; `None` if it has secrets, is too long or is not plain JSON."""
    fields = {name: getattr(result, name) for name in (*_SAID, *_FIELDS)}
    if result.valid_options is not None:
        fields["valid_options"] = list(result.valid_options)
    try:
        # `said` has the words of `fields`, which are checked for secrets below.
        said = {name: to_json(fields[name]) for name in _SAID}
        content = json.dumps({"status": result.status.value, **fields, **said})
        if len(content) > _MAX_BYTES or call.redaction.hides(list(fields.values())):
            return None
    except (TypeError, ValueError, RecursionError):
        return None
    return content


def _read(key: StoredKey, content: str, *, age: float) -> CacheEntry | None:
    """Return a result from its JSON; `None` if the JSON is damaged or from the future."""
    try:
        fields = json.loads(content)
        result = ToolResult(
            status=ResultStatus(fields["status"]),
            **{name: from_json(fields[name]) for name in _SAID},
            **{name: fields[name] for name in _FIELDS},
        )
        arguments = json.loads(key.arguments)
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
    result = sendable(result, 2 * _MAX_BYTES, tool=key.tool)
    if not result.ok or age < 0:  # age < 0: the clock of its process is ahead
        return None
    more = result.with_value(None, result.message)
    at = asyncio.get_running_loop().time() - age
    return CacheEntry(arguments, result.result, more, len(content), at)


async def _delete(
    connection: AsyncConnection, tool: str | None, arguments: Mapping[str, Any]
) -> None:
    """Delete the results of calls with these arguments, and start another generation."""
    table, marks = cached_results, cache_generations
    name = _ALL_TOOLS if tool is None else clean(tool)
    raised = update(marks).where(marks.c.tool == name).values(generation=marks.c.generation + 1)
    if not (await connection.execute(raised)).rowcount:
        await connection.execute(insert(marks).values(tool=name, generation=1))
    which = true() if tool is None else table.c.tool == name
    if not arguments:
        await connection.execute(delete(table).where(which))
        return
    made = await connection.execute(select(table.c.key, table.c.arguments).where(which))
    keys = [
        {"its_key": row.key} for row in made.all() if _may_have_arguments(row.arguments, arguments)
    ]
    if keys:
        await connection.execute(delete(table).where(table.c.key == bindparam("its_key")), keys)


def _may_have_arguments(written: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a call has these arguments; `True` if its JSON cannot be parsed."""
    try:
        of = json.loads(written)
        return all(name in of and of[name] == value for name, value in arguments.items())
    except (TypeError, ValueError, RecursionError):
        return True


async def _evict(connection: AsyncConnection, tool: str, max_entries: int, max_bytes: int) -> None:
    """Delete the oldest results of a tool until the others are within both limits."""
    table = cached_results
    is_of_tool = table.c.tool == tool
    count = select(func.count(), func.sum(table.c.size)).where(is_of_tool)
    entries, size = (await connection.execute(count)).one()
    oldest = select(table.c.key, table.c.size).where(is_of_tool).order_by(table.c.created)
    while entries > max_entries or size > max_bytes:
        evicted = []
        for row in (await connection.execute(oldest.limit(_EVICTED_AT_ONCE))).all():
            if entries <= max_entries and size <= max_bytes:
                break
            evicted.append(row.key)
            entries, size = entries - 1, size - row.size
        await connection.execute(delete(table).where(table.c.key.in_(evicted)))
