"""A JSON Schema of the settings file, for editors."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, cast, get_args

from docstring_parser import parse
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from leonidas_tools.errors import RegistryError
from leonidas_tools.settings.load import FOREIGN
from leonidas_tools.settings.models import Settings
from leonidas_tools.settings.toolbox_settings import ToolboxSettings
from leonidas_tools.tools.discovery import OWN_TOOLBOXES, find_toolbox

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Generator(GenerateJsonSchema):
    """A generator that omits titles, which only repeat the key."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the parent's
        return False


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of the settings file, with a description of each setting.

    Example:
        >>> settings_schema()["properties"]["version"]["description"]
        "The version of the file's format."
    """
    schema = Settings.model_json_schema(schema_generator=_Generator)
    defaults = Settings().model_dump(mode="json")
    for name, field in Settings.model_fields.items():
        if field.validate_default:  # pydantic omits a default that is validated
            schema["properties"][name]["default"] = defaults[name]
    _describe(schema, Settings)
    schema["$defs"].pop(ToolboxSettings.__name__)  # written in another form: see `_toolboxes`
    models = {model.__name__: model for model in _models(Settings)}
    for name, definition in schema["$defs"].items():
        _describe(definition, models[name])
    schema["properties"]["toolboxes"]["items"] = _toolboxes(schema["$defs"])
    schema["properties"][FOREIGN] = {
        "type": "object",
        "description": "MCP servers in the format of other programs, used unchanged.",
    }
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return cast("dict[str, Any]", _remove_null(whole))


def _remove_null(schema: Any) -> Any:
    """Return a schema that does not offer `null`, which the file cannot have."""
    if isinstance(schema, list):
        return [_remove_null(each) for each in schema if each != {"type": "null"}]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _remove_null(value) for key, value in schema.items() if value is not None}
    if len(kept.get("anyOf", ())) == 1:
        kept |= kept.pop("anyOf")[0]
    return kept


def _toolboxes(definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a toolbox in the list, and add the settings of built-in toolboxes."""
    own: dict[str, Any] = {}
    for name in OWN_TOOLBOXES:
        with contextlib.suppress(RegistryError):  # its extra is not installed
            model = find_toolbox(name).settings
            if model.model_fields:
                own[name] = _add_definition(model, definitions)
    named = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "properties": own,
        "additionalProperties": {"type": "object"},
    }
    return {"anyOf": [{"type": "string", "minLength": 1}, named]}


def _add_definition(model: type[BaseModel], definitions: dict[str, Any]) -> dict[str, Any]:
    """Add the schema of a model, and of those in it, to the definitions; return a reference."""
    schema = model.model_json_schema(schema_generator=_Generator)
    definitions |= schema.pop("$defs", {})
    definitions[model.__name__] = schema
    for each in _models(model):
        _describe(definitions[each.__name__], each)
    return {"$ref": f"#/$defs/{model.__name__}"}


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a type contains, itself included."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
        for field in kind.model_fields.values():
            yield from _models(field.annotation)
    for inside in get_args(kind):
        yield from _models(inside)


def schema_text() -> str:
    """Return the JSON Schema as written to `config/tools.schema.json`."""
    return json.dumps(settings_schema(), indent=2, ensure_ascii=False) + "\n"


def _describe(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Copy the docstring of a model into the descriptions of its schema."""
    schema["description"] = parse(model.__doc__ or "").short_description
    for base in model.__mro__:
        for argument in parse(base.__doc__ or "").params:
            if argument.arg_name in schema["properties"]:
                words = " ".join((argument.description or "").split()).replace("`", "")
                schema["properties"][argument.arg_name].setdefault("description", words)
