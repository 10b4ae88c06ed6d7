"""Load the toolboxes that the settings name, and unload all others."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel, ValidationError

from leonidas_tools.errors import RegistryError, ToolboxError
from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.runtime.ruling import find_refused_root
from leonidas_tools.settings.explain import explain
from leonidas_tools.settings.problem import Finding, Problem
from leonidas_tools.settings.root_settings import WORKSPACE, OpenedRoots

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Container,
        Coroutine,
        Mapping,
        Sequence,
    )

    from leonidas_tools.runtime.ruling import NamedRoots
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.toolbox_settings import ToolboxSettings
    from leonidas_tools.settings.watch import WatchedSettings
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry
    from leonidas_tools.tools.toolbox import Toolbox, ToolboxHost

logger = visible_logger(__name__)

Serve: TypeAlias = "Callable[[ToolboxHost], Coroutine[Any, Any, None]]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """The resources that the tools of a toolbox can reach.

    Args:
        writes: The folders where they read and write.
        reads: The files and folders that they only read.
        network: Whether they use the network.
        programs: Whether they run programs.
        backend: The isolation of these programs.
        store: Whether they use the store.
    """

    writes: tuple[str, ...]
    reads: tuple[str, ...]
    network: bool
    programs: bool
    backend: str | None
    store: bool

    @property
    def is_outside(self) -> bool:
        """Return whether they can reach anything outside of this process."""
        return bool(self.writes or self.reads or self.network or self.programs or self.store)

    def __str__(self) -> str:
        isolation = "without isolation" if self.backend in (None, "none") else "in the sandbox"
        backend = "" if self.backend is None else f" (backend {self.backend!r})"
        parts = [
            f"reads and writes {', '.join(self.writes)}" if self.writes else "",
            f"reads {', '.join(self.reads)}" if self.reads else "",
            f"runs programs {isolation}{backend}" if self.programs else "",
            "network" if self.network else "no network",
            "the store" if self.store else "",
        ]
        return "; ".join(filter(None, parts))


def reach_of(toolbox: Toolbox, own: BaseModel, opened: OpenedRoots) -> Reach:
    """Return the resources that the tools of a toolbox can reach with these settings."""
    is_writable = getattr(own, "writable", True)
    writes: list[str] = []
    reads: list[str] = []
    for setting, root in opened.opened:
        note = "" if root.exists else " (made when it is first used)"
        places = writes if is_writable and setting == "roots" else reads
        places.append(f"{root.path}{note}")
    return Reach(
        writes=tuple(writes),
        reads=tuple(reads),
        network=getattr(own, "network", "network" in toolbox.access),
        programs="programs" in toolbox.access,
        backend=getattr(own, "backend", None),
        store="store" in toolbox.access,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _BuiltToolbox:
    """The tools of a toolbox, and the coroutine function that runs concurrently with them."""

    tools: Sequence[AnyTool]
    serve: Serve | None
    roots: NamedRoots
    reach: Reach


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A toolbox whose tools are registered, and their names."""

    toolbox: ToolboxSettings
    names: Sequence[str]
    built: _BuiltToolbox


class Toolboxes:
    """Keeps the tools of the named toolboxes in a registry.

    Args:
        registry: Receives the tools.
        settings: Name the toolboxes; the directory of their file is searched first.

    Example:
        >>> from leonidas_tools.tools.registry import ToolRegistry
        >>> from leonidas_tools.settings.models import Settings
        >>> from leonidas_tools.settings.watch import WatchedSettings
        >>> registry = ToolRegistry()
        >>> toolboxes = Toolboxes(registry, WatchedSettings())
        >>> toolboxes.load(Settings(toolboxes=["demo"]))
        []
        >>> "roll_dice" in registry, toolboxes.load(Settings()), "roll_dice" in registry
        (True, [], False)
    """

    def __init__(self, registry: ToolRegistry, settings: WatchedSettings) -> None:
        self._registry = registry
        self._settings = settings
        self._loaded: dict[str, _Loaded] = {}
        self._built: dict[str, tuple[ToolboxSettings, _BuiltToolbox]] = {}
        self._host: ToolboxHost | None = None
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self, host: ToolboxHost) -> AsyncIterator[None]:
        """Run the background tasks of the loaded toolboxes."""
        self._host = host
        for name, loaded in self._loaded.items():
            self._serve(name, loaded.built.serve)
        try:
            yield
        finally:
            self._host = None
            for name in list(self._serving):
                self._stop(name)
            if self._tasks:
                await asyncio.wait(self._tasks)

    def _serve(self, name: str, serve: Serve | None) -> None:
        if self._host is None or serve is None:
            return
        task = asyncio.get_running_loop().create_task(serve(self._host), name=f"toolbox {name}")
        self._serving[name] = task
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _stop(self, name: str) -> None:
        task = self._serving.pop(name, None)
        if task is not None:
            task.cancel()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("The background task of %s failed: %s", task.get_name(), described(error))

    def load(self, settings: Settings) -> list[ToolboxError]:
        """Load the toolboxes of these settings, unload all others, and return the errors.

        A toolbox whose settings have changed is created again. A toolbox that cannot be loaded has
        no tools, and does not keep others from loading.
        """
        for name in self._find_outdated(settings):
            self._unload(name)
        problems: list[ToolboxError] = []
        for index, toolbox in enumerate(settings.toolboxes):
            name = toolbox.name
            others = {each: loaded.built for each, loaded in self._loaded.items()}
            try:
                built = others.get(name) or self._get_or_build(index, settings)
                self._check_roots(index, settings, {**others, name: built})
                if name not in self._loaded:
                    self._loaded[name] = self._register(index, toolbox, built)
                    self._serve(name, built.serve)
            except ToolboxError as error:
                problems.append(error)
                if name in self._loaded:
                    self._unload(name)
        self._built.clear()
        return problems

    def _unload(self, name: str) -> None:
        self._stop(name)
        self._drop(self._loaded.pop(name).names)

    def tools_with(self, settings: Settings) -> Mapping[str, AnyTool]:
        """Return the tools that would exist after `load`, without registering any.

        Raises:
            ToolboxError: A new toolbox cannot be imported, has invalid settings, or has a tool with
                the name of another tool.
        """
        tools = {tool.name: tool for tool in self._registry}
        for name in self._find_outdated(settings):
            for gone in self._loaded[name].names:
                tools.pop(gone, None)
        built: dict[str, _BuiltToolbox] = {}
        for index, toolbox in enumerate(settings.toolboxes):
            name = toolbox.name
            if name in self._loaded and self._loaded[name].toolbox == toolbox:
                built[name] = self._loaded[name].built
                continue
            new = built[name] = self._build(index, settings)
            self._built[name] = toolbox, new
            for tool in new.tools:
                if tool.name in tools and not self._registry.is_builtin(tool.name):
                    why = f"A tool {tool.name!r} already exists; rename one"
                    raise self._error(name, why, f"toolboxes.{index}")
                tools[tool.name] = tool
        for index in range(len(settings.toolboxes)):
            self._check_roots(index, settings, built)
        return tools

    def reaches(self) -> Mapping[str, Reach]:
        """Return the resources that the tools of each loaded toolbox can reach, by toolbox name."""
        return {name: loaded.built.reach for name, loaded in self._loaded.items()}

    def warnings(self, settings: Settings) -> list[Finding]:
        """Return a warning for each loaded toolbox whose tools need a store that is not enabled."""
        return [
            Finding(
                severity="warning",
                key=f"toolboxes.{index}",
                message=f"the tools of {toolbox.name!r} need the store: set store.enabled to true",
            )
            for index, toolbox in enumerate(settings.toolboxes)
            if toolbox.name in self._loaded
            and self._loaded[toolbox.name].built.reach.store
            and not settings.store.enabled
        ]

    def _find_outdated(self, settings: Settings) -> list[str]:
        """Return the loaded toolboxes that are no longer named, or have other settings."""
        named = {toolbox.name: toolbox for toolbox in settings.toolboxes}
        return [name for name, each in self._loaded.items() if named.get(name) != each.toolbox]

    def _check_roots(
        self, index: int, settings: Settings, built: Mapping[str, _BuiltToolbox]
    ) -> None:
        """Raise `ToolboxError` for a root that controls the runtime, or leaves another root."""
        name = settings.toolboxes[index].name
        others = [root for each in built.values() for _, root in each.roots]
        problem = find_refused_root(settings, self._settings.path, built[name].roots, others)
        if problem is not None:
            setting, why = problem
            raise self._error(name, why, f"toolboxes.{index}.{name}.{setting}")

    def _get_or_build(self, index: int, settings: Settings) -> _BuiltToolbox:
        """Return the tools of a toolbox, which a check may have built already."""
        toolbox = settings.toolboxes[index]
        built_from, built = self._built.get(toolbox.name, (None, None))
        if built is not None and built_from == toolbox:
            return built
        return self._build(index, settings)

    def _register(self, index: int, toolbox: ToolboxSettings, built: _BuiltToolbox) -> _Loaded:
        names: list[str] = []
        try:
            for tool in built.tools:
                names.append(self._registry.register(tool).name)  # noqa: PERF401 - kept if it fails
        except RegistryError as error:
            self._drop(names)
            raise self._error(toolbox.name, str(error), f"toolboxes.{index}") from error
        return _Loaded(toolbox, names, built)

    def _build(self, index: int, settings: Settings) -> _BuiltToolbox:
        """Import a toolbox, validate its settings and create its tools."""
        from leonidas_tools.tools.discovery import build_tools, find_toolbox

        named, key = settings.toolboxes[index], f"toolboxes.{index}"
        masked = settings.masked
        try:
            toolbox = find_toolbox(named.name, self._folders())
            opened = build_opened_roots(self._settings.path)
            own, problems = read_toolbox_settings(toolbox.settings, named, settings.written, opened)
            if own is not None:
                return _BuiltToolbox(
                    tools=build_tools(named.name, toolbox, own),
                    serve=None if toolbox.serve is None else partial(toolbox.serve, own),
                    roots=tuple(opened.opened),
                    reach=reach_of(toolbox, own, opened),
                )
        except RegistryError as error:
            raise self._error(named.name, masked(str(error)), key) from error
        found = [
            self._error(
                named.name, masked(each.message), ".".join([key, named.name, *map(str, each.path)])
            )
            for each in problems
        ]
        raise self._error(named.name, found[0].why, found[0].key, found)

    def _error(
        self, name: str, why: str, key: str, problems: Sequence[ToolboxError] = ()
    ) -> ToolboxError:
        return ToolboxError(name, why, key=key, place=self._settings.locate(key), problems=problems)

    def _folders(self) -> list[Path]:
        """Return the folder of the settings file and the working directory."""
        file = self._settings.path
        folders = [] if file is None else [file.resolve().parent]
        here = Path.cwd()
        return [*folders, *([] if here in folders else [here])]

    def _drop(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self._registry:  # a request may have unregistered it
                self._registry.unregister(name)


def build_opened_roots(file: Path | None) -> OpenedRoots:
    """Return where the folders of a toolbox are opened, given the settings file."""
    folder = Path.cwd() if file is None else file.absolute().parent
    return OpenedRoots(workspace=folder / WORKSPACE)


def read_toolbox_settings(
    model: type[BaseModel],
    named: ToolboxSettings,
    from_environment: Container[str],
    opened: OpenedRoots,
) -> tuple[BaseModel | None, list[Problem]]:
    """Return the settings of a toolbox, or all problems with them; open the folders they name.

    No problem contains a text of `from_environment`.
    """
    if named.settings and not model.model_fields:
        message = f"the toolbox {named.name!r} takes no settings; write only its name"
        return None, [Problem(message)]
    try:
        return model.model_validate(named.settings, extra="forbid", context=opened), []
    except ValidationError as error:
        details: list[Any] = error.errors(include_url=False)
    hidden = [each["loc"] for each in details if str(each["input"]) in from_environment]
    return None, [explain(each, hidden, model) for each in details]
