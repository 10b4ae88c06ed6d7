"""Settings that follow their file: a valid edit applies within a second, an invalid one never."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import errno
import fcntl
import logging
import os
import signal
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from leonidas_tools.calls.listeners import Listeners
from leonidas_tools.errors import ConfigurationError, log_level
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.settings.problem import DocumentError

if TYPE_CHECKING:
    from leonidas_tools.settings.load import Source
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.problem import Finding

_LOG = visible_logger(__name__)

_POLL_SECONDS = 0.2
_QUIET_SECONDS = 0.4
_LOOK_SECONDS = 0.05
_PATIENCE_SECONDS = 5.0
_STEP_MILLISECONDS = 20
_MAX_LOGGED_CHANGES = 5

Callback: TypeAlias = Callable[["Settings"], object]
Check: TypeAlias = Callable[["Settings"], "Sequence[Finding]"]


@dataclass(slots=True)
class _Watch:
    """The watching task of one event loop, and the number of its users."""

    task: asyncio.Task[None]
    users: int = 0


class WatchedSettings:
    """The current settings, which may follow a file.

    Inside `async with`, one task of the event loop watches the file, and reads it once no program
    writes it any more. If the file is invalid or missing, or if a check refuses the settings
    (`add_check`), the last valid settings stay, and a warning names the place. Only a path is
    watched, and no other source.

    Raises:
        ConfigurationError: The settings are invalid.

    Example:
        >>> watched = WatchedSettings({"tools": {"search": {"timeout": "2s"}}})
        >>> watched.current.for_tool("search").timeout, watched.generation
        (2.0, 1)
        >>> watched.update({"tools.search.timeout": 3}).for_tool("search").timeout
        3.0
        >>> watched.generation
        2
    """

    def __init__(self, source: Source = None) -> None:
        self.path = Path(source) if isinstance(source, str | Path) else None
        """The file of the settings, if there is one."""
        self.current = _load(source)
        """The current settings; replaced as a whole, never changed."""
        self.generation = 1
        """Number of settings applied so far, these included."""
        self.last_error: ConfigurationError | None = None
        """Current error of the source; `current` is the last valid settings."""
        self._source = copy.deepcopy(source) if isinstance(source, Mapping) else source
        self._reads = 0
        self._lock = threading.RLock()
        self._listeners: Listeners[Settings] = Listeners("changed settings")
        self._checks: list[Check] = []
        self._watches: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = (
            weakref.WeakKeyDictionary()
        )

    def on_change(self, callback: Callback) -> Callable[[], None]:
        """Call `callback` with new settings after each change; return a function to unsubscribe."""
        return self._listeners.subscribe(callback)

    def add_check(self, check: Check) -> Callable[[], None]:
        """Call `check` before new settings take effect; they are refused if it returns findings.

        It is called in the thread that reads the settings. Return a function that removes `check`.
        """
        self._checks.append(check)

        def remove() -> None:
            with contextlib.suppress(ValueError):
                self._checks.remove(check)

        return remove

    def reload(self) -> Settings:
        """Read the source again and return the current settings.

        Raises:
            ConfigurationError: The source is invalid; the last valid settings stay.
        """
        with self._lock:
            self._reads += 1
            try:
                settings = self._read()
            except ConfigurationError as error:
                self.last_error = error
                raise
            self._adopt(settings, self._changes(settings))
            return self.current

    def update(self, changes: Mapping[str, Any]) -> Settings:
        """Change some settings, also in the file if there is one.

        Raises:
            ConfigurationError: The changes are invalid, or cannot be written; nothing has changed.
        """
        from leonidas_tools.settings.write import apply_changes, update_file

        with self._lock:
            if self.path is not None:
                update_file(self.path, changes, check=self._check)
            else:
                source = apply_changes(self._as_mapping(), changes)
                self._check(_load(source))
                self._source = source
            return self.reload()

    async def __aenter__(self) -> Self:
        if self.path is None:
            return self
        loop = asyncio.get_running_loop()
        watch = self._watches.get(loop)
        if watch is None or watch.task.done():
            watch = _Watch(asyncio.create_task(self._follow(self.path), name=f"follow {self.path}"))
            self._watches[loop] = watch
        watch.users += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        watch = self._watches.get(loop)
        if watch is None:
            return
        watch.users -= 1
        if watch.users == 0:
            del self._watches[loop]
            watch.task.cancel()
            await asyncio.wait({watch.task})

    async def _follow(self, path: Path) -> None:
        """Check the file whenever it may have changed.

        The check detects every way of writing: renaming over, truncating, swapping a symbolic link
        in its path, deleting and recreating.
        """
        applied: object = None
        async with contextlib.aclosing(_poll_times(path)) as moments:
            async for _ in moments:
                if _look(path) != applied:
                    state = await _wait_until_unchanged(path)
                    if await self._reload_in_thread(path, state):
                        applied = state

    async def _reload_in_thread(self, path: Path, state: object) -> bool:
        """Read the file in a thread, since thousands of tools take a while, and apply it here.

        Return whether the file was in this state all the while; else nothing is applied.
        """
        reads = self._reads
        try:
            settings, changes = await asyncio.to_thread(self._read_with_changes)
        except ConfigurationError as error:
            if is_whole := _look(path) == state:
                self._refuse(error)
            return is_whole
        if _look(path) != state:
            return False
        with self._lock:
            if reads == self._reads:  # else `reload` or `update` has read newer settings
                self._adopt(settings, changes)
        return True

    def _read_with_changes(self) -> tuple[Settings, str]:
        settings = self._read()
        return settings, self._changes(settings)

    def _changes(self, settings: Settings) -> str:
        """Return the differences from the current settings, for the log."""
        if settings == self.current or not _LOG.isEnabledFor(logging.INFO):
            return ""
        from leonidas_tools.settings.shown import differences

        found = differences(self.current, settings)
        more = len(found) - _MAX_LOGGED_CHANGES
        return "; ".join([*found[:_MAX_LOGGED_CHANGES], *([f"{more} more"] if more > 0 else [])])

    def _read(self) -> Settings:
        """Return the settings of the source, unless a check refuses them."""
        if self.path is None:
            settings, text = _load(self._source), None
        else:
            from leonidas_tools.settings.load import read_settings, read_text

            text = read_text(self.path)
            settings = read_settings(text, self.path)
        self._check(settings, text)
        return settings

    def _check(self, settings: Settings, text: str | None = None) -> None:
        if settings == self.current:
            return
        findings = [finding for check in tuple(self._checks) for finding in check(settings)]
        if findings:
            from leonidas_tools.settings.load import refusal

            masked = [replace(each, message=settings.masked(each.message)) for each in findings]
            raise refusal(masked, text, self.path)

    def _refuse(self, error: ConfigurationError) -> None:
        if str(error) != str(self.last_error):
            problems = "; ".join(str(error).splitlines())
            _LOG.log(log_level(error), "The settings stay as they were: %s", problems)
        self.last_error = error

    def _adopt(self, settings: Settings, changes: str) -> None:
        """Put settings in force, and log which ones have changed."""
        what = self.path or "The source of the settings"
        is_same = settings == self.current
        if self.last_error is not None:
            _LOG.info("%s is right again: %s", what, changes or "no setting has changed")
        elif not is_same:
            _LOG.info("%s was read; changed: %s", what, changes)
        self.last_error = None
        if is_same:
            return
        self.current = settings
        self.generation += 1
        self._listeners.notify(settings)

    def locate(self, key: str) -> str:
        """Return the place of a dotted key, as `file:line`; empty if there is no file."""
        if self.path is None:
            return ""
        from leonidas_tools.settings.document import read_document
        from leonidas_tools.settings.load import read_text
        from leonidas_tools.settings.problem import KeyLines

        try:
            line = KeyLines(read_document(read_text(self.path)).lines).of(key)
        except (ConfigurationError, DocumentError):
            line = None
        return str(self.path) if line is None else f"{self.path}:{line}"

    def _as_mapping(self) -> Mapping[str, Any]:
        if isinstance(self._source, Mapping):
            return self._source
        return self.current.model_dump(exclude_unset=True)


def _load(source: Source) -> Settings:
    """Read settings; YAML is imported when it is first needed."""
    from leonidas_tools.settings.load import load

    return load(source)


async def _poll_times(path: Path) -> AsyncGenerator[None, None]:
    """Yield when the file's directory has changed, and a few times a second in any case.

    Notifications never arrive on network file systems and some bind mounts, nor when a link
    further up the path is swapped.
    """
    from watchfiles import awatch

    poll_milliseconds = round(_POLL_SECONDS * 1000)
    while True:
        yield
        with contextlib.suppress(OSError):  # the directory was removed: it may come back
            async for _ in awatch(
                path.parent,
                recursive=False,
                step=_STEP_MILLISECONDS,
                debounce=poll_milliseconds,
                rust_timeout=poll_milliseconds,
                yield_on_timeout=True,
            ):
                yield
        await asyncio.sleep(_POLL_SECONDS)


async def _wait_until_unchanged(path: Path) -> object:
    """Wait until the file is unchanged for a while and not open for writing; return its state."""
    loop = asyncio.get_running_loop()
    start = since = loop.time()
    seen = _look(path)
    patient = True
    while loop.time() - since < _QUIET_SECONDS or _is_being_written(path):
        if patient and loop.time() - start > _PATIENCE_SECONDS:
            patient = False
            _LOG.warning("%s is still being written: it is read when its writer closes it", path)
        await asyncio.sleep(_LOOK_SECONDS)
        if (state := _look(path)) != seen:
            seen, since = state, loop.time()
    return seen


def _is_being_written(path: Path) -> bool:
    """Return whether a program has the file open for writing, if the system can tell.

    Linux grants a lease for reading only while no one does.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        # A writer that comes in between would be announced by SIGIO, which ends the process.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(handle)
    return False


def _look(path: Path) -> object:
    """Return a value that differs if the file may have changed; follow links on the way."""
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
