"""A policy that loads the stored state of sessions, and stores their changes."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from leonidas_tools.approvals.log import ApprovalLog, Closing
from leonidas_tools.approvals.session_policy import Preferred, SessionPolicy, user_of
from leonidas_tools.approvals.untrusted import UntrustedContent
from leonidas_tools.errors import LeonidasError, log_level
from leonidas_tools.policies.call_limits import CallCounts
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.spill import ResultMemory, Results
from leonidas_tools.session.resumption import Resumption
from leonidas_tools.session.tasks import TaskList
from leonidas_tools.session.user_data import UserData
from leonidas_tools.store import queries
from leonidas_tools.store.preferences import always_patch, preferred_or_strictest
from leonidas_tools.store.recorder import name_of, user_name_of
from leonidas_tools.store.results import SessionResults
from leonidas_tools.tools.metadata import ToolEffect

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leonidas_tools.approvals.question import Question
    from leonidas_tools.calls.call import Run, ToolCall, ToolResult, ToolSession
    from leonidas_tools.rules.rule import Rule
    from leonidas_tools.store.database import Database
    from leonidas_tools.store.outbox import Outbox
    from leonidas_tools.store.queries import CallsElsewhere
    from leonidas_tools.store.recorder import Recorder
    from leonidas_tools.store.rows import Preferences
    from leonidas_tools.store.store import Store

logger = visible_logger(__name__)

_LOADING_SECONDS = 1.0
_AGAIN_SECONDS = 5.0
_FRESH_SECONDS = 1.0
"""The age of preferences above which a call reads them again."""
_READ = ToolEffect.READ


@dataclass(kw_only=True, slots=True, eq=False)
class _SessionState:
    """The state of one bound session; times are in seconds of the loop."""

    user: str | None
    bound: float = field(default_factory=time.time)
    """When it was bound, in seconds since the epoch."""
    waits_until: float
    """The time until which calls wait for `loading`."""
    loading: asyncio.Task[None] | None = None
    is_loaded: bool = False
    elsewhere: CallsElsewhere | None = None
    """The calls elsewhere when it was bound; `None` until they are read."""
    has_counts: bool = False
    """Whether the calls that other processes made are counted."""
    has_tasks_of_another: bool = False
    """Whether its task list is that of the previous user, and is therefore not stored."""
    version: int = 0
    """The version of the preferences in force."""
    tried: float = 0.0
    """The time of the last attempt to read."""
    checked: float = 0.0
    """The time at which the preferences were last read."""
    ends: list[Callable[[], None]] = field(default_factory=list)
    """Functions that unbind the session."""


class SessionBinding:
    """Binds the sessions of calls to the store.

    The first call of a session waits up to a second for the preferences of its user. Until they
    are read, the session is in the stricter of `ask` and the mode of the settings. A call that has
    an effect reads them again after a second, since another process may have changed them; a
    change in this process applies at once. Questions and answers, task lists and long results are
    stored when they change.
    """

    sets_session_policy = True
    """The mode of a session may be known only after this policy has seen its first call."""
    leaves_results = True
    """The policy returns the tool's result unchanged."""

    def __init__(
        self, store: Store, database: Database, outbox: Outbox, recorder: Recorder
    ) -> None:
        self._store = store
        self._database = database
        self._recorder = recorder
        self._outbox = outbox
        self._sessions: WeakKeyDictionary[ToolSession, _SessionState] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[str] = set()
        store.preferences.on_change(self._apply_to_sessions)

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call in a session that is bound to the store."""
        session = call.session
        state = self._sessions.get(session)
        if state is None or not state.is_loaded or state.user != user_of(session):
            await self._bind(session)
        elif asyncio.get_running_loop().time() > state.checked + _FRESH_SECONDS:
            await self._refresh(state, session, call)
        return await run(call)

    def begin(self, session: ToolSession) -> None:
        """Bind a session to the store before its first call, so that the call need not wait."""
        now = asyncio.get_running_loop().time()
        state = self._sessions.get(session)
        if state is None:
            state = self._sessions[session] = self._attached(session, now)
        if state.user != user_of(session):
            state.user, state.is_loaded, state.loading = user_of(session), False, None
            state.version, state.has_tasks_of_another = 0, True
            state.waits_until = now + _LOADING_SECONDS
            session.get(SessionPolicy).preferred = Preferred(is_known=False)
        if state.loading is None or (state.loading.done() and now > state.tried + _AGAIN_SECONDS):
            state.tried = now
            state.loading = self._in_background(self._load(session, state))

    def bound(self, session: ToolSession) -> float:
        """Return when a session was bound, in seconds since the epoch; now if it is not bound."""
        state = self._sessions.get(session)
        return time.time() if state is None else state.bound

    def known_until(self, session: ToolSession) -> float:
        """Return the time up to which the model knows the calls of the session elsewhere."""
        resumption = session.find(Resumption)
        known = None if resumption is None else resumption.known_until
        return self.bound(session) if known is None else known

    def elsewhere(self, session: ToolSession) -> CallsElsewhere | None:
        """Return the calls elsewhere when the session was bound; `None` if they are unknown."""
        state = self._sessions.get(session)
        return None if state is None else state.elsewhere

    async def close(self) -> None:
        """Unbind all sessions; their long results stay readable while they are in memory."""
        for state in self._sessions.values():
            while state.ends:
                state.ends.pop()()
        self._sessions.clear()
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=_LOADING_SECONDS)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _bind(self, session: ToolSession) -> None:
        self.begin(session)
        state = self._sessions[session]
        left = state.waits_until - asyncio.get_running_loop().time()
        if state.loading is None or state.loading.done() or left <= 0:
            return
        await asyncio.wait([state.loading], timeout=left)
        if not state.loading.done():
            logger.warning(
                "The store does not respond: the mode is the stricter of 'ask' and the settings"
            )

    async def _refresh(self, state: _SessionState, session: ToolSession, call: ToolCall) -> None:
        """Read the preferences again, since another process may have changed them."""
        now = asyncio.get_running_loop().time()
        if state.loading is None or state.loading.done():
            if now < state.tried + (_AGAIN_SECONDS if state.tried > state.checked else 0.0):
                return  # the store did not answer a moment ago
            state.tried = now
            state.loading = self._in_background(self._read_again(session, state))
            state.waits_until = now + _LOADING_SECONDS
        if call.tool is None or call.tool.metadata.effect is not _READ:
            await asyncio.wait([state.loading], timeout=max(state.waits_until - now, 0.0))

    async def _read_again(self, session: ToolSession, state: _SessionState) -> None:
        user = state.user
        if user is None:
            return
        try:
            preferences = await self._store.preferences.read(user)
        except LeonidasError as error:
            logger.log(
                log_level(error), "The preferences of %r cannot be read again: %s", user, error
            )
            return
        if state.user == user:
            self._apply(session, state, preferences)

    def _apply(self, session: ToolSession, state: _SessionState, preferences: Preferences) -> None:
        """Apply preferences, unless newer ones are in force."""
        state.checked = asyncio.get_running_loop().time()
        if preferences.version >= state.version:
            state.version = preferences.version
            may_be_lost = self._store.preferences.may_be_lost
            preferred = preferred_or_strictest(preferences, may_be_lost=may_be_lost)
            session.get(SessionPolicy).preferred = preferred

    def _attached(self, session: ToolSession, now: float) -> _SessionState:
        """Subscribe to the changes of a session, and give the session access to the tables."""
        policy, list_ = session.get(SessionPolicy), session.get(TaskList)
        policy.preferred = Preferred(is_known=False)
        policy.keep_always = partial(self._store_always, ref(session))
        ends: list[Callable[[], None]] = [
            partial(setattr, policy, "keep_always", None),
            session.get(ApprovalLog).on_question(self._on_question),
            list_.on_change(partial(self._write_tasks, ref(session), ref(list_))),
        ]
        results = session.get(Results)
        if isinstance(results.store, ResultMemory):  # else the application stores them elsewhere
            memory = results.store
            results.store = SessionResults(
                self._store.results, self._outbox, memory, partial(_owner, ref(session))
            )
            ends.append(partial(setattr, results, "store", memory))
        data = session.get(UserData)
        for name in ("memories", "notes", "reminders"):
            if getattr(data, name) is None:  # else the application stores them elsewhere
                setattr(data, name, getattr(self._store, name))
                ends.append(partial(setattr, data, name, None))
        return _SessionState(user=user_of(session), waits_until=now + _LOADING_SECONDS, ends=ends)

    async def _load(self, session: ToolSession, state: _SessionState) -> None:
        """Load the preferences of the user, and the task list, mark and counts of the session."""
        user, list_ = state.user, session.get(TaskList)
        first = self._recorder.first_start(session)
        # The call that binds a session began before that, and is counted here already.
        before = state.bound if first is None else min(state.bound, first)
        preferences: Preferences | None = None
        owner = {"session": name_of(session.id), "user": user_name_of(user)}
        try:
            elsewhere = await queries.find_elsewhere(
                self._database, **owner, run=self._recorder.run
            )
            if user is not None:
                preferences = await self._store.preferences.read(user)
            tasks = await self._store.tasks.read(session.id, user=user)
            read = await queries.find_untrusted(self._database, **owner)
            made = await queries.find_earlier_calls(self._database, **owner, before=before)
        except LeonidasError as error:
            logger.warning(
                "The preferences of %r cannot be read; the session is in the stricter of 'ask' and "
                "the mode of the settings: %s", user, error,
            )  # fmt: skip
            return
        if state.user != user:
            return
        state.elsewhere = elsewhere
        for tool in read:
            session.get(UntrustedContent).mark(tool)
        if not state.has_counts:
            state.has_counts = True
            session.get(CallCounts).restore(made, asyncio.get_running_loop().time())
        if preferences is None:  # a session without a user
            state.checked = math.inf
            session.get(SessionPolicy).preferred = Preferred()
        else:
            self._apply(session, state, preferences)
        if state.has_tasks_of_another or (tasks and not list_.tasks):
            state.has_tasks_of_another = False
            list_.put(tasks)
        state.is_loaded = True

    def _apply_to_sessions(self, preferences: Preferences) -> None:
        """Apply the preferences of a user to running sessions."""
        for session, state in list(self._sessions.items()):
            if state.user == preferences.user:
                self._apply(session, state, preferences)

    def _store_always(self, where: ref[ToolSession], rule: Rule) -> None:
        """Store a permanent answer of the user, and apply it at once."""
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
        self._in_background(self._patch(user, always_patch(rule)))

    async def _patch(self, user: str, changes: dict[str, Any]) -> None:
        try:
            await self._store.preferences.patch(user, changes)
        except (LeonidasError, ValueError) as error:
            logger.log(
                log_level(error), "'always' applies to this session of %r only: %s", user, error
            )

    def _on_question(self, question: Question, closing: Closing | None) -> None:
        """Store a question, or its answer."""
        table, id_ = self._store.approvals, question.request.id
        if closing is None:
            self._open.add(id_)
            write = table.asked(question)
        else:
            self._open.discard(id_)
            write = table.closed(question, closing)
        self._outbox.questions = len(self._open)
        self._outbox.put(write)
        self._outbox.expedite()  # if this process dies, another asks the question again

    def _write_tasks(self, where: ref[ToolSession], what: ref[TaskList], *_: object) -> None:
        """Store the task list."""
        session, list_ = where(), what()
        if session is not None and list_ is not None:
            state = self._sessions.get(session)
            if state is None or state.has_tasks_of_another or state.user != user_of(session):
                return
            user = user_of(session)
            write = self._store.tasks.writing(session.id, list_.tasks, user=user)
            self._outbox.put(write, key=("tasks", session.id, user))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name="store-session")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _owner(where: ref[ToolSession]) -> str:
    """Return the name of the user of a session in the rows of results."""
    session = where()
    return user_name_of(None if session is None else user_of(session))
