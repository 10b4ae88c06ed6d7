"""An async tool that blocks the event loop is named while it does."""

import asyncio
import importlib
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from leonidas_tools import AdvancedToolProcessor, tool


class _Unblocks(logging.Handler):
    """Keeps what is logged, and lets the tool go on."""

    def __init__(self, let_go: threading.Event) -> None:
        super().__init__()
        self.messages: list[str] = []
        self._let_go = let_go

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self._let_go.set()


@contextmanager
def _let_go_by_the_warning(let_go: threading.Event) -> Iterator[list[str]]:
    """The messages of the watch, which let the tool go on."""
    handler = _Unblocks(let_go)
    log = logging.getLogger("leonidas_tools.calls.loop_watch")
    log.addHandler(handler)
    try:
        yield handler.messages
    finally:
        log.removeHandler(handler)


async def test_a_tool_that_blocks_the_loop_is_named_with_its_place_while_it_blocks() -> None:
    named = threading.Event()

    @tool(effect="read")
    async def stubborn() -> bool:
        return named.wait(timeout=30)

    with _let_go_by_the_warning(named) as messages:
        async with AdvancedToolProcessor(tools=[stubborn]) as tools:
            result = await tools.execute("stubborn")
            lag = tools.monitor.health()["loop_lag_seconds"]

    assert result.result is True, "the tool was let go by the warning, and not by its time limit"
    assert len(messages) == 1
    assert messages[0].startswith("The tool 'stubborn' has blocked the event loop for ")
    assert "test_loop_watch.py" in messages[0], "the tool's own line, not the library's"
    assert lag > 0.2


async def test_a_tool_that_waits_for_an_import_is_named_with_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, begun = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        named.wait(timeout=30)

    tmp_path.joinpath("held_by_a_thread.py").write_text("import gate\ngate.hold()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "gate", SimpleNamespace(hold=hold))

    @tool(effect="read")
    async def waits_for_the_import() -> str:
        return importlib.import_module("held_by_a_thread").__name__

    try:
        with _let_go_by_the_warning(named) as messages:
            importing = asyncio.create_task(
                asyncio.to_thread(importlib.import_module, "held_by_a_thread")
            )
            while not begun.is_set():
                await asyncio.sleep(0)
            async with AdvancedToolProcessor(tools=[waits_for_the_import]) as tools:
                result = await tools.execute("waits_for_the_import")
            await importing
    finally:
        sys.modules.pop("held_by_a_thread", None)

    assert result.result == "held_by_a_thread"
    assert len(messages) == 1
    assert "test_loop_watch.py" in messages[0], "the line of the tool, not that of the import"


async def test_the_watching_thread_ends_with_the_last_user() -> None:
    before = set(threading.enumerate())
    async with AdvancedToolProcessor() as tools:
        await tools.execute("think", {"analysis": "a", "reasoning": "b", "plan": "c"})
        during = {thread.name for thread in set(threading.enumerate()) - before}
    assert "leonidas-loop-watch" in during
    assert "leonidas-loop-watch" not in {t.name for t in set(threading.enumerate()) - before}
