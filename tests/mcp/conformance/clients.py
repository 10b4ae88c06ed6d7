"""Plays the clients that the suite tests, in a network of its own.

The suite's servers listen on every interface, so this runs where there is none but loopback, which
it brings up. The suite starts one client for each scenario: `forward.py`, which has it played
here, since each would take seconds only to import what a client is made of.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import struct
import sys
import tempfile
from pathlib import Path

import httpx2

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.approvals.request import Decision
from leonidas_tools.mcp.login import log_in
from leonidas_tools.settings.models import MCPServerSettings

_SECONDS = 60
_SET_FLAGS, _UP = 0x8914, 0x1


def bring_loopback_up():
    """As `ip link set lo up` does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh", b"lo", _UP)
        fcntl.ioctl(any_socket, _SET_FLAGS, request)


async def played(scenario, url, told):
    """Calls every tool of the server once, the way a voice agent would."""
    name = scenario.replace("/", "-")
    server = {"url": url, "pin": "off", **_login(scenario, told)}
    if server.get("auth", {}).get("grant") == "authorization_code":
        await log_in(name, MCPServerSettings(**server), _browse)
    tools = AdvancedToolProcessor(
        config={"mcp_servers": {name: server}}, builtin_tools=False, approval=_yes
    )
    async with tools:
        if not await tools.ready(_SECONDS):
            return f"{tools.mcp_servers.status()}"
        for tool in list(tools.registry):
            result = await tools.execute(tool.name, _arguments(tool.metadata.parameters))
            if not result.ok:
                return f"{tool.name}: {result.to_response()}"
    return ""


async def _browse(url):
    """A person's browser: goes where it is sent."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        await browser.get(url)


async def _yes(_request):
    return Decision.approve()


def _arguments(schema):
    values = {"number": 2, "integer": 2, "string": "text", "boolean": True}
    properties = schema.get("properties", {})
    return {name: values[properties[name]["type"]] for name in schema.get("required", ())}


def _login(scenario, told):
    if not scenario.startswith("auth/"):
        return {}
    grants = ("authorization_code", "client_credentials")
    grant = grants[scenario.startswith("auth/client-credentials")]
    known = {key: told[key] for key in ("client_id", "client_secret") if key in told}
    return {"auth": {"grant": grant, **known}}


async def _serve(reader, writer):
    asked = json.loads(await reader.readline())
    try:
        said = await played(asked["scenario"], asked["url"], asked["context"])
    except Exception as error:
        said = repr(error)
    writer.write(said.encode())
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def main(node, script):
    bring_loopback_up()
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "clients")
        forward = Path(__file__).with_name("forward.py")
        command = f"{sys.executable} -S -E {forward} {place}"
        async with await asyncio.start_unix_server(_serve, place):
            suite = await asyncio.create_subprocess_exec(
                node,
                "--no-deprecation",
                script,
                *("client", "--suite", "all", "--verbose", "--timeout", str(_SECONDS * 1000)),
                *("--command", command),
                env={**os.environ, "NO_COLOR": "1"},
            )
            await suite.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
