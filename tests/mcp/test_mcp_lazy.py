import asyncio
import json
import stat

import pytest
from mcp_types import LATEST_PROTOCOL_VERSION

from leonidas_tools.errors import RetryableError
from leonidas_tools.mcp.data_files import data_file
from leonidas_tools.mcp.server import ServerState
from tests.mcp.conftest import script
from tests.mcp.forking import forked


async def test_a_lazy_server_that_was_never_seen_connects_once_to_list_and_stands_by(serve):
    server = serve(forked("life.py", start="lazy"))
    assert "pid" in await server.listing()
    await server.standby()
    assert "pid" not in server.mcp.status()


@pytest.mark.slow
async def test_the_first_call_starts_a_lazy_server_and_the_next_finds_it_running(serve):
    await serve(script("life.py", start="lazy")).standby()
    server = await serve(script("life.py", start="lazy")).standby()
    first, second = await asyncio.gather(server.call("pid"), server.call("pid"))
    assert first == second
    status = server.mcp.status()
    assert 0 < status.pop("connect_seconds") < 20
    assert status == {
        "name": "lab",
        "transport": "stdio",
        "state": "ready",
        "calls": 0,
        "pid": int(first.result["result"]),
        "protocol_version": LATEST_PROTOCOL_VERSION,
    }


async def test_a_lazy_server_seen_before_is_not_started_for_its_tools(serve, tmp_path):
    (tmp_path / "tools").write_text("one\ntwo")
    settings = forked("listing.py", tmp_path / "tools", start="lazy")
    seen = await serve(settings).standby()
    await seen.mcp.stop()
    (tmp_path / "tools").unlink()  # so that it could list none
    server = await serve(settings).standby()
    assert sorted(server.tools) == ["one", "two"]
    (tmp_path / "tools").write_text("one\nthree")
    assert (await server.call("one")).result == "one"
    assert sorted(server.tools) == ["one", "three"]


async def test_a_lazy_server_that_is_started_again_stands_by_again(serve):
    server = await serve(forked("life.py", start="lazy")).standby()
    await server.mcp.stop()
    server.mcp.start()
    await server.standby()


@pytest.mark.parametrize("kept", [b"", b"\xff", b"[]", b'{"server": "another", "tools": []}'])
async def test_a_cached_listing_of_another_server_or_an_invalid_one_is_ignored(serve, kept):
    seen = await serve(forked("life.py", start="lazy")).standby()
    await seen.mcp.stop()
    file = data_file("lab", "tools")
    assert len(json.loads(file.read_bytes())["tools"]) == len(seen.tools)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_bytes(kept)
    server = await serve(forked("life.py", start="lazy")).standby()
    assert server.tools.keys() == seen.tools.keys()


async def test_a_lazy_server_that_cannot_start_answers_its_call_and_says_why(serve, tmp_path):
    (tmp_path / "tools").write_text("one")
    settings = forked("listing.py", tmp_path / "tools", start="lazy")
    seen = await serve(settings).standby()
    await seen.mcp.stop()
    (tmp_path / "tools").unlink()
    server = await serve(settings).standby()
    with pytest.raises(RetryableError, match="is not available") as down:
        await server.call("one")
    assert down.value.reason_code == "mcp_server_down"
    (tmp_path / "tools").write_text("one")
    await server.back()
    assert (await server.call("one")).result == "one"


async def test_a_lazy_server_that_stands_by_can_be_stopped(serve):
    server = await serve(forked("life.py", start="lazy")).standby()
    await server.mcp.stop()
    assert server.mcp.state is ServerState.STOPPED
    with pytest.raises(RetryableError, match="it was stopped"):
        await server.call("pid")
