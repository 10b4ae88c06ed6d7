"""The reference of the Python API, made of signatures and docstrings.

`python -m tests.docs.api_tables` writes it into the pages. It is Markdown in the pages, and not a
directive of mkdocstrings, for they are read in the repository and in the terminal too.
"""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import pairwise
from typing import Any

import docstring_parser

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.agent.models.model import estimated_tokens
from leonidas_tools.runtime.runtime import ToolRuntime
from leonidas_tools.simulator import ABSENT
from leonidas_tools.simulator.steps import STEPS
from leonidas_tools.tools import metadata
from tests.docs.settings_tables import FOLDER

_PLACE = re.compile(r"(<!-- api: (\w+)(?: ([\w.]+))? -->\n).*?(<!-- end -->)", re.DOTALL)
_ALIASES = {"Absent.ABSENT": "ABSENT", "CloseCode": "int", "Seconds": "float"}
"""Types that have another name in the annotations of the simulator."""
_ELSEWHERE = re.compile(r"See `ToolRuntime\.(\w+)`\.")


def with_api(page: str) -> str:
    """A page, with the part of the API that each of its marks asks for."""

    def written(place: re.Match[str]) -> str:
        lines = _KINDS[place[2]](_found(place[3])) if place[3] else _KINDS[place[2]]()
        return place[1] + "\n".join(["", *lines, "", ""]) + place[4]

    return _PLACE.sub(written, page)


def without_api(page: str) -> str:
    """Return what is written by hand on a page."""
    return _PLACE.sub("", page)


def options_of_tool() -> Iterator[str]:
    """The options of `@tool`: type, default, and description."""
    yield from ("| option | type | default | |", "|---|---|---|---|")
    for each in dataclasses.fields(metadata.ToolOptions):
        option = metadata.OPTIONS[each.name]
        nothing = option.default in (None, (), "", {}) or option.policy is not None
        shown = "" if nothing else f"`{_literal(option.default)}`"
        typed = 'any word, such as `"data"`' if each.name == "category" else _type(each.type)
        yield f"| `{each.name}` | {typed} | {shown} | {_escaped(option.doc)} |"


def arguments(kind: type) -> Iterator[str]:
    """The arguments of a class: type, default, and what the docstring says."""
    said = _arguments_in(kind)
    what = "field" if dataclasses.is_dataclass(kind) else "argument"
    yield from (f"| {what} | type | default | |", "|---|---|---|---|")
    for name, parameter in inspect.signature(kind).parameters.items():
        default = _default(parameter)
        yield f"| `{name}` | {_type(parameter.annotation)} | {default} | {_escaped(said[name])} |"


def members(kind: type) -> Iterator[str]:
    """The public members of a class: signature, and the first sentence of the docstring."""
    found = dict[str, str]()
    for owner in reversed(_own_classes(kind)):
        found |= _attributes(owner)
        for name, member in vars(owner).items():
            line = None if name.startswith("_") else _member(name, member)
            if line is not None:
                found[name] = line
    yield from (found[name] for name in sorted(found))


def words(kind: type[Enum]) -> Iterator[str]:
    """The words of an enumeration, and what is written below each."""
    said = _texts_below(_source(kind).body)
    yield from ("| word | |", "|---|---|")
    for member in kind:
        yield f"| `{member.value}` | {_escaped(said[member.name])} |"


def steps() -> Iterator[str]:
    """The steps of a scenario, each with its fields."""
    yield from ("| step | field | type | default | |", "|---|---|---|---|---|")
    for name, kind in STEPS.items():
        yield f"| **`{kind.__name__}`**, `{name}` | | | | {_escaped(_sentence(kind))} |"
        said = _arguments_in(kind)
        for field, parameter in inspect.signature(kind).parameters.items():
            text, typed = _escaped(said[field]), _type(parameter.annotation)
            yield f"| | `{field}` | {typed} | {_default(parameter)} | {text} |"


def builtin_tools() -> Iterator[str]:
    """The tools that a processor brings along, and the tokens of their declarations."""
    tools = AdvancedToolProcessor()
    (declared,) = tools.declarations()
    yield from ("| tool | effect | tokens | |", "|---|---|---:|---|")
    total = 0
    for each in declared.function_declarations or ():
        made = tools.registry.get(each.name)
        tokens = estimated_tokens(each.model_dump_json(exclude_none=True, by_alias=True))
        total += tokens
        said = made.metadata.description.partition("\n")[0]
        yield f"| `{each.name}` | `{made.metadata.effect}` | {tokens} | {_escaped(said)} |"
    yield f"| all | | {total} | |"


_KINDS: Mapping[str, Any] = {
    "builtins": builtin_tools,
    "options": options_of_tool,
    "arguments": arguments,
    "members": members,
    "words": words,
    "steps": steps,
}


def _found(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _arguments_in(thing: Any) -> dict[str, str]:
    """What a docstring says of each argument, on one line."""
    parsed = docstring_parser.parse(inspect.getdoc(thing) or "")
    return {each.arg_name: " ".join((each.description or "").split()) for each in parsed.params}


def _sentence(thing: Any) -> str:
    """The first sentence of a docstring, or of the one of `ToolRuntime` that it names."""
    text = inspect.getdoc(thing) or ""
    if elsewhere := _ELSEWHERE.match(text):
        return _sentence(getattr(ToolRuntime, elsewhere[1]))
    return " ".join(text.partition("\n\n")[0].split())


def _own_classes(kind: type) -> list[type]:
    return [each for each in kind.__mro__ if each.__module__.startswith("leonidas_tools.")]


def _source(kind: type) -> ast.ClassDef:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    return node


def _texts_below(body: list[ast.stmt]) -> dict[str, str]:
    """The texts below assignments to names, or to attributes of `self`."""
    said = {}
    for node, below in pairwise(body):
        named = isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(below, ast.Expr)
        if named and isinstance(below.value, ast.Constant):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = target.attr if isinstance(target, ast.Attribute) else target.id
            said[name] = " ".join(str(below.value.value).split())
    return said


def _attributes(kind: type) -> dict[str, str]:
    """The attributes that are explained, and those that keep an argument of the same name."""
    node = _source(kind)
    inits = [each for each in node.body if getattr(each, "name", "") == "__init__"]
    body = inits[0].body if inits else []
    said = {**_texts_below(node.body), **_texts_below(body)}
    explained = _arguments_in(kind)
    for each in body:
        text = ast.unparse(each)
        kept = re.match(r"self\.(\w+) = (\w+)(?: or .*)?$", text)
        if kept and kept[1] == kept[2]:
            said.setdefault(kept[1], explained.get(kept[1], ""))
    return {n: f"- `{n}`: {text}" for n, text in said.items() if text and not n.startswith("_")}


def _member(name: str, member: Any) -> str | None:
    """The line of a property or a method; `None` for anything else."""
    if isinstance(member, property):
        returned = _plain(inspect.signature(member.fget).return_annotation)
        return f"- `{name}: {returned}`: {_sentence(member)}"
    function = member.__func__ if isinstance(member, classmethod) else member
    if not inspect.isfunction(function):
        return None
    signature = inspect.signature(function)
    taken = list(signature.parameters.values())[1:]
    waited = inspect.iscoroutinefunction(function)
    shown = f"{'await ' if waited else ''}{name}({', '.join(_written(taken))})"
    returned = _plain(signature.return_annotation)
    shown += "" if returned == "None" else f" -> {returned}"
    return f"- `{shown}`: {_sentence(function)}"


def _written(taken: list[inspect.Parameter]) -> Iterator[str]:
    """The parameters as they stand in a signature."""
    is_named_only = False
    for each in taken:
        if each.kind is each.KEYWORD_ONLY and not is_named_only:
            is_named_only = True
            yield "*"
        is_named_only = is_named_only or each.kind is each.VAR_POSITIONAL
        typed = f": {_plain(each.annotation)}"
        default = "" if each.default is each.empty else f" = {_literal(each.default)}"
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        yield f"{stars}{each.name}{typed}{default}"


def _plain(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return "required"
    made = type(parameter.default).__name__ == "_HAS_DEFAULT_FACTORY_CLASS"
    nothing = made or parameter.default in (None, (), "")
    return "" if nothing else f"`{_literal(parameter.default)}`"


def _literal(value: Any) -> str:
    if value is ABSENT:
        return "ABSENT"
    said = value.name.lower() if isinstance(value, Enum) else value
    return f'"{said}"' if isinstance(said, str) else repr(said)


def _type(annotation: Any) -> str:
    """A type as words, since a sign of a union ends a cell of a table."""
    node = ast.parse(_plain(annotation), mode="eval").body
    shown = list(dict.fromkeys(text for each in _choices(node) for text in _shown(each)))
    if any(text.startswith('`"') for text in shown):
        shown = [text for text in shown if text != "`str`"]  # the words themselves
    *others, last = shown
    return f"{', '.join(others)} or {last}" if others else last


def _choices(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [*_choices(node.left), *_choices(node.right)]
    return [] if ast.unparse(node) == "None" else [node]


def _shown(node: ast.expr) -> Iterator[str]:
    text = ast.unparse(node)
    kind = getattr(metadata, text, None)
    if isinstance(kind, type) and issubclass(kind, Enum):
        yield from (f'`"{member.name.lower()}"`' for member in kind)
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
        values = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        yield from (f"`{ast.unparse(each)}`".replace("'", '"') for each in values)
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value) in {"Annotated", "Parsed"}:
        assert isinstance(node.slice, ast.Tuple)
        for each in _choices(node.slice.elts[0]):
            yield from _shown(each)
    elif "|" in text:
        yield f"`{ast.unparse(node.value)}`" if isinstance(node, ast.Subscript) else f"`{text}`"
    else:
        yield f"`{_ALIASES.get(text, text)}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for file in sorted(FOLDER.glob("*.md")):
        file.write_text(with_api(file.read_text()))
