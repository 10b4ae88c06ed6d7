import asyncio

import pytest

from leonidas_tools.calls.call import ToolCall
from leonidas_tools.mcp.servers import MCPServers
from leonidas_tools.runtime.executor import Executor
from leonidas_tools.settings.mcp_settings import MCPToolConfiguration
from leonidas_tools.settings.models import MCPServerSettings
from leonidas_tools.tools.registry import ToolRegistry
from tests.mcp.conftest import script
from tests.mcp.forking import forked


class Lab:
    """Servers that each list the tools of a file, and the registry their tools go to."""

    def __init__(self, directory, mark):
        self.registry = ToolRegistry()
        self.servers = MCPServers(self.registry, {})
        self._directory = directory
        self._mark = mark

    def settings(self, name, *tools, **more):
        """The settings of a server; it lists these tools from now on."""
        path = self._directory / name
        path.write_text("\n".join(tools))
        return MCPServerSettings(**forked("listing.py", path, env=self._mark, **more))

    async def ready(self):
        assert await self.servers.ready(20), self.servers.status()

    async def changed(self, *names):
        """Waits until the registry holds exactly these tools."""
        news = asyncio.Event()
        stop = self.registry.on_change(news.set)
        async with asyncio.timeout(20):
            while self.names() != sorted(names):
                await news.wait()
                news.clear()
        stop()

    def names(self):
        return sorted(tool.name for tool in self.registry)

    async def call(self, name):
        executor = Executor(self.registry)
        async with executor, asyncio.timeout(20):
            return await executor.run(ToolCall(name=name, tool=self.registry[name]))


@pytest.fixture
def lab(tmp_path, mark):
    return Lab(tmp_path, mark)


async def test_all_servers_run_inside_and_none_outside(lab):
    lab.servers.configure({"a": lab.settings("a", "one"), "b": lab.settings("b", "two")})
    assert [s["state"] for s in lab.servers.status()] == ["stopped", "stopped"]
    async with lab.servers, lab.servers:
        await lab.ready()
        assert lab.names() == ["one", "two"]
        assert (await lab.call("two")).result == "two"
    assert lab.servers.status() == [
        {"name": "a", "transport": "stdio", "state": "stopped", "calls": 0, "tools": ["one"]},
        {"name": "b", "transport": "stdio", "state": "stopped", "calls": 0, "tools": ["two"]},
    ]
    assert (await lab.call("one")).status == "unavailable"


async def test_the_last_to_leave_stops_the_servers(lab):
    lab.servers.configure({"a": lab.settings("a", "one")})
    async with lab.servers:
        await lab.ready()
        async with lab.servers:
            pass
        assert (await lab.call("one")).result == "one"


async def test_servers_can_be_entered_again(lab):
    lab.servers.configure({"a": lab.settings("a", "one")})
    for _ in range(2):
        async with lab.servers:
            await lab.ready()
            assert (await lab.call("one")).result == "one"
    assert lab.names() == ["one"]


async def test_a_server_that_is_missing_harms_no_other_and_is_not_waited_for(lab):
    missing = MCPServerSettings(command="no-such-command")
    lab.servers.configure({"missing": missing, "a": lab.settings("a", "one")})
    async with lab.servers:
        assert await lab.servers.ready(20) is False
        assert (await lab.call("one")).result == "one"
        assert lab.servers.status()[0] == {
            "name": "missing",
            "transport": "stdio",
            "state": "down",
            "calls": 0,
            "last_error": "The MCP server 'missing' is down: the command 'no-such-command' was "
            "not found",
            "tools": [],
        }


async def test_waiting_for_servers_ends_when_the_time_is_up(lab):
    silent = MCPServerSettings(command="sh", args=["-c", "exec cat >/dev/null"])
    lab.servers.configure({"silent": silent})
    async with lab.servers:
        assert await lab.servers.ready(0.05) is False


async def test_a_tool_whose_name_is_taken_is_named_after_its_server(lab):
    lab.registry.register(lambda: "mine", name="search")
    lab.servers.configure({"a": lab.settings("a", "search", "find")})
    async with lab.servers:
        await lab.ready()
        assert lab.names() == ["a__search", "find", "search"]
        lab.servers.configure(
            {"a": lab.settings("a", "search", "find"), "b": lab.settings("b", "search", "find")}
        )
        await lab.changed("a__search", "b__find", "b__search", "find", "search")
        assert (await lab.call("b__find")).result == "find"
        assert (await lab.call("search")).result == "mine"
        tags = {name: lab.registry[name].metadata.tags for name in ("find", "b__find")}
        assert tags == {"find": ("mcp", "a"), "b__find": ("mcp", "b")}


async def test_names_stay_when_a_server_reconnects_and_the_name_has_become_free(lab):
    lab.registry.register(lambda: "mine", name="search")
    lab.servers.configure({"a": lab.settings("a", "search", "exit")})
    async with lab.servers:
        await lab.ready()
        lab.registry.unregister("search")
        lab.settings("a", "search", "exit", "new")
        assert (await lab.call("exit")).status == "unknown_outcome"
        assert "a__search" in lab.registry
        await lab.changed("a__search", "exit", "new")
        assert (await lab.call("a__search")).result == "search"


async def test_tools_of_a_server_that_is_down_stay_and_answer_unavailable(lab):
    lab.servers.configure({"a": lab.settings("a", "exit", "one")})
    async with lab.servers:
        await lab.ready()
        lab.servers.configure({"a": MCPServerSettings(command="no-such-command")})
        assert lab.names() == ["exit", "one"]
        result = await lab.call("one")
        assert (result.status, result.retryable, result.reason_code) == (
            "unavailable",
            True,
            "mcp_server_down",
        )
        assert lab.servers.tools == list(lab.registry)


async def test_tools_that_vanish_from_a_listing_are_unregistered(lab):
    lab.servers.configure({"a": lab.settings("a", "announce", "old")})
    async with lab.servers:
        await lab.ready()
        kept = lab.registry["announce"]
        lab.settings("a", "announce", "new")
        await lab.call("announce")
        await lab.changed("announce", "new")
        assert lab.registry["announce"] is kept


async def test_a_tool_whose_schema_changes_is_replaced_under_its_name(lab):
    lab.servers.configure({"a": lab.settings("a", "announce", "one", pin="off")})
    async with lab.servers:
        await lab.ready()
        lab.settings("a", "announce", 'one {"type": "object", "required": ["x"]}', "new")
        await lab.call("announce")
        await lab.changed("announce", "new", "one")
        assert (await lab.call("one")).status == "invalid_argument"


async def test_a_status_given_to_a_tool_does_not_hide_it_from_its_server(lab):
    lab.servers.configure({"a": lab.settings("a", "announce", "old")})
    async with lab.servers:
        await lab.ready()
        lab.registry.set_status("old", "maintenance")
        lab.settings("a", "announce")
        await lab.call("announce")
        await lab.changed("announce")


async def test_settings_are_applied_while_running_and_leave_the_unchanged_alone(lab):
    settings = {name: lab.settings(name, f"{name}_tool") for name in ("kept", "changed", "gone")}
    lab.servers.configure(settings)
    async with lab.servers:
        await lab.ready()
        kept = lab.registry["kept_tool"]
        off = settings["gone"].model_copy(update={"enabled": False})
        lab.servers.configure(
            {
                "kept": settings["kept"].model_copy(
                    update={"tools": {"kept_tool": MCPToolConfiguration()}}
                ),
                "changed": lab.settings("changed", "changed_tool", timeout=7),
                "added": lab.settings("added", "added_tool"),
                "gone": off,
            }
        )
        assert lab.names() == ["changed_tool", "kept_tool"]
        await lab.ready()
        assert lab.names() == ["added_tool", "changed_tool", "kept_tool"]
        assert lab.registry["kept_tool"] is kept
        results = [await lab.call(name) for name in lab.names()]
        assert [result.result for result in results] == lab.names()
        lab.servers.configure({})
        assert lab.names() == []


@pytest.mark.slow
async def test_servers_that_are_started_again_while_they_end_run(mark):
    settings = MCPServerSettings(**script("bad.py", "ignores_sigterm", env=mark))
    registry = ToolRegistry()
    servers = MCPServers(registry, {"bad": settings})
    await servers.__aenter__()
    assert await servers.ready(20), servers.status()
    ending = asyncio.create_task(servers.__aexit__())
    await asyncio.sleep(0)
    async with servers:
        assert await servers.ready(20), servers.status()
        await ending
        async with Executor(registry) as executor, asyncio.timeout(20):
            result = await executor.run(ToolCall(name="good", tool=registry["good"]))
        assert result.result == "fine"
