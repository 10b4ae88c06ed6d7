"""Show happenings: a line each for people, a JSON object each for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rich.text import Text

from leonidas_tools.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.cli.happenings import Happening
    from leonidas_tools.cli.summary import Summary

_STYLES = {
    "user": "bold cyan",
    "agent": "bold green",
    "called": "yellow",
    "progress": "dim",
    "retry": "dim",
    "fallback": "dim",
    "undo": "dim",
    "asked": "bold magenta",
    "approved": "bold green",
    "denied": "bold red",
    "cached": "bold blue",
    "spilled": "bold blue",
    "stopped": "bold red",
    "late": "green",
    "cancelled": "magenta",
    "interrupted": "magenta",
    "lost": "bold red",
    "refused": "bold red",
    "connected": "dim",
    "renewed": "blue",
    "tools": "blue",
    "go_away": "magenta",
    "malformed": "bold red",
}
_EVENTS = {
    "connection_opened": "connected",
    "connection_renewed": "renewed",
    "connection_lost": "lost",
    "connection_refused": "refused",
    "tools_changed": "tools",
    "malformed_function_call": "malformed",
    "approval_request": "asked",
    "late_result": "late",
}
_DECISIONS = {
    **dict.fromkeys(("approve", "edit", "always", "proceed"), "approved"),
    **dict.fromkeys(("deny", "cancel"), "denied"),
}
_EXPLAINED = {
    "spilled": "the result was too long; the model got a part of it, and a handle to read more",
    "late": "the result came after the call had been answered; the model was told it in a text",
}
"""Explanations of the rarer labels of a line."""
_SPILLED = frozenset({"handle", "preview"})
_BEFORE_TEXT = 22
_MIN_TEXT_LENGTH = 16
_MAX_TEXT_LENGTH = 1000


class Display(Protocol):
    """Shows a session."""

    def show(self, happening: Happening) -> None:
        """Show a happening."""

    def close(self, summary: Summary) -> None:
        """Show the summary."""


class JsonLines:
    """Writes one JSON object per line."""

    def show(self, happening: Happening) -> None:
        """Show a happening."""
        terminal.write_json(happening.to_json())

    def close(self, summary: Summary) -> None:
        """Show the summary."""
        terminal.write_json({"event": "summary", **summary.to_json()})


class Lines:
    """Writes a line for each happening, and a table at the end."""

    def __init__(self) -> None:
        self._console = terminal.output()
        self._closed = 0
        self._shown: set[str] = set()

    def show(self, happening: Happening) -> None:
        """Show a happening."""
        if happening.kind == "turn_complete":
            return
        if happening.kind == "session" and self._closed:
            name = str(happening.data.get("scenario", ""))
            self._console.print()
            if name:
                self._console.print(Text(f"— {name} —", "bold"))
        width = max(self._console.width - _BEFORE_TEXT, _MIN_TEXT_LENGTH)
        # A message of the program itself is never truncated: it has instructions for the user.
        who, text = _text(happening, _MAX_TEXT_LENGTH if happening.kind == "session" else width)
        self._shown.add(who)
        style = _STYLES.get(who) or _status_style(
            happening.data.get("response", {}).get("status", "ok")
        )
        at = f"{happening.at_seconds:8.2f}  "
        line = Text.assemble((at, "dim"), (f"{who:<12}", style), text)
        line.rstrip()
        self._console.print(line, soft_wrap=True)

    def close(self, summary: Summary) -> None:
        """Show the summary."""
        self._closed += 1
        console = self._console
        rows = terminal.table(console, "", "call", "tool", "status", "time", "answers")
        for call in summary.calls:
            rows.add_row(
                Text("✓", "green") if call.ok else Text("✗", "bold red"),
                call.id or "-",
                call.tool,
                Text(call.status, _status_style(call.status)),
                _duration(call.seconds),
                str(call.answers),
            )
        console.print()
        for problem in summary.problems:
            console.print(Text(f"✗ {problem}", "bold red"), soft_wrap=True)
        if summary.problems:
            console.print()
        if summary.calls:
            console.print(rows)
            console.print()
        for word, meaning in _EXPLAINED.items():
            if word in self._shown:
                console.print(Text(f"{word}: {meaning}", "dim"), soft_wrap=True)
        self._shown.clear()
        style = "yellow" if summary.interrupted else "green" if summary.ok else "red"
        console.print(Text(summary.verdict, f"bold {style}"))


def _status_style(status: str) -> str:
    if status in ("pending_approval", "cancelled"):
        return "magenta"
    return "green" if status in ("ok", "no_results", "repeated") else "red"


def _text(happening: Happening, width: int) -> tuple[str, str]:
    """Return the label of a happening, and its text."""
    data = happening.data
    if happening.kind == "said":
        return str(data["who"]), str(data["text"])
    tool = str(data.get("tool") or "")
    match happening.kind:
        case "called":
            text = f"{tool}({_arguments(data['arguments'])})"
        case "answered":
            return _label_answer(data), terminal.one_line(_answer(data), width)
        case "approval_answer":
            return _format_decision(data)
        case "progress" | "retry" | "fallback" | "undo":
            text = f"{tool}: {progress_text(data)}"
        case "go_away":
            text = f"the server ends the connection in {data.get('time_left', 'a while')}"
        case kind if kind in _EVENTS:
            return _EVENTS[kind], terminal.one_line(_event_text(kind, data), width)
        case _:
            text = str(data.get("text") or tool)
    return happening.kind, terminal.one_line(text, width)


def _format_decision(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return the decision about a call, and a text with its author."""
    how = "" if data["decision"] in ("approve", "deny") else f" ({data['decision']})"
    by = f"the rule {data['rule']!r}" if data.get("rule") else str(data.get("by"))
    return _DECISIONS.get(data["decision"], "decided"), f"{data['tool']}, by {by}{how}"


def _label_answer(data: Mapping[str, Any]) -> str:
    """Return the label of an answer: `stopped` by a loop, `cached`, `spilled` or `answered`."""
    response = data["response"]
    result = response.get("result")
    if response.get("status") == "loop":
        return "stopped"
    if data.get("cached"):
        return "cached"
    return "spilled" if isinstance(result, dict) and result.keys() == _SPILLED else "answered"


def _answer(data: Mapping[str, Any]) -> str:
    """Return an answer on one line: its status, its duration, and its message and result."""
    response = {k: v for k, v in data["response"].items() if k not in ("status", "retryable")}
    status = data["response"].get("status", "answered")
    text = f"{data['tool']}: {status} in {_duration(data['seconds'])}"
    if data.get("after_reconnect"):
        text += ", sent after the reconnect"
    asks = status == "pending_approval" and "result" in response  # its message is for the model
    keys = ("result",) if asks else ("message", "result")
    told = [response[key] for key in keys if key in response]
    said = [terminal.one_line(each, _MAX_TEXT_LENGTH) for each in told or [response] if each != {}]
    return " ".join([text, *said])


def _event_text(kind: str, data: Mapping[str, Any]) -> str:
    """Return the text of an event of the connection or of a call."""
    match kind:
        case "approval_request":
            return f"{data['tool']}: the rule {data['rule']!r} requires approval"
        case "late_result":
            return f"{data['tool']}: {terminal.one_line(data['response'], _MAX_TEXT_LENGTH)}"
        case "connection_lost" | "connection_refused":
            more = "; a new connection follows" if kind == "connection_lost" else ""
            return f"{data['reason'] or data.get('code')}{more}"
        case "tools_changed":
            told = [f"+{name}" for name in data["added"]] + [f"-{name}" for name in data["removed"]]
            return " ".join(told) or "declared again"
        case "malformed_function_call":
            return "the model has made a call that cannot be read"
        case _:
            text = f"connection {data['connection']}"
            text += ", the session is resumed" if data["resumed"] else ""
            dropped = data["audio_dropped"]
            return text + (f", {dropped} audio frames were dropped" if dropped else "")


def _arguments(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{k}={terminal.one_line(_quote(v), 60)}" for k, v in arguments.items())


def _quote(value: Any) -> Any:
    return f'"{value}"' if isinstance(value, str) else value


def progress_text(data: Mapping[str, Any]) -> str:
    """Return the details of a progress event, such as `Asking TAP, 33%`."""
    if data.get("filler"):
        return f'fills the silence: "{data["message"]}"' if data["message"] else "fills the silence"
    more = {k: v for k, v in data.items() if k not in ("id", "tool", "message", "fraction")}
    words = [str(data["message"])] if data.get("message") else []
    if data.get("fraction") is not None:
        words.append(f"{data['fraction']:.0%}")
    return ", ".join([*words, *(f"{key} {value}" for key, value in more.items())])


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
