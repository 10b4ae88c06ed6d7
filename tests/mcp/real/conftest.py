"""Fixtures over servers that nobody here wrote."""

import asyncio
import contextlib
import http.server
import os
import signal
import threading
from pathlib import Path

import pytest

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.approvals.request import Decision
from tests.mcp.conftest import MARK, SCRIPTS
from tests.mcp.real import everything, node_servers, python_servers
from tests.mcp.real.installing import node_server
from tests.mcp.real.tables import Place

SERVERS = {
    "time": python_servers.time,
    "git": python_servers.git,
    "fetch": python_servers.fetch,
    "fetch as it comes": python_servers.fetch_as_it_comes,
    "sqlite": python_servers.sqlite,
    "filesystem": node_servers.filesystem,
    "memory": node_servers.memory,
    "sequential thinking": node_servers.sequential_thinking,
    "everything": everything.everything,
}
LISTENING = {
    "everything over http": ("streamableHttp", "mcp"),
    "everything over sse": ("sse", "sse"),
}


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path == "/poem.html"
        body = b"<html><body><h1>Roses</h1><p>Roses are red.</p></body></html>" if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="session")
def website():
    """A website of one page, on loopback."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def place(tmp_path, website):
    return Place(folder=tmp_path, website=website)


@pytest.fixture
async def listening(mark):
    """Starts `everything` over HTTP: `await listening("sse")` gives its process and port."""
    started = []

    async def start(mode, port=0):
        process = await asyncio.create_subprocess_exec(
            "node",
            f"--require={SCRIPTS / 'loopback.cjs'}",
            node_server("everything"),
            mode,
            env={**os.environ, **mark, "PORT": str(port)},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        started.append(process)
        async with asyncio.timeout(60):
            async for line in process.stderr:
                if line.startswith(b"LISTENING "):
                    return process, int(line.split()[1])
        raise AssertionError("the server has ended")

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture
async def over_http(listening):
    """Starts `everything` over HTTP: `await over_http("everything over sse")` is its settings."""

    async def start(name):
        mode, path = LISTENING[name]
        _, port = await listening(mode)
        return {"url": f"http://127.0.0.1:{port}/{path}"}

    return start


@pytest.fixture(params=[*SERVERS, *LISTENING])
async def table(request, place, over_http):
    """Each server in turn."""
    if request.param in SERVERS:
        return SERVERS[request.param](place)
    return everything.everything(place, **await over_http(request.param))


async def _ada(request):
    """A person who gives her name, means the comedy, and opens what page she is sent to."""
    if request.schema is None:
        return Decision.approve()
    knows = {"name": "Ada", "interpretation": "comedy"}
    return Decision.edit({name: knows[name] for name in request.schema["required"]})


@pytest.fixture
async def tools(table, mark, monkeypatch):
    """The chain with the tools of one server, ready, which run unasked."""
    for key in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    settings = dict(table.settings)
    if "command" in settings:
        settings["env"] = {**settings.get("env", {}), **mark}
    config = {"mcp_servers": {"real": settings}, "policies": {"mode": "autonomous"}}
    chain = AdvancedToolProcessor(config=config, builtin_tools=False, approval=_ada)
    async with chain as tools:
        assert await tools.ready(60), tools.mcp_servers.status()
        yield tools


@contextlib.contextmanager
def frozen(mark):
    """Holds the processes of a test: they live, and do nothing."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _is_marked(folder, mark)]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _is_marked(folder, mark):
    with contextlib.suppress(OSError):
        return f"{MARK}={mark[MARK]}".encode() in (folder / "environ").read_bytes()
    return False
