"""YAML data with the line of each value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import yaml

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.files.reading import read_file, why_unreadable
from leonidas_tools.files.yaml_faults import yaml_fault

if TYPE_CHECKING:
    from pathlib import Path

Key: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class YamlSource:
    """The data of a YAML file, with the line of each value, counted from 1, by its path."""

    file: Path
    data: Any
    lines: dict[Key, int]

    @classmethod
    def read(cls, file: Path) -> YamlSource:
        """Read a file.

        Raises:
            ConfigurationError: It cannot be read, or is not YAML.
        """
        try:
            text = read_file(file).decode("utf-8-sig")
        except OSError as error:
            raise ConfigurationError(why_unreadable(error), file=file) from None
        except UnicodeDecodeError:
            message = "is not UTF-8 text: save it in that encoding"
            raise ConfigurationError(message, file=file) from None
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            data = None if node is None else loader.construct_document(node)
        except yaml.YAMLError as error:
            fault, line = yaml_fault(error, text)
            raise ConfigurationError(f"This is not YAML: {fault}", file=file, line=line) from None
        finally:
            loader.dispose()
        lines: dict[Key, int] = {}
        if node is not None:
            _locate(node, (), lines, frozenset())
        return cls(file=file, data=data, lines=lines)

    def refuse(self, message: str, *key: str | int) -> NoReturn:
        """Raise a `ConfigurationError` that names the file, the line and the key."""
        place = key
        while place and place not in self.lines:
            place = place[:-1]
        line = self.lines.get(place)
        raise ConfigurationError(message, file=self.file, line=line, key=_dotted(key) or None)


def _locate(node: yaml.Node, key: Key, lines: dict[Key, int], above: frozenset[int]) -> None:
    lines.setdefault(key, node.start_mark.line + 1)
    if id(node) in above:  # an anchor inside itself
        return
    above |= {id(node)}
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            lines[(*key, str(name.value))] = name.start_mark.line + 1
            _locate(value, (*key, str(name.value)), lines, above)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _locate(value, (*key, index), lines, above)


def _dotted(key: Key) -> str:
    """Return a path as text.

    Example:
        >>> _dotted(("steps", 3, "call", "args"))
        'steps[3].call.args'
    """
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key)
    return text.removeprefix(".")
