"""Profiles of Gemini Live generations; users can add profiles in files."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import shlex
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.runtime.runtime import runtime_of
from leonidas_tools.settings.explain import closest, explain
from leonidas_tools.settings.load import configuration_error, read_text
from leonidas_tools.settings.problem import DocumentError, Problem, SettingsDocument
from leonidas_tools.tools.metadata import ToolBehavior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.settings.watch import WatchedSettings

logger = visible_logger(__name__)
_ANY_CASE = BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value)
Behavior = Annotated[ToolBehavior, _ANY_CASE]
ThinkingLevel = Annotated[Literal["MINIMAL", "LOW", "MEDIUM", "HIGH"], _ANY_CASE]
_LIKE = "like"
UNKNOWN = "unknown"
"""Name of the profile for models that no other profile fits."""


class ModelProfile(BaseModel):
    """The abilities and limits of one generation of models.

    Args:
        name: The name of the profile.
        models: Glob patterns of model names, without `models/`.
        vertex: Whether it applies to Vertex AI only (`True`), to the Developer API only (`False`)
            or to both (`None`).
        default_behavior: The behavior of a declaration that sets none.
        behaviors: The behaviors that a declaration may set.
        behavior_field: Whether a declaration may carry `behavior` at all.
        scheduling: Whether responses to NON_BLOCKING calls may carry `scheduling`.
        will_continue: Whether interim responses are supported.
        client_content: Whether `send_client_content` is accepted during a session; else text is
            sent as realtime input.
        context_update: Whether `send_context_update(tools=…)` is accepted.
        thinking_levels: The levels of which the setup must have one, by default the first; empty if
            it must have no thinking configuration; `None` if it may have any or none.
        json_schema: Whether declarations are read from `parameters_json_schema`; else only from
            `parameters`, a subset of OpenAPI.
        response_media: The MIME types of the files that a function response may carry.
        affective_dialog: Whether `enable_affective_dialog` is supported.
        context_compression: Whether context compression is supported. Without it a session ends
            after 15 minutes of audio, or 2 of video.
        session_resumption: Whether a session can be resumed on another connection.
        answers_lost_calls: Whether a resumed session waits for responses to the calls of the lost
            connection: it does not use them, but else the user's next turn stays unanswered.
        sources: The source of a field's value, and its date, by field.
    """

    # Deferred: the validator is built with the first profiles, not by the import.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )

    name: str
    models: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    vertex: bool | None = None
    default_behavior: Behavior
    behaviors: Annotated[frozenset[Behavior], Field(min_length=1)]
    behavior_field: bool
    scheduling: bool
    will_continue: bool
    client_content: bool
    context_update: bool
    thinking_levels: tuple[ThinkingLevel, ...] | None = None
    json_schema: bool = False
    response_media: frozenset[str] = frozenset()
    affective_dialog: bool = False
    context_compression: bool = False
    session_resumption: bool = True
    answers_lost_calls: bool = False
    sources: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        if self.default_behavior not in self.behaviors:
            raise ValueError("default_behavior must be one of behaviors")
        for field in self.sources:
            if field not in type(self).model_fields:
                hint = closest(field, type(self).model_fields.keys())
                more = f"; did you mean {hint!r}?" if hint else ""
                raise ValueError(f"sources names {field!r}, which is not a field{more}")
        return self

    def fits(self, model: str, *, vertex: bool) -> bool:
        """Return whether the profile is for that model on that backend."""
        name = model.rpartition("/")[2].lower()
        right_backend = self.vertex is None or self.vertex is vertex
        return right_backend and any(fnmatchcase(name, pattern) for pattern in self.models)


def write_profile(profile: ModelProfile, file: Path, *, comment: str) -> None:
    """Write a profile to a YAML file that `load_profiles` reads.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    fields = profile.model_dump(mode="json", exclude={"name"}, exclude_none=True)
    fields |= {name: sorted(fields[name]) for name in ("behaviors", "response_media")}
    text = yaml.safe_dump({profile.name: fields}, sort_keys=False, width=100)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {comment}\n{text}", encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigurationError(f"cannot be written: {why}; name another", file=file) from None


def load_profiles(*files: str | Path) -> tuple[ModelProfile, ...]:
    """Return the profiles of the files, followed by the built-in ones; the first that fits applies.

    A file is a YAML mapping of names to the fields of `ModelProfile` except `name`. `like` names
    another profile, whose values apply to the missing fields.

    Raises:
        ConfigurationError: A file is wrong; the message names every problem with its place.

    Example:
        >>> [profile.name for profile in load_profiles()][:2]
        ['3.8-live-extended-thinking', '3.8-live']
    """
    profiles = _read_built_in()
    for path in map(Path, reversed(files)):
        profiles = (*_read(read_text(path), path, profiles), *profiles)
    return profiles


def load_named_profiles(settings: WatchedSettings) -> tuple[ModelProfile, ...]:
    """Return the profiles that settings name, followed by the built-in ones.

    Raises:
        ConfigurationError: A file of profiles is wrong.
    """
    folder = Path() if settings.path is None else settings.path.absolute().parent
    return load_profiles(*(folder / name for name in settings.current.profiles))


def profiles_of(tools: object) -> tuple[ModelProfile, ...]:
    """Return the profiles that the settings of `tools` name, followed by the built-in ones."""
    runtime = runtime_of(tools)
    return load_profiles() if runtime is None else load_named_profiles(runtime.settings)


def profile_for(
    model: str, *, vertex: bool = False, profiles: Sequence[ModelProfile] | None = None
) -> ModelProfile:
    """Return the profile of a model, or `unknown`, which works with every model.

    Example:
        >>> profile_for("models/gemini-3.8-live").name, profile_for("gemini-9-live").name
        ('3.8-live', 'unknown')
    """
    for profile in _read_built_in() if profiles is None else profiles:
        if profile.fits(model, vertex=vertex):
            return profile
    return find_profile(UNKNOWN)


def profile_with_tools(model: str, tools: object, *, vertex: bool) -> ModelProfile:
    """Return the profile of a model that is used with `tools`; report an unknown model."""
    profile = profile_for(model, vertex=vertex, profiles=profiles_of(tools))
    if profile.name == UNKNOWN:
        _report_unknown(model)
    return profile


@functools.lru_cache(maxsize=64)  # once in a process for each model
def _report_unknown(model: str) -> None:
    logger.warning(
        "The model %r is unknown: only features that every model supports are used. "
        "`leonidas live probe --model %s` measures what it supports, and writes a profile that "
        "the settings can name; or set profile= if the model is like a known one",
        model,
        shlex.quote(model),
    )


def find_profile(name: str, profiles: Sequence[ModelProfile] | None = None) -> ModelProfile:
    """Return the profile of that name.

    Raises:
        ConfigurationError: No profile has that name.
    """
    available = _read_built_in() if profiles is None else profiles
    for profile in available:
        if profile.name == name:
            return profile
    names = [profile.name for profile in available]
    near = closest(name, names)
    hint = f"did you mean {near!r}? There" if near else "there"
    known = ", ".join(map(repr, names))
    raise ConfigurationError(f"there is no profile {name!r}; {hint} are {known}")


@functools.cache
def _read_built_in() -> tuple[ModelProfile, ...]:
    text = (importlib.resources.files(__package__) / "profiles.yaml").read_text("utf-8")
    return tuple(_read(text, Path("profiles.yaml"), ()))


def _read(text: str, file: Path, known: Sequence[ModelProfile]) -> list[ModelProfile]:
    """Return the profiles of one file, in its order."""
    from leonidas_tools.settings.document import read_document

    try:
        document = read_document(text)
    except DocumentError as error:
        raise configuration_error([error.problem], SettingsDocument(), file) from None
    problems = list(document.problems)
    if not isinstance(document.data, dict) or not document.data:
        problems.append(Problem("should be a mapping of names to profiles"))
    profiles: list[ModelProfile] = []
    for name, entry in document.data.items() if not problems else ():
        profile, found = _parse_profile(name, entry, [*profiles, *known])
        problems += found
        profiles += [profile] if profile is not None else []
    if problems:
        raise configuration_error(problems, document, file)
    return profiles


def _parse_profile(
    name: str, entry: Any, known: Sequence[ModelProfile]
) -> tuple[ModelProfile | None, list[Problem]]:
    """Return one profile, or the problems of its entry."""
    if not isinstance(entry, dict):
        return None, [Problem("should be a mapping: keys, each with its value", (name,))]
    if "name" in entry:
        return None, [Problem(f"is {name!r} already: remove the line", (name, "name"))]
    own = dict(entry)
    base: dict[str, Any] = {}
    if _LIKE in own:
        like = str(own.pop(_LIKE))
        try:
            base = _inherit_fields(find_profile(like, known), own)
        except ConfigurationError as error:
            return None, [Problem(error.message, (name, _LIKE))]
    try:
        return ModelProfile.model_validate({**own, **base, "name": name}), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    found = [explain(detail, (), ModelProfile) for detail in details]
    return None, [dataclasses.replace(each, path=(name, *each.path)) for each in found]


def _inherit_fields(base: ModelProfile, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a profile inherits, and the sources of all its fields."""
    fields = {key: value for key, value in base.model_dump().items() if key not in own}
    sources = own.get("sources", {})
    if isinstance(sources, Mapping):
        inherited = {field: source for field, source in base.sources.items() if field not in own}
        fields["sources"] = {**inherited, **sources}
    return fields
