"""The examples in docstrings do what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def modules():
    """The modules of the package that have examples."""
    for file in sorted((ROOT / "leonidas_tools").rglob("*.py")):
        if ">>> " in file.read_text():
            yield ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(modules()))
def test_the_examples_of_a_module_do_what_they_say(name):
    found = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name), name)
    examples = [test for test in found if test.examples]
    assert examples, "the module has '>>>' where no docstring is"
    said: list[str] = []
    for example in examples:
        doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert not said, "".join(said)
