"""Changing the file: comments and order stay, and it is all or nothing."""

import datetime as dt
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.settings.load import load
from leonidas_tools.settings.models import ToolConfiguration
from leonidas_tools.settings.write import apply_changes, delete_key, set_key, update_file
from leonidas_tools.tools.tool import ToolEffect, ToolPriority

TEXT = """\
# The head.
version: 1
environment: ${LEONIDAS_TEST_ENVIRONMENT:-development}   # from outside

defaults:
  timeout:   5s   # aligned by hand
  # deadline: 10s

tools:   # all of them
  # About a.
  a:
    timeout: 5   # five
    tags:
      # the first
      - x
      - y   # the second
    # The end of a.

  # About b.
  b: {timeout: 2, priority: high}  # on one line
  c: {}
  d:
    description: |
      Some
      lines.

    lane: 'quoted'

  # The tail of tools.
# About monitoring.
monitoring: {}
# The end.
"""


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "tools.yaml"
    path.write_text(TEXT)
    return path


B = "  b: {timeout: 2, priority: high}  # on one line"

EDITS = {
    "a value": (
        {"tools.a.timeout": "2s"},
        {"    timeout: 5   # five": ["    timeout: 2s   # five"]},
    ),
    "a value behind many spaces": (
        {"defaults.timeout": 7},
        {"  timeout:   5s   # aligned by hand": ["  timeout:   7   # aligned by hand"]},
    ),
    "a new key": (
        {"tools.a.retry_attempts": 3},
        {"      - y   # the second": ["      - y   # the second", "    retry_attempts: 3"]},
    ),
    "a new key after a comment of its section": (
        {"defaults.retry_attempts": 3},
        {
            "  timeout:   5s   # aligned by hand": [
                "  timeout:   5s   # aligned by hand",
                "  retry_attempts: 3",
            ]
        },
    ),
    "a key on one line": (
        {"tools.b.deadline": 4},
        {B: ["  b: {timeout: 2, priority: high, deadline: 4}  # on one line"]},
    ),
    "a key of an empty mapping": (
        {"monitoring.history_size": 5},
        {"monitoring: {}": ["monitoring: {history_size: 5}"]},
    ),
    "a key of a tool without any": (
        {"tools.c.environment_specific.production.timeout": 5},
        {"  c: {}": ["  c: {environment_specific: {production: {timeout: 5}}}"]},
    ),
    "text of several lines": (
        {"tools.d.description": "Other\nlines"},
        {
            "    description: |": ['    description: "Other\\nlines"'],
            "      Some": [],
            "      lines.": [],
        },
    ),
    "a new tool": (
        {"tools.e.timeout": 5},
        {"    lane: 'quoted'": ["    lane: 'quoted'", "  e:", "    timeout: 5"]},
    ),
    "a new section": (
        {"policies.threads": 5},
        {"monitoring: {}": ["monitoring: {}", "policies:", "  threads: 5"]},
    ),
    "nothing: a key": ({"tools.d.lane": None}, {"    lane: 'quoted'": []}),
    "nothing: the only key": (
        {"defaults.timeout": None},
        {"defaults:": ["defaults: {}"], "  timeout:   5s   # aligned by hand": []},
    ),
    "nothing: the first on one line": (
        {"tools.b.timeout": None},
        {B: ["  b: {priority: high}  # on one line"]},
    ),
    "nothing: the last on one line": (
        {"tools.b.priority": None},
        {B: ["  b: {timeout: 2}  # on one line"]},
    ),
    "nothing: a tool": (
        {"tools.b": None},
        {B: []},
    ),
    "nothing: what is not there": ({"tools.z.timeout": None, "tools.a.lane": None}, {}),
    "nothing at all": ({}, {}),
    "an empty mapping where there is one": ({"tools.a": {}}, {}),
    "several, nested": (
        {"tools": {"a": {"timeout": 1, "tags": None}, "b": {"timeout": 1}}},
        {
            "    timeout: 5   # five": ["    timeout: 1   # five"],
            "    tags:": [],
            "      # the first": [],
            "      - x": [],
            "      - y   # the second": [],
            B: ["  b: {timeout: 1, priority: high}  # on one line"],
        },
    ),
}


@pytest.mark.parametrize(("changes", "lines"), EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_only_the_lines_of_the_change_change(path, changes, lines, newline):
    path.write_bytes(TEXT.replace("\n", newline).encode())
    expected = []
    for line in TEXT.splitlines():
        expected += lines.get(line, [line])
    update_file(path, changes)
    assert path.read_bytes().decode().split(newline) == [*expected, ""]


def test_a_list_on_lines_of_its_own_can_be_replaced(path):
    update_file(path, {"tools.a.tags": ["on", "1:30", "a, b", "c"]})
    assert load(path).for_tool("a").tags == ("on", "1:30", "a, b", "c")
    assert "      # the first\n" in path.read_text()


def test_a_tool_whose_name_has_a_dot_is_reached_by_the_nested_form(path):
    update_file(path, {"tools": {"server.tool": {"timeout": 5}}})
    assert load(path).for_tool("server.tool").timeout == 5


def test_typed_values_are_written_as_one_would_write_them(path):
    update_file(
        path,
        {
            "tools.a": ToolConfiguration(priority="low", effect="read"),
            "tools.b.priority": ToolPriority.CRITICAL,
            "tools.c.effect": ToolEffect.ONCE,
            "tools.c.tags": ("x",),
        },
    )
    settings = load(path)
    assert settings.for_tool("a").priority is ToolPriority.LOW
    assert settings.for_tool("a").timeout == 5
    assert settings.for_tool("b").priority is ToolPriority.CRITICAL
    assert settings.for_tool("c").effect is ToolEffect.ONCE
    assert "priority: critical" in path.read_text()


REFUSED = {
    "an unknown key": ({"tools.a.tiemout": 5}, "did you mean 'timeout'?"),
    "an unknown section": ({"tool.a.timeout": 5}, "did you mean 'tools'?"),
    "a wrong value": ({"tools.a.timeout": "soon"}, "is not a duration"),
    "one wrong of two": ({"tools.a.timeout": 1, "tools.b.timeout": -1}, "greater than 0"),
    "a key below a value": ({"tools.a.timeout.x": 1}, "has a value where a mapping is needed"),
    "an item of a list": ({"tools.a.tags.0": "z"}, "has a value where a mapping is needed"),
    "what YAML cannot hold": ({"tools.a.lane": object()}, "a object cannot be written"),
    "a variable that is not set": ({"tools.a.lane": "${LEONIDAS_TEST_NOTHING}"}, "is not set"),
    "everything": (
        dict.fromkeys(("version", "environment", "defaults", "tools", "monitoring")),
        "is empty",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_changes_are_refused_and_the_file_stays(path, changes, message):
    with pytest.raises(ConfigurationError) as caught:
        update_file(path, changes)
    assert message in str(caught.value)
    assert path.read_text() == TEXT
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("tools:\n  a: &a {timeout: 1}\n  b: *a\n", {"tools.a.timeout": 2}),
        ("tools:\n  a: &a {timeout: 1}\n  b: *a\n", {"tools.b.timeout": 2}),
        ("tools:\n  a: &a {timeout: 1}\n  b: *a\n", {"tools.a": None}),
        ("tools:\n  a: &a\n    timeout: 1\n  b:\n    <<: *a\n", {"tools.a.timeout": 2}),
        ("tools:\n  a: &a\n    timeout: 1\n  b:\n    <<: *a\n", {"tools.b.timeout": None}),
    ],
)
def test_what_would_change_something_else_too_is_refused(path, text, changes):
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="edit the file"):
        update_file(path, changes)
    assert path.read_text() == text


def test_a_value_replaces_an_alias_and_an_explicit_key_a_merged_one(path):
    path.write_text(
        "tools:\n  a: &a\n    timeout: &t 1\n  b:\n    <<: *a  # m\n  c: {timeout: *t}\n"
    )
    update_file(path, {"tools.b.timeout": 2, "tools.c.timeout": 3})
    assert path.read_text() == (
        "tools:\n  a: &a\n    timeout: &t 1\n  b:\n    <<: *a  # m\n    timeout: 2\n"
        "  c: {timeout: 3}\n"
    )


@pytest.mark.parametrize("text", ["", "tools: [", "- a\n"])
def test_a_broken_file_is_not_touched(path, text):
    path.write_text(text)
    with pytest.raises(ConfigurationError):
        update_file(path, {"tools.a.timeout": 1})
    assert path.read_text() == text


def test_a_wrong_value_can_be_put_right(path):
    path.write_text("tools:\n  a:\n    timeout: soon\n")
    update_file(path, {"tools.a.timeout": 1})
    assert load(path).for_tool("a").timeout == 1


def test_a_missing_file_is_not_made(tmp_path):
    with pytest.raises(ConfigurationError, match="no such file"):
        update_file(tmp_path / "none.yaml", {"tools.a.timeout": 1})
    assert list(tmp_path.iterdir()) == []


def test_variables_stay_variables(path, monkeypatch):
    monkeypatch.setenv("LEONIDAS_TEST_ENVIRONMENT", "testing")
    update_file(path, {"tools.a.lane": "${LEONIDAS_TEST_ENVIRONMENT}-lane"})
    assert "environment: ${LEONIDAS_TEST_ENVIRONMENT:-development}   # from outside" in (
        path.read_text()
    )
    assert load(path).for_tool("a").lane == "testing-lane"


def test_the_mode_stays(path):
    path.chmod(0o640)
    update_file(path, {"tools.a.timeout": 1})
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link(path, tmp_path):
    link = tmp_path / "elsewhere" / "tools.yaml"
    link.parent.mkdir()
    link.symlink_to(path)
    update_file(link, {"tools.a.timeout": 1})
    assert link.is_symlink()
    assert load(path).for_tool("a").timeout == 1
    assert list(link.parent.iterdir()) == [link]


def test_a_byte_order_mark_stays(path):
    path.write_bytes(b"\xef\xbb\xbfversion: 1\n")
    update_file(path, {"environment": "café"})
    assert path.read_bytes() == b"\xef\xbb\xbfversion: 1\nenvironment: caf\xc3\xa9\n"


def test_the_old_file_is_replaced_and_not_written_into(path, tmp_path):
    kept = tmp_path / "kept.yaml"
    os.link(path, kept)
    update_file(path, {"tools.a.timeout": 1})
    assert kept.read_text() == TEXT


def test_a_directory_without_permission_is_named(path, permissions_bind):
    path.parent.chmod(0o500)
    with pytest.raises(ConfigurationError, match="cannot be written"):
        update_file(path, {"tools.a.timeout": 1})


def test_a_date_is_written_as_text(path):
    update_file(path, {"tools.a.custom_parameters.day": dt.date(2026, 1, 2)})
    assert load(path).for_tool("a").custom_parameters == {"day": "2026-01-02"}


words = st.text(max_size=12).filter(lambda text: "${" not in text)
scalars = words | st.integers(-(10**9), 10**9) | st.booleans() | st.floats(allow_nan=False)
values = scalars | st.lists(scalars | st.dictionaries(words, scalars, max_size=2), max_size=3)
paths = st.lists(
    st.sampled_from(["a", "b", "c", "d", "x"]) | words.filter(bool), min_size=1, max_size=3
)


@given(paths, values)
def test_any_value_anywhere_leaves_every_other_line_and_comment(keys, value):
    path = ("tools", "d", "custom_parameters", *keys)
    edited = set_key(TEXT, path, value)
    assert [line for line in edited.splitlines() if line in TEXT.splitlines()] == TEXT.splitlines()
    before, after = _data(TEXT), _data(edited)
    assert after == apply_changes(before, {"tools": _nested(path[1:], value)})
    assert _data(delete_key(edited, path[:3]))["tools"]["d"] == before["tools"]["d"]


@given(
    st.sampled_from(
        [
            ("tools", "a"), ("tools", "a", "tags"), ("tools", "a", "timeout"), ("tools", "b"),
            ("tools", "b", "timeout"), ("tools", "c"), ("tools", "d"), ("tools", "d", "lane"),
            ("tools", "d", "description"), ("defaults", "timeout"), ("monitoring",), ("version",),
        ]
    ),
    scalars,
)  # fmt: skip
def test_a_comment_is_only_lost_with_what_it_stands_in(path, value):
    for edited in (set_key(TEXT, path, value), delete_key(TEXT, path)):
        lost = {line.strip() for line in TEXT.splitlines() if line.strip().startswith("#")} - {
            line.strip() for line in edited.splitlines()
        }
        inside = {("tools", "a"): {"# the first"}, ("tools", "a", "tags"): {"# the first"}}
        assert lost <= inside.get(path, set())


def _data(text):
    from leonidas_tools.settings.document import read_document

    return read_document(text).data


def _nested(path, value):
    for key in reversed(path):
        value = {key: value}
    return value
