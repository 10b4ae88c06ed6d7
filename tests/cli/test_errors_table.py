"""What every command says when it is used wrongly, and the exit code it ends with."""

import os
import re

import pytest
import typer

from leonidas_tools.cli.app import program

ALL = "`leonidas tools list` lists them"
NO_FILE = "there is no such file: correct the path, or create it"
DIRECTORY = "is a directory: name the file in it"
SCENARIOS = "name a YAML file, or one of approval, burst, cancel, demo"
SETTINGS = ("--config", "tools.yaml")
BARE = re.compile(r"Traceback|Errno|: (No such file or directory|Is a directory|Permission denied)")

CASES = [
    # The program itself.
    ("nosuch", 2, "No such command 'nosuch'", "choose from run, "),
    ("list", 2, "No such command 'list'", "did you mean `leonidas tools list` or `leonidas policy"),
    ("help", 2, "No such command 'help'", "did you mean `leonidas -h`?"),
    ("history list", 2, "No such command 'list'", "from sessions, replay, show, "),
    ("rum", 2, "No such command 'rum'", "Did you mean 'run'?"),
    (
        "--config tools.yaml tools list",
        2,
        "--config goes after",
        "`leonidas tools list --config …`",
    ),
    ("tools --json list", 2, "--json goes after the command", "`leonidas tools list --json …`"),
    ("--tool x history", 2, "--tool goes after the command", "`leonidas history --tool …`"),
    ("--verbos", 2, "No such option: --verbos", "--verbose"),
    # run
    ("run nosuch", 2, "There is no scenario 'nosuch'", SCENARIOS),
    ("run demmo", 2, "There is no scenario 'demmo'", "did you mean 'demo'?"),
    ("run --voice nosuch", 2, "'nosuch' is read as a scenario", "--voice and --no-voice take no"),
    ("run nosuch.yaml", 2, "There is no file 'nosuch.yaml'", "scenarios that ship are approval"),
    ("run dmo.yaml", 2, "There is no file 'dmo.yaml'", "did you mean 'demo'?"),
    ("run folder", 2, "'folder' is a directory", "name a scenario file in it"),
    ("run tools.yaml", 2, "These are settings, not a scenario", "`--config tools.yaml`"),
    ("run agent.py", 2, "'agent.py' is a program, not a scenario", "or run it with python"),
    ("run bad.yaml", 2, "bad.yaml:2: ", "This is not YAML: a bracket is not closed"),
    ("run --config none.yaml", 2, "none.yaml", NO_FILE),
    ("run --config folder", 2, "folder", DIRECTORY),
    ("run one_call --microphone none.wav --config tools.yaml", 2, "none.wav", NO_FILE),
    ("run one_call --microphone folder --config tools.yaml", 2, "folder", DIRECTORY),
    ("run one_call --microphone empty --config tools.yaml", 2, "empty", "name another file"),
    ("run --model foo one_call", 2, "--model 'foo' is for a real session", "set GEMINI_API_KEY"),
    ("run --microphone none.wav --config tools.yaml", 2, "none.wav", NO_FILE),
    ("run one_call --speaker folder --config tools.yaml", 2, "folder", "name a file in a folder"),
    ("run --profile 3.1-live", 2, "no profile '3.1-live'", "There are '3.8-live-extended-"),
    ("run --speed fast", 2, "'--speed'", "should be a valid number"),
    ("run --vioce", 2, "No such option: --vioce", "--voice"),
    # tools
    ("tools show nosuch", 2, "There is no tool 'nosuch'", ALL),
    ("tools show get_wether", 2, "There is no tool 'get_wether'", "did you mean 'get_weather'?"),
    ("tools call roll_dice --sides 6", 2, "No such option: --sides", "write sides=VALUE for an"),
    ("tools call nosuch", 2, "There is no tool 'nosuch'", ALL),
    ("tools call get_weather", 1, "'city' is missing", "Call again with 'city'"),
    ("tools call get_weather foo", 2, "'foo' has no value", "write name=value"),
    ("tools call get_weather {foo", 2, "'{foo' is not JSON", "write name=value"),
    ("tools shwo get_weather", 2, "No such command 'shwo'", "Did you mean 'show'?"),
    ("tools list --jsn", 2, "No such option: --jsn", "--json"),
    ("tools call send_money to=Ana amount=1", 1, "[y]es or [n]o: ", "no more input"),
    ("tools list --query zzzz", 0, "There is no tool with 'zzzz'", ALL.replace("them", "all")),
    ("tools list --query rol_dice", 0, "There is no tool with 'rol_dice'", "'roll_dice'"),
    ("tools list --category nosuch", 2, "There is no category 'nosuch'", "choose one of "),
    ("tools list --config folder", 2, "folder", DIRECTORY),
    # policy
    ("policy explain nosuch", 2, "There is no tool 'nosuch'", ALL),
    (
        "policy explain get_wether",
        2,
        "There is no tool 'get_wether'",
        "did you mean 'get_weather'?",
    ),
    ("policy explain get_weather foo=1", 2, "'foo' is not a parameter", "tools show get_weather"),
    (
        "policy explain get_weather --mode bad",
        2,
        "no mode 'bad'",
        "choose from 'ask', 'autonomous'",
    ),
    ("policy reference cach", 2, "There is no page 'cach'", "did you mean 'cache'?"),
    # config
    ("config check none.yaml", 2, "none.yaml", NO_FILE),
    ("config check --config none.yaml", 2, "none.yaml", NO_FILE),
    ("config check empty", 1, "empty", "write at least 'version: 1'"),
    ("config check folder", 2, "folder", DIRECTORY),
    ("config check pipe", 2, "pipe", "it is a FIFO, not a regular file; name another file"),
    ("config check utf16", 1, "utf16:1: ", "is not UTF-8 text: save it in that encoding"),
    ("config check bad.yaml", 1, "bad.yaml:2: ", "is not YAML: a bracket is not closed"),
    ("config check a.yaml --config b.yaml", 2, "'a.yaml' or --config 'b.yaml'", "name the file"),
    ("config shema", 2, "No such command 'shema'", "Did you mean 'schema'?"),
    # mcp
    ("mcp remove nosuch", 2, "There is no MCP server 'nosuch'", "the settings have none\n"),
    ("mcp test nosuch", 2, "There is no MCP server 'nosuch'", "leonidas mcp add nosuch"),
    ("mcp tools nosuch", 2, "There is no MCP server 'nosuch'", "leonidas mcp add nosuch"),
    ("mcp import none.json", 2, "none.json", NO_FILE),
    ("mcp import folder", 2, "folder", DIRECTORY),
    ("mcp import empty", 2, "empty:1: is not JSON", "correct it, or name the file"),
    ("mcp add x ftp://host", 2, "'ftp://host' is not a URL", "begin it with http:// or https://"),
    ("mcp add x localhost:8000/mcp", 2, "'localhost:8000/mcp' is not a URL", "begin it with http"),
    ("mcp add a/b run", 2, "'a/b' cannot be the name of a server", "use letters, digits"),
    ("mcp serve --http x", 2, "'x' is not [HOST:]PORT", "write --http 8000"),
    ("mcp serve --token-env X", 2, "'--token-env' needs HTTP", "add --http PORT"),
    ("mcp trust nosuch", 2, "There is no MCP server 'nosuch'", "leonidas mcp add nosuch"),
    ("mcp login nosuch", 2, "There is no MCP server 'nosuch'", "leonidas mcp add nosuch"),
    ("mcp lits", 2, "No such command 'lits'", "Did you mean 'list'?"),
    # agent
    ("agent hello --model gpt-x", 2, "no key is set for the model 'gpt-x'", "give --base-url"),
    # history
    ("history --store none.db", 2, "'none.db' does not exist", "correct the path"),
    ("history --store folder", 2, "folder", DIRECTORY),
    ("history --store utf16", 2, "utf16", "is not a store: name the file of a store"),
    ("history --store foo://bar", 2, "'foo'", "write the path of a file"),
    ("history --store empty --status bad", 2, "no status 'bad'", "choose one of ok, "),
    ("history --store empty --since now", 2, "--since 'now'", "write 2h or 2026-11-22"),
    ("history show nosuch --store empty", 2, "no session 'nosuch'", "leonidas history sessions"),
    ("history replay nosuch --store empty", 2, "no session 'nosuch'", "leonidas history sessions"),
    ("history approvals --store empty --decision x", 2, "--decision 'x'", "choose one of approved"),
    ("history sesions", 2, "No such command 'sesions'", "Did you mean 'sessions'?"),
    # events
    ("events shema", 2, "No such command 'shema'", "Did you mean 'schema'?"),
]
NEEDS_SETTINGS = (
    "tools list --category",
    "tools list --query",
    "tools show",
    "tools call",
    "policy explain",
    "mcp test",
    "mcp tools",
    "mcp remove",
    "mcp trust",
    "mcp login",
)


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "code", "names", "todo"), CASES, ids=[case[0] for case in CASES])
def test_a_mistake_is_named_with_what_to_do_next(
    leonidas, settings, tmp_path, typed, code, names, todo
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "utf16").write_text("version: 1", "utf-16")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bad.yaml").write_text("a: [\n")
    words = typed.split()
    if typed.startswith(NEEDS_SETTINGS) and "--config" not in words:
        words += SETTINGS
    finished = leonidas(*words)
    said = finished.stdout + finished.stderr
    assert finished.returncode == code, said
    assert names in said
    assert todo in said
    assert not BARE.search(said)
    assert "\x1b" not in said


def test_the_demo_settings_are_not_used_in_silence(leonidas):
    finished = leonidas("policy", "list")
    assert finished.returncode == 0
    assert finished.stderr == (
        "No config/tools.yaml or tools.yaml in this folder: the demo settings are used "
        "(or name a file)\n"
    )


def test_settings_under_a_name_that_is_not_read_are_named(leonidas, tmp_path):
    (tmp_path / "tools.yml").write_text("version: 1\n")
    finished = leonidas("policy", "list")
    assert finished.stderr.endswith(
        "tools.yml is ignored: rename it to tools.yaml, or add --config tools.yml\n"
    )


def test_the_settings_of_the_folder_are_used_by_default(leonidas, settings, tmp_path):
    checked = leonidas("config", "check")
    assert (checked.stdout, checked.stderr) == ("tools.yaml: 0 errors, 0 warnings\n", "")
    settings.write_text("tols: 1\n")
    assert leonidas("config", "check").returncode == 1
    assert "tools.yaml:1: tols: " in leonidas("tools", "list").stderr
    other = tmp_path / "config" / "tools.yaml"
    other.parent.mkdir()
    other.write_text("version: 1\n")
    checked = leonidas("config", "check")
    assert checked.stdout == "config/tools.yaml: 0 errors, 0 warnings\n"
    assert "config/tools.yaml is used, not tools.yaml" in checked.stderr


def test_an_unreadable_file_is_named_with_the_way_to_read_it(started, settings, permissions_bind):
    settings.chmod(0)
    finished = started("config", "check", *SETTINGS)
    assert finished.returncode == 2
    assert "tools.yaml: cannot be read: allow it with `chmod u+r`" in finished.stderr
    assert not BARE.search(finished.stdout + finished.stderr)


def test_a_failed_step_of_a_scenario_is_shown_as_its_file_has_it(leonidas, settings, tmp_path):
    (tmp_path / "wrong.yaml").write_text(
        "steps:\n"
        "  - call: {id: c1, name: get_weather, args: {city: Lisbon}}\n"
        "  - expect: {id: c1, status: failed, response: {result: {sky: green}}}\n"
    )
    finished = leonidas("run", "wrong.yaml", *SETTINGS)
    assert finished.returncode == 1
    step = "expect: {id: c1, status: failed, response: {result: {sky: green}}}"
    assert f"✗ connection 1: step 2 ({step}): " in finished.stdout


def _commands(command, path=()):
    """Every command below this one, with the words that lead to it."""
    below = getattr(command, "commands", {})
    if not below or command.invoke_without_command:
        yield " ".join(path), command
    for name, each in below.items():
        yield from _commands(each, (*path, name))


@pytest.mark.parametrize(
    ("path", "command"),
    [each for each in _commands(typer.main.get_command(program())) if each[0]],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_help_of_each_command_begins_with_a_sentence_and_has_an_example(path, command):
    first, *rest = command.help.split("\n\n")
    assert re.fullmatch(r"[A-Z][^.;]*(\.[^ .][^.;]*)*\.", " ".join(first.split())), first
    examples = [each for each in rest if each.startswith("Example: ")]
    assert examples
    assert all(each.startswith(f"Example: leonidas {path}") for each in examples)
