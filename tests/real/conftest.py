"""Fixtures over data that nobody here wrote."""

import os
import sys
from collections.abc import Iterator

import pytest

from tests.real import bfcl as dataset


@pytest.fixture(scope="session")
def bfcl() -> Iterator[dataset.Bfcl]:
    """The Berkeley Function Calling Leaderboard."""
    try:
        folder = dataset.folder()
    except dataset.DatasetMissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"bfcl-eval is not here and pip cannot get it: {error}")
    sys.path.append(str(folder))
    yield dataset.Bfcl(folder)
    sys.path.remove(str(folder))
