"""Our server, as a client by the SDK of 2025 sees it: `leonidas mcp serve` over both transports."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.mcp.real.installing import python_of_sqlite

CLIENT = Path(__file__).parent / "old_client.py"
SECONDS = 120
TOKEN = "s3cret-token"
SUM = {"error": False, "text": "3"}
SEEN = {
    "protocol": "2025-11-25",
    "tools": {"add": True, "fail": False, "look": True},
    "add": SUM,
    "progress": [[0.5, 1.0, "Adding"]],
    "structured": {"result": 3},
    "wrong": {
        "error": True,
        "text": {
            "status": "invalid_argument",
            "message": "'b' is missing; 'a' must be an integer, not \"one\".",
            "retryable": False,
            "retry_hint": "Call again with 'b'.",
            "reason_code": "missing_argument",
            "valid_options": ["a", "b"],
        },
    },
    "failed": {
        "error": True,
        "text": {"status": "failed", "message": "The tool 'fail' failed.", "retryable": False},
    },
    "unknown": {"code": -32602},
    "after the cancelled": {"error": False, "text": "5"},
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def serve(tmp_path):
    """The command that serves."""
    config = tmp_path / "tools.yaml"
    config.write_text("version: 1\ntoolboxes: [tests.mcp.real.old_client_tools]\n")
    return [sys.executable, "-m", "leonidas_tools", "mcp", "serve", "--config", str(config)]


@pytest.fixture
def use(tmp_path):
    """Has the client use a server; what it has seen."""
    python = python_of_sqlite()  # the environment that has that SDK

    async def run(server):
        process = await asyncio.create_subprocess_exec(
            *(python, CLIENT, json.dumps(server), tmp_path), stdout=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(SECONDS):
                said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        assert process.returncode == 0
        seen = json.loads(said)
        for answer in (seen["wrong"], seen["failed"]):
            answer["text"] = json.loads(answer["text"])
        return seen

    return run


async def test_it_lists_calls_fails_and_cancels_over_its_standard_pipes(use, serve):
    [command, *args] = serve
    assert await use({"command": command, "args": args, "env": dict(os.environ)}) == SEEN


async def test_it_lists_calls_fails_and_cancels_over_http(use, serve):
    process = await asyncio.create_subprocess_exec(
        *(*serve, "--http", "0", "--token-env", "SERVING_TOKEN"),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "SERVING_TOKEN": TOKEN},
    )
    try:
        async with asyncio.timeout(SECONDS):
            while not (line := (await process.stderr.readline()).decode()).startswith("Serving"):
                assert line, "it has ended"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert await use({"url": line.split()[-1], "headers": headers}) == SEEN
    finally:
        process.terminate()
        await process.communicate()
    assert process.returncode == 0
