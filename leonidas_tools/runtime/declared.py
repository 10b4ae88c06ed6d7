"""Declare the tools of a session to a model, and notify of changed declarations."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.redaction import described, without_presets
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.rules.engine import RuleBook
from leonidas_tools.rules.subject import subject_of
from leonidas_tools.settings.effective import either, refusal_of
from leonidas_tools.tools.preferred import PreferredTools
from leonidas_tools.tools.relevance import Relevance

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.watch import WatchedSettings
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry
    from leonidas_tools.tools.tool import ToolBehavior

logger = visible_logger(__name__)

Subscribe: TypeAlias = "Callable[[Callable[..., None]], Callable[[], None]]"

_MAX_CHARACTERS = 600
"""Maximum characters of recent user speech that the choice of tools considers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration:
    """A function declaration, in no vendor's format."""

    tool: AnyTool = field(compare=False)  # another tool declared alike makes no difference
    name: str
    description: str
    parameters: Any  # without the defaults of secrets
    behavior: ToolBehavior | None


class DeclaredTools:
    """Chooses the tools of a registry that are declared to a model under the settings.

    `update` registers and unregisters on-demand tools; it is called before the registry is read.

    Example:
        >>> from leonidas_tools.tools.registry import ToolRegistry
        >>> from leonidas_tools.settings.watch import WatchedSettings
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> declared = DeclaredTools(ToolRegistry([add]), WatchedSettings(), update=lambda: None)
        >>> [declaration.name for declaration in declared.declarations()]
        ['add']
    """

    def __init__(
        self, registry: ToolRegistry, settings: WatchedSettings, *, update: Callable[[], None]
    ) -> None:
        self.registry = registry
        self.settings = settings
        self._update = update
        self._undescribed: set[str] = set()
        self._schemas: WeakKeyDictionary[AnyTool, Any] = WeakKeyDictionary()
        self._relevance: tuple[tuple[int, Settings], Relevance] | None = None
        self._made: tuple[Declaration, ...] = ()
        self._made_of: tuple[int, Settings] | None = None
        self._made_for: WeakKeyDictionary[ToolSession, tuple[object, tuple[Declaration, ...]]] = (
            WeakKeyDictionary()
        )

    def tools(self, session: ToolSession | None = None) -> list[AnyTool]:
        """Return the tools that are declared in a session: neither disabled nor always denied."""
        self._update()
        settings = self.settings.current
        policy = None if session is None else session.find(SessionPolicy)
        usual, of_session = settings.policies.mode, () if policy is None else policy.rules
        mode = usual if policy is None else policy.mode_or(usual)
        rules = RuleBook([*settings.policies.all_rules(), *of_session])
        on = [
            t for t in self.registry if refusal_of(t, settings.for_tool(t.name, t.origin)) is None
        ]
        if not rules.may_deny(mode):
            return self._select_tools(on, session)
        subjects = [subject_of(t.metadata, settings.for_tool(t.name, t.origin)) for t in on]
        allowed = [
            tool
            for tool, subject in zip(on, subjects, strict=True)
            if not rules.for_tool(subject).always_denies(mode)
        ]
        return self._select_tools(allowed, session)

    def declarations(self, session: ToolSession | None = None) -> tuple[Declaration, ...]:
        """Return the declarations, as the identical tuple while nothing in it changes."""
        self._update()
        settings = self.settings.current
        if session is None:
            return self._declare_all()
        policy, usual = session.find(SessionPolicy), settings.policies.mode
        mode = usual if policy is None else policy.mode_or(usual)
        rules = () if policy is None else tuple(map(id, policy.rules))
        reasons = self._reasons(session)
        if not rules and mode is usual and reasons is None:
            return self._declare_all()
        key = (self.registry.generation, settings, mode, rules, reasons)
        made = self._made_for.get(session)
        if made is None or made[0] != key:
            own = self._declare(self.tools(session), settings)
            if made is not None and made[1] == own:
                own = made[1]
            made = self._made_for[session] = (key, own)
        return made[1]

    def on_change(
        self, listener: Callable[[], None], session: ToolSession | None = None
    ) -> Callable[[], None]:
        """Call a listener on the running event loop each time the declarations have changed.

        The listener is called once for all changes in one iteration of the loop, made in any
        thread; its exceptions are logged. Return a function that unsubscribes.

        Raises:
            RuntimeError: No event loop is running.
        """
        sources: list[Subscribe] = [self.registry.on_change, self.settings.on_change]
        if session is not None:
            sources += [session.get(SessionPolicy).on_change, session.get(PreferredTools).on_change]
        return ChangeSubscription(partial(self.declarations, session), listener, sources).end

    def _declare_all(self) -> tuple[Declaration, ...]:
        # Read first: a change in the meantime counts as a later change.
        made_of = (self.registry.generation, self.settings.current)
        if made_of != self._made_of:
            made = self._declare(self.tools(), self.settings.current)
            if made != self._made:
                self._made = made
            self._made_of = made_of
        return self._made

    def _declare(self, tools: Sequence[AnyTool], settings: Settings) -> tuple[Declaration, ...]:
        return tuple(self._build_declaration(tool, settings) for tool in tools)

    def _build_declaration(self, tool: AnyTool, settings: Settings) -> Declaration:
        if tool not in self._schemas:
            self._schemas[tool] = without_presets(tool.declared_parameters[0])
        own, configured = tool.metadata, settings.for_tool(tool.name, tool.origin)
        description = configured.description or own.description
        if not description.strip() and tool.origin is None and own.name not in self._undescribed:
            self._undescribed.add(own.name)
            logger.warning(
                "The tool %r has no description, and the model has only its name to go by: "
                "write a docstring, or set tools.%s.description",
                own.name,
                own.name,
            )
        return Declaration(
            tool=tool,
            name=self.registry.declared_name(own.name),
            description=description,
            parameters=self._schemas[tool],
            behavior=configured.behavior or own.behavior,
        )

    def _reasons(self, session: ToolSession) -> Hashable:
        """Return the inputs of a choice that differs from the usual one; `None` if it does not."""
        most = self._max_tools()
        if most is None or len(self.registry) <= most:
            return None
        found, speech = _found_tools(session), _recent_speech(session)
        return (found, speech) if found or speech else None

    def _select_tools(self, tools: list[AnyTool], session: ToolSession | None) -> list[AnyTool]:
        """Return the tools that are declared: all, unless the settings limit their number.

        Tools that are always declared do not count. The others are sorted by these keys: last found
        by the session, preferred by the application, relevance to the user's recent speech, and
        original order.
        """
        show, most = self.settings.current.policies.show, self._max_tools()
        if show is None or most is None:
            return tools
        always = {tool.name for tool in tools if self._is_always_shown(tool, show.always)}
        others = [tool.name for tool in tools if tool.name not in always]
        known = set(others)
        order = [*_found_tools(session), *self.registry.preferred, *self._fitting(session)]
        wanted = [name for name in order if name in known]
        shown = {*always, *list(dict.fromkeys([*wanted, *others]))[:most]}
        return [tool for tool in tools if tool.name in shown]

    def _fitting(self, session: ToolSession | None) -> list[str]:
        """Return the tools that are relevant to the speech in a session, the best first."""
        speech = _recent_speech(session)
        if not speech:
            return []
        made_of = (self.registry.generation, self.settings.current)
        if self._relevance is None or self._relevance[0] != made_of:
            self._relevance = (made_of, Relevance({t.name: self._texts(t) for t in self.registry}))
        return self._relevance[1].best(speech)

    def _texts(self, tool: AnyTool) -> tuple[str, str]:
        """Return a tool's effective tags and description."""
        configured, own = self.settings.current.for_tool(tool.name, tool.origin), tool.metadata
        return " ".join(either(configured.tags, own.tags)), either(
            configured.description, own.description
        )

    def _max_tools(self) -> int | None:
        """Return the maximum number of declared tools; `None` for no limit."""
        show = self.settings.current.policies.show
        return None if show is None else show.most or None

    def _is_always_shown(self, tool: AnyTool, patterns: Sequence[str]) -> bool:
        if self.registry.is_builtin(tool.name):
            return True
        return any(fnmatchcase(tool.name, pattern) for pattern in patterns)


class ChangeSubscription:
    """Notifies one listener, on its event loop, when the return value of `read` has changed.

    `sources` subscribe a function to possible changes, which may come from any thread.
    """

    def __init__(
        self,
        read: Callable[[], object],
        listener: Callable[[], None],
        sources: Iterable[Subscribe],
    ) -> None:
        self._read = read
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        # A task that the listener starts belongs to the subscriber, not to the maker of a change.
        self._context = contextvars.copy_context()
        self._last = read()
        self._scheduled = False
        self._sources = [subscribe(self._schedule) for subscribe in sources]

    def end(self) -> None:
        """Unsubscribe."""
        while self._sources:
            self._sources.pop()()

    def _schedule(self, *_: object) -> None:
        """Compare once for all changes, in the loop's next iteration; callable from any thread."""
        if not self._scheduled:
            self._scheduled = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._compare, context=self._context)

    def _compare(self) -> None:
        self._scheduled = False
        if not self._sources:
            return
        try:
            last, self._last = self._last, self._read()
            if self._last is not last and self._last != last:
                self._listener()
        except Exception as error:  # noqa: BLE001 - a callback that fails must not break the loop
            logger.warning("A listener for changed declarations failed: %s", described(error))


def _found_tools(session: ToolSession | None) -> tuple[str, ...]:
    """Return the tools that a session has found, the latest first."""
    preferred = None if session is None else session.find(PreferredTools)
    return () if preferred is None else preferred.names


def _recent_speech(session: ToolSession | None) -> str:
    """Return the recent speech of the user in a session."""
    transcript = None if session is None else session.find(Transcript)
    return "" if transcript is None else transcript.recent_speech(_MAX_CHARACTERS)
