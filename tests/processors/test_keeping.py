"""The store that the settings ask for."""

from leonidas_tools import AdvancedToolProcessor, tool


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def test_what_is_called_is_kept_where_the_settings_say_so(tmp_path):
    settings = {"store": {"enabled": True, "url": str(tmp_path / "kept.db"), "durable": True}}
    async with AdvancedToolProcessor(tools=[add], config=settings) as tools:
        await tools.execute("add", {"a": 1, "b": 2})
        await tools.store.flush()
        (kept,) = await tools.store.executions(tool="add")
    assert (kept.status, kept.arguments) == ("ok", {"a": 1, "b": 2})


async def test_nothing_is_kept_unless_the_settings_say_so():
    async with AdvancedToolProcessor(tools=[add]) as tools:
        assert tools.store is None


async def test_a_store_that_cannot_be_opened_stops_no_call(tmp_path):
    (tmp_path / "file").write_text("no folder")
    settings = {"store": {"enabled": True, "url": str(tmp_path / "file" / "kept.db")}}
    async with AdvancedToolProcessor(tools=[add], config=settings) as tools:
        result = await tools.execute("add", {"a": 1, "b": 2})
        assert (result.result, tools.store.status.ok) == (3, False)
