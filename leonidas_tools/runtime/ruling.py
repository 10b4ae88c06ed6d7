"""Refuse folders of toolboxes that contain files that control the runtime."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.files.data_directory import data_directory
from leonidas_tools.files.roots import resolve_path
from leonidas_tools.settings import OWN_CONFIGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from leonidas_tools.files.roots import Identity, Root
    from leonidas_tools.settings.models import Settings

NamedRoots: TypeAlias = "Sequence[tuple[str, Root]]"
"""The roots of a toolbox, each with the name of its setting."""
_PACKAGE = "__init__.py"
_READ_ONLY = "read_only"
"""The setting of folders whose content cannot be changed through the toolbox."""


def ruling_paths(settings: Settings, file: Path | None) -> Iterator[tuple[str, Path]]:
    """Yield the descriptions and paths of the files that control the runtime, existing or not.

    Args:
        settings: The settings of the runtime.
        file: Their file, if they have one.
    """
    if file is not None:
        yield "the settings file", file
    if file is not None or Path(".env").exists():
        yield "the variables of `leonidas`", Path(".env")
    if file is not None:
        yield from (("the settings file", each) for each in OWN_CONFIGS)
    if settings.mcp_servers or data_directory().exists():
        yield "the data directory", data_directory()
        yield "the pins of MCP servers", data_directory() / "mcp"
    yield from _store(settings)
    yield from _toolboxes(settings, file)
    for name, server in settings.mcp_servers.items():
        for word in (server.command, *server.args, server.ca_file):
            path = Path(server.cwd or ".", word or ".").expanduser()
            if path.is_file():
                yield f"the MCP server {name!r}", path
    yield from (("Python's modules", Path(folder or ".")) for folder in sys.path)


def _store(settings: Settings) -> Iterator[tuple[str, Path]]:
    if not settings.store.enabled:
        return
    from leonidas_tools.errors import ConfigurationError
    from leonidas_tools.store.address import database_url

    try:
        address = database_url(settings.store.url)
    except ConfigurationError:  # reported when the store opens
        return
    if address.get_backend_name() == "sqlite":
        yield "the store", Path(str(address.database))


def _toolboxes(settings: Settings, file: Path | None) -> Iterator[tuple[str, Path]]:
    from leonidas_tools.tools.discovery import OWN_TOOLBOXES

    searched = [Path.cwd(), *([] if file is None else [file.resolve().parent])]
    for name in {toolbox.name for toolbox in settings.toolboxes} - OWN_TOOLBOXES.keys():
        module = name.partition(".")[0]
        for folder in searched:
            yield f"the toolbox {name!r}", folder / f"{module}.py"
            yield f"the toolbox {name!r}", folder / module / _PACKAGE


def find_refused_root(
    settings: Settings, file: Path | None, roots: NamedRoots, others: Sequence[Root]
) -> tuple[str, str] | None:
    """Return the first root that a toolbox must not have: the name of its setting, and why.

    Args:
        settings: The settings of the runtime.
        file: Their file, if they have one.
        roots: The roots of the toolbox.
        others: The roots of all toolboxes.
    """
    ruling = _ruling_folders(settings, file) if roots else {}
    packages = _packages(settings, file) if roots else {}
    for setting, root in roots:
        package = next(filter(None, map(packages.get, root.ancestors)), None)
        what, path = ruling.get(root.identity) or package or ("", Path())
        if setting != _READ_ONLY and what:
            verb = "lies in" if root.identity not in ruling else "holds, or would hold,"
            return setting, (
                f"{str(root)!r} {verb} {what}, {str(path.absolute())!r}, and so a "
                "tool could change how it is run: name a separate folder, such as './workspace'"
            )
        for other in others:
            if root.leaves(other) or other.leaves(root):
                inner, outer = (root, other) if root.leaves(other) else (other, root)
                return setting, (
                    f"{str(inner)!r} leads through the root {str(outer)!r} and, by a link, out of "
                    "it again: name the folder to which the link leads"
                )
    return None


def _packages(settings: Settings, file: Path | None) -> Mapping[Identity, tuple[str, Path]]:
    """Return the folders of toolboxes, of which any module may be imported."""
    found: dict[Identity, tuple[str, Path]] = {}
    for what, path in _toolboxes(settings, file):
        with contextlib.suppress(OSError):  # nor can the runtime read it
            if path.name == _PACKAGE:
                found[resolve_path(path.parent).ancestors[-1]] = what, path.parent
    return found


def _ruling_folders(settings: Settings, file: Path | None) -> Mapping[Identity, tuple[str, Path]]:
    """Return the folders in which files that control the runtime could be replaced."""
    found: dict[Identity, tuple[str, Path]] = {}
    for what, path in ruling_paths(settings, file):
        try:
            resolved = resolve_path(path)
        except OSError:  # nor can the runtime read it
            continue
        for identity in resolved.traversed:
            found.setdefault(identity, (what, path))
    return found
