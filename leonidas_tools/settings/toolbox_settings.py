"""A toolbox that the settings name, with its own settings."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from leonidas_tools.settings.fields import Name
from leonidas_tools.settings.model import SettingsModel


class ToolboxSettings(SettingsModel):
    """A toolbox to load.

    Args:
        name: The name of the toolbox.
        settings: The settings of the toolbox, which are validated when it is loaded.
    """

    name: Name
    settings: dict[str, Any] = Field(default={}, repr=False)


def _read(item: Any) -> Any:
    """Return the fields of a toolbox, given its name, or a mapping of its name to its settings."""
    if isinstance(item, str):
        return {"name": item}
    if isinstance(item, ToolboxSettings):
        return item
    if not isinstance(item, Mapping) or len(item) != 1:
        raise ValueError(
            "should be the name of a toolbox, or its name and below it, indented, its settings"
        )
    [(name, settings)] = item.items()
    if settings is not None and not isinstance(settings, Mapping):
        raise ValueError(f"the settings of {name!r} should be a mapping: keys, each with its value")
    return {"name": name, "settings": {} if settings is None else dict(settings)}


def _serialize(item: ToolboxSettings) -> Any:
    """Return a toolbox as written in the file."""
    return {item.name: item.settings} if item.settings else item.name


def _refuse_duplicates(toolboxes: tuple[ToolboxSettings, ...]) -> tuple[ToolboxSettings, ...]:
    names = [toolbox.name for toolbox in toolboxes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"the toolbox {twice!r} is named twice: remove one")
    return toolboxes


NamedToolboxes: TypeAlias = Annotated[
    tuple[Annotated[ToolboxSettings, BeforeValidator(_read), PlainSerializer(_serialize)], ...],
    AfterValidator(_refuse_duplicates),
]
