"""Adapt function declarations and function responses to what one model supports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.genai import types

from leonidas_tools.json_schema.openapi import openapi_schema
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import AS_IT_IS
from leonidas_tools.tools.metadata import ToolBehavior

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from leonidas_tools.live.profiles import ModelProfile
    from leonidas_tools.results.texts import Wording

logger = visible_logger(__name__)

_NAMELESS = "unknown"
_IMAGES = ("image/png", "image/jpeg", "image/webp")


class Adaptation:
    """Adapts function declarations and responses to one model.

    It logs each unsupported feature once. It belongs to one session: it remembers the declarations.

    ==============================  ================================================================
    requested, but not supported    replaced by
    ==============================  ================================================================
    NON_BLOCKING                    BLOCKING: the model waits, and gets no interim responses
    BLOCKING                        NON_BLOCKING; its response is scheduled INTERRUPT unless it sets
                                    another: the model must not speak for long without it
    scheduling                      none
    interim responses               none
    `parameters_json_schema`        `parameters`, in the subset of OpenAPI
    files in a response             none of that type; the response says which were left out
    ==============================  ================================================================

    Args:
        profile: The model's profile.
        wording: Returns the texts of the settings.

    Example:
        >>> from leonidas_tools.live.profiles import profile_for
        >>> adaptation = Adaptation(profile_for("gemini-3.1-flash-live-preview"))
        >>> slow = types.FunctionDeclaration(name="search", behavior="NON_BLOCKING")
        >>> [tool] = adaptation.declarations([types.Tool(function_declarations=[slow])])
        >>> tool.function_declarations[0].behavior, adaptation.is_blocking("search")
        (None, True)
    """

    def __init__(
        self, profile: ModelProfile, wording: Callable[[], Wording] = lambda: AS_IT_IS
    ) -> None:
        self.profile = profile
        self._wording = wording
        self._behaviors: dict[str, ToolBehavior] = {}
        self._wanted_to_block: set[str] = set()
        self._said: set[str] = set()

    def declarations(
        self, tools: Sequence[types.Tool], *, update: bool = False
    ) -> list[types.Tool]:
        """Return adapted copies of the tools; return tools without functions unchanged."""
        if not update:
            self._behaviors.clear()
        self._wanted_to_block.clear()
        return [self._tool(tool) for tool in tools]

    def is_blocking(self, name: str) -> bool:
        """Return whether the model waits for the response of a function."""
        behavior = self._behaviors.get(name, self.profile.default_behavior)
        return behavior is ToolBehavior.BLOCKING

    def takes_interim(self, name: str) -> bool:
        """Return whether a call of the function may be answered more than once."""
        return self.profile.will_continue and not self.is_blocking(name)

    def response(
        self, response: types.FunctionResponse, *, final: bool = True, begun: bool = False
    ) -> types.FunctionResponse:
        """Return an adapted copy of a function response.

        If the model takes no interim responses, an interim response comes back without
        `will_continue`. Do not send that copy: the model would read it as the final response.
        """
        name = response.name or _NAMELESS
        interim = not final or bool(response.will_continue)
        changes: dict[str, Any] = {
            "name": name,
            "scheduling": self._scheduling(name, response.scheduling, interim=interim),
            "will_continue": self._will_continue(name, interim=interim, begun=begun),
        }
        readable = self._remove_unreadable(response, self.profile.response_media)
        return readable.model_copy(update=changes)

    def outcome(self, response: types.FunctionResponse) -> types.FunctionResponse:
        """Return a copy of a response that is sent as content, which may have images."""
        return self._remove_unreadable(response, _IMAGES if self.profile.client_content else ())

    def _remove_unreadable(
        self, response: types.FunctionResponse, kinds: Container[str]
    ) -> types.FunctionResponse:
        """Return a response without files of other types, which its message names."""
        parts = response.parts or []
        kept = [part for part in parts if _mime_type(part) in kinds]
        if len(kept) == len(parts):
            return response
        left_out = sorted({_mime_type(part) for part in parts if part not in kept})
        names = ", ".join(left_out)
        self._warn_once(f"does not read {names} in a response: left out")
        content = response.response or {}
        note = self._wording().text("media_unread", types=names)
        changed = {**content, "message": " ".join(filter(None, [content.get("message"), note]))}
        return response.model_copy(update={"response": changed, "parts": kept or None})

    def _tool(self, tool: types.Tool) -> types.Tool:
        if not tool.function_declarations:
            return tool
        adapted = [self._declaration(declaration) for declaration in tool.function_declarations]
        return tool.model_copy(update={"function_declarations": adapted})

    def _declaration(self, declaration: types.FunctionDeclaration) -> types.FunctionDeclaration:
        name, asked = declaration.name or "", _requested_behavior(declaration)
        behavior = self._behaviors[name] = self._effective(name, asked)
        field: types.Behavior | None = None
        # Set explicitly even if it is the default: then the behavior does not depend on what the
        # model's page says. Older models accept no value but NON_BLOCKING.
        if behavior is ToolBehavior.NON_BLOCKING or asked is behavior:
            field = types.Behavior(behavior.value)
        if not self.profile.behavior_field:
            field = None
        changes: dict[str, Any] = {"behavior": field}
        if not self.profile.json_schema and declaration.parameters_json_schema is not None:
            changes |= _openapi(declaration.parameters_json_schema)
        return declaration.model_copy(update=changes)

    def _effective(self, name: str, asked: ToolBehavior | None) -> ToolBehavior:
        """Return the behavior that the function has on this model, for a requested behavior."""
        profile = self.profile
        if asked is None or asked is profile.default_behavior:
            return profile.default_behavior
        if asked in profile.behaviors and profile.behavior_field:
            return asked
        if asked is ToolBehavior.BLOCKING:
            self._wanted_to_block.add(name)
            self._warn_once(
                f"does not support BLOCKING, which {name!r} requests: it may speak before the "
                "response"
            )
        else:
            self._warn_once(f"does not support NON_BLOCKING: it is silent while {name!r} runs")
        return profile.default_behavior

    def _scheduling(
        self, name: str, asked: types.FunctionResponseScheduling | None, *, interim: bool
    ) -> types.FunctionResponseScheduling | None:
        if self.is_blocking(name):  # the model ignores the scheduling then
            return None
        if not self.profile.scheduling:
            if asked is not None:
                self._warn_once(f"does not support scheduling: that of {name!r} is ignored")
            return None
        if asked is None and not interim and name in self._wanted_to_block:
            return types.FunctionResponseScheduling.INTERRUPT
        return asked

    def _will_continue(self, name: str, *, interim: bool, begun: bool) -> bool | None:
        if self.takes_interim(name):
            return True if interim else (False if begun else None)
        if interim:
            self._warn_once(f"does not support interim responses: no progress of {name!r} is sent")
        return None

    def _warn_once(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            logger.warning("The model (%s) %s", self.profile.name, message)


def _openapi(schema: Any) -> dict[str, Any]:
    """Return the fields of a declaration for a model that reads no JSON Schema."""
    parameters = {"properties": {}, **openapi_schema(schema)}
    return {
        "parameters": types.Schema.model_validate(parameters),
        "parameters_json_schema": None,
        "response_json_schema": None,
    }


def _mime_type(part: types.FunctionResponsePart) -> str:
    blob = part.inline_data or part.file_data
    given = (blob and blob.mime_type) or "application/octet-stream"
    return given.partition(";")[0].strip().lower()


def _requested_behavior(declaration: types.FunctionDeclaration) -> ToolBehavior | None:
    behavior = declaration.behavior
    if behavior is None or behavior is types.Behavior.UNSPECIFIED:
        return None
    return ToolBehavior(behavior.value)
