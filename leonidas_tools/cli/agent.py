"""`leonidas agent`: an agent that works on tasks in the terminal."""

import asyncio
import json
import os
from concurrent.futures import CancelledError
from contextlib import AsyncExitStack, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast
from urllib.parse import urlsplit

import typer

from leonidas_tools.cli.places import Config, default_config
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.settings import OWN_CONFIGS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from typing import TextIO

    from leonidas_tools import ToolRuntime, ToolSession
    from leonidas_tools.agent import Fragment, OrchestratorStep, StoredMemory
    from leonidas_tools.agent.models import Message, Model
    from leonidas_tools.agent.record import AgentResult, Turn
    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.calls.events import EventKind
    from leonidas_tools.tools.registry import ToolRegistry

_GEMINI_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_GEMINI_MODEL = "gemini-flash-latest"
_SCRIPTED = "scripted:"
_MAX_SHOWN_LENGTH = 120
_JUDGED = {True: "done", False: "not done", None: "unclear"}
_MARKS = {"pending": "☐", "in_progress": "▶", "completed": "☑", "failed": "☒"}


def agent(  # noqa: PLR0913, PLR0917 - the options of a command
    task: Annotated[
        str | None, typer.Argument(help="The task. Default: type tasks, one per line.")
    ] = None,
    config: Config = None,
    model: Annotated[
        str | None,
        typer.Option(
            envvar="LEONIDAS_AGENT_MODEL",
            help="A model of the endpoint, gemini-…, or scripted:FILE.json.",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="OPENAI_BASE_URL",
            help="An OpenAI-compatible endpoint, such as http://127.0.0.1:8080/v1.",
        ),
    ] = None,
    max_iterations: Annotated[
        int, typer.Option(min=1, help="Maximum number of model requests.")
    ] = 10,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of tokens per task.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Timeout of one model answer, in seconds.")
    ] = 120.0,
    text_calls: Annotated[
        bool,
        typer.Option("--text-calls", help="Let the model call tools by text, not by functions."),
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Plan first, and reflect after each turn.")
    ] = False,
    fragments: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Lead the fragments of a folder of YAML files, and of installed packages.",
        ),
    ] = None,
    memory: Annotated[
        bool,
        typer.Option(
            "--memory",
            help="With --fragments: recall memories that help with a task, and store lessons.",
        ),
    ] = False,
    json_lines: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Append each run with an answer to a JSONL file for fine-tuning, secrets masked.",
        ),
    ] = None,
) -> None:
    """Work on a task with a model and the tools of the settings.

    The answer goes to standard output, progress to standard error. Approvals are requested in the
    terminal. Keys come from the environment or .env: OPENAI_API_KEY, GEMINI_API_KEY.

    The exit code is 1 if a task has no answer, 2 for wrong usage or settings, and 130 after Ctrl-C.

    Example: leonidas agent "What time is it in Tokyo?" --base-url http://127.0.0.1:8080/v1
    """
    chosen = _model(model, base_url, timeout, calls_functions=not text_calls)
    options: dict[str, Any] = {"max_iterations": max_iterations, "max_tokens": max_tokens}
    if plan:
        options |= _planning(chosen)
    if fragments is not None:
        options |= {"fragments": _load_fragments(fragments), "memory": memory or None}
    elif memory:
        raise ConfigurationError(
            "--memory is for an agent that leads fragments: give --fragments FOLDER too. Without "
            "them, leave it out: the toolbox 'memory' in the settings gives any agent a memory"
        )
    shown: _Shown = _AgentJsonLines() if json_lines else _AgentLines()
    with nullcontext() if export is None else _open_for_append(export) as exported:
        all_ok = asyncio.run(
            _work(task, config or default_config(), chosen, options, shown, exported)
        )
    if not all_ok:
        raise typer.Exit(1)


def _open_for_append(file: Path) -> "TextIO":
    """Open a file that only the user can read, to append to it."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigurationError(
            f"cannot be written: {why}; name another file", file=file
        ) from None
    return os.fdopen(handle, "a", encoding="utf-8", errors="replace")


def _model(
    name: str | None, base_url: str | None, timeout: float, *, calls_functions: bool
) -> "Model":
    """Return the model that the options and the environment name."""
    from leonidas_tools.agent.models import GeminiModel, OpenAIModel, ScriptedModel

    if name is not None and name.startswith(_SCRIPTED):
        return _load_scripted_model(Path(name.removeprefix(_SCRIPTED)), ScriptedModel)
    if name == _SCRIPTED.rstrip(":"):
        raise ConfigurationError(f"{name!r} names no file: write --model {_SCRIPTED}FILE.json")
    if base_url is not None and urlsplit(base_url).scheme not in {"http", "https"}:
        raise ConfigurationError(
            f"{base_url!r} is not a URL: write --base-url http://127.0.0.1:8080/v1, for example"
        )
    if base_url is None and name is None and any(map(os.environ.get, _GEMINI_KEYS)):
        name = _GEMINI_MODEL
    if base_url is None and name is not None and name.startswith("gemini"):
        return GeminiModel(name, timeout_seconds=timeout)
    if base_url is None and name is None:
        raise ConfigurationError(
            "there is no model: give --base-url, or --model, or set GEMINI_API_KEY"
        )
    if base_url is None and not os.environ.get("OPENAI_API_KEY"):
        raise ConfigurationError(
            f"no key is set for the model {name!r}: set OPENAI_API_KEY, or give --base-url for "
            "another endpoint"
        )
    # An address from the environment goes with the key from the environment.
    given = None if base_url == os.environ.get("OPENAI_BASE_URL") else base_url
    return OpenAIModel(
        name or "default",
        base_url=given,
        calls_functions=calls_functions,
        timeout_seconds=timeout,
    )


def _planning(model: "Model") -> dict[str, Any]:
    from leonidas_tools.agent import Planner, Reflector

    return {"planner": Planner(model), "reflector": Reflector(model)}


def _load_fragments(folder: Path) -> "Sequence[Fragment]":
    """Return the fragments of a folder and of installed packages."""
    from leonidas_tools.agent import found_fragments

    found = found_fragments(folder)
    if not found:
        raise ConfigurationError("has no fragments: put a file NAME.yaml into it", file=folder)
    return found


def _memory(tools: "ToolRuntime") -> "StoredMemory":
    """Return the memory in the store, with the embeddings of the toolbox `memory`."""
    from leonidas_tools.agent import StoredMemory
    from leonidas_tools.embeddings import EmbedderSettings, make_embedder

    if tools.store is None:
        raise ConfigurationError(
            "--memory needs a store: write `store: {enabled: true}` into the settings, "
            f"in {' or '.join(map(str, OWN_CONFIGS))} of this folder or a file of --config"
        )
    toolboxes = tools.settings.current.toolboxes
    settings = {each.name: each.settings for each in toolboxes}.get("memory", {})
    embeddings = EmbedderSettings.model_validate(settings.get("embeddings", {}))
    return StoredMemory(tools.store.memories, make_embedder(embeddings))


def _load_scripted_model(file: Path, kind: Any) -> "Model":
    from leonidas_tools.files.reading import read_file, why_unreadable

    try:
        text = read_file(file).decode()
    except OSError as error:
        raise ConfigurationError(why_unreadable(error), file=file) from None
    except UnicodeDecodeError:
        raise ConfigurationError("is not UTF-8 text", file=file) from None
    made: Model = kind.from_json(text)
    return made


async def _work(
    task: str | None,
    config: Path,
    model: "Model",
    options: "Mapping[str, Any]",
    shown: "_Shown",
    exported: "TextIO | None",
) -> bool:
    """Work on the task, or on typed tasks; return whether all have an answer."""
    from leonidas_tools import ToolSession
    from leonidas_tools.agent import Orchestrator, ReActAgent, trajectory_line
    from leonidas_tools.approvals.transcript import Transcript
    from leonidas_tools.cli.starting import open_tools

    typed = None if task is not None else _Typed()
    all_ok = True
    async with AsyncExitStack() as stack:
        approval = _channel(typed)
        tools = await stack.enter_async_context(
            open_tools(config, approval=approval, builtin_tools=False)
        )
        if hasattr(model, "aclose"):
            stack.push_async_callback(model.aclose)
        session = ToolSession()
        _follow(tools, session, shown)
        shown.registry = tools.registry
        kind = Orchestrator if "fragments" in options else ReActAgent
        if options.get("memory"):
            options = {**options, "memory": _memory(tools)}
        agent = kind(model, tools, **options)
        history: list[Message] = []
        async for each in _tasks(task, typed):
            session.get(Transcript).user_typed(each)
            result = await agent.run(each, session=session, history=history, on_step=shown.step)
            shown.end(result)
            if exported is not None and result.ok:
                exported.write(trajectory_line(result))
                exported.flush()
            history = [message for message in result.messages if message.role != "system"]
            all_ok = all_ok and result.ok
    return all_ok


async def _tasks(task: str | None, typed: "_Typed | None") -> "AsyncIterator[str]":
    if task is not None:
        yield task
        return
    assert typed is not None
    while (line := await typed.ask("> ")) is not None:
        yield line


def _follow(tools: "ToolRuntime", session: "ToolSession", shown: "_Shown") -> None:
    from leonidas_tools.cli.tools import show_progress
    from leonidas_tools.session.tasks import TaskList

    tools.monitor.subscribe(show_progress)
    session.get(TaskList).on_change(shown.plan)


class _Typed:
    """The typed lines: tasks, and the answers to questions while an agent works."""

    def __init__(self) -> None:
        from leonidas_tools.cli.typed import TypedLines

        self._typed = TypedLines()
        self._lines = self._typed.lines()
        self.discard = self._typed.discard
        self.loop: asyncio.AbstractEventLoop | None = None

    async def ask(self, prompt: str) -> str | None:
        """Return the next line; `None` at the end."""
        self.loop = asyncio.get_running_loop()
        if self._typed.interactive:
            typer.echo(prompt, err=True, nl=False)
        return await anext(self._lines, None)

    def read(self) -> str:
        """Return the next line to a thread that asks a question; empty at the end."""
        assert self.loop is not None
        asking = asyncio.run_coroutine_threadsafe(self.ask(""), self.loop)
        try:
            line = asking.result()
        except CancelledError:  # the program ends
            return ""
        return "" if line is None else f"{line}\n"


def _channel(typed: _Typed | None) -> "Channel":
    from leonidas_tools.approvals.terminal import TerminalChannel

    if typed is None:
        return TerminalChannel()
    return TerminalChannel(read=typed.read, discard=typed.discard)


_Shown: TypeAlias = "_AgentLines | _AgentJsonLines"


class _AgentLines:
    """Writes progress to standard error, a line each, and the answer to standard output."""

    def __init__(self) -> None:
        from leonidas_tools.cli import terminal

        self.registry: ToolRegistry | None = None
        self._console = terminal.messages()

    def step(self, step: "OrchestratorStep") -> None:
        """Show a step."""
        from leonidas_tools.agent import FragmentStep

        if isinstance(step, FragmentStep):
            for who, text in _lines(step.step):
                self._line(who, f"{step.fragment}: {text}")
        else:
            for who, text in _lines(step):
                self._line(who, text)

    def plan(self, _kind: "EventKind", data: "Mapping[str, Any]") -> None:
        """Show a change of the plan."""
        for task in data.get("tasks", [data.get("task")]):
            self._line("plan", f"{_MARKS[task['status']]} {task['title']}")

    def end(self, result: "AgentResult") -> None:
        """Show the result of a task."""
        from leonidas_tools.redaction.visible import visible

        if result.answer is not None:
            typer.echo(visible(result.answer, keep="\n"))
        if not result.ok:
            self._line(result.status.value, result.message or "there is no answer")

    def _line(self, who: str, text: str) -> None:
        from leonidas_tools.cli import terminal

        shown = terminal.one_line(text, _MAX_SHOWN_LENGTH)
        self._console.print(f"{who:<8} {shown}", soft_wrap=True)


def _lines(step: "OrchestratorStep") -> "Iterator[tuple[str, str]]":
    """Yield the lines that show a step: a word for its kind, and the text."""
    from leonidas_tools.agent import Evaluated, Learned, Recalled
    from leonidas_tools.agent.react import CallsMade, Thought, TurnEnded

    match step:
        case Thought(text=text):
            yield "thinks", text
        case CallsMade(calls=calls):
            yield from (("calls", call.name) for call in calls)
        case TurnEnded(turn=turn):
            for call, result in zip(turn.calls, turn.results, strict=True):
                said = f" {result.message}" if result.message else ""
                yield "reads", f"{call.name}: {result.status.value}{said}"
            yield from (("unclear", problem) for problem in turn.problems)
        case Recalled(memories=memories):
            yield from (("recalls", memory) for memory in memories)
        case Evaluated(is_done=is_done, missing=missing):
            yield "judges", _JUDGED[is_done] + (f": {missing}" if missing else "")
        case Learned(lesson=lesson):
            yield "learns", lesson


class _AgentJsonLines:
    """Writes one JSON object per line to standard output; masks secret arguments in all turns."""

    def __init__(self) -> None:
        self.registry: ToolRegistry | None = None
        self._secrets: set[str] = set()

    def step(self, step: "OrchestratorStep") -> None:
        """Show a step."""
        from leonidas_tools.agent import Evaluated, FragmentStep, Learned, Recalled
        from leonidas_tools.agent.react import TurnEnded

        whose = {}
        if isinstance(step, FragmentStep):
            whose, step = {"fragment": step.fragment}, step.step
        match step:
            case TurnEnded(turn=turn):
                self._write("turn", whose | self._without_secrets(turn))
            case Recalled(memories=memories):
                self._write("recalled", {"memories": list(memories)})
            case Evaluated(is_done=is_done, missing=missing):
                self._write("evaluated", {"done": is_done, "missing": missing})
            case Learned(lesson=lesson):
                self._write("learned", {"lesson": lesson})

    def plan(self, kind: "EventKind", data: "Mapping[str, Any]") -> None:
        """Show a change of the plan."""
        self._write(kind.value, data)

    def end(self, result: "AgentResult") -> None:
        """Show the result of a task."""
        body = result.to_json()
        with suppress(KeyError):
            del body["turns"]  # shown already
        self._write("result", body)

    def _without_secrets(self, turn: "Turn") -> dict[str, Any]:
        from leonidas_tools.redaction import KnownSecrets

        body: dict[str, Any] = json.loads(json.dumps(turn.to_json(), default=str))
        for call in body["calls"]:
            call["arguments"] = self._mask_arguments(call["name"], call["arguments"])
        return cast("dict[str, Any]", KnownSecrets(self._secrets)(body))

    def _mask_arguments(self, name: str, arguments: Any) -> Any:
        from leonidas_tools.redaction import MASK
        from leonidas_tools.tools.exports import find

        tool = None if self.registry is None else find(self.registry, name)
        if tool is None:  # the intended tool may declare any argument secret
            return dict.fromkeys(arguments, MASK) if isinstance(arguments, dict) else MASK
        if isinstance(arguments, str):  # they could not be parsed
            return tool.redaction(arguments)
        self._secrets.update(tool.redaction.declared_in(arguments))
        return tool.redaction.arguments(arguments)

    def _write(self, event: str, body: "Mapping[str, Any]") -> None:
        from leonidas_tools.cli import terminal

        terminal.write_json({"event": event, **body})
