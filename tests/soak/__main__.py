"""`python -m tests.soak --sessions 200 --minutes 10`: conversations while everything changes."""

import argparse
import asyncio
import logging
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.soak.soak import WARM_UP, Plan, Soak, State

_SHOW_SECONDS = {True: 1.0, False: 15.0}
"""How often the progress is shown: on a terminal, and elsewhere."""
_GROWTH = 1.10
_MIB_PER_SESSION = 0.5
_OBJECTS_GROWTH = 1.03
_STEADY_SECONDS = 120.0
_MAX_FRAMES_LOST = 0.01
_MAX_NEVER_CONNECTED = 0.01
"""A busy machine may take longer than the first connection may."""
_MAX_PROBLEMS_SHOWN = 20


def main() -> int:
    """Run the soak and return 1 if anything was wrong."""
    arguments = _arguments()
    logging.getLogger("leonidas_tools").setLevel(logging.CRITICAL)  # it reports every kill
    plan = Plan(sessions=arguments.sessions, seconds=arguments.minutes * 60, seed=arguments.seed)
    state = asyncio.run(_run(plan))
    problems = [*state.problems, *_problems_of_all(state)]
    print(_summary(state))
    for problem in problems[:_MAX_PROBLEMS_SHOWN]:
        print(f"- {problem}")
    print(f"{len(problems)} problems" if problems else "Nothing was lost, doubled or left.")
    return 1 if problems else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--sessions", type=int, default=200, help="conversations at a time")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


async def _run(plan: Plan) -> State:
    soak = Soak(plan)
    showing = asyncio.create_task(_show(soak.state))
    try:
        await soak.run()
    finally:
        showing.cancel()
    return soak.state


async def _show(state: State) -> None:
    is_terminal = sys.stdout.isatty()
    while True:
        await asyncio.sleep(_SHOW_SECONDS[is_terminal])
        print(_line(state), end="\r" if is_terminal else "\n", flush=True)


def _line(state: State) -> str:
    done, total = (f"{int(s) // 60}:{int(s) % 60:02}" for s in (state.seconds, state.plan.seconds))
    memory = f"{state.memory[-1][1]:.0f} MiB" if state.memory else "- MiB"
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return (
        f"{done} of {total} | {state.open} open, {state.over} over | "
        f"{state.done['calls']} calls, {state.done['answered']} answered, "
        f"{state.done['cancelled']} cancelled | {state.done['endings']} connections lost, "
        f"{state.done['kills']} kills, {state.done['reloads']} reloads | "
        f"{memory}, {descriptors} descriptors | {len(state.problems)} problems"
    )


def _problems_of_all(state: State) -> Iterator[str]:
    """Yield what is wrong with all conversations together."""
    done = state.done
    if not done["answered"]:
        yield "no call was answered"
    if state.plan.seconds < _STEADY_SECONDS:  # too short to tell more
        return
    if done["never connected"] > state.over * _MAX_NEVER_CONNECTED:
        yield f"{done['never connected']} conversations never had a connection"
    if done["frames lost"] > done["frames heard"] * _MAX_FRAMES_LOST:
        yield f"{done['frames lost']} frames of the users were lost"
    early, late = _memory(state)
    # A conversation that lasts remembers its calls, up to a bound.
    if late > early * _GROWTH + _MIB_PER_SESSION * state.plan.sessions:
        yield f"the memory grew from {early:.0f} to {late:.0f} MiB"
    first, last = state.idle
    if last.objects > first.objects * _OBJECTS_GROWTH:
        yield f"objects stay when all is over: {first.objects} became {last.objects}"


def _memory(state: State) -> tuple[float, float]:
    """Return the memory after the warm-up and at the end of the time, in MiB: medians."""
    seconds = state.plan.seconds
    steady = [mib for at, mib in state.memory if WARM_UP * seconds <= at <= seconds] or [0.0]
    some = max(1, len(steady) // 5)
    return statistics.median(steady[:some]), statistics.median(steady[-some:])


def _summary(state: State) -> str:
    early, late = _memory(state)
    first, last = state.idle
    rows = [
        f"{state.over} conversations, {state.plan.sessions} at a time, in {state.seconds:.0f} s",
        f"memory: {early:.0f} MiB after the warm-up, {late:.0f} MiB at the end of the time",
        f"after the first few conversations: {first.mib:.0f} MiB, {first.objects} objects",
        f"after all conversations: {last.mib:.0f} MiB, {last.objects} objects",
        *(f"{name}: {count}" for name, count in sorted(state.done.items())),
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
