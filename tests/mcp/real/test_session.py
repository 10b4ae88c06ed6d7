"""A Live session with six servers that nobody here wrote, which die, go and come meanwhile."""

import asyncio
import os
import signal

import pytest
import yaml

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.mcp.server import ServerState
from leonidas_tools.simulator import FunctionCall
from tests.live.driven import Session
from tests.mcp.real.conftest import SERVERS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_SECONDS = 60  # what a loaded machine may take for any one thing
FIRST = ("time", "git", "sqlite", "filesystem", "memory", "everything")
REPEATED = {"ok", "unavailable"}
"""A call that may be repeated is, and then depends on how soon the server is back."""
KILLED = {
    "time": REPEATED,
    "sqlite": {"unknown_outcome"},
    "filesystem": REPEATED,
    "everything": REPEATED,
}
"""Who is killed during a call, one after another, and what that call is answered."""


class Servers:
    """The servers, as the file with the settings has them, and their processes."""

    def __init__(self, place, mark):
        self._place, self._mark = place, mark
        self._settings = {}
        self._loop = asyncio.get_running_loop()
        self.file = place.folder / "tools.yaml"
        for name in FIRST:
            self.add(name)
        self.tools = AdvancedToolProcessor(config=self.file, builtin_tools=False)

    def add(self, name):
        settings = dict(SERVERS[name](self._place).settings)
        self._settings[name] = {**settings, "env": {**settings.get("env", {}), **self._mark}}
        self._save()

    def remove(self, name):
        del self._settings[name]
        self._save()

    def send(self, name, number):
        """Sends a server's process a signal, and returns its id."""
        pid = self._server(name).status()["pid"]
        os.kill(pid, number)
        return pid

    async def called(self, name):
        """Waits until a call is under way at a server."""
        await self._until(name, lambda server: server.status()["calls"] == 1)

    async def back(self, name, pid):
        """Waits until a server that was killed is there again."""

        def is_back(server):
            return server.state is ServerState.READY and server.status()["pid"] != pid

        await self._until(name, is_back)

    async def _until(self, name, holds):
        """From any thread: scenarios are played in the simulator's own."""

        async def wait():
            server = self._server(name)
            async with asyncio.timeout(_SECONDS):
                while not holds(server):  # nothing tells when a call has reached a server
                    await asyncio.sleep(0.01)

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait(), self._loop))

    def _server(self, name):
        return self.tools.mcp_servers._servers[name]

    def _save(self):
        data = {"mcp_servers": self._settings, "policies": {"mode": "autonomous"}}
        written = self.file.with_suffix(".new")
        written.write_text(yaml.safe_dump(data))
        written.replace(self.file)


@pytest.fixture
async def servers(place, mark):
    servers = Servers(place, mark)
    async with servers.tools:
        assert await servers.tools.ready(_SECONDS), servers.tools.mcp_servers.status()
        yield servers


def calls(place, number):
    """A call of each server; what it writes is told from what others write."""
    title = f"poem {number}"
    named = {
        "time": ("get_current_time", {"timezone": "Asia/Tokyo"}),
        "git": ("git_status", {"repo_path": str(place.folder / "repository")}),
        "sqlite": ("write_query", {"query": f"INSERT INTO poems VALUES ('{title}')"}),
        "filesystem": (
            "write_file",
            {"path": str(place.folder / "files" / title), "content": title},
        ),
        "memory": (
            "create_entities",
            {"entities": [{"name": title, "entityType": "poem", "observations": []}]},
        ),
        "everything": ("echo", {"message": title}),
    }
    return {
        server: FunctionCall(tool, arguments, id=f"{server} {number}")
        for server, (tool, arguments) in named.items()
    }


async def answered(model, *calls):
    """The statuses of calls, by their ids."""
    ids = [call.id for call in calls]
    answers = await model.wait_for_answers(*ids, within_seconds=_SECONDS)
    return {call_id: answer.status for call_id, answer in zip(ids, answers, strict=True)}


async def test_every_call_is_answered_once_while_servers_die_go_and_come(servers, place):
    written = []

    async def ask(model, name, arguments):
        call = FunctionCall(name, arguments)
        (answer,) = await model.call(call, within_seconds=_SECONDS)
        return answer.response

    async def dies_during_its_call(model, victim, number):
        """All are called at once; the one that dies holds its call until the others are done."""
        at_once = calls(place, number)
        pid = servers.send(victim, signal.SIGSTOP)
        await model.send_calls(*at_once.values())
        call = at_once.pop(victim)
        statuses = await answered(model, *at_once.values())
        assert set(statuses.values()) == {"ok"}, statuses
        await servers.called(victim)
        servers.send(victim, signal.SIGKILL)
        (status,) = (await answered(model, call)).values()
        assert status in KILLED[victim]
        if "sqlite" in at_once:
            written.append(f"poem {number}")
        await servers.back(victim, pid)

    async def goes_during_its_call(model):
        """What is under way at a server that leaves the settings may finish."""
        call = calls(place, "last")["memory"]
        pid = servers.send("memory", signal.SIGSTOP)
        await model.send_calls(call)
        await servers.called("memory")
        servers.add("fetch")
        servers.remove("memory")
        await model.wait_for_context_update("fetch", within_seconds=_SECONDS)
        os.kill(pid, signal.SIGCONT)
        assert await answered(model, call) == {"memory last": "ok"}

    async def script(model):
        await ask(model, "create_table", {"query": "CREATE TABLE poems (title TEXT)"})
        for number, victim in enumerate(KILLED):
            await dies_during_its_call(model, victim, number)
        await goes_during_its_call(model)
        page = await ask(model, "fetch", {"url": f"{place.website}/poem.html"})
        assert "Roses are red." in page["result"]
        gone = FunctionCall("read_graph", {}, undeclared=True)
        (answer,) = await model.call(gone, within_seconds=_SECONDS)
        assert answer.status == "not_found"
        rows = await ask(model, "read_query", {"query": "SELECT title FROM poems"})
        assert rows["result"] == str([{"title": title} for title in written])
        await model.turn_complete()

    async with asyncio.timeout(280), Session(script, servers.tools, alone=False) as session:
        session.speak()
        await session.simulator.finished(1)
    session.simulator.check()
    made = session.simulator.calls
    assert len(made) == 6 * len(KILLED) + 5
    assert [call.id for call in made if not call.answered_once] == []
    assert len(session.simulator.connections) == 1
