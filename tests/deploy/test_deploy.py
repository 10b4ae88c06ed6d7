"""What is in `deploy/` fits the program: options, ports, paths, times, names and packages."""

import fnmatch
import inspect
import io
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from dockerfile_parse import DockerfileParser
from typer.testing import CliRunner

from leonidas_tools import ToolRuntime
from leonidas_tools.cli.access import KEY_VARIABLES
from leonidas_tools.cli.app import program
from leonidas_tools.cli.serve import _SECRET, serve
from tests.gateway.served import Served

ROOT = Path(__file__).parents[2]
OBJECTS = {
    each["kind"]: each for each in yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text())
}
POD = OBJECTS["Deployment"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
OPTIONS = dict(word.removeprefix("--").split("=", 1) for word in CONTAINER["args"][1:])
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def image():
    file = io.BytesIO((ROOT / "deploy/Dockerfile").read_bytes())
    found = [
        (each["instruction"], each["value"]) for each in DockerfileParser(fileobj=file).structure
    ]
    return [(name, value) for name, value in found if name != "COMMENT"]


def last(instruction):
    return [value for name, value in image() if name == instruction][-1]


def words(value):
    return yaml.safe_load(value)  # a JSON list is YAML as well


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_is_as_kubernetes_has_it(kind):
    kubernetes_validate.validate(OBJECTS[kind], kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize(
    "arguments", [CONTAINER["args"], words(last("CMD"))], ids=["Kubernetes", "Docker"]
)
def test_the_program_knows_its_arguments(arguments):
    ran = CliRunner().invoke(program(), [*arguments, "--help"])
    assert ran.exit_code == 0, ran.output
    wrong = CliRunner().invoke(program(), [*arguments, "--nonsense", "--help"])
    assert wrong.exit_code == 2


async def test_the_probes_ask_for_paths_that_answer():
    async with Served() as served:
        for probe in ("readinessProbe", "livenessProbe"):
            answer = await served.http.get(CONTAINER[probe]["httpGet"]["path"])
            assert answer.status_code == 200


def test_conversations_have_the_time_to_end_that_they_are_given():
    pause = CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert POD["terminationGracePeriodSeconds"] > pause + float(OPTIONS["grace"])


def test_docker_waits_for_conversations_at_the_port_of_the_image():
    guide = (ROOT / "docs/guides/serve-voice.md").read_text()
    (run,) = re.findall(r"^docker run (.+?[^\\])\n", guide, re.M | re.S)
    given = shlex.split(run)
    grace = inspect.signature(serve).parameters["grace"].default
    assert float(given[given.index("--stop-timeout") + 1]) > grace
    assert given[given.index("--publish") + 1].endswith(f":{last('EXPOSE')}")
    assert {_SECRET, KEY_VARIABLES[0]} <= set(given)
    assert f"leonidas:{last('WORKDIR')}" in given


def test_all_name_one_port():
    (port,) = CONTAINER["ports"]
    (service,) = OBJECTS["Service"]["spec"]["ports"]
    command = words(last("CMD"))
    places = {OPTIONS["http"], command[command.index("--http") + 1]}
    assert places == {f"0.0.0.0:{port['containerPort']}"}
    assert last("EXPOSE") == str(port["containerPort"])
    names = {CONTAINER[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe")}
    assert names == {service["targetPort"]} == {port["name"]}


def test_the_settings_are_valid_and_take_their_secrets_from_the_environment(monkeypatch, tmp_path):
    variables = {each["name"] for each in CONTAINER["env"]}
    assert {_SECRET, "DATABASE_URL"} < variables
    assert variables & set(KEY_VARIABLES)
    file = tmp_path / Path(OPTIONS["config"]).name
    file.write_text(OBJECTS["ConfigMap"]["data"][file.name])
    monkeypatch.setenv("DATABASE_URL", "postgresql://localhost/leonidas")
    settings = ToolRuntime(config=file).settings.current
    assert settings.store.url == "postgresql://localhost/leonidas"


def test_what_is_written_at_run_time_lies_in_a_volume():
    mounts = {each["mountPath"] for each in CONTAINER["volumeMounts"]}
    named = {volume["name"] for volume in POD["volumes"]}
    assert {each["name"] for each in CONTAINER["volumeMounts"]} == named
    assert {last("WORKDIR"), "/tmp", str(Path(OPTIONS["config"]).parent)} == mounts
    assert re.search(r"LEONIDAS_DATA_DIR=(\S+)", last("ENV"))[1] == last("WORKDIR")


def test_the_image_runs_as_a_user_who_is_not_root_and_the_same_in_both():
    assert int(last("USER")) == POD["securityContext"]["runAsUser"] != 0
    assert f"--uid {last('USER')} " in " ".join(value for name, value in image() if name == "RUN")


def build_context():
    """Return the instructions of the first stage that copy: sources and target."""
    stage = image()[1:]
    end = [name for name, _ in stage].index("FROM")
    copies = [shlex.split(value) for name, value in stage[:end] if name == "COPY"]
    return [(line[:-1], line[-1]) for line in copies]


@pytest.mark.slow
def test_the_package_can_be_built_of_what_is_copied(tmp_path):
    for sources, target in build_context():
        for source in sources:
            to = tmp_path / target.lstrip("/")
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, to, symlinks=True)
            else:
                to.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, to)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path]
    subprocess.run([*command, tmp_path / "src"], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "leonidas_tools/console/static/index.html" in names
    assert "leonidas_tools/reference/gateway.md" in names


def test_the_image_is_made_of_files_extras_and_packages_that_there_are():
    copied = [shlex.split(value) for name, value in image() if name == "COPY"]
    sources = [word for line in copied for word in line[:-1] if not line[0].startswith("--from")]
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    for source in sources:
        assert (ROOT / source).exists()
        assert any(fnmatch.fnmatch(source.split("/")[0], each[1:]) for each in allowed[1:])
    runs = " ".join(value for name, value in image() if name == "RUN")
    extras = re.search(r"/src\[([\w,]+)\]", runs)[1].split(",")
    assert set(extras) <= set(EXTRAS)
    installed = re.search(r"--no-install-recommends ([\w\s.-]+?)\s*&&", runs)[1].split()
    assert set(installed) <= set((ROOT / "docs/installation.md").read_text().split())
