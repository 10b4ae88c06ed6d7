"""`leonidas history`: past calls and sessions from the store."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from leonidas_tools.cli.places import Config, default_config, no_such
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from leonidas_tools.store import (
        Approval,
        Execution,
        KeptResult,
        ReplayEvent,
        SessionSummary,
        Store,
        Task,
    )

T = TypeVar("T")

OldestFirst = Annotated[
    bool, typer.Option("--oldest-first", help="Oldest first. Default: newest first.")
]
_COLUMNS = ("when", "session", "user", "tool", "status", "reason", "took", "arguments", "result")
_WIDEST = 60
_LACKS = (
    "Calls, approvals and long results are shown again; nothing is run. Audio and transcripts are "
    "not stored, secrets are masked, and long arguments and results are truncated."
)
_MAX_ROWS = 1_000_000
_SESSIONS = "`leonidas history sessions` lists them"
_SQLITE = b"SQLite format 3\0"

Place = Annotated[
    str | None,
    typer.Option("--store", help="A file or an address. Default: store.url of the settings."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]


def _answer(ask: "Callable[[Store], Awaitable[T]]", config: Path | None, place: str | None) -> T:
    """Return the result of a query of the store."""
    from leonidas_tools.settings.load import load
    from leonidas_tools.store import Store
    from leonidas_tools.store.address import database_url

    kept = None if place else load(config or default_config()).store
    where = place if kept is None else kept.url
    key = "--store" if place else "store.url"
    url = database_url(where, key=key)
    if url.get_backend_name() == "sqlite":
        file = Path(url.database or "")
        if not file.exists():
            if place:
                message = f"The store {str(file)!r} does not exist: correct the path"
                raise ConfigurationError(message, key=key)
            todo = (
                "run a session with these settings first"
                if kept is not None and kept.enabled
                else "write `store: {enabled: true}` into the settings"
            )
            raise ConfigurationError(
                f"Nothing is stored yet: there is no store {str(file)!r}; {todo}, "
                "or name a store with --store"
            )
        _check_file(file)

    async def run() -> T:
        async with Store(where) as store:
            return await ask(store)

    return asyncio.run(run())


def _check_file(file: Path) -> None:
    """Refuse a file that is not a database: opened as a store, it would be set aside."""
    from leonidas_tools.files.reading import open_file, why_unreadable

    try:
        with open_file(file) as opened:
            begins = opened.read(len(_SQLITE))
    except OSError as error:
        raise ConfigurationError(why_unreadable(error), file=file) from None
    if begins not in {_SQLITE, b""}:
        raise ConfigurationError("is not a store: name the file of a store", file=file)


def _no_session(name: str) -> ConfigurationError:
    """Return the error for a session without records in the store."""
    return ConfigurationError(no_such("session", name, (), _SESSIONS))


def _write_lines(rows: Iterable[Any]) -> None:
    """One JSON object per line."""
    from leonidas_tools.cli import terminal

    for row in rows:
        terminal.write_json(row.to_json())


def _when(at: float) -> str:
    """Return a local time as text."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def commands() -> typer.Typer:
    """Return the commands about the history."""
    app = typer.Typer()
    app.callback(invoke_without_command=True)(calls)
    app.command("sessions")(sessions)
    app.command("replay")(replay)
    app.command("show")(show)
    app.command("approvals")(approvals)
    app.command("interrupted")(interrupted)
    return app


def calls(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.")] = None,
    status: Annotated[
        str | None, typer.Option(help="Such as ok, failed, timeout, started, interrupted.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="Only records of this session.")] = None,
    user: Annotated[str | None, typer.Option(help="Only records of this user.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Such as 2h, 2026-11-22 or 2026-11-22T10:00.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Same format as --since.")] = None,
    text: Annotated[
        str | None,
        typer.Option(
            help="Only calls with this text in name, arguments, message, reason or result."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=_MAX_ROWS, help="The maximum number.")] = 50,
    oldest_first: OldestFirst = False,
    config: Config = None,
    place: Place = None,
    as_json: AsJson = False,
) -> None:
    """Show past calls, sessions and approvals, or replay a session.

    Without a command, the latest calls are listed.

    Example: leonidas history --tool get_weather --since 2h
    """
    if context.invoked_subcommand is not None:
        return
    _check_status(status)
    began, ended = _moment(since, "--since"), _moment(until, "--until")

    async def query(store: "Store") -> "list[Execution]":
        return await store.executions(
            tool=tool,
            status=status,
            session=session,
            user=user,
            since=began,
            until=ended,
            text=text,
            limit=limit,
            newest_first=not oldest_first,
        )

    is_filtered = any((tool, status, session, user, since, until, text))
    nothing = "There is no such call" if is_filtered else "No call is stored yet"
    _show_calls(_answer(query, config, place), as_json=as_json, nothing=nothing)


def sessions(
    user: Annotated[str | None, typer.Option(help="Only records of this user.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=_MAX_ROWS, help="The maximum number.")] = 50,
    config: Config = None,
    place: Place = None,
    as_json: AsJson = False,
) -> None:
    """List the sessions with their calls and the tokens of the live model, the latest first.

    Example: leonidas history sessions --limit 10
    """
    from leonidas_tools.cli import terminal

    async def query(store: "Store") -> "list[SessionSummary]":
        return await store.sessions(user=user, limit=limit)

    found = _answer(query, config, place)
    if as_json:
        _write_lines(found)
        return
    console = terminal.output()
    columns = ("session", "user", "began", "calls", "failures", "asked first", "tokens", "cost")
    rows = terminal.table(console, *columns)
    for each in found:
        tokens = each.input_tokens + each.output_tokens
        counts = (each.calls, each.failures, each.pending_approvals, tokens)
        cost = "" if each.cost is None else f"{each.cost:.4f}"
        rows.add_row(each.session, each.user, _when(each.started), *map(str, counts), cost)
    console.print(rows)


def replay(  # noqa: PLR0913, PLR0917 - each is an option of the command
    session: Annotated[str, typer.Argument(help="Its id, from `leonidas history sessions`.")],
    user: Annotated[str | None, typer.Option(help="Only records of this user.")] = None,
    speed: Annotated[
        float, typer.Option(min=0.0, help="Speed: 2 is twice as fast, 0 is without pauses.")
    ] = 1.0,
    longest_pause: Annotated[
        float, typer.Option(min=0.0, help="The longest pause, in seconds.")
    ] = 5.0,
    config: Config = None,
    place: Place = None,
    as_json: AsJson = False,
) -> None:
    """Show the events of a session again, with their pauses.

    The store has calls, approvals, long results and tokens, but neither audio nor transcripts.
    Secrets are masked, and long values are cut.

    Example: leonidas history replay SESSION --speed 0
    """
    from leonidas_tools.cli import terminal

    async def query(store: "Store") -> "list[ReplayEvent]":
        return await store.replay(session, user=user)

    found = _answer(query, config, place)
    if not found:
        raise _no_session(session)
    terminal.say(_LACKS, err=True)
    console = terminal.output()
    for pause, event in pace_events(found, speed, longest_pause):
        time.sleep(pause)
        if as_json:
            terminal.write_json(event.to_json())
        else:
            console.print(_line(event, found[0].at, console.width), soft_wrap=True)


def interrupted(
    config: Config = None,
    place: Place = None,
    as_json: AsJson = False,
    acknowledge: Annotated[
        bool, typer.Option("--acknowledge", help="Do not list them the next time.")
    ] = False,
) -> None:
    """List the calls that a crash interrupted.

    A call of a tool with the effect `once` may have happened. No call is repeated.

    Example: leonidas history interrupted --acknowledge
    """

    async def query(store: "Store") -> "list[Execution]":
        found = await store.interrupted()
        if acknowledge:
            await store.acknowledge(found)
        return found

    found = _answer(query, config, place)
    _show_calls(found, as_json=as_json, nothing="No call was interrupted")


@dataclass(frozen=True, kw_only=True, slots=True)
class _SessionRecords:
    """The stored records of one session."""

    calls: "Sequence[Execution]"
    approvals: "Sequence[Approval]"
    tasks: "Sequence[Task]"
    results: "Sequence[KeptResult]"

    def lines(self) -> list[dict[str, Any]]:
        """Return the records as plain JSON; `record` is the kind of each."""
        rows: list[tuple[str, Sequence[Any]]] = [
            ("call", self.calls),
            ("approval", self.approvals),
            ("task", self.tasks),
            ("result", self.results),
        ]
        return [{"record": kind, **each.to_json()} for kind, found in rows for each in found]


def show(
    session: str,
    user: Annotated[str | None, typer.Option(help="Only records of this user.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=_MAX_ROWS, help="The maximum number of each.")
    ] = 200,
    config: Config = None,
    place: Place = None,
    as_json: AsJson = False,
) -> None:
    """Show what is stored of a session: calls, approvals, tasks and long results.

    Example: leonidas history show SESSION
    """
    from leonidas_tools.cli import terminal

    async def query(store: "Store") -> _SessionRecords:
        return _SessionRecords(
            calls=(await store.executions(session=session, user=user, limit=limit))[::-1],
            approvals=(await store.approvals.find(session=session, user=user, limit=limit))[::-1],
            tasks=await store.tasks.find(session, user=user),
            results=(await store.results.find(session=session, user=user, limit=limit))[::-1],
        )

    kept = _answer(query, config, place)
    if not kept.lines():
        raise _no_session(session)
    if as_json:
        for line in kept.lines():
            terminal.write_json(line)
        return
    console = terminal.output()
    _show_session_calls(console, kept.calls)
    _show_approvals(console, kept.approvals)
    _show_tasks(console, kept.tasks)
    _show_results(console, kept.results)


def approvals(  # noqa: PLR0913, PLR0917 - each is an option of the command
    session: Annotated[str | None, typer.Option(help="Only records of this session.")] = None,
    user: Annotated[str | None, typer.Option(help="Only records of this user.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only approvals for this tool.")] = None,
    decision: Annotated[
        str | None,
        typer.Option(help="Such as approved, denied, expired, withdrawn, unanswered."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=_MAX_ROWS, help="The maximum number.")] = 50,
    config: Config = None,
    place: Place = None,
    as_json: AsJson = False,
) -> None:
    """List the approvals that were requested and their answers, the newest first.

    Example: leonidas history approvals --decision denied
    """
    from leonidas_tools.cli import terminal
    from leonidas_tools.store import Decision

    options = [each.value for each in Decision]
    if decision is not None and decision not in options:
        message = f"--decision {decision!r} is not known: choose one of {', '.join(options)}"
        raise typer.BadParameter(message)

    async def query(store: "Store") -> "list[Approval]":
        return await store.approvals.find(
            session=session, user=user, tool=tool, decision=decision, limit=limit
        )

    found = _answer(query, config, place)
    if as_json:
        _write_lines(found)
    else:
        _show_approvals(terminal.output(), found)


def _show_session_calls(console: "Console", calls: "Sequence[Execution]") -> None:
    columns = ("when", "tool", "status", "reason", "arguments", "result")
    told = (
        (
            _when(call.started),
            call.tool,
            call.status,
            call.reason,
            call.arguments,
            call.message if call.result is None else call.result,
        )
        for call in calls
    )
    _show(console, "Calls", columns, told)


def _show_approvals(console: "Console", found: "Sequence[Approval]") -> None:
    columns = ("when", "session", "tool", "question", "decision", "by", "edited")
    told = (
        (
            _when(each.requested),
            each.session,
            each.tool,
            each.message,
            each.decision or "open",
            " by ".join(filter(None, (each.decided_by, each.channel))),
            each.edited,
        )
        for each in found
    )
    _show(console, "Approvals", columns, told)


def _show_tasks(console: "Console", tasks: "Sequence[Task]") -> None:
    told = ((each.id, each.title, each.status.value, len(each.calls)) for each in tasks)
    _show(console, "Tasks", ("id", "task", "status", "calls"), told)


def _show_results(console: "Console", found: "Sequence[KeptResult]") -> None:
    columns = ("when", "handle", "type", "bytes", "until")
    told = (
        (_when(each.created), each.handle, each.mime_type, each.size, _when(each.expires))
        for each in found
    )
    _show(console, "Long results", columns, told)


def _show(
    console: "Console", title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Show a table, unless it is empty."""
    from leonidas_tools.cli import terminal

    table = terminal.table(console, *columns, title=title)
    for row in rows:
        table.add_row(*("" if each is None else terminal.one_line(each, _WIDEST) for each in row))
    if table.row_count:
        console.print(table)


def pace_events(
    events: "Iterable[ReplayEvent]", speed: float, longest_pause: float
) -> "Iterator[tuple[float, ReplayEvent]]":
    """Yield the seconds to wait before each event, and the event.

    Args:
        events: The events, in order.
        speed: The speed as a factor; 0 for no pauses.
        longest_pause: The maximum pause, in seconds.
    """
    before = None
    for event in events:
        gap = 0.0 if before is None or not speed else max(event.at - before, 0.0) / speed
        before = event.at
        yield min(gap, longest_pause), event


def _check_status(status: str | None) -> None:
    """Refuse a status that no call has."""
    from leonidas_tools.calls.call import validate_status
    from leonidas_tools.errors import ToolValidationError
    from leonidas_tools.store.rows import INTERRUPTED, STARTED

    try:
        if status is not None:
            validate_status(status, STARTED, INTERRUPTED)
    except ToolValidationError as error:
        raise typer.BadParameter(f"--status: {error}") from None


def _moment(text: str | None, option: str) -> float | None:
    """Return seconds since the epoch, from a duration ago, or a date with or without a time."""
    from leonidas_tools.settings.fields import seconds

    if text is None:
        return None
    with suppress(ValueError):
        return time.time() - float(seconds(text))
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        message = f"{option} {text!r} is neither a duration nor a date: write 2h or 2026-11-22"
        raise typer.BadParameter(message) from None


def _show_calls(found: "Sequence[Execution]", *, as_json: bool, nothing: str) -> None:
    from leonidas_tools.cli import terminal

    if as_json:
        _write_lines(found)
        return
    if not found:
        terminal.say(nothing)
        return
    console = terminal.output()
    rows = terminal.table(console, *_COLUMNS)
    for call in found:
        told = call.message if call.result is None else call.result
        rows.add_row(
            _when(call.started),
            call.session,
            call.user,
            call.tool,
            f"{call.status} (may have happened)" if call.may_have_happened else call.status,
            call.reason or "",
            _took(call.seconds),
            terminal.one_line(call.arguments, _WIDEST),
            "" if told is None else terminal.one_line(told, _WIDEST),
        )
    console.print(rows)


def _line(event: "ReplayEvent", began: float, width: int) -> str:
    from leonidas_tools.cli import terminal

    kind = event.kind.removeprefix("tool_").removeprefix("approval_")
    data = {key: value for key, value in event.data.items() if key != "seconds"}
    told = data["arguments"] if kind == "start" else data
    took = f" in {_took(event.data['seconds'])}" if "seconds" in event.data else ""
    head = f"{event.at - began:8.3f}  {kind:<9} {event.tool}{took}  "
    return head + terminal.one_line(told, max(width - len(head), _WIDEST))


def _took(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
