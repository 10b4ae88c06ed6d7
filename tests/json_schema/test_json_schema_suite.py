"""The JSON-Schema-Test-Suite against the strict validator under `ArgumentValidator`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from leonidas_tools.errors import SchemaError
from leonidas_tools.json_schema import ArgumentValidator
from tests.fetched import fetched

# Pip builds what it downloads, which may take minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

RELEASE = "4.26.0"  # of `jsonschema`, whose source distribution ships the suite
REMOTE = "http://localhost:1234/"  # where the suite has the documents that schemas refer to

DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
EXCEPTIONS: dict[str, set[str]] = {}
"""By draft, the tests that are known to fail, each with a comment that says why: none."""
FEWEST_TESTS = {"draft4": 590, "draft6": 790, "draft7": 880, "draft2019-09": 1150}


@pytest.fixture(scope="session")
def suite() -> Path:
    download = (sys.executable, "-m", "pip", "download", "-q", "--no-deps")
    source = ("--no-binary", "jsonschema")  # of this package only: what builds it comes as wheels
    unpack = ("tar", "--extract", "--strip-components=1", "--file", f"jsonschema-{RELEASE}.tar.gz")
    folder = fetched(
        f"json-schema-test-suite-{RELEASE}", (*download, *source, f"jsonschema=={RELEASE}"), unpack
    )
    return folder / "json"


def _cases(suite: Path, draft: str):
    for path in sorted((suite / "tests" / draft).glob("*.json")):
        for case in json.loads(path.read_text("utf-8")):
            schema = case["schema"]
            if isinstance(schema, dict):
                schema = {"$schema": DRAFTS[draft], **schema}
            for test in case["tests"]:
                yield f"{path.stem}: {case['description']}: {test['description']}", schema, test


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_required_test_of_the_draft_passes(suite, draft):
    total, wrong = 0, set()
    for name, schema, test in _cases(suite, draft):
        try:
            validator = ArgumentValidator(schema)
        except SchemaError:
            if REMOTE not in json.dumps(schema):
                wrong.add(name)
            continue  # nothing is fetched
        total += 1
        if validator.is_valid(test["data"]) is not test["valid"]:
            wrong.add(name)
    assert wrong == EXCEPTIONS.get(draft, set())
    assert total >= FEWEST_TESTS.get(draft, 1200)
