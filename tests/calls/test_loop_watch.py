"""An async tool that blocks the event loop is named while it does."""

import logging
import threading

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


async def test_a_tool_that_blocks_the_loop_is_named_with_its_place_while_it_blocks():
    named = threading.Event()

    @tool(effect="read")
    async def stubborn() -> bool:
        return named.wait(timeout=30)

    handler = _Unblocks(named)
    log = logging.getLogger("leonidas_tools.calls.loop_watch")
    log.addHandler(handler)
    try:
        async with AdvancedToolProcessor(tools=[stubborn]) as tools:
            result = await tools.execute("stubborn")
            lag = tools.monitor.health()["loop_lag_seconds"]
    finally:
        log.removeHandler(handler)

    assert result.result is True, "the tool was let go by the warning, and not by its time limit"
    assert len(handler.messages) == 1
    assert handler.messages[0].startswith("The tool 'stubborn' has blocked the event loop for ")
    assert "test_loop_watch.py" in handler.messages[0], "the tool's own line, not the library's"
    assert lag > 0.2


async def test_the_watching_thread_ends_with_the_last_user():
    before = set(threading.enumerate())
    async with AdvancedToolProcessor() as tools:
        await tools.execute("think", {"analysis": "a", "reasoning": "b", "plan": "c"})
        during = {thread.name for thread in set(threading.enumerate()) - before}
    assert "leonidas-loop-watch" in during
    assert "leonidas-loop-watch" not in {t.name for t in set(threading.enumerate()) - before}
