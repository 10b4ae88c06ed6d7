"""What holds for all tests: nothing of the user is read or written, and nothing left to others."""

import gc
import itertools
import logging
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.databases import file, postgres, where  # noqa: F401 - fixtures
from tests.mcp.forking import forks
from tests.permissions import binding

VARIABLE = "LEONIDAS_DATA_DIR"
_NUMBERS = itertools.count()

# A busy machine is no fault of a test: nothing is judged by the time it takes.
settings.register_profile("leonidas", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("leonidas"), max_examples=30)  # `make test`
settings.load_profile("leonidas")


def pytest_configure(config):
    """What fixtures of modules and sessions start gets a directory too."""
    gc.disable()  # thousands of tests are collected, and hardly anything becomes garbage
    directory = tempfile.mkdtemp(prefix="leonidas-data-")
    os.environ[VARIABLE] = directory
    config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))


def pytest_collection_finish():
    """Thousands of tests and their modules stay to the end: no search for garbage needs them."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def user_data(monkeypatch):
    """The user's data directory: each test begins without it."""
    directory = Path(os.environ[VARIABLE]) / str(next(_NUMBERS))
    monkeypatch.setenv(VARIABLE, str(directory))
    return directory


@pytest.fixture
def permissions_bind():
    """File permissions bind this test also where it runs as root."""
    with binding():
        yield


def pytest_runtest_setup(item):
    """`needs("program")`: the test is skipped where that is not installed, but fails in CI."""
    needed = [program for mark in item.iter_markers("needs") for program in mark.args]
    missing = [program for program in needed if shutil.which(program) is None]
    if missing:
        (pytest.fail if "CI" in os.environ else pytest.skip)(f"not installed: {missing}")


@pytest.fixture(scope="session")
def forking():
    """Has `forked` start MCP servers at once, as `tests.mcp.forking` says."""
    with forks():
        yield


@pytest.fixture(autouse=True)
def log_levels_are_kept():
    """The program sets how much is logged, which is not for the tests that follow."""
    before = _levels()
    yield
    for logger, level in _levels().items():
        if level != (kept := before.get(logger, logging.NOTSET)):  # to set one takes a millisecond
            logger.setLevel(kept)


def _levels():
    known = logging.getLogger().manager.loggerDict.items()
    return {
        each: each.level
        for name, each in known
        if name.startswith("leonidas_tools") and isinstance(each, logging.Logger)
    }
