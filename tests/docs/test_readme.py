"""The examples in the documentation do what they say."""

from pathlib import Path

import pytest
import yaml
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from leonidas_tools.live.simulator import Scenario
from leonidas_tools.settings.load import load

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
