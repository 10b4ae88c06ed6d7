"""`leonidas history show` and `approvals`: the stored records of a session."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leonidas_tools.cli.kept import (
    MOST_ROWS,
    AsJson,
    Place,
    answer,
    no_session,
    when,
    write_lines,
)
from leonidas_tools.cli.places import Config

if TYPE_CHECKING:
    from rich.console import Console

    from leonidas_tools.store import Approval, Execution, KeptResult, Store, Task

_WIDEST = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class _SessionRecords:
    """The stored records of one session.

    Args:
        calls: Its calls, the first one first.
        approvals: What was asked in it, the first one first.
        tasks: Its task list.
        results: Its results that were too long for the model, the first one first.
    """

    calls: "Sequence[Execution]"
    approvals: "Sequence[Approval]"
    tasks: "Sequence[Task]"
    results: "Sequence[KeptResult]"

    def lines(self) -> list[dict[str, Any]]:
        """Return the records as plain JSON; `record` says what each one is."""
        rows: list[tuple[str, Sequence[Any]]] = [
            ("call", self.calls),
            ("approval", self.approvals),
            ("task", self.tasks),
            ("result", self.results),
        ]
        return [{"record": kind, **each.to_json()} for kind, found in rows for each in found]


def show(
    session: str,
    user: Annotated[str | None, typer.Option(help="Only this user's.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST_ROWS, help="How many of each at most.")
    ] = 200,
    config: Config = None,
    place: Place = None,
    as_json: AsJson = False,
) -> None:
    """Show what is stored of a session: calls, approvals, tasks and long results.

    Example: leonidas history show SESSION
    """
    from leonidas_tools.cli import terminal

    async def asked(store: "Store") -> _SessionRecords:
        return _SessionRecords(
            calls=(await store.executions(session=session, user=user, limit=limit))[::-1],
            approvals=(await store.approvals.find(session=session, user=user, limit=limit))[::-1],
            tasks=await store.tasks.find(session, user=user),
            results=(await store.results.find(session=session, user=user, limit=limit))[::-1],
        )

    kept = answer(asked, config, place)
    if not kept.lines():
        raise no_session(session)
    if as_json:
        for line in kept.lines():
            terminal.write_json(line)
        return
    console = terminal.output()
    _show_calls(console, kept.calls)
    _show_approvals(console, kept.approvals)
    _show_tasks(console, kept.tasks)
    _show_results(console, kept.results)


def approvals(  # noqa: PLR0913, PLR0917 - each is an option of the command
    session: Annotated[str | None, typer.Option(help="Only this session's.")] = None,
    user: Annotated[str | None, typer.Option(help="Only this user's.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only those about this tool.")] = None,
    decision: Annotated[
        str | None,
        typer.Option(help="Such as approved, denied, expired, withdrawn, unanswered."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="How many at most.")] = 50,
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
        said = f"--decision {decision!r} is not known: choose one of {', '.join(options)}"
        raise typer.BadParameter(said)

    async def asked(store: "Store") -> "list[Approval]":
        return await store.approvals.find(
            session=session, user=user, tool=tool, decision=decision, limit=limit
        )

    found = answer(asked, config, place)
    if as_json:
        write_lines(found)
    else:
        _show_approvals(terminal.output(), found)


def _show_calls(console: "Console", calls: "Sequence[Execution]") -> None:
    columns = ("when", "tool", "status", "arguments", "result")
    told = (
        (
            when(call.started),
            call.tool,
            call.status,
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
            when(each.requested),
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
        (when(each.created), each.handle, each.mime_type, each.size, when(each.expires))
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
