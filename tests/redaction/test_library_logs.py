"""What other libraries log while they work for us, with the root logger at DEBUG."""

import logging

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolSession, tool
from leonidas_tools.gateway import make_token
from leonidas_tools.simulator import FunctionCall, TurnComplete, WaitForInput
from tests.gateway.served import SECRET, Served
from tests.live.talking import held
from tests.mcp_server.conftest import serve  # noqa: F401 - a fixture

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


async def test_the_gateway_logs_neither_tokens_nor_what_is_said(logged):
    logging.getLogger().setLevel(1)
    async with Served([WaitForInput("text"), TurnComplete()]) as served:
        token = make_token(SECRET, "ana")
        async with served.client("ana") as client, served.client("bo") as other:
            await client.say("text", text=ARGUMENT)
            await client.until("turn_complete")
            await other.say("start", resume=KEY)
    names = ("uvicorn", "leonidas_tools")
    of_server = [line for line in logged.text.splitlines() if line.startswith(names)]
    header = token.partition(".")[0]
    assert of_server
    for secret in (header, ARGUMENT, KEY):
        assert [line for line in of_server if secret in line] == []


async def test_the_tools_as_an_mcp_server_log_neither_the_token_nor_arguments_and_results(
    logged,
    serve,  # noqa: F811 - the fixture
):
    logging.getLogger().setLevel(1)
    served = await serve(book, token=KEY)
    client = await served.client("legacy", headers={"authorization": f"Bearer {KEY}"})
    said = await client.call_tool("book", {"seat": ARGUMENT})
    assert RESULT in str(said)
    of_client = ("client", "mcp.client", "httpx2", "httpcore2")
    of_server = [line for line in logged.text.splitlines() if not line.startswith(of_client)]
    assert [line for line in of_server if "sse_starlette" in line or "mcp.server" in line]
    for secret in (KEY, ARGUMENT, RESULT):
        assert [line for line in of_server if secret in line] == []
