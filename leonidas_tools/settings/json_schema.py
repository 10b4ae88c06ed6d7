"""A JSON Schema of the settings file, for editors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from docstring_parser import parse
from pydantic.json_schema import GenerateJsonSchema

from leonidas_tools.settings.load import FOREIGN
from leonidas_tools.settings.mcp_settings import (
    MCPServerSettings,
    MCPToolConfiguration,
    OAuthSettings,
    SamplingSettings,
)
from leonidas_tools.settings.models import (
    AlertRule,
    MonitoringSettings,
    PolicySettings,
    Settings,
)
from leonidas_tools.settings.policy_settings import (
    BreakerSettings,
    CacheSettings,
    CallLimitSettings,
    LoopSettings,
    ShowSettings,
)
from leonidas_tools.settings.rules import (
    AlwaysSettings,
    ApprovalSettings,
    ConditionSettings,
    RuleSettings,
)
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.settings.text_settings import TextSettings
from leonidas_tools.settings.tool_configuration import ToolConfiguration, ToolOverrides

if TYPE_CHECKING:
    from pydantic import BaseModel


class _Generator(GenerateJsonSchema):
    """Leaves out titles, which only repeat the key."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the parent's
        return False


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of the settings file, with what each setting means.

    Example:
        >>> settings_schema()["properties"]["version"]["description"]
        "The version of the file's format."
    """
    schema = Settings.model_json_schema(schema_generator=_Generator)
    defaults = Settings().model_dump(mode="json")
    for name, field in Settings.model_fields.items():
        if field.validate_default:  # read from nothing, which pydantic does not write out
            schema["properties"][name]["default"] = defaults[name]
    _describe(schema, Settings)
    for model in (
        AlertRule,
        AlwaysSettings,
        ApprovalSettings,
        BreakerSettings,
        CacheSettings,
        CallLimitSettings,
        ConditionSettings,
        LoopSettings,
        MCPServerSettings,
        MCPToolConfiguration,
        MonitoringSettings,
        OAuthSettings,
        PolicySettings,
        RuleSettings,
        SamplingSettings,
        ShowSettings,
        StoreSettings,
        TextSettings,
        ToolConfiguration,
        ToolOverrides,
    ):
        _describe(schema["$defs"][model.__name__], model)
    schema["properties"][FOREIGN] = {
        "type": "object",
        "description": "MCP servers as other programs write them, taken as they are.",
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text() -> str:
    """Return the JSON Schema as written to `config/tools.schema.json`."""
    return json.dumps(settings_schema(), indent=2, ensure_ascii=False) + "\n"


def _describe(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Put the words of the docstrings where editors show them."""
    schema["description"] = parse(model.__doc__ or "").short_description
    for base in model.__mro__:
        for argument in parse(base.__doc__ or "").params:
            if argument.arg_name in schema["properties"]:
                words = " ".join((argument.description or "").split()).replace("`", "")
                schema["properties"][argument.arg_name].setdefault("description", words)
