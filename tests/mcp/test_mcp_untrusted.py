"""What a server returns that the settings call untrusted asks before the next effect."""

import pytest

from leonidas_tools import ToolSession
from tests.mcp.bench import described

READ = described("read", annotations={"readOnlyHint": True})
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


@pytest.mark.parametrize(
    ("server", "mail", "status"),
    [
        ({}, {}, "ok"),
        ({"untrusted": True}, {}, "pending_approval"),
        ({}, {"read": {"untrusted": True}}, "pending_approval"),
        ({"untrusted": True}, {key: {"untrusted": False} for key in ("read", "send")}, "ok"),
        ({"untrusted": True}, {"send": {"after_untrusted": "allow"}}, "ok"),
    ],
)
async def test_a_server_and_each_of_its_tools_may_be_untrusted(bench, server, mail, status):
    send = described("send", inputSchema=TEXT)
    bench.server("mail", READ, send, tools=mail, **server)
    session = ToolSession(user="ana")
    async with bench.processor():
        await bench.ready()
        assert (await bench.tools.execute("send", {"text": "hi"}, session=session)).ok
        assert (await bench.tools.execute("read", session=session)).ok
        sent = await bench.tools.execute("send", {"text": "hello"}, session=session)
        assert sent.status == status
