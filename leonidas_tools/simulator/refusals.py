"""The refusals of servers for a setup, a declaration and a function response, in their own words.

The words are from the same public reports as `generations`; a refusal without `words` is our
reading, or a mistake that the real server overlooks at the cost of the conversation.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leonidas_tools.simulator.wire import Message, camel, fields, objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from leonidas_tools.simulator.generations import Quirks

_NO_BLOCKING: Final = "BLOCKING function calls are not supported for this model"
INVALID_ARGUMENT: Final = "Request contains an invalid argument."
_SCHEMA_FIELDS: Final = frozenset(
    {
        "anyOf", "default", "description", "enum", "example", "format", "items", "maxItems",
        "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties",
        "minimum", "nullable", "pattern", "properties", "propertyOrdering", "required", "title",
        "type",
    }
)  # fmt: skip
_VERSION: Final = re.compile(r"\.(v1\w*)\.GenerativeService")


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """One reason to close the connection.

    Args:
        reason: What is wrong, as a sentence.
        words: The close reason of the real server, if it is known.
    """

    reason: str
    words: str | None = None


def setup_refusals(setup: Message, path: str, quirks: Quirks) -> Iterator[Refused]:
    """Yield the refusals of a setup; `path` is that of the HTTP request."""
    model = setup.get("model")
    if not isinstance(model, str) or not model:
        yield Refused(reason="the setup names no model")
    generation = fields(setup.get("generationConfig"))
    yield from _modality_refusals(generation, quirks)
    yield from _thinking_refusals(generation.get("thinkingConfig"), quirks)
    version = _VERSION.search(path)
    needed = quirks.proactivity_version
    if "proactivity" in setup and needed and version and version[1] != needed:
        yield Refused(
            reason=f"proactivity needs version {needed} of the API, not {version[1]}",
            words=_unknown_field("proactivity", "setup"),
        )
    if generation.get("enableAffectiveDialog") and not quirks.takes_affective_dialog:
        yield Refused(reason="this model does not support affective dialog", words=INVALID_ARGUMENT)
    if "contextWindowCompression" in setup and not quirks.takes_compression:
        yield Refused(
            reason="this model does not support contextWindowCompression", words=INVALID_ARGUMENT
        )
    yield from declaration_refusals(setup.get("tools"), quirks, "setup.tools")


def _modality_refusals(generation: Message, quirks: Quirks) -> Iterator[Refused]:
    modalities = generation.get("responseModalities")
    asked = [str(each) for each in modalities] if isinstance(modalities, list) else []
    if not set(asked) <= quirks.modalities:
        names = ", ".join(asked)
        yield Refused(
            reason=f"this model does not respond with {names}",
            words=f"The requested combination of response modalities ({names}) is not supported by "
            "the model",
        )


def _thinking_refusals(given: Any, quirks: Quirks) -> Iterator[Refused]:
    levels, config = quirks.thinking_levels, fields(given)
    if levels is None:
        return
    level = config.get("thinkingLevel")
    if not levels:
        if isinstance(given, dict):
            yield Refused(
                reason="this model takes no thinkingConfig",
                words="Thinking level is not supported for this model",
            )
    elif level is None or "thinkingBudget" in config:
        yield Refused(
            reason="this model needs a thinkingLevel, and takes no thinkingBudget",
            words="Thinking level must be specified for this model",
        )
    elif level not in levels:
        yield Refused(
            reason=f"this model takes the thinkingLevel {', '.join(sorted(levels))}, not {level}",
            words=f"Thinking level {level} is not supported for this model",
        )


def declaration_refusals(tools: Any, quirks: Quirks, path: str = "tools") -> Iterator[Refused]:
    """Yield the refusals of the declarations in a list of tools, at that path.

    Example:
        >>> from leonidas_tools.simulator import GENERATIONS
        >>> tools = [{"function_declarations": [{"name": "f", "behavior": "BLOCKING"}]}]
        >>> [each.words for each in declaration_refusals(tools, GENERATIONS["3.8-thinking"])]
        ['BLOCKING function calls are not supported for this model']
    """
    for number, tool in enumerate(objects(tools)):
        for index, function in enumerate(objects(tool.get("functionDeclarations"))):
            place = f"{path}[{number}].function_declarations[{index}]"
            yield from _behavior_refusals(function, quirks)
            if "parameters" in function:
                yield from _schema_refusals(function["parameters"], f"{place}.parameters")
            for name in ("parametersJsonSchema", "responseJsonSchema"):
                if name in function and not quirks.reads_json_schema:
                    yield Refused(
                        reason=f"{function.get('name')!r} has {name}, which this model does not "
                        "read: it would call without arguments"
                    )


def behavior_of(function: Message) -> str | None:
    """Return the behavior that a declaration sets, if any."""
    behavior = function.get("behavior")
    return None if behavior is None or behavior == "UNSPECIFIED" else str(behavior)


def _behavior_refusals(function: Message, quirks: Quirks) -> Iterator[Refused]:
    behavior = behavior_of(function)
    if behavior is None or behavior in quirks.behaviors:
        return
    taken = " and ".join(sorted(quirks.behaviors))
    hint = f"supports only {taken}" if taken else "does not support `behavior`"
    yield Refused(
        reason=f"{function.get('name')!r} is declared {behavior}; this model {hint}",
        words=_NO_BLOCKING if behavior == "BLOCKING" and taken else None,
    )


def _schema_refusals(schema: Any, path: str) -> Iterator[Refused]:
    """Yield the parts that are not a `Schema` of Gemini: `parameters` is not JSON Schema."""
    for words in _schema_problems(schema if isinstance(schema, dict) else {}, path):
        yield Refused(reason=words, words=words)
    known = fields(schema)
    inner = {f"properties[{i}].value": each for i, each in enumerate(_properties(known).values())}
    inner |= {f"any_of[{i}]": each for i, each in enumerate(known.get("anyOf") or ())}
    inner |= {"items": known["items"]} if "items" in known else {}
    for name, each in inner.items():
        yield from _schema_refusals(each, f"{path}.{name}")


def _properties(schema: Message) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    return properties


def _schema_problems(schema: Message, path: str) -> Iterator[str]:
    """Yield the server's words on the fields of one schema."""
    for name in schema:
        if camel(name) not in _SCHEMA_FIELDS:
            yield _unknown_field(name, path)
    if isinstance(schema.get("type"), list):
        yield (
            f"Invalid JSON payload received. Unknown name \"type\" at '{path}': "
            "Proto field is not repeating, cannot start list."
        )
    if schema.get("type") == "ARRAY" and "items" not in schema:
        yield f"{path}.items: missing field."
    for index, name in enumerate(schema.get("required") or ()):
        if name not in _properties(schema):
            yield f"{path}.required[{index}]: property is not defined"
    yield from _enum_problems(schema, path)


def _enum_problems(schema: Message, path: str) -> Iterator[str]:
    values = schema.get("enum") or ()
    if values and schema.get("type", "STRING") != "STRING":
        yield f"{path}.enum: only allowed for STRING type"
    for index, value in enumerate(values):
        if not isinstance(value, str):
            yield f"Invalid value at '{path}.enum[{index}]' (TYPE_STRING), {json.dumps(value)}"
        elif not value:
            yield f"{path}.enum[{index}]: cannot be empty"


def _unknown_field(name: str, path: str) -> str:
    return f"Invalid JSON payload received. Unknown name \"{name}\" at '{path}': Cannot find field."


def response_refusals(response: Message, quirks: Quirks) -> Iterator[Refused]:
    """Yield the refusals of the options and files of one function response."""
    call_id = response.get("id")
    if response.get("scheduling") is not None and not quirks.takes_scheduling:
        yield Refused(
            reason=f"the response to call {call_id!r} sets scheduling, which this server does not "
            "support",
            words="Function response scheduling is not supported for this model",
        )
    if response.get("willContinue") is not None and not quirks.takes_will_continue:
        yield Refused(
            reason=f"the response to call {call_id!r} sets willContinue, which this server does "
            "not support"
        )
    for part in objects(response.get("parts")):
        kind = str(fields(part.get("inlineData") or part.get("fileData")).get("mimeType"))
        if quirks.response_media is not None and kind not in quirks.response_media:
            yield Refused(
                reason=f"the response to call {call_id!r} has a file of {kind}, which this model "
                "does not read",
                words=INVALID_ARGUMENT,
            )
