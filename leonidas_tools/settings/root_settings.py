"""Folders in the settings of toolboxes: each is opened when its setting is read."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, ValidationInfo
from pydantic.json_schema import WithJsonSchema

from leonidas_tools.files.roots import Root

WORKSPACE = "workspace"
"""The name of the folder that toolboxes use if the settings name none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedRoots:
    """The context in which the settings of a toolbox are read.

    Args:
        workspace: The folder to use if the settings name none.
        opened: Receives each file and folder that is opened, with the name of its setting.
    """

    workspace: Path = Path(WORKSPACE)
    opened: list[tuple[str, Root]] = field(default_factory=list)


def _open(value: Any, info: ValidationInfo, *, create: bool = False) -> Root:
    """Open a file or folder, unless it is open already."""
    if isinstance(value, Root):
        return value
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("should be text: the path of a directory")
    try:
        root = Root(value, create=create)
    except FileNotFoundError:
        path = str(Path(value).expanduser().absolute())
        raise ValueError(f"is not a directory: {path!r} does not exist") from None
    except OSError as error:
        raise ValueError(f"cannot be opened: {error.strerror}") from None
    if isinstance(info.context, OpenedRoots):
        info.context.opened.append((info.field_name or "", root))
    return root


def _open_folder(value: Any, info: ValidationInfo) -> Root:
    root = _open(value, info)
    if not root.is_folder:
        raise ValueError(f"is not a directory: {str(root.given)!r} is a file")
    return root


def _or_workspace(value: Any, info: ValidationInfo) -> Any:
    """Return the folders, by default the workspace."""
    if value is None:
        context = info.context if isinstance(info.context, OpenedRoots) else OpenedRoots()
        return (_open(context.workspace, info, create=True),)
    if value in ([], ()):
        raise ValueError("must name at least one directory")
    return value


_AS_TEXT = (PlainSerializer(str), WithJsonSchema({"type": "string", "minLength": 1}))
Folder: TypeAlias = Annotated[Root, PlainValidator(_open_folder), *_AS_TEXT]
"""A directory that exists, absolute or relative to the working directory."""
FileOrFolder: TypeAlias = Annotated[Root, PlainValidator(_open), *_AS_TEXT]
"""A directory or a file that exists, absolute or relative to the working directory."""
Folders: TypeAlias = Annotated[tuple[Folder, ...], BeforeValidator(_or_workspace)]
"""Directories: at least one, or the workspace if the setting is left out."""


def workspace() -> Any:
    """Return a field whose default is the workspace."""
    return Field(default=None, validate_default=True, json_schema_extra=_hide_default)


def _hide_default(schema: dict[str, Any]) -> None:
    del schema["default"]
