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
def test_a_notebook_is_stored_with_its_outputs(file):
    cells = [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs) or any(
        "text/html" in output.get("data", {}) or "text/markdown" in output.get("data", {})
        for output in outputs
    )
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]


def test_the_pictures_of_the_notebooks_are_there():
    text = "".join(file.read_text() for file in NOTEBOOKS)
    assert text.count("image/svg+xml") == 2
