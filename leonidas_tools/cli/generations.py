"""The profile, model, simulated server and scenario of each generation of Gemini Live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from leonidas_tools.simulator import Scenario


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """One generation of models."""

    profile: str
    model: str
    server: str | None  # its name in the simulator; `None` for a plain server
    scenario: str  # the name of the scenario that shows its features
    vertex: bool = False


GENERATIONS = (
    Generation(
        profile="2.5-native-audio",
        model="gemini-2.5-flash-native-audio-preview-12-2025",
        server="2.5",
        scenario="gemini_2_5",
    ),
    Generation(
        profile="3.1-flash-live",
        model="gemini-3.1-flash-live-preview",
        server="3.1",
        scenario="gemini_3_1",
    ),
    Generation(
        profile="3.8-live", model="gemini-3.8-live", server="3.8-live", scenario="gemini_3_8_live"
    ),
    Generation(
        profile="3.8-live-extended-thinking",
        model="gemini-3.8-live-extended-thinking",
        server="3.8-thinking",
        scenario="gemini_3_8_thinking",
    ),
    Generation(
        profile="vertex-2.5",
        model="gemini-live-2.5-flash-native-audio",
        server="vertex",
        scenario="vertex",
        vertex=True,
    ),
    Generation(
        profile="vertex-3.8",
        model="gemini-3.8-live",
        server="vertex-3.8",
        scenario="vertex_3_8",
        vertex=True,
    ),
)
"""Every generation that has a scenario."""

ALL = "all"
"""The name that selects every profile with a scenario."""

PLAIN = Generation(profile=GENERATIONS[0].profile, model="simulated", server=None, scenario="demo")
"""A plain server, which is used like the first generation."""


def check_profile(name: str) -> None:
    """Check that a profile exists, or that the name is `all`."""
    from leonidas_tools.live.profiles import find_profile

    if name != ALL:
        find_profile(name)


def model_of(profile: str | None, *, vertex: bool) -> str:
    """Return the model to use if none is named.

    Example:
        >>> model_of("3.8-live", vertex=False), model_of(None, vertex=True)
        ('gemini-3.8-live', 'gemini-live-2.5-flash-native-audio')
    """
    if profile is None:
        return next(each.model for each in GENERATIONS if each.vertex is vertex)
    return _generation(profile).model


def scenarios_of(profile: str) -> list[str]:
    """Return the scenarios that show a profile, or all of them.

    Example:
        >>> scenarios_of("3.1-flash-live")
        ['gemini_3_1']
    """
    chosen = GENERATIONS if profile == ALL else (_generation(profile),)
    return [each.scenario for each in chosen]


def generation_for(scenario: Scenario, profile: str | None) -> Generation:
    """Return the simulated model generation of a scenario.

    The generation in the scenario takes precedence over the profile.
    """
    if scenario.generation is not None:
        for each in GENERATIONS:
            if each.server == scenario.generation:
                return each
        known = ", ".join(repr(each.server) for each in GENERATIONS)
        raise ConfigurationError(
            f"{scenario.name!r} is for the generation {scenario.generation!r}; known are {known}"
        )
    return PLAIN if profile in (None, ALL) else _generation(str(profile))


def _generation(profile: str) -> Generation:
    for each in GENERATIONS:
        if each.profile == profile:
            return each
    known = ", ".join(each.profile for each in GENERATIONS)
    raise ConfigurationError(
        f"no model and no scenario are known for the profile {profile!r}: name them (--model NAME, "
        f"SCENARIO), or take one of {known}"
    )
