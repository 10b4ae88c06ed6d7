"""A policy: what was kept of a session is there again, and what becomes of it is kept."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from leonidas_tools.approvals.log import ApprovalLog, Closing
from leonidas_tools.approvals.session_policy import Preferred, SessionPolicy, user_of
from leonidas_tools.errors import LeonidasError, log_level
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.spill import ResultMemory, Results
from leonidas_tools.session.tasks import TaskList
from leonidas_tools.store.kept_results import KeptResults
from leonidas_tools.store.preferred import kept, preferred_or_strictest
from leonidas_tools.store.recorder import LOCAL_USER
from leonidas_tools.tools.metadata import ToolEffect

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leonidas_tools.approvals.question import Question
    from leonidas_tools.calls.call import Run, ToolCall, ToolResult, ToolSession
    from leonidas_tools.rules.rule import Rule
    from leonidas_tools.store.rows import Preferences
    from leonidas_tools.store.store import Store
    from leonidas_tools.store.writer import Writer

logger = visible_logger(__name__)

_LOADING_SECONDS = 1.0
_AGAIN_SECONDS = 5.0
_FRESH_SECONDS = 1.0
"""How old preferences may be when a call is decided on; another process may change them."""
_READ = ToolEffect.READ


@dataclass(kw_only=True, slots=True, eq=False)
class _Kept:
    """The stored state of one session.

    Args:
        user: Whose preferences it has; none where it belongs to no user.
        loading: Reads what was kept of it.
        is_loaded: Whether that was read.
        version: That of the preferences that hold.
        tried: When it was tried to read it, in seconds of the loop.
        checked: When the preferences were read last, in seconds of the loop.
        waits_until: Until when calls wait for it, in seconds of the loop.
        ends: Lets go of the session.
    """

    user: str | None
    waits_until: float
    loading: asyncio.Task[None] | None = None
    is_loaded: bool = False
    version: int = 0
    tried: float = 0.0
    checked: float = 0.0
    ends: list[Callable[[], None]] = field(default_factory=list)


class KeptSessions:
    """Joins the sessions of calls to the store.

    The first call of a session waits until the preferences of its user are read, for a second at
    most. Until they are read, the session is in the stricter of `ask` and the mode of the settings.
    A call that changes something waits again where they were read more than a second ago, since
    another process may have changed them; a change in this process applies at once. Questions and
    their answers, task lists and long results are kept as they come up.

    Args:
        store: Where things are kept.
        writer: Writes them.
    """

    sets_session_policy = True
    """What a session may do may only be known once its first call has come here."""
    leaves_results = True
    """It returns the result of the tool unchanged."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._sessions: WeakKeyDictionary[ToolSession, _Kept] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[str] = set()
        store.preferences.on_change(self._prefer)

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call in a session that is joined to the store."""
        session = call.session
        known = self._sessions.get(session)
        if known is None or not known.is_loaded or known.user != user_of(session):
            await self._join(session)
        elif asyncio.get_running_loop().time() > known.checked + _FRESH_SECONDS:
            await self._refresh(known, session, call)
        return await run(call)

    def begin(self, session: ToolSession) -> None:
        """Join a session to the store ahead of its first call, which then need not wait.

        Args:
            session: A conversation that begins.
        """
        now = asyncio.get_running_loop().time()
        known = self._sessions.get(session)
        if known is None:
            known = self._sessions[session] = self._attached(session, now)
        if known.user != user_of(session):
            known.user, known.is_loaded, known.loading = user_of(session), False, None
            known.version = 0
            known.waits_until = now + _LOADING_SECONDS
            session.get(SessionPolicy).preferred = Preferred(is_known=False)
        if known.loading is None or (known.loading.done() and now > known.tried + _AGAIN_SECONDS):
            known.tried = now
            known.loading = self._in_background(self._load(session, known))

    async def close(self) -> None:
        """Let go of all sessions; their long results stay readable while they are in memory."""
        for known in self._sessions.values():
            while known.ends:
                known.ends.pop()()
        self._sessions.clear()
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=_LOADING_SECONDS)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _join(self, session: ToolSession) -> None:
        self.begin(session)
        known = self._sessions[session]
        left = known.waits_until - asyncio.get_running_loop().time()
        if known.loading is None or known.loading.done() or left <= 0:
            return
        await asyncio.wait([known.loading], timeout=left)
        if not known.loading.done():
            logger.warning(
                "The store does not answer: the mode is the stricter of 'ask' and the settings"
            )

    async def _refresh(self, known: _Kept, session: ToolSession, call: ToolCall) -> None:
        """Read preferences again that another process may have changed."""
        now = asyncio.get_running_loop().time()
        if known.loading is None or known.loading.done():
            if now < known.tried + (_AGAIN_SECONDS if known.tried > known.checked else 0.0):
                return  # the store did not answer a moment ago
            known.tried = now
            known.loading = self._in_background(self._read_again(session, known))
            known.waits_until = now + _LOADING_SECONDS
        if call.tool is None or call.tool.metadata.effect is not _READ:
            await asyncio.wait([known.loading], timeout=max(known.waits_until - now, 0.0))

    async def _read_again(self, session: ToolSession, known: _Kept) -> None:
        user = known.user
        if user is None:
            return
        try:
            preferences = await self._store.preferences.read(user)
        except LeonidasError as error:
            logger.log(
                log_level(error), "The preferences of %r cannot be read again: %s", user, error
            )
            return
        if known.user == user:
            self._hold(session, known, preferences)

    def _hold(self, session: ToolSession, known: _Kept, preferences: Preferences) -> None:
        """Apply preferences, unless newer ones apply already."""
        known.checked = asyncio.get_running_loop().time()
        if preferences.version >= known.version:
            known.version = preferences.version
            may_be_lost = self._store.preferences.may_be_lost
            preferred = preferred_or_strictest(preferences, may_be_lost=may_be_lost)
            session.get(SessionPolicy).preferred = preferred

    def _attached(self, session: ToolSession, now: float) -> _Kept:
        """Has the session tell what is to be kept."""
        policy, list_ = session.get(SessionPolicy), session.get(TaskList)
        policy.preferred = Preferred(is_known=False)
        policy.keep_always = partial(self._keep_always, ref(session))
        ends: list[Callable[[], None]] = [
            partial(setattr, policy, "keep_always", None),
            session.get(ApprovalLog).on_question(self._on_question),
            list_.on_change(partial(self._write_tasks, ref(session), ref(list_))),
        ]
        results = session.get(Results)
        if isinstance(results.store, ResultMemory):  # else the application keeps them elsewhere
            memory = results.store
            results.store = KeptResults(self._store.results, self._writer, memory)
            ends.append(partial(setattr, results, "store", memory))
        return _Kept(user=user_of(session), waits_until=now + _LOADING_SECONDS, ends=ends)

    async def _load(self, session: ToolSession, known: _Kept) -> None:
        """Read what was kept of the session and of its user."""
        user, list_ = known.user, session.get(TaskList)
        preferences: Preferences | None = None
        try:
            if user is not None:
                preferences = await self._store.preferences.read(user)
            tasks = await self._store.tasks.read(session.id, user=_owner(user))
        except LeonidasError as error:
            logger.warning(
                "The preferences of %r cannot be read; the session is in the stricter of 'ask' and "
                "the mode of the settings: %s", user, error,
            )  # fmt: skip
            return
        if known.user != user:
            return
        if preferences is None:  # no preferences here
            known.checked = math.inf
            session.get(SessionPolicy).preferred = Preferred()
        else:
            self._hold(session, known, preferences)
        if tasks and not list_.tasks:
            list_.put(tasks)
        known.is_loaded = True

    def _prefer(self, preferences: Preferences) -> None:
        """Apply the preferences of a user to running sessions."""
        for session, known in list(self._sessions.items()):
            if known.user == preferences.user:
                self._hold(session, known, preferences)

    def _keep_always(self, where: ref[ToolSession], rule: Rule) -> None:
        """Keep what a user has answered for good, and has it hold at once."""
        session = where()
        if session is None:
            return
        policy, user = session.get(SessionPolicy), user_of(session)
        if user is None:
            policy.always.append(rule)
            logger.warning("'always' applies to this session only: it belongs to no user")
            return
        before = policy.preferred
        policy.preferred = replace(before, always=(*before.always, rule))
        self._in_background(self._patch(user, kept(rule)))

    async def _patch(self, user: str, changes: dict[str, Any]) -> None:
        try:
            await self._store.preferences.patch(user, changes)
        except (LeonidasError, ValueError) as error:
            logger.log(
                log_level(error), "'always' applies to this session of %r only: %s", user, error
            )

    def _on_question(self, question: Question, closing: Closing | None) -> None:
        """Keep a question, or how it was closed."""
        table, id_ = self._store.approvals, question.request.id
        if closing is None:
            self._open.add(id_)
            write = table.asked(question)
        else:
            self._open.discard(id_)
            write = table.closed(question, closing)
        self._writer.questions = len(self._open)
        self._writer.put(write)

    def _write_tasks(self, where: ref[ToolSession], what: ref[TaskList], *_: object) -> None:
        """Store the task list."""
        session, list_ = where(), what()
        if session is not None and list_ is not None:
            write = self._store.tasks.writing(
                session.id, list_.tasks, user=_owner(user_of(session))
            )
            self._writer.put(write, key=("tasks", session.id))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name="store-session")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _owner(user: str | None) -> str:
    """Return what a task list is kept under: no two users share it, nor a user and no user.

    Example:
        >>> _owner("ana"), _owner(None), _owner("local")
        ('ana', 'local', '=local')
    """
    if user is None:
        return LOCAL_USER
    return f"={user}" if user.lstrip("=") == LOCAL_USER else user
