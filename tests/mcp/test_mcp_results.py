import subprocess
import sys

import pytest

from leonidas_tools.calls.call import Media, ResultStatus, ToolResult
from leonidas_tools.errors import ToolError
from tests.mcp.forking import SCRIPTS, forked

LINK = {
    "type": "resource_link",
    "name": "log",
    "uri": "file:///log.txt",
    "mimeType": "text/plain",
    "size": 3,
}
TEXT = {
    "type": "resource",
    "resource": {"uri": "note://1", "text": "a note", "mimeType": "text/plain"},
}
BLOB = {
    "type": "resource",
    "resource": {"uri": "zip://1", "blob": "UEs=", "mimeType": "application/zip"},
}
ODD = "The result does not have the structure that the tool describes."
EXPECTED = {
    "malformed": ToolResult(result={"celsius": "warm"}, message=ODD),
    "malformed_once": ToolResult(result={"celsius": "warm"}, message=ODD),
    "unstructured": ToolResult(result="21", message=ODD),
    "nothing": ToolResult(),
    "empty_text": ToolResult(result=""),
    "text": ToolResult(result="21 degrees"),
    "texts": ToolResult(result="one\ntwo"),
    "structured": ToolResult(result={"celsius": 21}),
    "media": ToolResult(
        result="see",
        media=(
            Media(mime_type="image/png", data=b"pixels"),
            Media(mime_type="audio/wav", data=b"samples"),
        ),
    ),
    "resources": ToolResult(result={"text": "see", "resources": [LINK, TEXT, BLOB]}),
    "only_link": ToolResult(result={"resources": [LINK]}),
    "structured_with_link": ToolResult(result={"found": 1, "resources": [LINK]}),
    "embedded_picture": ToolResult(
        result={
            "resources": [
                {"type": "resource", "resource": {"uri": "png://1", "mimeType": "image/png"}}
            ]
        },
        media=(Media(mime_type="image/png", data=b"more"),),
    ),
    "large": ToolResult(
        result="see",
        media=(Media(mime_type="audio/wav", data=b"samples"),),
        message="The tool ran, but image/png of 20,000,001 bytes is left out: all "
        "images and audio of one result may have 700,000 bytes in total. Request a "
        "smaller one, or fewer.",
    ),
    "large_blob": ToolResult(
        result={
            "resources": [
                {
                    "type": "resource",
                    "resource": {
                        "uri": "zip://2",
                        "mimeType": "application/zip",
                        "size": 20_000_001,
                    },
                }
            ]
        }
    ),
    "for_programs": ToolResult(
        result={
            "text": "see",
            "resources": [
                {"type": "resource_link", "name": "log", "uri": "file:///log.txt"},
                {"type": "resource", "resource": {"uri": "n://1", "text": "n"}},
            ],
        }
    ),
    "many": ToolResult(result="\n".join("x" * 500)),
    "failed_unstructured": ToolResult(status=ResultStatus.FAILED, message="Closed."),
    "error": ToolResult(status=ResultStatus.FAILED, message="The shop is closed."),
    "silent_error": ToolResult(
        status=ResultStatus.FAILED, message="The tool failed without an explanation."
    ),
}
REFUSED = {
    "refusal": ("failed", "Not on a Sunday."),
    "broken_picture": (
        "failed",
        "The tool ran, but the image/png in its result cannot be decoded.",
    ),
}


@pytest.fixture
async def server(serve):
    return await serve(forked("content.py", max_message_bytes=50_000_000)).ready()


async def test_every_kind_of_content_arrives(server):
    assert {name: await server.call(name) for name in EXPECTED} == EXPECTED


@pytest.mark.parametrize("tool", REFUSED)
async def test_what_is_no_answer_is_a_failure_that_says_so(server, tool):
    with pytest.raises(ToolError) as refused:
        await server.call(tool)
    assert (refused.value.status, refused.value.message) == REFUSED[tool]
    assert not refused.value.retryable


LOADED = """
import asyncio, sys
from leonidas_tools import AdvancedToolProcessor

async def main():
    servers = {"lab": {"command": sys.executable, "args": [sys.argv[1]]}}
    config = {"mcp_servers": servers}
    async with AdvancedToolProcessor(config=config, builtin_tools=False) as tools:
        assert await tools.ready(60)
        before = set(sys.modules)
        answer = await tools.execute("add", {"a": 1, "b": 2})
        print(answer.result, sorted(set(sys.modules) - before))

asyncio.run(main())
"""


@pytest.mark.slow
def test_the_first_call_of_a_tool_loads_nothing_while_everybody_waits():
    command = [sys.executable, "-c", LOADED, SCRIPTS / "life.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "{'result': 3} []\n"
