"""`leonidas policy`: the rules, which one decides about a call, and a page about each policy."""

import asyncio
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leonidas_tools.cli.places import Config, default_config
from leonidas_tools.cli.typed_arguments import parse_arguments
from leonidas_tools.errors import ConfigurationError, ToolValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools import ToolRuntime
    from leonidas_tools.rules.engine import ToolRules
    from leonidas_tools.rules.rule import Rule
    from leonidas_tools.tools.registry import AnyTool

_FOLDER = Path(__file__).parents[1] / "reference"


def commands() -> typer.Typer:
    """Return the commands about rules."""
    app = typer.Typer(help="Show the rules, what they decide, and a page about each policy.")
    app.command("list")(list_rules)
    app.command("explain")(explain)
    app.command("reference")(reference)
    return app


def list_rules(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List the rules, the strongest first, built-in ones included.

    Example: leonidas policy list --json
    """
    from leonidas_tools.cli import terminal
    from leonidas_tools.rules.engine import in_order
    from leonidas_tools.rules.rule import BUILTIN
    from leonidas_tools.settings.load import load

    policies = load(config or default_config()).policies
    rules = in_order([*policies.all_rules(), *BUILTIN])
    if as_json:
        terminal.write_json([rule.to_json() for rule in rules])
        return
    console = terminal.output()
    rows = terminal.table(console, "rule", "tier", "priority", "decide", "about")
    for rule in rules:
        rows.add_row(
            rule.name, rule.tier.name.lower(), str(rule.priority), rule.decide.value, _about(rule)
        )
    console.print(rows)
    console.print(f"Sessions begin in the mode {policies.mode.value!r}.")


def explain(
    tool: Annotated[str, typer.Argument(help="Its name; `leonidas tools list` lists all.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="A JSON object, or key=value for each argument."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(help="As if in the mode ask, autonomous or read_only; else policies.mode."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="As if the session were of this user.")] = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say which rule decides about a call, and why.

    Every rule about the tool is shown, the strongest first; an arrow marks the one that decides.
    The tool is not called. Limits are not rules: `leonidas tools show` has those of a tool, and
    `leonidas history` the calls that one has refused.

    Example: leonidas policy explain send_money to=Ana amount=500
    """
    from leonidas_tools.cli import terminal

    given = parse_arguments(arguments or [])
    told = asyncio.run(_explain(config or default_config(), tool, given, mode, user))
    if as_json:
        terminal.write_json(told)
        return
    console = terminal.output()
    by = next((f"rule {each['rule']!r}" for each in told["rules"] if each["decides"]), "no rule")
    console.print(f"{tool} {_MEANS[told['decide']]}: {by}, mode {told['mode']!r}")
    if told["risk"]:
        unless = f"`tools.{tool}.requires_approval: false` switches that off"
        console.print(f"It asks by default, for its {told['risk']}; {unless}.")
    rows = terminal.table(console, "", "rule", "tier", "priority", "decide", "why")
    for each in told["rules"]:
        mark = "→" if each["decides"] else ""
        rows.add_row(
            mark, each["rule"], each["tier"], str(each["priority"]), each["decide"], each["why"]
        )
    if told["rules"]:
        console.print(rows)
    else:
        console.print("No rule applies to this tool; `leonidas policy list` shows all rules.")


async def _explain(
    config: Path, name: str, given: dict[str, Any], mode: str | None, user: str | None
) -> dict[str, Any]:
    from leonidas_tools.cli.starting import get_tool, open_tools
    from leonidas_tools.rules.engine import Circumstances
    from leonidas_tools.rules.engine import explain as explained
    from leonidas_tools.rules.rule import REQUIRES_APPROVAL, Mode
    from leonidas_tools.rules.subject import add_facts
    from leonidas_tools.tools.metadata import as_enum

    async with open_tools(config, needed=name) as tools:
        tool = get_tool(tools, name)
        rules = _rules(tools, name)
        asked = tools.settings.current.policies.mode if mode is None else as_enum(Mode, mode)
        # In the form that the rules get: invalid arguments never reach the rules.
        arguments: Mapping[str, Any] = given
        if given:
            valid = _valid(tool, given)
            arguments = add_facts(tool.metadata, valid)
        about = Circumstances(arguments=arguments, mode=asked, user=user)
        decide, candidates = explained(rules, about)
        decides = next((each.rule.name for each in candidates if each.decides), None)
        subject = rules.subject
        by_default = decides == REQUIRES_APPROVAL.name and not subject.requires_approval
    return {
        "tool": name,
        "mode": asked.value,
        "decide": decide.value,
        "risk": (subject.risk or "name and number of items") if by_default else None,
        "rules": [each.to_json() for each in candidates],
    }


def _valid(tool: "AnyTool", given: dict[str, Any]) -> "Mapping[str, Any]":
    try:
        return tool.validator(given)
    except ToolValidationError as error:
        name = tool.name
        message = f"The arguments do not fit {name!r}: {error} See `leonidas tools show {name}`"
        raise ConfigurationError(message) from None


def _rules(tools: "ToolRuntime", name: str) -> "ToolRules":
    from leonidas_tools.rules.subject import subject_of

    settings = tools.settings.current
    tool = tools.registry[name]
    subject = subject_of(tool.metadata, settings.for_tool(name, tool.origin))
    return settings.policies.rule_book().for_tool(subject)


def _about(rule: "Rule") -> str:
    """Return the conditions of a rule on one line."""
    from leonidas_tools.cli import terminal

    told = {k: v for k, v in rule.to_json().items() if k not in _SHOWN and v}
    words = (f"{key} {terminal.one_line(value, 60)}" for key, value in told.items())
    return "; ".join(words) or "every tool that requires approval"


_MEANS = {
    "allow": "runs",
    "audit": "runs, and that is recorded",
    "ask": "asks the user first",
    "deny": "is denied",
}
_SHOWN = frozenset({"name", "tier", "priority", "decide", "message"})


def reference(
    page: Annotated[
        str | None, typer.Argument(help="A name from the list, such as cache or approval.")
    ] = None,
) -> None:
    """List the pages about policies, or show one.

    A page describes the effect of a policy, how to enable it, what the model reads, the settings,
    the cost and the limits. Without a terminal, the output is Markdown.

    Example: leonidas policy reference cache
    """
    from leonidas_tools.cli import terminal

    console = terminal.output()
    pages = {file.stem: file for file in sorted(_FOLDER.glob("*.md"))}
    if page is None:
        rows = terminal.table(console, "page", "about")
        for name, file in pages.items():
            rows.add_row(name, _first_sentence(file.read_text(encoding="utf-8")))
        console.print(rows)
        return
    if page not in pages:
        close = get_close_matches(page, pages, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(pages)}"
        raise ConfigurationError(f"There is no page {page!r}: {hint}")
    text = pages[page].read_text(encoding="utf-8")
    if not console.is_terminal:
        typer.echo(text, nl=False)
        return
    from rich.markdown import Markdown

    console.print(Markdown(text))


def _first_sentence(text: str) -> str:
    """Return the summary of a page: the first sentence below its title."""
    _, _, about, *_ = text.splitlines()
    return about.partition(". ")[0].removesuffix(".").replace("`", "") + "."
