"""`leonidas live probe`: a profile is measured, written, checked and used."""

import json
from contextlib import suppress

import pytest
import yaml

from leonidas_tools.cli.live import obey
from leonidas_tools.errors import SimulatorError
from leonidas_tools.live.profiles import find_profile, load_profiles
from leonidas_tools.simulator import LiveSimulator, Scenario
from tests.cli.test_generations import ASKED

pytestmark = pytest.mark.slow
MODEL = "gemini-9-live"


def test_a_measured_profile_is_used(leonidas, settings):
    with suppress(SimulatorError), LiveSimulator(obey, generation="3.8-thinking") as simulator:
        finished = leonidas(
            *("live", "probe", "--model", MODEL, "--config", settings), **simulator.environment()
        )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stderr == ""
    file = settings.parent / "profiles" / f"{MODEL}.yaml"
    assert finished.stdout.startswith(
        f"Measuring {MODEL}\n"
        "thinking_levels      LOW, MEDIUM, HIGH (without a level closed with 1007 Thinking level "
        "must be specified for this model)\n"
    )
    assert finished.stdout.endswith(
        "\n18 sessions, 1600 tokens, as the server counts them\n"
        f"{file} is written; to use it, add to {settings}: profiles: [profiles/{MODEL}.yaml]\n"
    )
    found = load_profiles(file)[0]
    own = {"name": MODEL, "models": (MODEL,), "vertex": False, "sources": found.sources}
    assert found == find_profile("3.8-live-extended-thinking").model_copy(update=own)
    assert all("by leonidas live probe, 2" in each for each in found.sources.values())

    settings.write_text(f"{settings.read_text()}profiles: [profiles/{MODEL}.yaml]\n")
    assert leonidas("config", "check", settings).returncode == 0
    with LiveSimulator(Scenario(ASKED), generation="3.8-thinking") as simulator:
        finished = leonidas(
            *("run", "--json", "--config", settings, "--model", MODEL),
            stdin="How is the weather in Lisbon?\n",
            **simulator.environment(),
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr
        assert simulator.violations == ()
    assert "unknown" not in finished.stderr
    assert [call["status"] for call in json.loads(finished.stdout.splitlines()[-1])["calls"]] == [
        "ok"
    ]


def test_a_simulated_model_is_written_where_it_is_said(leonidas, tmp_path):
    finished = leonidas("live", "probe", "--simulator", "3.1", "--out", "of/mine.yaml")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (profile,) = yaml.safe_load((tmp_path / "of" / "mine.yaml").read_text()).values()
    assert profile["models"] == ["gemini-3.1-flash-live-preview"]
    assert profile["sources"]["client_content"].startswith(
        "measured by leonidas live probe --simulator 3.1, 2"
    )


def test_a_wrong_profile_is_reported_by_the_check(leonidas, settings):
    file = settings.with_name("mine.yaml")
    file.write_text("mine:\n  like: 3.8-live\n  models: [x]\n  schedulling: true\n")
    settings.write_text("version: 1\nprofiles: [mine.yaml, gone.yaml]\n")
    finished = leonidas("config", "check", settings)
    assert finished.returncode == 1
    gone = settings.with_name("gone.yaml")
    assert f"{settings}:2: error: profiles: {gone}: there is no such file" in finished.stdout
    settings.write_text("version: 1\nprofiles: [mine.yaml]\n")
    finished = leonidas("config", "check", settings)
    assert finished.returncode == 1
    place = f"{settings}:2: error: profiles: {file}:4: mine.schedulling"
    assert finished.stdout.startswith(f"{place}: is not a setting; did you mean 'scheduling'?")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", MODEL], "leonidas: There is no key: set GEMINI_API_KEY, or measure a simul"),
        (
            ["--simulator", "9"],
            "leonidas: '--simulator' is for the generation '9'; known are '2.5'",
        ),
        ([], "Error: Invalid value: name the model to measure: --model NAME"),
        (["--model", "models/"], "Error: Invalid value: name the model to measure: --model NAME"),
    ],
)
def test_wrong_usage_ends_with_2(leonidas, options, message):
    finished = leonidas("live", "probe", *options)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.splitlines()[-1].startswith(message)


def test_a_written_profile_is_not_replaced(leonidas, settings):
    file = settings.parent / "profiles" / f"{MODEL}.yaml"
    file.parent.mkdir()
    file.write_text("mine")
    finished = leonidas(
        *("live", "probe", "--model", MODEL, "--config", settings), GEMINI_API_KEY="x"
    )
    assert (finished.returncode, finished.stdout) == (2, "")
    message = f"leonidas: {file}: exists already: remove it, or give it as --out\n"
    assert (finished.stderr, file.read_text()) == (message, "mine")


def test_nothing_is_written_of_a_closed_server(leonidas, settings):
    async def closes(model):
        await model.close(1011, "Internal error")

    with LiveSimulator(closes) as simulator:
        finished = leonidas(
            *("live", "probe", "--model", MODEL, "--config", settings), **simulator.environment()
        )
    assert finished.returncode == 2
    assert "thinking_levels      unknown (1011 Internal error)" in finished.stdout
    assert finished.stderr == (
        f"leonidas: nothing about {MODEL!r} could be measured: no file is written\n"
    )
    assert not (settings.parent / "profiles").exists()
