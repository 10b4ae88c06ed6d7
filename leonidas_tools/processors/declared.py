"""The set of tools that is declared to a model, and telling of it when it has changed."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from google.genai import types

from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.redaction import described, is_marked, without_presets
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.rules.engine import RuleBook
from leonidas_tools.rules.subject import subject_of
from leonidas_tools.settings.effective import refused
from leonidas_tools.tools.preferred import PreferredTools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, MutableMapping

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.processors.ready import ReadyTools
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.watch import WatchedSettings
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry
    from leonidas_tools.tools.tool import ToolBehavior


def declare(
    registry: ToolRegistry,
    tools: Iterable[AnyTool],
    settings: Settings,
    schemas: MutableMapping[AnyTool, Any],
) -> list[types.Tool]:
    """The declarations for a Live setup: one `types.Tool` with all of them, or none.

    Args:
        registry: Knows the legal names.
        tools: The tools to declare.
        settings: May change a description or a behavior.
        schemas: The schemas that were written before, by tool; a tool never changes its own.
    """
    declared = [_declaration(registry, tool, settings, schemas) for tool in tools]
    return [types.Tool(function_declarations=declared)] if declared else []


def _declaration(
    registry: ToolRegistry,
    tool: AnyTool,
    settings: Settings,
    schemas: MutableMapping[AnyTool, Any],
) -> types.FunctionDeclaration:
    if tool not in schemas:
        schemas[tool] = for_gemini(without_presets(tool.declared_parameters[0]))
    own, configured = tool.metadata, settings.for_tool(tool.name, tool.origin)
    behavior: ToolBehavior | None = configured.behavior or own.behavior
    return types.FunctionDeclaration(
        name=registry.declared_name(own.name),
        description=configured.description or own.description,
        parameters_json_schema=schemas[tool],
        behavior=None if behavior is None else types.Behavior(behavior.value),
    )


def for_gemini(schema: Any) -> Any:
    """The schema as Gemini knows it: each `const` an `enum` of one, and secrets not marked.

    Sources: the keywords listed at https://ai.google.dev/gemini-api/docs/structured-output; of a
    keyword it does not know, and of a `format` of texts that it does not, the server has said
    `INVALID_ARGUMENT` to the whole request.

    Example:
        >>> for_gemini({"properties": {"kind": {"const": "cat"}, "pin": {"writeOnly": True}}})
        {'properties': {'kind': {'enum': ['cat']}, 'pin': {}}}
    """
    if isinstance(schema, list):
        return [for_gemini(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    hidden = _MARKS if is_marked(schema) else ()
    return {
        "enum" if key == "const" else key: [value] if key == "const" else _inside(key, value)
        for key, value in schema.items()
        if key not in hidden
    }


_MARKS = frozenset({"writeOnly", "x-secret", "format"})
"""What is left out of the schema of a secret."""


def _inside(key: str, value: Any) -> Any:
    """What stands under a keyword: values are no schemas, and properties may be named `const`."""
    if key in ("enum", "default", "examples"):
        return value
    if key in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
        return {name: for_gemini(schema) for name, schema in value.items()}
    return for_gemini(value)


logger = visible_logger(__name__)


class DeclaredTools:
    """The tools of a registry that can be called under the settings, as Gemini declares them.

    Args:
        registry: The tools that exist.
        settings: Which of them can be called, and how they are described.
        ready: Chooses which of the tools are shown; all, by default.

    Example:
        >>> from leonidas_tools.tools.registry import ToolRegistry
        >>> from leonidas_tools.settings.watch import WatchedSettings
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> declared = DeclaredTools(ToolRegistry([add]), WatchedSettings())
        >>> [function.name for function in declared.declarations()[0].function_declarations]
        ['add']
    """

    def __init__(
        self,
        registry: ToolRegistry,
        settings: WatchedSettings,
        ready: ReadyTools | None = None,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self._ready = ready
        self._made: list[types.Tool] = []
        self._schemas: WeakKeyDictionary[AnyTool, Any] = WeakKeyDictionary()
        self._made_of: tuple[int, Settings] | None = None
        self._made_for: WeakKeyDictionary[ToolSession, tuple[object, list[types.Tool]]] = (
            WeakKeyDictionary()
        )

    def prepare(self) -> None:
        """Puts the registry in order before it is read."""
        if self._ready is not None:
            self._ready()

    def tools(self, session: ToolSession | None = None) -> list[AnyTool]:
        """The tools that can be called: neither switched off, nor denied in every case.

        Args:
            session: The conversation which is to call them; any, by default.
        """
        self.prepare()
        settings = self.settings.current
        policy = None if session is None else session.find(SessionPolicy)
        usual, of_session = settings.policies.mode, () if policy is None else policy.rules
        mode = usual if policy is None else policy.mode_or(usual)
        rules = RuleBook([*settings.policies.all_rules(), *of_session])
        on = [t for t in self.registry if refused(t, settings.for_tool(t.name, t.origin)) is None]
        if not rules.may_deny(mode):
            return self._chosen(on, session)
        subjects = [subject_of(t.metadata, settings.for_tool(t.name, t.origin)) for t in on]
        allowed = [
            tool
            for tool, subject in zip(on, subjects, strict=True)
            if not rules.for_tool(subject).always_denies(mode)
        ]
        return self._chosen(allowed, session)

    def _chosen(self, tools: list[AnyTool], session: ToolSession | None) -> list[AnyTool]:
        return tools if self._ready is None else self._ready.choose(tools, session)

    def declarations(self, session: ToolSession | None = None) -> list[types.Tool]:
        """The declarations for a Live setup; they are the caller's own.

        Args:
            session: The conversation they are for; any, by default.
        """
        return [
            tool.model_copy(
                update={
                    "function_declarations": [
                        each.model_copy() for each in tool.function_declarations or ()
                    ]
                }
            )
            for tool in self.made(session)
        ]

    def made(self, session: ToolSession | None = None) -> list[types.Tool]:
        """The declarations as they are kept; the identical list while nothing in it changes."""
        if session is None:
            return self._made_for_all()
        self.prepare()
        policy = session.find(SessionPolicy)
        usual = self.settings.current.policies.mode
        mode = usual if policy is None else policy.mode_or(usual)
        rules = () if policy is None else tuple(map(id, policy.rules))
        reasons = None if self._ready is None else self._ready.reasons(session)
        if not rules and mode is usual and reasons is None:
            return self._made_for_all()
        key = (self.registry.generation, self.settings.current, mode, rules, reasons)
        made = self._made_for.get(session)
        if made is None or made[0] != key:
            settings = self.settings.current
            own = declare(self.registry, self.tools(session), settings, self._schemas)
            if made is not None and made[1] == own:
                own = made[1]
            made = self._made_for[session] = (key, own)
        return made[1]

    def _made_for_all(self) -> list[types.Tool]:
        self.prepare()
        # Read first: what changes while they are made counts as changed afterwards.
        made_of = (self.registry.generation, self.settings.current)
        if made_of != self._made_of:
            made = declare(self.registry, self.tools(), self.settings.current, self._schemas)
            if made != self._made:
                self._made = made
            self._made_of = made_of
        return self._made

    def on_change(
        self, listener: Callable[[], None], session: ToolSession | None = None
    ) -> Callable[[], None]:
        """Calls back each time the declarations have become different.

        Args:
            listener: Called on the event loop that runs now, once for all changes of one turn of
                it, wherever they were made. What it raises is logged.
            session: The conversation they are for; any, by default.

        Returns:
            A function that ends it.

        Raises:
            RuntimeError: No event loop is running.
        """
        return _Subscription(self, listener, session).end


class _Subscription:
    """Tells one listener, on its event loop, of what it has not been told yet."""

    def __init__(
        self,
        declared: DeclaredTools,
        listener: Callable[[], None],
        session: ToolSession | None,
    ) -> None:
        self._declared = declared
        self._session = session
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        # A task that the listener makes belongs to the subscriber, not to whoever makes a change.
        self._context = contextvars.copy_context()
        self._told = declared.made(session)
        self._sources = [
            declared.registry.on_change(self._stir),
            declared.settings.on_change(self._stir),
        ]
        if session is not None:
            self._sources.append(session.get(SessionPolicy).on_change(self._stir))
            self._sources.append(session.get(PreferredTools).on_change(self._stir))

    def end(self) -> None:
        """Tells nothing more."""
        while self._sources:
            self._sources.pop()()

    def _stir(self, *_: object) -> None:
        """Has a look in the loop's next turn; called in any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody can be told
            self._loop.call_soon_threadsafe(self._look, context=self._context)

    def _look(self) -> None:
        if not self._sources:
            return
        try:
            told, self._told = self._told, self._declared.made(self._session)
            if self._told is not told and self._told != told:
                self._listener()
        except Exception as error:  # noqa: BLE001 - its fault must not be the loop's
            logger.warning("A listener for changed declarations failed: %s", described(error))
