"""The tables of settings in the reference, made of the JSON Schema of the settings.

`python -m tests.docs.settings_tables` writes them into the pages.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leonidas_tools.settings.json_schema import settings_schema

FOLDER = Path(__file__).parents[2] / "leonidas_tools" / "reference"
_PLACE = re.compile(r"(<!-- settings: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)

_schema = functools.cache(settings_schema)


def with_tables(page: str) -> str:
    """A page, with the table of every setting that it asks for."""
    schema = _schema()

    def table(place: re.Match[str]) -> str:
        rows = [row for name in place[2].split() for row in _rows(schema, name)]
        lines = ["", "| setting | default | |", "|---|---|---|", *rows, "", ""]
        return place[1] + "\n".join(lines) + place[3]

    return _PLACE.sub(table, page)


def without_tables(page: str) -> str:
    """Return what is written by hand on a page."""
    return _PLACE.sub("", page)


def _rows(schema: Mapping[str, Any], name: str) -> Iterator[str]:
    """The row of a setting; of a section, one for each setting in it that is no section."""
    *sections, last = name.split(".")
    node: Mapping[str, Any] = schema
    for section in sections:
        node = _inside(schema, node["properties"][section])
    setting = node["properties"][last]
    inside = _inside(schema, setting)
    if "properties" not in inside:
        yield _row(name, setting)
        return
    for key, each in inside["properties"].items():
        if "properties" not in _inside(schema, each):
            yield _row(f"{name}.{key}", each, required=key in inside.get("required", ()))


def _inside(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a setting holds: a section, or one of many such as a tool or a rule."""
    inside: Mapping[str, Any]
    items = node.get("items", {})
    if "anyOf" in items:  # toolboxes: a name, or a mapping of the name to its settings
        inside = items["anyOf"][1]
        return inside
    for choice in (node, *node.get("anyOf", ())):
        found = choice.get("$ref") or _reference(choice.get("additionalProperties"))
        found = found or _reference(choice.get("items"))
        if found:
            inside = schema["$defs"][found.rpartition("/")[2]]
            return inside
    return node


def _reference(node: Any) -> str | None:
    if not isinstance(node, Mapping):
        return None
    choices = (node, *node.get("anyOf", ()))
    return next((each["$ref"] for each in choices if "$ref" in each), None)


def _row(name: str, setting: Mapping[str, Any], *, required: bool = False) -> str:
    shown = re.sub(r"^(tools)\.", r"\1.NAME.", name).replace("rules.", "rules[].")
    shown = shown.replace("toolboxes.", "toolboxes[].").replace("programs.", "programs.NAME.")
    shown = shown.replace("when.", "when.PATH.").replace("prices.", "prices.MODEL.")
    default = setting.get("default")
    nothing = default is None or default in ([], {})
    told = "required" if required else "" if nothing else f"`{_plain(default)}`"
    return f"| `{shown}` | {told} | {setting['description']} |"


def _plain(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float) and default.is_integer():
        return str(int(default))
    return str(default)


if __name__ == "__main__":
    for file in sorted(FOLDER.glob("*.md")):
        file.write_text(with_tables(file.read_text()))
