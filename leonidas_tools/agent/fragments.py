"""Fragments: named expert agents to which a model delegates tasks."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from leonidas_tools.agent.models.model import DEFAULT_PARAMETERS, Model, ModelParameters
from leonidas_tools.agent.react import ReActAgent, Step, check_bounds, enclosing_work
from leonidas_tools.agent.sub_agent import (
    OF_THE_VOICE,
    OpensModel,
    SubAgent,
    Task,
    budget_within,
    nesting,
    runtime_around,
    sub_agent_tool,
)
from leonidas_tools.calls.call import ResultStatus, ToolResult
from leonidas_tools.calls.context import ToolContext  # noqa: TC001 - read with the annotations
from leonidas_tools.errors import ConfigurationError, ToolError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.similar import closest
from leonidas_tools.results.texts import say
from leonidas_tools.settings.document import read_document
from leonidas_tools.settings.explain import explain
from leonidas_tools.settings.fields import (  # noqa: TC001 - read with the annotations
    Count,
    Duration,
    Name,
    OptionalCount,
)
from leonidas_tools.settings.load import configuration_error, read_text
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.settings.problem import DocumentError, SettingsDocument
from leonidas_tools.tools.discovery import build_tools
from leonidas_tools.tools.tool import Tool, as_tool
from leonidas_tools.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from importlib.metadata import EntryPoint
    from pathlib import Path

    from leonidas_tools.agent.memory import ShortTermMemory
    from leonidas_tools.agent.reflector import Reflector
    from leonidas_tools.runtime.runtime import ToolRuntime
    from leonidas_tools.store.store import Store
    from leonidas_tools.tools.registry import AnyTool

ENTRY_POINT_GROUP = "leonidas_tools.fragments"

_logger = visible_logger(__name__)

_MAX_MEASURED = 100
_TOKENS = "tokens"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fragment:
    """A named expert: instructions, tools, and optionally its own model.

    A worker does tasks with its tools; a manager delegates parts of tasks to other fragments.

    Args:
        name: The name of the fragment as a tool.
        description: The expertise; a model chooses fragments by their descriptions.
        instructions: Instructions for the model of the fragment.
        tools: The tools: names of tools of the runtime, with wildcards (`*` for all), and tools,
            functions or toolboxes that the fragment brings.
        fragments: The names of the fragments to which it can delegate.
        model: The name of the model among `models`; by default the model of all fragments.
        max_iterations: The maximum number of turns of the model for a task.
        max_calls: The maximum number of calls for a task, including fragments below.
        max_tokens: The maximum number of tokens for a task, including fragments below.
        max_seconds: The timeout of a task in seconds.

    Raises:
        ValueError: A limit is too small.
    """

    name: str
    description: str
    instructions: str = ""
    tools: Sequence[str | AnyTool | Callable[..., Any] | Toolbox] = ()
    fragments: Sequence[str] = ()
    model: str | None = None
    max_iterations: int = 10
    max_calls: int = 30
    max_tokens: int | None = None
    max_seconds: float = 600.0

    def __post_init__(self) -> None:
        if min(self.max_iterations, self.max_calls, self.max_tokens or 1) < 1:
            raise ValueError(f"the bounds of the fragment {self.name!r} must be 1 or more")
        if self.max_seconds <= 0:
            raise ValueError(f"max_seconds of the fragment {self.name!r} must be above 0")

    @property
    def is_manager(self) -> bool:
        """Return whether the fragment can delegate to other fragments."""
        return bool(self.fragments)


@dataclass(frozen=True, kw_only=True, slots=True)
class FragmentMeasures:
    """Statistics about the tasks of a fragment.

    Args:
        runs: The number of tasks.
        successes: The number of tasks with an answer.
        seconds: The total duration in seconds.
        tokens: The total number of tokens.
    """

    runs: int = 0
    successes: int = 0
    seconds: float = 0.0
    tokens: int = 0

    def __add__(self, other: FragmentMeasures) -> FragmentMeasures:
        return FragmentMeasures(
            runs=self.runs + other.runs,
            successes=self.successes + other.successes,
            seconds=self.seconds + other.seconds,
            tokens=self.tokens + other.tokens,
        )


class FragmentStep(NamedTuple):
    """A step of a fragment in an orchestrated run."""

    fragment: str
    step: Step


class _FragmentFile(SettingsModel):
    """A fragment in a YAML file; see `Fragment`."""

    name: Name = ""
    description: Name
    instructions: str = ""
    tools: tuple[Name, ...] = ()
    fragments: tuple[Name, ...] = ()
    model: Name | None = None
    max_iterations: Count = 10
    max_calls: Count = 30
    max_tokens: OptionalCount = None
    max_seconds: Duration = 600.0


@dataclass(eq=False, repr=False)
class Fragments:
    """Fragments as tools: a model delegates a task to a fragment by calling it.

    Fragments work in the runtime and the session of the call: under the same policies, for the same
    user, with the same approvals. Cancelling the call stops the fragment and all fragments below.

    Args:
        model: The default model of fragments, or a function that opens one for each task.
        fragments: The fragments.
        models: The models by the names that fragments use.
        reflector: Decides after each turn of a fragment how to continue.
        max_depth: The maximum depth of nested fragments.
        parameters: The parameters of the models.
        short_term: Limits the messages of a long run that the models see; by default they see all.

    Raises:
        ConfigurationError: A fragment names an unknown fragment or model, or two fragments have
            the same name.

    Example:
        >>> import asyncio
        >>> from leonidas_tools import ToolRuntime
        >>> from leonidas_tools.agent.models import ScriptedModel
        >>> baker = Fragment(name="baker", description="Knows bread.")
        >>> fragments = Fragments(ScriptedModel(["Rye."]), [baker])
        >>> tools = ToolRuntime(fragments.tools, builtin_tools=False)
        >>> asyncio.run(tools.execute("baker", {"task": "Which bread?"})).result["answer"]
        'Rye.'
    """

    model: Model | OpensModel
    fragments: InitVar[Iterable[Fragment]]
    _: KW_ONLY
    models: Mapping[str, Model | OpensModel] | None = None
    reflector: Reflector | None = None
    max_depth: int = 3
    parameters: ModelParameters = DEFAULT_PARAMETERS
    short_term: ShortTermMemory | None = None
    by_name: Mapping[str, Fragment] = field(init=False)
    tools: tuple[Tool[..., Any], ...] = field(init=False)
    """The tools to add to a runtime, in addition to those that fragments name."""

    def __post_init__(self, fragments: Iterable[Fragment]) -> None:
        check_bounds(self, "max_depth")
        self.by_name = _by_name(fragments)
        self._measured: dict[str, FragmentMeasures] = {}
        self._tools_by_fragment: dict[str, list[AnyTool]] = {}
        for fragment in self.by_name.values():
            _check_names(fragment.name, "fragments", fragment.fragments, self.by_name)
            if fragment.model is not None:
                _check_names(fragment.name, "model", [fragment.model], self.models or ())
        self.tools = tuple(map(self._tool, self.by_name.values()))

    async def measures(self, store: Store | None = None) -> Mapping[str, FragmentMeasures]:
        """Return the statistics of the fragments, by name.

        Args:
            store: The store of the runtime, for the latest 100 tasks of each fragment in all
                processes; without a store, the statistics are those of this object.

        Raises:
            StoreError: The store cannot be read.
        """
        if store is None:
            return {name: self._measured.get(name, FragmentMeasures()) for name in self.by_name}
        return {name: await _read_measures(store, name) for name in self.by_name}

    def _tool(self, fragment: Fragment) -> Tool[..., Any]:
        async def work(task: Task, ctx: ToolContext) -> ToolResult:  # noqa: D417 - `ctx` is not an argument
            """Work on a task.

            Args:
                task: What to do, complete and self-contained: nothing else is known of it.
            """
            return await self._work(fragment, task, ctx)

        return sub_agent_tool(
            work,
            name=fragment.name,
            description=fragment.description,
            max_seconds=fragment.max_seconds,
        )

    async def _work(self, fragment: Fragment, task: str, ctx: ToolContext) -> ToolResult:
        """Run a task to its end or timeout, and record statistics."""
        runtime = runtime_around("fragment")
        if nesting(self.by_name) > self.max_depth:
            message = say("fragment_too_deep", most=self.max_depth)
            raise ToolError(message, status="limited", reason_code="max_depth")
        work = enclosing_work.get()
        budget = budget_within(fragment.max_tokens, fragment.max_calls)

        def follow(step: Step) -> None:
            if work is not None and work.on_step is not None:
                work.on_step(fragment.name, step)

        sub_agent = SubAgent(
            kind="fragment",
            model=self.model if fragment.model is None else (self.models or {})[fragment.model],
            make=partial(self._agent, fragment, runtime),
            max_seconds=fragment.max_seconds,
            budget=budget,
            secrets=set(),
        )
        begun = time.perf_counter()
        ended = await sub_agent.run(task, ctx, on_step=follow)
        tokens = budget.used.total
        measured = FragmentMeasures(
            runs=1, successes=ended.ok, seconds=time.perf_counter() - begun, tokens=tokens
        )
        before = self._measured.get(fragment.name, FragmentMeasures())
        self._measured[fragment.name] = before + measured
        return replace(ended, result={_TOKENS: tokens, **ended.result})

    def _agent(self, fragment: Fragment, runtime: ToolRuntime, model: Model) -> ReActAgent:
        may_use = self._may_use(fragment, self._register_tools(fragment, runtime))
        _warn_of_unknown_tools(fragment, runtime)
        return ReActAgent(
            model,
            runtime,
            max_iterations=fragment.max_iterations,
            instructions=fragment.instructions,
            parameters=self.parameters,
            reflector=self.reflector,
            may_use=may_use,
            short_term=self.short_term,
        )

    def _register_tools(self, fragment: Fragment, runtime: ToolRuntime) -> frozenset[str]:
        """Register the tools that a fragment brings, and return their names."""
        made = self._tools_by_fragment.get(fragment.name)
        if made is None:
            made = self._tools_by_fragment[fragment.name] = _build_tools(fragment)
        register(runtime, made)
        return frozenset(tool.name for tool in made)

    def _may_use(self, fragment: Fragment, brought: frozenset[str]) -> Callable[[AnyTool], bool]:
        """Return a predicate that accepts the tools of a fragment."""
        patterns = [each for each in fragment.tools if isinstance(each, str)]

        def may_use(tool: AnyTool) -> bool:
            name = tool.name
            if name in self.by_name:
                return name in fragment.fragments
            is_named = any(fnmatchcase(name, pattern) for pattern in patterns)
            return name in brought or (is_named and name not in OF_THE_VOICE)

        return may_use


def found_fragments(folder: Path | None = None, *, installed: bool = True) -> list[Fragment]:
    """Return the fragments of a folder of YAML files, and of installed packages.

    An entry point of the group `leonidas_tools.fragments` is a `Fragment`, a list of fragments, or
    a module with such a list as `FRAGMENTS`.

    Args:
        folder: The folder, with a file `NAME.yaml` for each fragment.
        installed: Whether to load entry points, which runs code of their packages.

    Raises:
        ConfigurationError: A file or entry point is not a fragment, or the folder does not exist.
    """
    found = list[Fragment]()
    if folder is not None:
        if not folder.is_dir():
            raise ConfigurationError(
                "is not a folder: name one with a file NAME.yaml for each fragment", file=folder
            )
        files = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
        found += [fragment_of_file(file) for file in files]
    if installed:
        for point in entry_points(group=ENTRY_POINT_GROUP):
            found += _load_fragments(point)
    return found


def fragment_of_file(file: Path) -> Fragment:
    """Return the fragment of a YAML file; its default name is the name of the file.

    Raises:
        ConfigurationError: The file cannot be read, or is not a fragment.
    """
    text = read_text(file)
    try:
        document = read_document(text)
    except DocumentError as error:
        raise configuration_error([error.problem], SettingsDocument(), file) from None
    problems = document.problems
    try:
        read = _FragmentFile.model_validate(document.data)
    except ValidationError as error:
        problems += [
            explain(detail, (), _FragmentFile) for detail in error.errors(include_url=False)
        ]
    if problems:
        raise configuration_error(problems, document, file)
    return Fragment(**{"name": file.stem, **read.model_dump(exclude_unset=True)})


def _load_fragments(point: EntryPoint) -> Sequence[Fragment]:
    """Return the fragments of an entry point."""
    try:
        thing: Any = point.load()
    except Exception as error:  # the import runs a module, which may raise anything
        raise ConfigurationError(
            f"the entry point {point.name!r} of {ENTRY_POINT_GROUP!r} cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error
    listed = getattr(thing, "FRAGMENTS", thing)
    made = list(listed) if isinstance(listed, (list, tuple)) else [listed]
    for each in made:
        if not isinstance(each, Fragment):
            raise ConfigurationError(
                f"the entry point {point.name!r} of {ENTRY_POINT_GROUP!r} is a "
                f"{type(each).__name__}: name a Fragment, a list of them, or a module with "
                "FRAGMENTS"
            )
    return made


def _by_name(fragments: Iterable[Fragment]) -> Mapping[str, Fragment]:
    found = dict[str, Fragment]()
    for fragment in fragments:
        if fragment.name in found:
            raise ConfigurationError(
                f"two fragments are named {fragment.name!r}: give one of them another name"
            )
        found[fragment.name] = fragment
    return found


def _check_names(owner: str, key: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            near = closest(name, known)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or '-'}"
            raise ConfigurationError(
                f"the fragment {owner!r} names {name!r}, which does not exist: {hint}", key=key
            )


def _warn_of_unknown_tools(fragment: Fragment, runtime: ToolRuntime) -> None:
    """Log each name that is not a tool now; do not raise, as an MCP server may add it later."""
    known = list(runtime.registry.by_name)
    for name in fragment.tools:
        if isinstance(name, str) and not any(fnmatchcase(each, name) for each in known):
            near = closest(name, known)
            hint = f": did you mean {near[0]!r}?" if near else ""
            _logger.warning(
                "The fragment %r names the tool %r, which does not exist%s",
                fragment.name,
                name,
                hint,
            )


def register(runtime: ToolRuntime, tools: Iterable[AnyTool]) -> None:
    """Register the tools that a runtime does not have yet.

    Raises:
        DuplicateToolError: The runtime has another tool with the same name.
    """
    for tool in tools:
        there = runtime.registry.get(tool.name)
        if there is None or there.function is not tool.function:
            runtime.registry.register(tool)


def _build_tools(fragment: Fragment) -> list[AnyTool]:
    """Return the tools that a fragment brings."""
    made: list[AnyTool] = []
    for thing in fragment.tools:
        if isinstance(thing, Toolbox):
            made += build_tools(fragment.name, thing, thing.settings())
        elif not isinstance(thing, str):
            made.append(as_tool(thing))
    return made


async def _read_measures(store: Store, name: str) -> FragmentMeasures:
    measures = FragmentMeasures()
    for each in await store.executions(tool=name, limit=_MAX_MEASURED):
        if isinstance(each.result, dict) and isinstance(tokens := each.result.get(_TOKENS), int):
            is_ok = each.status == ResultStatus.OK
            seconds = each.seconds or 0.0
            measures += FragmentMeasures(runs=1, successes=is_ok, seconds=seconds, tokens=tokens)
    return measures
