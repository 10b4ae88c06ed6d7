"""Settings that follow their file, whatever way it is written."""

import asyncio
import contextlib
import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.settings import watch
from leonidas_tools.settings.load import load
from leonidas_tools.settings.models import Settings
from leonidas_tools.settings.watch import WatchedSettings
from tests.tasks import other_tasks


def text(timeout: float) -> str:
    return f"# settings\ntools:\n  search:\n    timeout: {timeout}\n"


def timeout_of(settings: Settings) -> float | None:
    return settings.for_tool("search").timeout


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "config" / "tools.yaml"
    path.parent.mkdir()
    path.write_text(text(1))
    return path


class Changes:
    """Waits for changes of watched settings."""

    def __init__(self, watched: WatchedSettings) -> None:
        self.seen: list[float | None] = []
        self._queue: asyncio.Queue[float | None] = asyncio.Queue()
        watched.on_change(self._note)

    def _note(self, settings: Settings) -> None:
        self.seen.append(timeout_of(settings))
        self._queue.put_nowait(timeout_of(settings))

    async def until(self, seconds: float) -> None:
        async with asyncio.timeout(10):
            while await self._queue.get() != seconds:
                pass


class Warnings(logging.Handler):
    """Waits for warnings of the watcher."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: asyncio.Queue[str] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.put_nowait(record.getMessage())

    async def next(self) -> str:
        async with asyncio.timeout(10):
            return await self.messages.get()


@pytest.fixture
async def warned():
    handler = Warnings()
    logger = logging.getLogger("leonidas_tools.settings.watch")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def truncate_and_write(path: Path, content: str) -> None:
    path.write_text(content)


def rename_over(path: Path, content: str) -> None:
    other = path.with_suffix(".new")
    other.write_text(content)
    other.replace(path)


def delete_and_recreate(path: Path, content: str) -> None:
    path.unlink()
    path.write_text(content)


def move_away_and_recreate(path: Path, content: str) -> None:
    path.rename(path.with_suffix(".yaml~"))
    path.write_text(content)


def replace_the_directory(path: Path, content: str) -> None:
    path.parent.rename(path.parent.with_name("old"))
    path.parent.mkdir()
    path.write_text(content)


def same_size_and_same_time(path: Path, content: str) -> None:
    status = path.stat()
    path.write_text(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


WAYS: list[Callable[[Path, str], None]] = [
    truncate_and_write,
    rename_over,
    delete_and_recreate,
    move_away_and_recreate,
    replace_the_directory,
    same_size_and_same_time,
]


@pytest.mark.parametrize("write", WAYS, ids=[way.__name__ for way in WAYS])
async def test_an_edit_is_applied_in_every_way_of_writing_the_file(path, write):
    watched = WatchedSettings(path)
    changes = Changes(watched)
    async with watched:
        for timeout in (2, 3):
            write(path, text(timeout)) if timeout == 2 else truncate_and_write(path, text(timeout))
            await changes.until(timeout)
            assert timeout_of(watched.current) == timeout
    assert watched.generation == 3
    assert watched.last_error is None


def config_map(directory: Path, version: str, content: str) -> None:
    """Writes as Kubernetes does: a new directory, and a link to it swapped in."""
    (directory / version).mkdir()
    (directory / version / "tools.yaml").write_text(content)
    (directory / "..data_tmp").symlink_to(version)
    before = (directory / "..data").resolve() if (directory / "..data").exists() else None
    (directory / "..data_tmp").replace(directory / "..data")
    if before is not None:
        shutil.rmtree(before)


async def test_a_config_map_is_followed(tmp_path):
    config_map(tmp_path, "..1", text(1))
    path = tmp_path / "tools.yaml"
    path.symlink_to("..data/tools.yaml")
    watched = WatchedSettings(path)
    changes = Changes(watched)
    async with watched:
        config_map(tmp_path, "..2", text(2))
        await changes.until(2)
        config_map(tmp_path, "..3", text(3))
        await changes.until(3)


async def test_a_linked_directory_is_followed_when_the_link_moves(tmp_path):
    for version in (1, 2):
        (tmp_path / f"v{version}").mkdir()
        (tmp_path / f"v{version}" / "tools.yaml").write_text(text(version))
    current = tmp_path / "current"
    current.symlink_to("v1")
    watched = WatchedSettings(current / "tools.yaml")
    changes = Changes(watched)
    async with watched:
        (tmp_path / "next").symlink_to("v2")
        (tmp_path / "next").replace(current)
        await changes.until(2)
        (tmp_path / "v2" / "tools.yaml").write_text(text(3))
        await changes.until(3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("tools:\n  search:\n    timeo", ":2: tools.search: 'timeo' should be a mapping"),
        ("tools:\n  search:\n    tiemout: 5\n", ":3: tools.search.tiemout: is not a setting"),
        (None, "there is no such file"),
    ],
)
async def test_a_broken_file_changes_nothing_and_is_named(path, warned, content, message):
    watched = WatchedSettings(path)
    changes = Changes(watched)
    before = watched.current
    async with watched:
        path.unlink() if content is None else path.write_text(content)
        assert message in await warned.next()
        assert watched.current is before
        assert watched.generation == 1
        assert message in str(watched.last_error)
        path.write_text(text(2))
        await changes.until(2)
        assert watched.last_error is None
    assert changes.seen == [2]
    assert warned.messages.empty()


async def test_the_same_fault_is_reported_once(path, warned):
    watched = WatchedSettings(path)
    changes = Changes(watched)
    async with watched:
        path.write_text("tools: 5\n")
        assert "tools: 5 should be a mapping" in await warned.next()
        os.utime(path)
        path.write_text("tools: 6\n")
        assert "tools: 6 should be a mapping" in await warned.next()
        path.write_text(text(2))
        await changes.until(2)
    assert warned.messages.empty()


async def test_a_directory_that_vanishes_and_comes_back_is_followed(path, warned):
    watched = WatchedSettings(path)
    changes = Changes(watched)
    async with watched:
        shutil.rmtree(path.parent)
        assert "there is no such file" in await warned.next()
        path.parent.mkdir()
        path.write_text(text(2))
        await changes.until(2)


async def test_a_file_open_for_writing_waits(path, warned, monkeypatch):
    monkeypatch.setattr(watch, "_PATIENCE_SECONDS", 0.5)
    watched = WatchedSettings(path)
    changes = Changes(watched)
    async with watched:
        with path.open("w") as file:
            file.write(text(2).rstrip("\n"))  # valid, and another timeout
            file.flush()
            assert "is still being written" in await warned.next()
            assert watched.generation == 1
            file.write("30\n")
        await changes.until(230)
    assert changes.seen == [230]


async def test_an_edit_in_several_steps_is_one(path, monkeypatch):
    steps = iter(range(2, 12))

    def look_and_write(path: Path) -> object:
        state = look(path)
        if (number := next(steps, None)) is not None:
            path.write_text(text(number))
        return state

    look = watch._look
    monkeypatch.setattr(watch, "_look", look_and_write)
    watched = WatchedSettings(path)
    changes = Changes(watched)
    async with watched:
        await changes.until(11)
    assert changes.seen == [11]


async def test_a_file_written_while_it_is_read_is_read_again(path, monkeypatch):
    watched = WatchedSettings(path)
    changes = Changes(watched)
    read = watched._read_with_changes

    def read_torn() -> tuple[Settings, str]:
        result = read()
        if timeout_of(result[0]) == 2:
            path.write_text(text(3))
        return result

    monkeypatch.setattr(watched, "_read_with_changes", read_torn)
    async with watched:
        path.write_text(text(2))
        await changes.until(3)
    assert changes.seen == [3]


async def test_an_edit_between_reading_and_entering_is_found(path):
    watched = WatchedSettings(path)
    changes = Changes(watched)
    path.write_text(text(2))
    async with watched:
        await changes.until(2)


async def test_a_change_of_comments_only_is_none(path):
    watched = WatchedSettings(path)
    changes = Changes(watched)
    before = watched.current
    path.write_text("# other comments\n" + text(1))
    assert watched.reload() is before
    async with watched:
        path.write_text("# and more\n" + text(1))
        path.write_text(text(2))
        await changes.until(2)
    assert changes.seen == [2]
    assert watched.generation == 2


async def test_one_task_serves_all_who_enter_and_ends_with_the_last(path):
    watched = WatchedSettings(path)
    changes = Changes(watched)
    tasks = other_tasks()
    async with contextlib.AsyncExitStack() as all_but_one:
        async with watched:
            for _ in range(5):
                await all_but_one.enter_async_context(watched)
            assert len(other_tasks() - tasks) == 1
        path.write_text(text(2))
        await changes.until(2)
    assert other_tasks() == tasks


def test_it_works_again_in_another_event_loop_and_leaves_no_thread(path):
    threads = threading.enumerate()
    watched = WatchedSettings(path)

    async def follow(seconds: float) -> None:
        changes = Changes(watched)
        async with watched:
            path.write_text(text(seconds))
            await changes.until(seconds)

    async def walk_out() -> None:
        await watched.__aenter__()

    asyncio.run(follow(2))
    asyncio.run(walk_out())
    asyncio.run(follow(3))
    assert threading.enumerate() == threads


def test_a_callback_that_fails_spoils_nothing(path, caplog):
    watched = WatchedSettings(path)

    def fail(settings: Settings) -> None:
        raise RuntimeError

    watched.on_change(fail)
    changes = Changes(watched)
    path.write_text(text(2))
    watched.reload()
    assert changes.seen == [2]
    assert "A listener for changed settings failed" in caplog.text


def test_the_log_names_the_settings_that_have_changed_and_no_secret(path, caplog):
    caplog.set_level(logging.INFO, "leonidas_tools.settings.watch")
    path.write_text("tools: {search: {timeout: 10s, custom_parameters: {pin: 1234}}}\n")
    watched = WatchedSettings(path)
    path.write_text(
        "tools: {search: {timeout: 500ms, lane: web, custom_parameters: {pin: 9876}}}\n"
        "mcp_servers: {shop: {command: shop, env: {KEY: hunter2}}}\n"
    )
    watched.reload()
    watched.reload()
    path.write_text("environment: test\n")
    watched.reload()
    first, second = caplog.messages
    assert first == (
        f"{path} was read; changed: mcp_servers.shop; tools.search.custom_parameters.pin; "
        "tools.search.lane: not set → web; tools.search.timeout: 10 → 0.5"
    )
    assert second == (
        f"{path} was read; changed: environment: not set → test; mcp_servers.shop; "
        "tools.search.custom_parameters.pin; tools.search.lane: web → not set; "
        "tools.search.timeout: 0.5 → not set"
    )


def test_a_changed_variable_of_a_server_is_named_without_its_values(tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.INFO, "leonidas_tools.settings.watch")
    monkeypatch.setenv("LT_URL", "hunter2-x")
    path = tmp_path / "tools.yaml"
    path.write_text("mcp_servers: {shop: {command: shop, env: {KEY: hunter1}}}\n")
    watched = WatchedSettings(path)
    path.write_text("mcp_servers: {shop: {command: shop, env: {KEY: '${LT_URL}'}}}\n")
    watched.reload()
    assert "mcp_servers" in caplog.text
    assert "hunter" not in caplog.text


def test_the_log_says_when_a_wrong_file_is_right_again(path, caplog):
    caplog.set_level(logging.INFO, "leonidas_tools.settings.watch")
    watched = WatchedSettings(path)
    good = path.read_text()
    for content in ("tools: 5\n", good, "tools: 5\n", text(2)):
        path.write_text(content)
        with contextlib.suppress(ConfigurationError):
            watched.reload()
    assert caplog.messages == [
        f"{path} is right again: no setting has changed",
        f"{path} is right again: tools.search.timeout: 1 → 2",
    ]


def test_who_has_unsubscribed_hears_no_more(path):
    watched = WatchedSettings(path)
    seen: list[Settings] = []
    unsubscribe = watched.on_change(seen.append)
    watched.update({"tools.search.timeout": 2})
    unsubscribe()
    unsubscribe()
    watched.update({"tools.search.timeout": 3})
    assert [timeout_of(settings) for settings in seen] == [2]


def test_a_reload_that_fails_keeps_the_last_good_settings(path):
    watched = WatchedSettings(path)
    before = watched.current
    path.write_text("tools: 5\n")
    with pytest.raises(ConfigurationError) as caught:
        watched.reload()
    assert watched.current is before
    assert watched.last_error is caught.value
    path.write_text(text(2))
    assert timeout_of(watched.reload()) == 2
    assert watched.last_error is None


async def test_an_update_is_written_applied_at_once_and_reported_once(path):
    watched = WatchedSettings(path)
    changes = Changes(watched)
    async with watched:
        assert timeout_of(watched.update({"tools.search.timeout": 2})) == 2
        assert path.read_text() == text(2)
        path.write_text(text(3))
        await changes.until(3)
    assert changes.seen == [2, 3]


def test_an_update_that_is_wrong_changes_nothing(path):
    watched = WatchedSettings(path)
    before = watched.current
    with pytest.raises(ConfigurationError, match="did you mean 'timeout'"):
        watched.update({"tools.search.tiemout": 2})
    assert watched.current is before
    assert watched.last_error is None
    assert path.read_text() == text(1)


@pytest.mark.parametrize(
    "source",
    [
        None,
        {"defaults": {"lane": "x"}},
        Settings(defaults={"lane": "x"}, mcp_servers={"s": {"command": "a", "env": {"K": "v"}}}),
    ],
)
async def test_what_is_no_file_can_be_updated_too(source):
    watched = WatchedSettings(source)
    servers = watched.current.mcp_servers
    tasks = other_tasks()
    async with watched:
        assert other_tasks() == tasks
        watched.update({"tools.search.timeout": 2})
        assert timeout_of(watched.current) == 2
        assert watched.current.defaults == load(source).defaults
        assert watched.current.mcp_servers == servers
        with pytest.raises(ConfigurationError):
            watched.update({"tools.search.timeout": -1})
        assert timeout_of(watched.reload()) == 2
        watched.update({"tools.search": None})
        assert timeout_of(watched.current) is None
    assert watched.generation == 3


def test_a_wrong_file_is_refused_from_the_start(path):
    path.write_text("tools: 5\n")
    with pytest.raises(ConfigurationError):
        WatchedSettings(path)


async def test_a_fifo_in_the_place_of_the_file_changes_nothing_and_is_reported_once(path, warned):
    async with WatchedSettings(path) as watched:
        changes = Changes(watched)
        path.unlink()
        os.mkfifo(path)
        assert await warned.next() == (
            f"The settings stay as they were: {path}: cannot be read: it is a FIFO, not a regular "
            "file; name another file"
        )
        os.utime(path)
        await asyncio.to_thread(rename_over, path, text(2))  # while somebody may still read
        await changes.until(2)
        assert changes.seen == [2]
        assert warned.messages.empty()
