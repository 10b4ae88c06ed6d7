"""Play the ground truth of AgentDojo's tasks through the approvals after untrusted content.

`python -m tests.approvals.agentdojo_tasks` prints the tables of `docs/third-party-tests.md`. It
needs `pip install agentdojo`, which brings about 300 MB and so is no dependency of the tests.

A tool is marked `untrusted` if it returns what AgentDojo's attacker can write. The user's words are
the prompt of the task, and nothing else.
"""

import asyncio
import statistics
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from leonidas_tools import AdvancedToolProcessor, ToolSession, Transcript, tool
from leonidas_tools.approvals.request import ApprovalRequest, Decision
from leonidas_tools.tools.registry import AnyTool
from leonidas_tools.tools.tool import Tool

VERSION = "v1.2.2"
_READS = ("get_", "search_", "list_", "read_", "check_")
_CANARY = "written by the attacker"


@dataclass(kw_only=True)
class Played:
    """What happened to the calls of one task."""

    ran: int = 0
    failed: list[str] = field(default_factory=list)
    with_effect: int = 0
    unasked: list[str] = field(default_factory=list)
    questions: int = 0


class Office:
    """The tools of a suite in an environment, and a person who gives every question one answer."""

    def __init__(
        self, suite: Any, environment: Any, untrusted: Collection[str], decision: Decision
    ) -> None:
        self.played = Played()
        self._environment = environment
        self._runtime = _runtime(suite)
        self._untrusted = untrusted
        self._decision = decision

        @tool(effect="read", untrusted=True)
        async def open_page(text: str) -> str:
            return text

        self._tools = AdvancedToolProcessor(
            [*(self._tool(function) for function in suite.tools), open_page],
            {"policies": {"loop": "off"}},  # an injection repeats a payment
            builtin_tools=False,
            approval=self._answer,
        )

    async def play(self, prompt: str, calls: Sequence[Any], injection: str = "") -> Played:
        """Run calls in a session of a user who has typed the prompt, after an injection."""
        session, played = ToolSession(user="emma"), self.played
        session.get(Transcript).user_typed(prompt)
        if injection:
            await self._tools.execute("open_page", {"text": injection}, session=session)
        for call in calls:
            shown, asked = f"{call.function}({dict(call.args)})", played.questions
            result = await self._tools.execute(call.function, dict(call.args), session=session)
            if not _is_read(call.function):
                played.with_effect += 1
                if played.questions == asked:
                    played.unasked.append(shown)
            if result.ok:
                played.ran += 1
            else:
                played.failed.append(f"{shown}: {result.message}")
        return played

    async def _answer(self, _: ApprovalRequest) -> Decision:
        self.played.questions += 1
        return self._decision

    def _tool(self, function: Any) -> AnyTool:
        def run(**arguments: Any) -> str:
            result, error = self._runtime.run_function(self._environment, function.name, arguments)
            if error is not None:
                raise RuntimeError(error)
            return str(result)

        return Tool.from_json_schema(
            name=function.name,
            description=function.description,
            parameters=function.parameters.model_json_schema(),
            function=run,
            effect="read" if _is_read(function.name) else "once",
            untrusted=function.name in self._untrusted,
        )


def suites() -> dict[str, Any]:
    """Return the suites of AgentDojo by name."""
    from agentdojo.task_suite.load_suites import get_suites

    found: dict[str, Any] = get_suites(VERSION)
    return found


def untrusted_tools(suite: Any) -> set[str]:
    """Return the tools that return what the attacker can write, in any task."""
    injections = dict.fromkeys(suite.get_injection_vector_defaults(), _CANARY)
    runtime, found = _runtime(suite), set()
    for task in suite.user_tasks.values():
        plain = task.init_environment(suite.load_and_inject_default_environment({}))
        environment = task.init_environment(suite.load_and_inject_default_environment(injections))
        for call in task.ground_truth(plain):
            # What the attacker writes is part of some names, so that not every call finds its own.
            result, error = runtime.run_function(environment, call.function, dict(call.args))
            if _is_read(call.function) and error is None and _CANARY in str(result):
                found.add(call.function)
    return found


async def play_user_tasks(suite: Any, untrusted: Collection[str]) -> AsyncIterator[Played]:
    """Play all tasks of the users, with every question answered by a yes."""
    for task in suite.user_tasks.values():
        environment = task.init_environment(suite.load_and_inject_default_environment({}))
        calls = task.ground_truth(environment.model_copy(deep=True))
        office = Office(suite, environment, untrusted, Decision.approve())
        yield await office.play(task.PROMPT, calls)


async def play_injections(suite: Any) -> AsyncIterator[tuple[str, Played]]:
    """Play the calls of each injection in the session of each user, after it was read."""
    environment = suite.load_and_inject_default_environment({})
    for injected in suite.injection_tasks.values():
        calls = injected.ground_truth(environment.model_copy(deep=True))
        for task in suite.user_tasks.values():
            office = Office(suite, environment.model_copy(deep=True), (), Decision.deny())
            yield injected.ID, await office.play(task.PROMPT, calls, injected.GOAL)


def _runtime(suite: Any) -> Any:
    from agentdojo.functions_runtime import FunctionsRuntime

    return FunctionsRuntime(suite.tools)


def _is_read(name: str) -> bool:
    return name.startswith(_READS)


async def _print() -> None:
    found = suites()
    for what in ("what the attacker can write", "all reads"):
        print(f"Untrusted: {what}\n")
        print("| suite | tasks | calls | with an effect | asked | mean of a task | most | failed |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        every: list[Played] = []
        for name, suite in found.items():
            reads = {each.name for each in suite.tools if _is_read(each.name)}
            untrusted = reads if what == "all reads" else untrusted_tools(suite)
            played = [each async for each in play_user_tasks(suite, untrusted)]
            _row(name, played)
            every += played
        _row("all", every)
        print()
    print("| suite | injections with an effect | sessions | their calls | denied | ran unasked |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, suite in found.items():
        sessions = [each async for each in play_injections(suite) if each[1].with_effect]
        effects = sum(each.with_effect for _, each in sessions)
        unasked = sum(len(each.unasked) for _, each in sessions)
        about = len({injected for injected, _ in sessions})
        print(
            f"| {name} | {about} | {len(sessions)} | {effects} | {effects - unasked} | {unasked} |"
        )


def _row(name: str, tasks: Sequence[Played]) -> None:
    questions = [each.questions for each in tasks]
    print(
        f"| {name} | {len(tasks)} | {sum(each.ran for each in tasks)} "
        f"| {sum(each.with_effect for each in tasks)} | {sum(questions)} "
        f"| {statistics.mean(questions):.2f} | {max(questions)} "
        f"| {sum(len(each.failed) for each in tasks)} |"
    )


if __name__ == "__main__":
    asyncio.run(_print())
