"""What the model does in one conversation: chosen by a seed, over all its connections."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from websockets.exceptions import ConnectionClosed

from leonidas_tools.simulator import ClientLeftError, FunctionCall, SimulatedSession

FAREWELL = "Good bye."
FUNCTIONS = ("look", "book", "count", "fail", "alpha_echo", "beta_echo", "gamma_echo", "nonsense")
_ANSWER_SECONDS = 60.0


@dataclass(kw_only=True)
class Done:
    """How often the model did what."""

    calls: int = 0
    cancellations: int = 0
    interruptions: int = 0
    endings: int = 0


class Script:
    """Plays one conversation for some seconds, then says good bye on a connection that stays.

    Args:
        number: The number of the conversation, and its seed.
        seconds: How long it lasts.
        pause_seconds: The longest pause between two things that happen.
    """

    def __init__(self, number: int, *, seconds: float, pause_seconds: float) -> None:
        self.done = Done()
        self._number = number
        self._random = random.Random(number)
        self._until = time.monotonic() + seconds
        self._pause_seconds = pause_seconds

    async def play(self, session: SimulatedSession) -> None:
        """Play one connection, from where the last one ended."""
        try:
            await self._play(session)
        except (ClientLeftError, ConnectionClosed):
            raise
        except Exception:
            self._until = 0.0  # the verdict is known: the next connection is the last
            raise

    async def _play(self, session: SimulatedSession) -> None:
        steps: dict[Callable[[SimulatedSession], Awaitable[None]], int] = {
            self._ask: 8, self._wait: 4, self._listen: 3, self._speak: 3, self._cancel: 3,
            self._interrupt: 2, self._offer_handle: 3, self._end: 2,
        }  # fmt: skip
        while time.monotonic() < self._until:
            (step,) = self._random.choices(list(steps), list(steps.values()))
            await step(session)
            await session.pause(self._random.uniform(0, self._pause_seconds))
        await session.wait_for_answers(within_seconds=_ANSWER_SECONDS)
        await session.say(FAREWELL, audio_seconds=0.02)
        await session.turn_complete(within_seconds=_ANSWER_SECONDS)

    async def _ask(self, session: SimulatedSession) -> None:
        calls = [self._call() for _ in range(self._random.randint(1, 3))]
        await session.send_calls(*calls, in_model_turn=self._random.random() < 0.2)

    def _call(self) -> FunctionCall:
        self.done.calls += 1
        args = {
            "conversation": self._number,
            "number": self.done.calls,
            "seconds": self._random.choice([0.0, 0.0, 0.1, 0.5, 2.0]),
        }
        name = self._random.choice(FUNCTIONS)
        return FunctionCall(name, args, id=f"c{self.done.calls}", undeclared=True)

    async def _wait(self, session: SimulatedSession) -> None:
        await session.wait_for_answers(within_seconds=_ANSWER_SECONDS)

    async def _listen(self, session: SimulatedSession) -> None:
        await session.wait_for_input("audio", within_seconds=_ANSWER_SECONDS)

    async def _speak(self, session: SimulatedSession) -> None:
        await session.say("Let me see.", audio_seconds=0.1)
        await session.turn_complete(within_seconds=_ANSWER_SECONDS)

    async def _cancel(self, session: SimulatedSession) -> None:
        if session.pending:
            self.done.cancellations += 1
            await session.cancel(self._random.choice(session.pending))

    async def _interrupt(self, session: SimulatedSession) -> None:
        self.done.interruptions += 1
        await session.interrupt(cancel=self._random.random() < 0.5)

    async def _offer_handle(self, session: SimulatedSession) -> None:
        handle = None if session.pending else session._connection.new_handle()
        await session.session_resumption(handle)

    async def _end(self, session: SimulatedSession) -> None:
        """End the connection: by itself, with a warning, or with more trouble behind it."""
        self.done.endings += 1
        how = self._random.choice(["drop", "drop", "close", "go away", "expire", "refuse", "deaf"])
        match how:
            case "go away":
                await session.go_away(self._random.choice([0.5, 3.0]), close=True)
            case "close":
                await session.close(1011, "soak")
            case "expire":
                await session.expire_handles()
            case "refuse":
                await session.refuse_connections(http_status=self._random.choice([None, 503]))
            case "deaf":  # what the client sends now is lost
                session._connection.ignore_client(None)
                await asyncio.sleep(0.05)
        if how not in {"go away", "close"}:
            await session.drop()
        await session._left.wait()
