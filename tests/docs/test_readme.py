"""The examples in the documentation do what they say."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from sybil import Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from typer.core import TyperGroup
from typer.main import get_command

from leonidas_tools.cli.app import program
from leonidas_tools.settings.load import load
from leonidas_tools.simulator import Scenario
from tests.modules import forget_modules_in

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page):
    """Return the path of a page in the repository."""
    return str(page.relative_to(ROOT))


def said_before(example):
    """Return the paragraph above a fence, which names its file or the block that it goes below."""
    return example.document.text[: example.start].rstrip().rpartition("\n\n")[2]


def save_yaml(example):
    """Check a fence with YAML, a scenario or settings; save it under the name in the text above."""
    data = yaml.safe_load(example.parsed)
    names = re.findall(r"`([\w/]+\.yaml)`", said_before(example))
    file = Path(names[-1]) if names else example.namespace["folder"] / "unnamed" / "settings.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(example.parsed)
    if "steps" in data:
        Scenario.load(file)
    else:
        load(data)


def save_python(example):
    """Save a block under the name in the text above, where that says so."""
    for name in re.findall(r"(?:[Ss]aved as|In) `(\w+\.py)`:$", said_before(example)):
        Path(name).write_text(example.parsed)


class PastedPython(PythonEvaluator):
    """Run a block alone, unless the text above says that it goes below an earlier one."""

    def __call__(self, example):
        save_python(example)
        folder, begun = example.namespace["folder"], dict(example.namespace)
        if not re.search(r"\b[Bb]elow (it|the (first )?block)", said_before(example)):
            example.namespace.clear()
            example.namespace["folder"] = folder
        super().__call__(example)
        example.namespace.update({**begun, **example.namespace})


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """The working directory; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    forget_modules_in(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_of_a_page_run_as_pasted_into_an_empty_folder(page, empty_folder, caplog):
    parsers = [
        CodeBlockParser(language="python", evaluator=PastedPython()),
        CodeBlockParser(language="yaml", evaluator=save_yaml),
    ]
    document = Sybil(parsers=parsers, path=str(ROOT)).parse(page)
    document.namespace["folder"] = empty_folder
    for example in document.examples():
        example.evaluate()
    assert [each for each in caplog.messages if each.startswith("In the settings")] == []


def typed_commands(page):
    """Return the commands of `leonidas` on a page that could be typed as they are."""
    text = page.read_text()
    fenced = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)).splitlines()
    inline = re.findall(r"`(leonidas [^`\n]*)`", text)
    lines = [line for line in [*fenced, *inline] if line.startswith("leonidas ")]
    words = [shlex.split(line, comments=True)[1:] for line in lines if "…" not in line]
    return [each for each in words if each and not {"|", "..."} & set(each)]


MANUAL = [page for page in PAGES if page.name != "CHANGELOG.md"]  # of older releases, too


@pytest.mark.slow
@pytest.mark.parametrize("page", MANUAL, ids=name_of)
def test_the_commands_of_a_page_are_understood(page):
    for words in typed_commands(page):
        command = get_command(program())
        rest = [word for word in words if not re.fullmatch(r"\[.*", word)]
        while isinstance(command, TyperGroup) and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, words
            command, rest = command.commands[rest[0]], rest[1:]
        if rest and rest != ["--version"]:  # a command alone is only named
            command.make_context("leonidas", rest)


def test_the_page_on_the_command_line_lists_every_command():
    page = (ROOT / "docs" / "guides" / "command-line.md").read_text()
    listed = re.findall(r"^leonidas (\w+)", page, re.M)
    assert get_command(program()).commands.keys() <= set(listed)


def explained_calls(page):
    """Return the commands on a page that say which rule decides about a call."""
    commands = typed_commands(page)
    return [words for words in commands if words[:2] == ["policy", "explain"] and words[3:]]


EXPLAINED = [page for page in MANUAL if explained_calls(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", EXPLAINED, ids=name_of)
def test_the_calls_that_a_page_explains_are_explained_as_pasted(page, empty_folder):
    parsers = [
        CodeBlockParser(language="python", evaluator=save_python),
        CodeBlockParser(language="yaml", evaluator=save_yaml),
    ]
    document = Sybil(parsers=parsers, path=str(ROOT)).parse(page)
    document.namespace["folder"] = empty_folder
    for example in document.examples():
        example.evaluate()
    for words in explained_calls(page):
        command = [sys.executable, "-m", "leonidas_tools", *words, "--json"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stderr
        decision = json.loads(told.stdout)
        assert any(rule["decides"] for rule in decision["rules"]), decision


@pytest.mark.slow
def test_the_examples_pass_a_strict_type_checker(tmp_path):
    """One run for all pages; a page is one module, and its lines keep their numbers."""
    for page in PAGES:
        lines: list[str] = []
        for example in (
            Sybil(parsers=[PythonCodeBlockParser()], path=str(ROOT)).parse(page).examples()
        ):
            lines += [""] * (example.line - len(lines))
            lines += example.parsed.splitlines()
        name = re.sub(r"\W", "_", name_of(page).lower())
        (tmp_path / f"{name}.py").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", *map(str, sorted(tmp_path.glob("*.py")))]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
def test_the_first_examples_of_the_readme_print_what_they_say(tmp_path):
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^```(?:python|text)\n(.*?)^```", readme, re.M | re.S)
    first, printed, below, said = blocks[:4]
    program = f"{first}{below}"
    told = subprocess.check_output([sys.executable, "-c", program], cwd=tmp_path, text=True)
    assert told == f"{printed}{said}"


def test_the_figures_of_the_readme_are_those_that_were_measured():
    """Else: take them from RESULTS.md, which `make bench` has written."""
    readme = (ROOT / "README.md").read_text()
    results = (ROOT / "tests" / "benchmarks" / "RESULTS.md").read_text()
    tables = readme.split("## Five figures")[1].split("## What it is not")[0]
    figures = re.findall(r"\| (\d[\d.]*) (?:µs|ms|s|x)(?= \|)", tables.replace(" |", " | |"))
    assert len(figures) >= 20
    assert [each for each in figures if each not in results] == []


def test_a_page_of_the_repository_links_only_to_what_is_there():
    for page in ROOT.glob("*.md"):
        links = [part.split(")")[0] for part in page.read_text().split("](")[1:]]
        files = [each.partition("#")[0] for each in links if "://" not in each]
        assert [each for each in files if each and not (ROOT / each).exists()] == []
