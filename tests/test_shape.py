"""The shape of the code: short files, short functions, no printing, everything described."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "leonidas_tools"
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST_FILE = 300
LONGEST_FUNCTION = 40
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SHOWS_ON_A_TERMINAL = PACKAGE / "cli"


def name_of(file):
    return str(file.relative_to(PACKAGE))


def tree_of(file):
    return ast.parse(file.read_text(), str(file))


def lines_of(function):
    """How long a function is without its docstring."""
    first = function.body[0]
    own = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is None:
        return own
    return own - (first.end_lineno - first.lineno + 1)


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_file_is_short(file):
    assert len(file.read_text().splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_functions_are_short(file):
    long = {
        node.name: lines_of(node)
        for node in ast.walk(tree_of(file))
        if isinstance(node, FUNCTIONS) and lines_of(node) > LONGEST_FUNCTION
    }
    assert long == {}


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_nothing_is_printed(file):
    if SHOWS_ON_A_TERMINAL in file.parents:
        return
    printing = [
        node.lineno
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "print"
    ]
    assert printing == []


def public(node, prefix=""):
    """The public functions and classes below a node, by qualified name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)) and not child.name.startswith("_"):
            yield prefix + child.name, child
            if isinstance(child, ast.ClassDef):
                yield from public(child, f"{prefix}{child.name}.")


def needs_no_words(node):
    """Overloads, and properties' setters, are described by the one they belong to."""
    decorators = {ast.unparse(each) for each in node.decorator_list}
    return any(each in {"overload", "override"} or each.endswith(".setter") for each in decorators)


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_everything_public_is_described(file):
    tree = tree_of(file)
    assert ast.get_docstring(tree), "the module"
    silent = [
        name
        for name, node in public(tree)
        if ast.get_docstring(node) is None and not needs_no_words(node)
    ]
    assert silent == []


def test_nothing_is_left_to_do():
    marks = ("TO" + "DO", "FIX" + "ME", "X" + "XX", "NotImplemented" + "Error(")
    left = [name_of(f) for f in FILES if any(mark in f.read_text() for mark in marks)]
    assert left == []
