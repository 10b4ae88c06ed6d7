"""Parse YAML text to plain data, the line of every key, and the problems."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import yaml

from leonidas_tools.files.yaml_faults import yaml_fault
from leonidas_tools.settings.problem import EMPTY, DocumentError, KeyPath, Problem, SettingsDocument

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_DEPTH = 50
_MAX_VALUES = 200_000
_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"


Resolvers: TypeAlias = dict[str, list[tuple[str, re.Pattern[str]]]]


def _resolvers() -> Resolvers:
    """Return the types that a plain scalar may have, by first letter; an empty scalar has `""`."""
    resolvers: Resolvers = {}
    for kind, letters, pattern in (
        ("null", ["", *"~nN"], r"~|null|Null|NULL|"),
        ("bool", "tTfF", r"true|True|TRUE|false|False|FALSE"),
        ("int", "-+0123456789", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"),
        ("float", "-+.0123456789", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"),
        ("float", "-+.", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
        ("merge", "<", r"<<"),
    ):
        for letter in letters:
            rule = (_TAG + kind, re.compile(rf"(?:{pattern})\Z"))
            resolvers.setdefault(letter, []).append(rule)
    return resolvers


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time
    """A loader that parses scalars like YAML 1.2: `on`, `no` and dates are text."""

    yaml_implicit_resolvers: ClassVar[Resolvers] = _resolvers()


def read_document(text: str) -> SettingsDocument:
    r"""Parse YAML to plain data.

    Raises:
        DocumentError: The text is not YAML, or is nested too deeply or too large.

    Example:
        >>> document = read_document("tools:\n  search:\n    timeout: 5\n")
        >>> document.data, document.lines["tools", "search", "timeout"]
        ({'tools': {'search': {'timeout': 5}}}, 3)
    """
    root = compose(text)
    if root is None:
        return SettingsDocument()
    reader = _NodeReader()
    data = reader.value(root, ())
    return SettingsDocument(
        data=data, lines=reader.lines, problems=reader.problems, nulls=reader.nulls
    )


def compose(text: str) -> yaml.Node | None:
    """Return the nodes of a YAML text with their places; `None` if the text is empty.

    Raises:
        DocumentError: The text is not YAML, or is nested too deeply.
    """
    try:
        _check_depth(text)
        return yaml.compose(text, Loader)
    except yaml.YAMLError as error:
        fault, line = yaml_fault(error, text)
        raise DocumentError(f"is not YAML: {fault}", line) from None


def _check_depth(text: str) -> None:
    """Raise `DocumentError` for text that is nested too deeply: composing recurses in C."""
    depth = 0
    for event in yaml.parse(text, Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise DocumentError(f"is nested more than {_MAX_DEPTH} levels deep", _line(event))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _line(item: yaml.Node | yaml.Event) -> int:
    return 1 if item.start_mark is None else item.start_mark.line + 1


class _NodeReader:
    """Converts nodes to plain data, up to a maximum number of values."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self.nulls: list[KeyPath] = []
        self._count = 0
        self._open: set[int] = set()

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        self._count += 1
        line = _line(node)
        if self._count > _MAX_VALUES:
            raise DocumentError("is too large when its aliases are expanded", line)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            raise DocumentError("refers to itself by an alias", line)
        self._open.add(id(node))
        try:
            return self._collection(node, path)
        finally:
            self._open.discard(id(node))

    def _collection(self, node: yaml.Node, path: KeyPath) -> Any:
        if node.tag not in (_TAG + "map", _TAG + "seq"):
            self._tag_problem(node, path)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        items = []
        for index, item in enumerate(node.value):
            self.lines[*path, index] = _line(item)
            items.append(self.value(item, (*path, index)))
        return items

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            line = _line(key)
            if key.tag == _MERGE:
                for source in self._merge_sources(value, path):
                    merged = {**self._mapping_of(source, path), **merged}
                continue
            name = self._key(key, path)
            if name in own:
                message = "is defined twice: remove one"
                self.problems.append(Problem(message, (*path, name), line))
            self.lines[*path, name] = line
            own[name] = self.value(value, (*path, name))
        return {**merged, **own}

    def _mapping_of(self, source: yaml.Node, path: KeyPath) -> dict[str, Any]:
        lines, self.lines = self.lines, {}
        value = self.value(source, path)
        for key, line in self.lines.items():
            lines.setdefault(key, line)  # own lines before those of merged mappings
        self.lines = lines
        return cast("dict[str, Any]", value)

    def _merge_sources(self, node: yaml.Node, path: KeyPath) -> Iterator[yaml.Node]:
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if isinstance(source, yaml.MappingNode):
                yield source
            else:
                message = "'<<' must be a mapping, or a list of them"
                self.problems.append(Problem(message, path, _line(source)))

    def _key(self, node: yaml.Node, path: KeyPath) -> str:
        if isinstance(node, yaml.ScalarNode) and node.tag == _TAG + "str":
            return cast("str", node.value)
        shown = repr(node.value) if isinstance(node, yaml.ScalarNode) else "a collection"
        message = f"{shown} is not a key: keys are text, put it in quotes"
        self.problems.append(Problem(message, path, _line(node)))
        return str(node.value) if isinstance(node, yaml.ScalarNode) else ""

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        text: str = node.value
        kind = node.tag.removeprefix(_TAG)
        if kind == "str":
            return text
        if kind == "null":
            if text:
                self.nulls.append(path)
            elif path:  # a line that is still being typed must not mean "unset"
                self.problems.append(Problem(EMPTY, path, self.lines.get(path)))
            return None
        try:
            return _SCALARS[kind](text)
        except KeyError:
            self._tag_problem(node, path)
        except ValueError:
            message = f"is not {'an' if kind == 'int' else 'a'} {kind}"
            self.problems.append(Problem(message, path, _line(node)))
        return text

    def _tag_problem(self, node: yaml.Node, path: KeyPath) -> None:
        tag = node.tag.replace(_TAG, "!!")
        message = f"the tag {tag!r} has no meaning here: remove it"
        self.problems.append(Problem(message, path, _line(node)))


def _integer(text: str) -> int:
    bases = {"0o": 8, "0x": 16}
    return int(text, bases.get(text[:2], 10))


def _float(text: str) -> float:
    return float(re.sub(r"\.(inf|nan)", r"\1", text, flags=re.IGNORECASE))


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_SCALARS = {"int": _integer, "float": _float, "bool": _boolean}
