"""A policy: what was kept of a session is there again, and what becomes of it is kept."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from leonidas_tools.approvals.log import ApprovalLog, Closing
from leonidas_tools.approvals.session_policy import Preferred, SessionPolicy, user_of
from leonidas_tools.errors import LeonidasError
from leonidas_tools.results import ResultMemory, Results
from leonidas_tools.store.kept_results import KeptResults
from leonidas_tools.store.preferred import kept, preferred_by
from leonidas_tools.store.recorder import LOCAL_USER
from leonidas_tools.tasks import TaskList

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leonidas_tools.approvals.question import Question
    from leonidas_tools.calls import Run, ToolCall, ToolResult, ToolSession
    from leonidas_tools.rules.rule import Rule
    from leonidas_tools.store.rows import Preferences
    from leonidas_tools.store.store import Store
    from leonidas_tools.store.writer import Writer

logger = logging.getLogger(__name__)

_LOADING_SECONDS = 1.0
_AGAIN_SECONDS = 5.0


@dataclass(kw_only=True, slots=True, eq=False)
class _Kept:
    """What is known of one session.

    Args:
        user: Whose preferences it has.
        loading: Reads what was kept of it.
        is_loaded: Whether that was read.
        version: That of the preferences that hold.
        tried: When it was tried to read it, in seconds of the loop.
        waits_until: Until when calls wait for it, in seconds of the loop.
        ends: Lets go of the session.
    """

    user: str
    waits_until: float
    loading: asyncio.Task[None] | None = None
    is_loaded: bool = False
    version: int = 0
    tried: float = 0.0
    ends: list[Callable[[], None]] = field(default_factory=list)


class KeptSessions:
    """Joins the sessions of calls to the store.

    The first call of a session waits until what its user prefers is read, for a second at most;
    no other call waits. From then on questions and their answers, task lists and long results are
    kept as they come up, and a preference that changes holds at once.

    Args:
        store: Where things are kept.
        writer: Writes them.
    """

    sets_session_policy = True
    """What a session may do may only be known once its first call has come here."""
    leaves_results = True
    """What the tool has answered is handed on as it is, and can be sent."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._sessions: WeakKeyDictionary[ToolSession, _Kept] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[str] = set()
        store.preferences.on_change(self._prefer)

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call in a session that is joined to the store."""
        session = call.session
        known = self._sessions.get(session)
        if known is None or not known.is_loaded or known.user != _owner(session):
            await self._join(session)
        return await run(call)

    def begin(self, session: ToolSession) -> None:
        """Joins a session to the store ahead of its first call, which then need not wait.

        Args:
            session: A conversation that begins.
        """
        now = asyncio.get_running_loop().time()
        known = self._sessions.get(session)
        if known is None:
            known = self._sessions[session] = self._attached(session, now)
        if known.user != _owner(session):
            known.user, known.is_loaded, known.loading = _owner(session), False, None
            known.version = 0
            known.waits_until = now + _LOADING_SECONDS
            session.get(SessionPolicy).preferred = Preferred()
        if known.loading is None or (known.loading.done() and now > known.tried + _AGAIN_SECONDS):
            known.tried = now
            known.loading = self._in_background(self._load(session, known))

    async def close(self) -> None:
        """Lets go of all sessions; their long results stay readable while they are in memory."""
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
            logger.warning("The store does not answer: the settings hold until it does")

    def _attached(self, session: ToolSession, now: float) -> _Kept:
        """Has the session tell what is to be kept."""
        policy, list_ = session.get(SessionPolicy), session.get(TaskList)
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
        return _Kept(user=_owner(session), waits_until=now + _LOADING_SECONDS, ends=ends)

    async def _load(self, session: ToolSession, known: _Kept) -> None:
        """Reads what was kept of the session and of its user."""
        user, list_ = known.user, session.get(TaskList)
        try:
            preferences = await self._store.preferences.read(user)
            tasks = await self._store.tasks.read(session.id, user=user)
        except LeonidasError as error:
            logger.warning("What %r prefers cannot be read, and the settings hold: %s", user, error)
            return
        if known.user != user:
            return
        _hold(session, known, preferences)
        if tasks and not list_.tasks:
            list_.put(tasks)
        known.is_loaded = True

    def _prefer(self, preferences: Preferences) -> None:
        """Has what a user prefers hold in the sessions under way."""
        for session, known in list(self._sessions.items()):
            if known.user == preferences.user:
                _hold(session, known, preferences)

    def _keep_always(self, where: ref[ToolSession], rule: Rule) -> None:
        """Keeps what a user has answered for good, and has it hold at once."""
        session = where()
        if session is None:
            return
        policy, user = session.get(SessionPolicy), _owner(session)
        before = policy.preferred
        policy.preferred = Preferred(mode=before.mode, always=(*before.always, rule))
        self._in_background(self._patch(user, kept(rule)))

    async def _patch(self, user: str, changes: dict[str, Any]) -> None:
        try:
            await self._store.preferences.patch(user, changes)
        except (LeonidasError, ValueError) as error:
            logger.warning("'always' holds for this session of %r only: %s", user, error)

    def _on_question(self, question: Question, closing: Closing | None) -> None:
        """Keeps a question, or how it was closed."""
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
        """Keeps the task list as it is now."""
        session, list_ = where(), what()
        if session is not None and list_ is not None:
            write = self._store.tasks.writing(session.id, list_.tasks, user=_owner(session))
            self._writer.put(write, key=("tasks", session.id))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name="store-session")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _owner(session: ToolSession) -> str:
    return user_of(session) or LOCAL_USER


def _hold(session: ToolSession, known: _Kept, preferences: Preferences) -> None:
    """Has preferences hold, unless newer ones do: those that were read may have changed since."""
    if preferences.version >= known.version:
        known.version = preferences.version
        session.get(SessionPolicy).preferred = _preferred(preferences)


def _preferred(preferences: Preferences) -> Preferred:
    """What a user prefers; what cannot be read of it does not hold."""
    try:
        return preferred_by(preferences.values)
    except ValueError as error:
        logger.warning("Of what %r prefers not all can be read: %s", preferences.user, error)
        return Preferred()
