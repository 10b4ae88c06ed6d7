"""The programs in `examples/` run, print what they are for, and pass a strict type checker."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.asyncio.server import serve

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SAID = {
    "agent": "Twelve pears cost 7.20 euros.",
    "approval_by_voice": "sent:     [('Ana', 20)]",
    "delegate_by_voice": "voice:    is booked at noon.",
    "first_tool": '"valid_options"',
    "gateway_client": "heard: 0.5 s",
    "history": "timeout",
    "live_session": "degrees in Lisbon.",
    "mcp_server": "Asia/Tokyo",
    "orchestrator": "buyer: 1 of 1 tasks",
    "own_policy": "denied - The office is closed",
    "phone_bridge": "the phone hears 0.5 s of speech, and then: clear",
    "plain_genai_session": "answered once: True",
    "reload_settings": "disabled",
    "serve_over_mcp": "It is sunny in Porto.",
    "toolboxes": "You wanted to send the total.",
}
"""What the output of each program says, among other things."""


def test_every_example_is_run():
    assert SAID.keys() == {file.stem for file in EXAMPLES}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_runs_in_an_empty_directory_and_leaves_nothing_there(file, tmp_path):
    ran = subprocess.run(
        [sys.executable, file],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error::ResourceWarning"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert SAID[file.stem] in ran.stdout
    assert list(tmp_path.iterdir()) == []


async def test_the_client_of_the_gateway_says_in_a_line_why_it_cannot_talk():
    def refuse(connection, request):
        return connection.respond(401, "")

    async with serve(lambda _: None, "127.0.0.1", 0, process_request=refuse) as server:
        port = server.sockets[0].getsockname()[1]
        for address, why in (
            (f"ws://127.0.0.1:{port}", "HTTP 401"),
            ("127.0.0.1:1", "isn't a valid URI"),
            ("ws://127.0.0.1:1", "Connect call failed"),
        ):
            ran = await asyncio.create_subprocess_exec(
                sys.executable,
                ROOT / "examples" / "gateway_client.py",
                address,
                stderr=asyncio.subprocess.PIPE,
            )
            _, said = await ran.communicate()
            assert ran.returncode == 1
            assert said.startswith(f"{address}: ".encode())
            assert why in said.decode()
            assert said.count(b"\n") == 1


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_short(file):
    assert 30 <= len(file.read_text().splitlines()) <= 100


@pytest.mark.slow
def test_the_examples_pass_a_strict_type_checker():
    command = [sys.executable, "-m", "mypy", "--strict", *map(str, EXAMPLES)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
