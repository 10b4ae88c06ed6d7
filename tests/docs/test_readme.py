"""The examples in the documentation do what they say."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from leonidas_tools.settings.load import load
from leonidas_tools.simulator import Scenario

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("*.md"))
REFERENCE = sorted((ROOT / "leonidas_tools" / "reference").glob("*.md"))


def read_yaml(example):
    """A fence with YAML is a scenario where it has steps, else the settings in `tools.yaml`."""
    data = yaml.safe_load(example.parsed)
    if "steps" in data:
        file = example.namespace["folder"] / "scenario.yaml"
        file.write_text(example.parsed)
        Scenario.load(file)
    else:
        load(data)
        (example.namespace["folder"] / "tools.yaml").write_text(example.parsed)


@pytest.mark.parametrize("page", [*PAGES, *REFERENCE], ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parsers = [PythonCodeBlockParser(), CodeBlockParser(language="yaml", evaluator=read_yaml)]
    document = Sybil(parsers=parsers, path=str(ROOT)).parse(page)
    document.namespace["folder"] = tmp_path
    for example in document.examples():
        example.evaluate()


@pytest.mark.slow
def test_the_examples_pass_a_strict_type_checker(tmp_path):
    """One run for all pages; a page is one module, and its lines keep their numbers."""
    for page in [*PAGES, *REFERENCE]:
        lines: list[str] = []
        for example in (
            Sybil(parsers=[PythonCodeBlockParser()], path=str(ROOT)).parse(page).examples()
        ):
            lines += [""] * (example.line - len(lines))
            lines += example.parsed.splitlines()
        (tmp_path / f"{page.stem.lower()}_page.py").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", *map(str, sorted(tmp_path.glob("*.py")))]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
