"""One conversation of the real client, and the verdict on it."""

import asyncio
import itertools
import ssl
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from typing import Any

from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from google.genai import Client, types

from leonidas_tools import AdvancedToolProcessor, GeminiLiveProcessor, LiveToolSession
from leonidas_tools.live.live_events import LIVE_EVENT
from tests.live.generated.wiretap import Wiretap
from tests.live.talking import MODELS, frame
from tests.soak.script import FAREWELL
from tests.soak.server import Servers

_PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 0.05
_EVENTS_KEPT = 5


class Conversation:
    """Talks for some seconds, and finds out whether every call was answered once.

    Args:
        number: Its number, which also says what happens in it.
        tools: The tools of all conversations.
        seconds: How long it lasts.
        frame_seconds: How long the user waits after each frame of sound.
        pause_seconds: The longest pause of the model between two things that it does.
    """

    def __init__(
        self,
        number: int,
        *,
        tools: AdvancedToolProcessor,
        seconds: float,
        frame_seconds: float,
        pause_seconds: float,
    ) -> None:
        self.number = number
        self.runs: Counter[int] = Counter()
        """How often the function of each call ran."""
        self.done: Counter[str] = Counter()
        """How often what happened."""
        self.problems: list[str] = []
        self._tools = tools
        self._seconds = seconds
        self._frame_seconds = frame_seconds
        self._pause_seconds = pause_seconds
        self._frames = 0
        self._tap = Wiretap()
        self._farewell = asyncio.Event()
        self._events: deque[str] = deque(maxlen=_EVENTS_KEPT)

    async def hold(self, servers: Servers) -> None:
        """Hold the conversation to its end."""
        generation = sorted(MODELS)[self.number % len(MODELS)]
        environment = await servers.open(
            self.number,
            generation=generation,
            seconds=self._seconds,
            pause_seconds=self._pause_seconds,
        )
        try:
            async with asyncio.timeout(self._seconds + _PATIENCE_SECONDS) as patience:
                await self._talk(MODELS[generation], environment)
        except Exception as error:
            if (
                isinstance(error, TimeoutError)
                and not patience.expired()
                and not self._was_connected()
            ):
                self.done["never connected"] += 1
            else:
                self.problems.append(f"it ended with {error!r}; {self._description()}")
        finally:
            self._take(await servers.close(self.number))
        self.problems += self._verdict()

    def _was_connected(self) -> bool:
        """Return whether the last things that were told are of a connection."""
        return any("connection_opened" in event for event in self._events)

    def _description(self) -> str:
        return (
            f"after {self._seconds:.0f} s the farewell has come: {self._farewell.is_set()}, "
            f"owed: {sorted(self._owed())}, {self._frames} frames, "
            f"{len(self._tap.wires)} connections, told last: {list(self._events)}"
        )

    async def _talk(self, model: str, environment: dict[str, str]) -> None:
        client = Client(api_key="simulated", http_options=self._options(environment))
        live = GeminiLiveProcessor(model, client=client, tools=self._tools)
        heard = ""
        async with processor.context():
            async for part in LiveToolSession(live, self._tools, settle_seconds=1.0)(self._user()):
                if LIVE_EVENT in part.metadata:
                    self._events.append(part.text)
                elif part.substream_name == "output_transcription":
                    heard = (heard + part.text)[-len(FAREWELL) :]
                    if heard == FAREWELL:
                        self._farewell.set()
        await client.aio.aclose()
        client.close()

    def _options(self, environment: dict[str, str]) -> types.HttpOptions:
        trusted = ssl.create_default_context(cafile=environment["SSL_CERT_FILE"])
        return self._tap.options(
            types.HttpOptions(
                base_url=environment["GOOGLE_GEMINI_BASE_URL"],
                api_version=environment["GOOGLE_GENAI_API_VERSION"],
                async_client_args={"ssl": trusted, "proxy": None, "ping_interval": None},
            )
        )

    async def _user(self) -> AsyncIterator[ProcessorPart]:
        while not self._farewell.is_set() or self._owed():
            yield frame(self._frames)
            self._frames += 1
            wait_seconds = _POLL_SECONDS if self._farewell.is_set() else self._frame_seconds
            await asyncio.sleep(wait_seconds)

    def _owed(self) -> set[str]:
        """Return the ids of calls that have come and have no outcome."""
        delivered = {each[2] for wire in self._tap.wires for each in wire.delivered()}
        received = [each for wire in self._tap.wires for each in wire.received()]
        cancelled = {call_id for _, what, call_id, _ in received if what == "cancel"}
        asked = {call_id for _, what, call_id, _ in received if what == "call"}
        return asked - delivered - cancelled

    def _take(self, report: dict[str, Any]) -> None:
        self.problems += report.pop("problems")
        heard = report.pop("frames")
        # A frame is kept for some seconds, so a network that is lost for longer may swallow some.
        self.done["frames lost"] += self._frames - heard
        self.done["frames heard"] += heard
        self.done.update(report)

    # The verdict.

    def _verdict(self) -> Iterator[str]:
        sent: dict[str, list[tuple[int, int, str, str]]] = {}
        names: dict[str, str] = {}
        cancelled: dict[str, tuple[int, int]] = {}
        for number, wire in enumerate(self._tap.wires):
            for at, what, call_id, name in wire.received():
                if what == "call":
                    names[call_id] = name
                else:
                    cancelled.setdefault(call_id, (number, at))
            for at, how, call_id, _, response in wire.delivered():
                sent.setdefault(call_id, []).append((number, at, how, response.get("status")))
        for call_id, name in names.items():
            told = f"call {call_id!r} of {name!r}"
            deliveries = sent.get(call_id, [])
            self._count(call_id in cancelled, deliveries)
            if not deliveries and call_id not in cancelled:
                yield f"{told} was never answered"
            if call_id in cancelled and any(each[:2] > cancelled[call_id] for each in deliveries):
                yield f"{told} was answered after its cancellation: {deliveries}"
            yield from (
                f"{told} was answered twice: {deliveries}"
                for (before, at, *_), (after, *_) in itertools.pairwise(deliveries)
                if before == after or self._tap.wires[before].confirmed > at
            )
        yield from (f"call {n} ran {count} times" for n, count in self.runs.items() if count > 1)

    def _count(self, is_cancelled: bool, deliveries: list[tuple[int, int, str, str]]) -> None:
        self.done["cancelled" if is_cancelled else "answered"] += 1
        self.done["told again"] += max(0, len(deliveries) - 1)
        for *_, status in deliveries[:1]:
            self.done[f"status {status}"] += 1
