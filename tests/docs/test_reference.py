"""Every policy has its page, and what a page says of the settings is what they are."""

import re
from pathlib import Path

import pytest

from leonidas_tools.tools.metadata import OPTIONS
from tests.docs.api_tables import options_of_tool, with_api, without_api
from tests.docs.settings_tables import FOLDER, with_tables, without_tables

pytestmark = pytest.mark.slow

PAGES = sorted(FOLDER.glob("*.md"))
_POLICIES = FOLDER.parent / "policies"
_TOLD_ON = {"inquiries": "approval", "in_process": "timeout"}
"""Policies that belong to a page with another name."""
_MAX_WORDS = 110
"""Most words of a paragraph or of an item of a list: more is easier to read as a list."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_settings_of_a_page_are_those_there_are(page):
    """Else: `python -m tests.docs.settings_tables` writes them anew."""
    text = page.read_text()
    assert text == with_tables(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_api_on_a_page_is_that_of_the_code(page):
    """Else: `python -m tests.docs.api_tables` writes it anew."""
    text = page.read_text()
    assert text == with_api(text)


def test_the_reference_has_every_option_of_a_tool():
    _, _, *rows = options_of_tool()
    assert {row.split("`")[1] for row in rows} == OPTIONS.keys()


def test_every_policy_has_its_page():
    # `refusal` only answers for `enabled` and `status`, which the page of the settings has.
    modules = {file.stem for file in _POLICIES.glob("[!_]*.py")}
    modules -= {"base", "order", "shared", "refusal"}
    assert {_TOLD_ON.get(name, name) for name in modules} <= {page.stem for page in PAGES}


def test_the_index_links_to_every_page_and_to_no_other():
    index = (FOLDER.parents[1] / "docs" / "reference" / "index.md").read_text()
    linked = re.findall(r"\]\((\w+)\.md\)", index)
    assert sorted(set(linked)) == [page.stem for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_it_does_costs_and_leaves_in_short_paragraphs(page):
    title, _, about, *rest = page.read_text().splitlines()
    assert title.startswith("# ")
    assert about.endswith(".")
    assert any(line.startswith("**Costs:** ") for line in rest)
    assert any(line.startswith("**Does not** ") for line in rest)
    by_hand = without_api(without_tables(page.read_text()))
    prose = re.sub(r"```.*?```", "", by_hand, flags=re.DOTALL)
    assert [line for line in prose.splitlines() if len(line.split()) > _MAX_WORDS] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_links_only_to_what_is_there(page):
    links = [part.split(")")[0] for part in page.read_text().split("](")[1:]]
    assert all((page.parent / Path(link.partition("#")[0])).exists() for link in links), links
