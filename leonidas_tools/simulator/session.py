"""One session as a scenario plays it: what the simulated model does, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from leonidas_tools.simulator.calling import WAIT_SECONDS
from leonidas_tools.simulator.door import Refusing
from leonidas_tools.simulator.exchange import StepFailedError
from leonidas_tools.simulator.protocol import INTERNAL
from leonidas_tools.simulator.speaking import Speaking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.simulator.received import ContextUpdate
    from leonidas_tools.simulator.user_input import InputKind, UserInput


class SimulatedSession(Speaking):
    """The model's side of one session; a scenario in Python gets one as its argument.

    Example:
        >>> async def scenario(session: SimulatedSession) -> None:
        ...     await session.wait_for_input("text")
        ...     (answer,) = await session.call(FunctionCall("get_weather", {"city": "Lisbon"}))
        ...     assert answer.status == "ok"
        ...     await session.say("It is sunny.")
        ...     await session.turn_complete()
    """

    # The client.

    async def wait_for_input(
        self,
        kind: InputKind | Literal["any"] = "any",
        *,
        count: int = 1,
        containing: str = "",
        within_seconds: float = WAIT_SECONDS,
    ) -> tuple[UserInput, ...]:
        """Wait until the user has sent something that no earlier wait has taken.

        Args:
            kind: What to wait for.
            count: How much of it.
            containing: What a text must contain, in any case.
            within_seconds: How long to wait.

        Raises:
            StepFailedError: It did not come in time.
        """

        def taken() -> list[UserInput]:
            return [each for each in self._inputs if _fits(each, kind, containing)][:count]

        await self._until(
            lambda: len(taken()) == count,
            within_seconds,
            lambda: f"{len(taken())} of {count} inputs ({kind}) came",
        )
        inputs = taken()
        self._inputs = [each for each in self._inputs if not any(each is one for one in inputs)]
        return tuple(inputs)

    async def wait_for_context_update(
        self, declaring: str = "", *, within_seconds: float = WAIT_SECONDS
    ) -> ContextUpdate:
        """Wait for the next context update that no earlier wait has taken.

        Args:
            declaring: A function that is to be declared by it; empty for any update.
            within_seconds: How long to wait.

        Raises:
            StepFailedError: It did not come in time.
        """

        def found() -> list[ContextUpdate]:
            return [each for each in self._updates if not declaring or declaring in _tools(each)]

        what = f" that declares {declaring!r}" if declaring else ""
        await self._until(
            lambda: bool(found()), within_seconds, lambda: f"no context update{what} came"
        )
        update = found()[0]
        self._updates = self._updates[self._updates.index(update) + 1 :]
        return update

    async def wait_for_close(self, *, within_seconds: float = WAIT_SECONDS) -> None:
        """Wait until the client has closed the connection, as a goAway asks.

        Raises:
            StepFailedError: It did not, or the server had to.
        """
        await self._until(
            self._left.is_set, within_seconds, lambda: "the client did not close the connection"
        )
        if self._line.ended:
            raise StepFailedError("the client left the closing to the server")

    # The session.

    async def usage(self, metadata: Mapping[str, Any]) -> None:
        """Send usage metadata, such as `{"totalTokenCount": 10}`."""
        await self.send({"usageMetadata": dict(metadata)})

    async def expire_handles(self) -> None:
        """End the life of all handles of this session that were sent so far."""
        self._line.expire_handles()

    async def go_away(self, time_left_seconds: float, *, close: bool = False) -> None:
        """Warns that the connection ends soon.

        Args:
            time_left_seconds: How soon, by the loop's time at any speed.
            close: End it when the time is over, with 1011 as reported; without, ending it is
                another step.
        """
        await self.send({"goAway": {"timeLeft": f"{time_left_seconds:g}s"}})
        if close:
            self._line.close_later(time_left_seconds, INTERNAL, "the time after goAway is over")

    # The connection, and those to come.

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection in good order."""
        await self._line.close(code, reason)

    async def drop(self) -> None:
        """Drop the connection without a closing frame, as a lost network does."""
        self._line.drop()

    async def stall_pongs(self, seconds: float) -> None:
        """Take no notice of the client for a while, pings included; the scenario goes on.

        Args:
            seconds: How long, by the loop's time at any speed.
        """
        self._line.turn_deaf(seconds)

    async def go_silent(self) -> None:
        """Take no notice of the client and sends nothing, until it has cut the connection."""
        self._line.turn_deaf(None)
        await self._left.wait()

    async def refuse_connections(
        self,
        count: int = 1,
        *,
        http_status: int | None = None,
        close_code: int = INTERNAL,
        reason: str = "",
    ) -> None:
        """Turn away connections to come.

        Args:
            count: How many.
            http_status: With this status at the HTTP request; None to refuse after the setup.
            close_code: With this code after the setup.
            reason: What to say.
        """
        refusing = Refusing(http_status=http_status, close_code=close_code, reason=reason)
        self._line.refuse_connections(count, refusing)

    async def stop_listening(self, seconds: float) -> None:
        """Stop the server's listening for a while: who connects is refused by the network.

        Args:
            seconds: How long, by the loop's time at any speed.
        """
        self._line.stop_listening(seconds)


def _fits(each: UserInput, kind: str, containing: str) -> bool:
    return kind in {"any", each.kind} and containing.casefold() in each.text.casefold()


def _tools(update: ContextUpdate) -> Mapping[str, Any]:
    return update.tools or {}
