"""The table of what each generation of Gemini Live takes."""

import pytest
from pydantic import ValidationError

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.live.profiles import ModelProfile, find_profile, load_profiles, profile_for
from leonidas_tools.simulator.generations import quirks_of
from leonidas_tools.tools.metadata import ToolBehavior

BLOCKING, NON_BLOCKING = ToolBehavior.BLOCKING, ToolBehavior.NON_BLOCKING

MINE = """
mine:
  like: 3.8-live
  models: [my-tuned-*]
  client_content: false
"""


@pytest.mark.parametrize(
    ("model", "vertex", "name"),
    [
        ("gemini-3.8-live", False, "3.8-live"),
        ("models/gemini-3.8-live", False, "3.8-live"),
        ("GEMINI-3.8-LIVE", False, "3.8-live"),
        ("gemini-3.8-live-preview-10-2026", False, "3.8-live"),
        ("gemini-3.8-live-extended-thinking", False, "3.8-live-extended-thinking"),
        ("gemini-3.1-flash-live-preview", False, "3.1-flash-live"),
        ("gemini-3.1-flash-live-preview", True, "3.1-flash-live"),
        ("gemini-2.5-flash-native-audio-preview-12-2025", False, "2.5-native-audio"),
        ("gemini-live-2.5-flash-preview", False, "2.5-native-audio"),
        ("gemini-2.0-flash-live-001", False, "2.5-native-audio"),
        ("gemini-live-2.5-flash-native-audio", True, "vertex-2.5"),
        ("google/gemini-live-2.5-flash-native-audio", True, "vertex-2.5"),
        ("publishers/google/models/gemini-3.8-live", True, "vertex-3.8"),
        ("gemini-3.8-live-extended-thinking", True, "vertex-3.8-extended-thinking"),
        ("gemini-3.9-live", False, "unknown"),
        ("gemini-2.5-flash", False, "unknown"),
        ("", True, "unknown"),
    ],
)
def test_a_model_has_the_profile_of_its_generation(model, vertex, name):
    assert profile_for(model, vertex=vertex).name == name


def test_the_generations_differ_in_what_decides_a_call():
    table = {
        profile.name: (
            profile.default_behavior,
            profile.behaviors,
            profile.behavior_field,
            profile.scheduling,
            profile.will_continue,
            profile.thinking_levels,
            profile.json_schema,
            bool(profile.response_media),
            profile.context_compression,
        )
        for profile in load_profiles()
    }

    both, low = frozenset(ToolBehavior), ("LOW", "MEDIUM", "HIGH")
    async_only = {NON_BLOCKING}
    assert table == {
        "2.5-native-audio": (BLOCKING, both, True, True, True, None, False, False, True),
        "3.1-flash-live": (BLOCKING, {BLOCKING}, False, False, False, None, True, True, False),
        "3.8-live": (NON_BLOCKING, both, True, True, True, (), True, True, True),
        "3.8-live-extended-thinking": (
            *(NON_BLOCKING, async_only, True, False, False),
            *(low, False, True, True),
        ),
        "vertex-2.5": (BLOCKING, {BLOCKING}, False, False, False, None, False, False, True),
        "vertex-3.8": (NON_BLOCKING, both, True, True, False, (), True, True, True),
        "vertex-3.8-extended-thinking": (
            *(NON_BLOCKING, async_only, True, False, False),
            *(low, False, True, True),
        ),
        "unknown": (BLOCKING, {BLOCKING}, False, False, False, None, False, False, False),
    }


@pytest.mark.parametrize(
    ("name", "generation"),
    [
        ("2.5-native-audio", "2.5"),
        ("3.1-flash-live", "3.1"),
        ("3.8-live", "3.8-live"),
        ("3.8-live-extended-thinking", "3.8-thinking"),
        ("vertex-2.5", "vertex"),
        ("vertex-3.8", "vertex-3.8"),
    ],
)
def test_the_simulated_servers_were_read_out_of_the_sources_alike(name, generation):
    profile, quirks = find_profile(name), quirks_of(generation)
    declared = {each.value for each in profile.behaviors} if profile.behavior_field else set()

    assert declared <= quirks.behaviors
    assert (
        profile.default_behavior.value,
        profile.scheduling <= quirks.takes_scheduling,
        profile.will_continue <= quirks.takes_will_continue,
        profile.client_content <= (not quirks.seed_only_client_content),
        profile.context_update,
    ) == (
        quirks.default_behavior,
        True,
        True,
        True,
        quirks.takes_context_update,
    )


def test_of_an_unknown_model_nothing_is_expected():
    unknown = find_profile("unknown")

    taken = (
        unknown.behavior_field,
        unknown.scheduling,
        unknown.will_continue,
        unknown.client_content,
        unknown.context_update,
    )
    assert not any(taken)


def test_a_profile_that_is_like_another_keeps_the_sources_of_what_it_does_not_change():
    base, vertex = find_profile("3.8-live"), find_profile("vertex-3.8")

    assert vertex.sources["behaviors"] == base.sources["behaviors"]
    assert "Vertex" in vertex.sources["will_continue"]


def test_profiles_of_a_file_come_first(tmp_path):
    path = tmp_path / "profiles.yaml"
    path.write_text(MINE + "other:\n  like: mine\n  models: ['gemini-3.8-live']\n")

    profiles = load_profiles(path)

    mine = profile_for("models/my-tuned-7", profiles=profiles)
    expected = find_profile("3.8-live").model_dump() | {
        "name": "mine",
        "models": ("my-tuned-*",),
        "client_content": False,
    }
    expected["sources"] = {k: v for k, v in expected["sources"].items() if k != "client_content"}
    assert mine.model_dump() == expected
    assert profile_for("gemini-3.8-live", profiles=profiles).name == "other"
    assert profile_for("gemini-3.1-flash-live", profiles=profiles).name == "3.1-flash-live"
    assert profile_for("gemini-3.8-live").name == "3.8-live"


def test_the_first_of_several_files_wins(tmp_path):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("a:\n  like: b\n  models: ['x*']\n")
    second.write_text("b:\n  like: unknown\n  models: ['*']\n")

    assert [p.name for p in load_profiles(first, second)][:2] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "line", "key", "message"),
    [
        ("", None, None, "should be a mapping of names"),
        ("- a\n", None, None, "should be a mapping of names"),
        ("a: [\n", 2, None, "is not YAML"),
        ("a: 1\n", 1, "a", "should be a mapping"),
        ("a:\n  like: 3.8-life\n", 2, "a.like", "did you mean '3.8-live'?"),
        ("a:\n  like: 3.8-live\n  name: b\n", 3, "a.name", "is 'a' already"),
        (MINE + "  schedulling: true\n", 6, "mine.schedulling", "did you mean 'scheduling'?"),
        (MINE + "  scheduling: sometimes\n", 6, "mine.scheduling", "neither true nor false"),
        (MINE + "  behaviors: [waiting]\n", 6, "mine.behaviors.0", "'BLOCKING' or 'NON_BLOCKING'"),
        (MINE + "  behaviors: [blocking]\n", 2, "mine", "must be one of behaviors"),
        (MINE + "  sources: {shceduling: x}\n", 2, "mine", "did you mean 'scheduling'?"),
        (MINE + MINE, 7, "mine", "defined twice"),
        ("a:\n  models: [x]\n", 1, "a.default_behavior", "is missing"),
    ],
)
def test_a_wrong_file_says_where(tmp_path, text, line, key, message):
    path = tmp_path / "profiles.yaml"
    path.write_text(text)

    with pytest.raises(ConfigurationError) as caught:
        load_profiles(path)

    assert (caught.value.file, caught.value.line, caught.value.key) == (str(path), line, key)
    assert message in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"mine\.yaml: there is no such file"):
        load_profiles(tmp_path / "mine.yaml")


def test_an_unknown_name_is_answered_with_the_closest():
    with pytest.raises(ConfigurationError, match=r"no profile '3\.8'; did you mean '3\.8-live'"):
        find_profile("3.8")


def test_a_profile_never_changes():
    with pytest.raises(ValidationError, match="frozen"):
        profile_for("gemini-3.8-live").scheduling = False


def test_every_disputed_field_has_a_source():
    fields = {"behaviors", "default_behavior"}
    for profile in load_profiles():
        assert profile.sources.keys() & fields, profile.name
        assert profile.sources.keys() <= ModelProfile.model_fields.keys()
