"""The delay before the next attempt to connect grows until a connection has lasted."""

import pytest

from leonidas_tools.mcp.connection import reconnect


@pytest.mark.parametrize(
    ("lasted", "attempts"),
    [
        ([0.0, 0.0, 0.0, 0.0], [0, 1, 2]),
        ([0.0, 5.0, 5.0, 0.0], [0, 1, 2]),
        ([0.0, 0.0, 31.0, 0.0], [0, 1, 0]),
        ([0.0, None, 0.0, 0.0], [0, 1]),
    ],
    ids=["never ready", "ready for too short", "steady in between", "connected again at once"],
)
async def test_an_attempt_counts_by_how_long_the_connection_was_ready(
    monkeypatch, lasted, attempts
):
    waited, left = [], list(lasted)

    def no_delay(attempt):
        waited.append(attempt)
        return 0

    async def serve():
        return left.pop(0)

    async def needed():
        pass

    monkeypatch.setattr(reconnect, "delay_seconds", no_delay)
    await reconnect.keep_connected(until_needed=needed, serve=serve, is_wanted=lambda: bool(left))
    assert waited == attempts
