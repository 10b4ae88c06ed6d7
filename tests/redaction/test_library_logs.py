"""What other libraries log while they work for us, with the root logger at DEBUG."""

import logging

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolSession, tool
from leonidas_tools.simulator import FunctionCall
from tests.live.talking import held

KEY = "AIzaSy-simulated-key-5417"
ARGUMENT = "argument-8817-of-a-call"
RESULT = "result-3361-of-a-call"


class Everything(logging.Handler):
    def __init__(self):
        super().__init__(logging.NOTSET)
        self.text = ""

    def emit(self, record):
        self.text += f"{record.name} {record.getMessage()} {record.exc_info} {record.args}\n"


@pytest.fixture
def logged():
    """All that is logged by anyone, the root logger set to DEBUG."""
    handler, root = Everything(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.setLevel(before)
    root.removeHandler(handler)


@tool(effect="once", retry_attempts=0)
async def book(seat: str) -> str:
    """Books a seat."""
    assert seat == ARGUMENT
    return RESULT


async def test_a_live_session_logs_neither_the_key_nor_what_is_said(logged):
    async def script(session):
        await session.send_calls(FunctionCall("book", {"seat": ARGUMENT}, id="c1"))
        await session.wait_for_answers("c1")
        await session.turn_complete()

    tools = AdvancedToolProcessor(tools=[book], builtin_tools=False)
    await held([script], tools, api_key=KEY)
    for secret in (KEY, ARGUMENT, RESULT):
        own = [line for line in logged.text.splitlines() if "websockets.server" not in line]
        assert [line for line in own if secret in line] == []


async def test_the_store_logs_neither_arguments_nor_results(logged, tmp_path):
    config = {"store": {"enabled": True, "url": str(tmp_path / "kept.db")}}
    async with AdvancedToolProcessor(tools=[book], config=config) as tools:
        result = await tools.execute("book", {"seat": ARGUMENT}, session=ToolSession("s"))
        assert result.ok
    async with AdvancedToolProcessor(tools=[book], config=config) as tools:
        (found,) = await tools.store.executions(session="s")
    assert ARGUMENT in str(found.arguments)
    assert "aiosqlite" in logged.text
    assert ARGUMENT not in logged.text
    assert RESULT not in logged.text
