"""Kill a session, its worker, or both at random moments, and count what was paid.

`python -m tests.engines.temporal.kills 50` does so fifty times, and says what it has seen.
"""

import asyncio
import contextlib
import os
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.engines.temporal.conftest import started
from tests.engines.temporal.paying_session import lines

HERE = Path(__file__).parent
MAX_PAUSE_SECONDS = 3.0


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was asked, answered and paid, by order."""

    asked: set
    answers: dict
    paid: Counter
    kills: Counter

    def problems(self):
        """Say what must not be."""
        twice = [order for order, times in self.paid.items() if times > 1]
        yield from (f"{order} was paid {self.paid[order]} times" for order in twice)
        for order in self.asked:
            answer, times = self.answers.get(order), self.paid[order]
            if answer == "ok" and times != 1:
                yield f"{order} is said to be paid, and was paid {times} times"
            if answer not in ("ok", "unknown_outcome"):
                yield f"{order} was answered {answer!r}"

    def __str__(self):
        outcomes = Counter(self.answers.values())
        return (
            f"{self.kills.total()} kills ({dict(self.kills)}), {len(self.asked)} orders asked, "
            f"{dict(outcomes)}, {self.paid.total()} paid, "
            f"{sum(times > 1 for times in self.paid.values())} twice"
        )


async def kill(room, times, seed):
    """Kill processes at random moments while orders are paid, let the rest end, and look."""
    chance, kills = random.Random(seed), Counter()
    (room / "ledger_tools.py").write_bytes((HERE / "ledger.py").read_bytes())
    (room / "tools.yaml").write_text("toolboxes: [ledger_tools]\n")
    server = await started()
    address = server.client.service_client.config.target_host
    env = {**os.environ, "LEDGER_ROOM": str(room), "TEMPORAL_CONFIG_FILE": str(room / "none.toml")}
    worker = ("-m", "leonidas_tools", "worker", "--config", str(room / "tools.yaml"))
    commands = {
        "worker": (*worker, "--address", address),
        "session": ("-m", "tests.engines.temporal.paying_session", str(room), address, "2"),
    }
    running = {}
    try:
        for name, words in commands.items():
            running[name] = await process(words, env)
        for _ in range(times):
            victims = chance.choice((["session"], ["worker"], ["session", "worker"]))
            asked = len(lines(room / "asked"))
            while len(lines(room / "asked")) == asked:  # it works again after the last kill
                await asyncio.sleep(0.02)
            await asyncio.sleep(chance.uniform(0, MAX_PAUSE_SECONDS))
            for name in victims:
                running[name].kill()
            for name in victims:
                await running[name].wait()
                running[name] = await process(commands[name], env)
            kills["+".join(victims)] += 1
        (room / "enough").touch()
        assert await running["session"].wait() == 0
    finally:
        for each in running.values():
            with contextlib.suppress(ProcessLookupError):
                each.kill()
            await each.wait()
        await server.shutdown()
    answers = [line.split() for line in lines(room / "answers")]
    assert len(answers) == len(dict(answers))
    return Seen(
        asked={line.split()[0] for line in lines(room / "asked")},
        answers=dict(answers),
        paid=Counter(lines(room / "ledger")),
        kills=kills,
    )


async def process(words, env):
    return await asyncio.create_subprocess_exec(sys.executable, *words, env=env)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        seed = random.randrange(1 << 32) if len(sys.argv) < 3 else int(sys.argv[2])
        seen = asyncio.run(kill(Path(directory), int(sys.argv[1]), seed))
        print(f"seed {seed}: {seen}")
        sys.exit("\n".join(seen.problems()) or None)
