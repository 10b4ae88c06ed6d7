"""The notebooks run from top to bottom."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
_CELL_SECONDS = 60


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file, tmp_path):
    notebook = nbformat.read(file, as_version=4)
    client = NotebookClient(
        notebook, timeout=_CELL_SECONDS, resources={"metadata": {"path": str(tmp_path)}}
    )
    before = {each.name for each in file.parent.iterdir()}
    client.execute()
    assert {each.name for each in file.parent.iterdir()} == before
    assert [each.name for each in tmp_path.iterdir()] == []


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_kept_without_outputs(file):
    cells = nbformat.read(file, as_version=4).cells
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
