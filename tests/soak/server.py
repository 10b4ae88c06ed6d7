"""The simulated servers, one for each conversation, in a process of their own.

It is told what to do in lines of JSON: `{"open": 7, "generation": "3.1", …}` answers
with the environment of a client, `{"close": 7}` with what went wrong and what happened.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from leonidas_tools.simulator import LiveSimulator, Scenario
from tests.soak.script import Script


class Servers:
    """The process of the simulated servers, as the soak sees it."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            __name__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def open(self, number: int, **options: Any) -> dict[str, str]:
        """Start the server of a conversation and return the environment of its client.

        The options are those of `Script`, and the generation of the model.
        """
        answer: dict[str, str] = await self._ask({"open": number, **options})
        return answer

    async def close(self, number: int) -> dict[str, Any]:
        """Stop the server of a conversation and return what it saw."""
        answer: dict[str, Any] = await self._ask({"close": number})
        return answer

    async def _ask(self, question: dict[str, Any]) -> Any:
        sending, receiving = self._process.stdin, self._process.stdout
        assert sending is not None
        assert receiving is not None
        async with self._turn:
            sending.write(json.dumps(question).encode() + b"\n")
            await sending.drain()
            line = await receiving.readline()
        if not line:
            raise RuntimeError("The process of the simulated servers has ended; see above why")
        return json.loads(line)


class _Server:
    def __init__(self, number: int, *, generation: str, **options: Any) -> None:
        self._script = Script(number, **options)
        self._simulator = LiveSimulator(Scenario(self._script.play), generation=generation)
        self._simulator.start()

    @property
    def environment(self) -> dict[str, str]:
        return self._simulator.environment()

    def stop(self) -> dict[str, Any]:
        self._simulator.stop()
        heard = {int.from_bytes(each.data[:4], "big") for each in self._simulator.audio_received}
        return {
            "problems": list(self._problems()),
            "frames": len(heard),
            "connections": len(self._simulator.connections),
            **asdict(self._script.done),
        }

    def _problems(self) -> Iterator[str]:
        for violation in self._simulator.violations:
            yield f"the protocol was broken: {violation}"
        for outcome in self._simulator.outcomes:
            if outcome.status == "failed":
                yield f"the script failed: {outcome}"


def _serve() -> None:
    servers: dict[int, _Server] = {}
    for line in sys.stdin:
        question = json.loads(line)
        if (number := question.pop("close", None)) is not None:
            answer = servers.pop(number).stop()
        else:
            number = question.pop("open")
            servers[number] = _Server(number, **question)
            answer = servers[number].environment
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
