"""One conversation over one WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from google.genai.errors import APIError
from starlette.websockets import WebSocketDisconnect

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.approvals.untrusted import UntrustedContent, tools_read_in
from leonidas_tools.calls.call import ToolSession
from leonidas_tools.errors import ToolError
from leonidas_tools.gateway import wire
from leonidas_tools.gateway.closing import (
    ENDED,
    FAILED,
    REFUSED,
    RESTARTING,
    UNSUPPORTED,
    CloseError,
)
from leonidas_tools.gateway.sound import SoundFormat, SoundToClient
from leonidas_tools.gateway.tokens import make_resumption, resumption_of
from leonidas_tools.live.connection import message_of
from leonidas_tools.live.live_events import LIVE_EVENT
from leonidas_tools.live.session import LiveToolSession
from leonidas_tools.mcp_server.guard import TokenBucket
from leonidas_tools.processors.parts import EventPart
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.session.resumption import Resumption

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from starlette.websockets import WebSocket

    from leonidas_tools.gateway.limits import GatewayLimits
    from leonidas_tools.gateway.resumption_guard import ResumptionGuard
    from leonidas_tools.gateway.running_sessions import RunningSessions
    from leonidas_tools.gateway.tokens import Resumed
    from leonidas_tools.live.gemini import GeminiLiveProcessor
    from leonidas_tools.processors.advanced import AdvancedToolProcessor

logger = visible_logger(__name__)

_START_SECONDS = 10.0
_SEND_SECONDS = 30.0
_MESSAGES_PER_SECOND = 200.0
_MAX_MESSAGES_AT_ONCE = 1000.0
_TEXTS_PER_SECOND = 5.0
_MAX_TEXTS_AT_ONCE = 20.0
_SOUND_PACE = 1.5
_MAX_SOUND_SECONDS_AT_ONCE = 15.0
_MAX_UNHEARD = 64
_MAX_UNSENT_MESSAGES = 256
_MAX_FRAME_SECONDS_OUT = 0.1
_SPEAKERS = {"input_transcription": "user", "output_transcription": "agent"}


class _Unsent:
    """A queue of audio and messages for the client."""

    def __init__(self, most_bytes: float) -> None:
        self._most_bytes = most_bytes
        self._items: deque[bytes | str] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()
        self._all_sent = asyncio.Event()

    def put(self, item: bytes | str) -> None:
        """Add an item."""
        self._items.append(item)
        self._filled.set()
        self._all_sent.clear()
        if isinstance(item, bytes):
            self._bytes += len(item)
        if self._bytes > self._most_bytes or self._texts() > _MAX_UNSENT_MESSAGES:
            raise CloseError(REFUSED, "slow_reader", "The client reads too slowly")

    def _texts(self) -> int:
        # Most items are frames of audio: count the texts only if they can be too many.
        if len(self._items) <= _MAX_UNSENT_MESSAGES:
            return 0
        return sum(isinstance(each, str) for each in self._items)

    def drop_sound(self) -> None:
        """Drop all audio."""
        self._items = deque(each for each in self._items if isinstance(each, str))
        self._bytes = 0

    async def get(self) -> bytes | str:
        """Wait for an item; remove and return the first."""
        while not self._items:
            self._all_sent.set()  # the caller has sent the last item
            self._filled.clear()
            await self._filled.wait()
        item = self._items.popleft()
        if isinstance(item, bytes):
            self._bytes -= len(item)
        return item

    async def wait_until_sent(self) -> None:
        """Wait until all items are sent."""
        await self._all_sent.wait()


class _Moment:
    """Detects quiet moments of the conversation: no turn, no call, no audio to play."""

    def __init__(self) -> None:
        self._in_turn = False
        self._calls: set[str] = set()
        self._played_at = 0.0
        self._changed = asyncio.Event()

    def record_part(self, part: ProcessorPart) -> None:
        """Record a part from the agent."""
        if (call := part.part.function_call) is not None:
            self._calls.add(call.id or "")
        elif (answer := part.part.function_response) is not None:
            if not answer.will_continue:
                self._calls.discard(answer.id or "")
        elif part.metadata.get("turn_complete"):
            self._in_turn = False
        elif part.part.inline_data is not None or part.substream_name == "input_transcription":
            self._in_turn = True
        self._changed.set()

    def record_typing(self) -> None:
        """Record that the user has typed."""
        self._in_turn = True

    def plays(self, seconds: float) -> None:
        """Record audio that the client plays, after the audio that it received before."""
        self._played_at = max(self._played_at, asyncio.get_running_loop().time()) + seconds

    def record_silence(self) -> None:
        """Record that the client has stopped playback."""
        self._played_at = 0.0
        self._changed.set()

    @property
    def _is_busy(self) -> bool:
        return self._in_turn or bool(self._calls)

    async def quiet(self) -> None:
        """Wait for a quiet moment."""
        loop = asyncio.get_running_loop()
        while self._is_busy or loop.time() < self._played_at:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(None if self._is_busy else self._played_at):
                    await self._changed.wait()


class GatewayConversation:
    """One conversation.

    Args:
        websocket: The connection of the client, accepted.
        user: The user of the client.
        secret: The secret that signs tokens.
        model: The model.
        tools: Runs the model's calls.
        limits: The limits.
        draining: Set to end the conversation at a quiet moment.
        closing: Set to end the conversation at once.
        running_sessions: The sessions whose conversations run.
        guard: Checks resumptions; `None` if the store records the calls that have run.
    """

    def __init__(  # noqa: PLR0913 - the parts of a conversation
        self,
        websocket: WebSocket,
        *,
        user: str,
        secret: str,
        model: GeminiLiveProcessor,
        tools: AdvancedToolProcessor,
        limits: GatewayLimits,
        draining: asyncio.Event,
        closing: asyncio.Event,
        running_sessions: RunningSessions,
        guard: ResumptionGuard | None = None,
    ) -> None:
        self._guard = guard
        self._websocket = websocket
        self._user = user
        self._secret = secret
        self._model = model
        self._tools = tools
        self._session = ToolSession(user=user)
        self._limits = limits
        self._draining = draining
        self._closing = closing
        self._running_sessions = running_sessions
        self._heard: asyncio.Queue[ProcessorPart] = asyncio.Queue(_MAX_UNHEARD)
        self._moment = _Moment()
        self._opened = asyncio.Event()
        self._active = asyncio.Event()
        self._asked: set[str] = set()
        self._is_at_limit = False
        self._messages = TokenBucket(per_second=_MESSAGES_PER_SECOND, at_once=_MAX_MESSAGES_AT_ONCE)
        self._texts = TokenBucket(per_second=_TEXTS_PER_SECOND, at_once=_MAX_TEXTS_AT_ONCE)
        self._sound_pace = TokenBucket(per_second=_SOUND_PACE, at_once=_MAX_SOUND_SECONDS_AT_ONCE)
        self._use(SoundFormat())

    def __str__(self) -> str:
        return f"The conversation {self._session.id} of {self._user!r}"

    def _use(self, sound: SoundFormat) -> None:
        self._sound = sound
        self._to_client = SoundToClient(sound)
        bytes_per_second = sound.hertz * sound.sample_bytes
        self._frame_bytes = int(_MAX_FRAME_SECONDS_OUT * sound.hertz) * sound.sample_bytes
        self._unsent = _Unsent(self._limits.unsent_seconds * bytes_per_second)

    async def run(self) -> None:
        """Run the conversation until either side ends it.

        Raises:
            WebSocketDisconnect: The client has left.
            CloseError: The conversation ends for another reason.
        """
        start = await self._receive_start()
        self._use(start.sound)
        known = None if start.resume is None else self._read_resumption(start.resume)
        session = self._session.id if known is None else known.session
        async with self._running_sessions.begin(self._user, session) as wanted:
            if known is not None:
                self._resume(known)
            await self._run(wanted)

    async def _run(self, wanted: asyncio.Event) -> None:
        stops = [
            self._session.get(Approvals).on_change(self._tell_questions),
            self._session.get(Resumption).on_change(self._tell_resumption),
        ]
        parts: list[Coroutine[None, None, None]] = [
            self._listen(),
            self._watch(),
            self._send(),
            self._converse(),
            self._drain(),
            self._close(),
            self._leave(wanted),
        ]
        tasks = [asyncio.create_task(each, name="gateway:conversation") for each in parts]
        try:
            async with asyncio.timeout(self._limits.longest_seconds):
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise CloseError(ENDED, "too_long", "The conversation has lasted too long") from None
        finally:
            for stop in stops:
                stop()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:  # in this order: a client that has left comes first
            if task in done:
                task.result()

    def _read_resumption(self, token: str) -> Resumed:
        """Return the content of a resumption token."""
        known = resumption_of(token, self._secret, self._user)
        if known is None:
            reason = "The resumption is not valid here, or has expired: start without it"
            raise CloseError(UNSUPPORTED, "resumption", reason)
        return known

    def _resume(self, known: Resumed) -> None:
        """Resume a conversation, with its data in the store."""
        if self._guard is not None and self._guard.may_repeat_call(self._user, known):
            reason = "The model may repeat a call that has run: start without the resumption"
            raise CloseError(UNSUPPORTED, "resumption", reason)
        self._session = ToolSession(known.session, user=self._user)
        self._session.get(Resumption).use(known.handle, at=known.at)
        for tool in known.read:  # its results are in the model's context, even without a store
            self._session.get(UntrustedContent).mark(tool)

    async def _receive_start(self) -> wire.Start:
        first = asyncio.create_task(self._receive())
        draining = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait(
                {first, draining}, timeout=_START_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if first.done():
                given = first.result()
            elif draining.done():
                raise _restarting()
            else:
                reason = "The first message did not arrive in time"
                raise CloseError(REFUSED, "idle", reason)
        finally:
            first.cancel()
            draining.cancel()
            await asyncio.wait({first, draining})
        return wire.parse_start(given if isinstance(given, str) else None)

    async def _receive(self) -> bytes | str:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", ENDED))
        sound: bytes | None = message.get("bytes")
        return str(message.get("text")) if sound is None else sound

    async def _listen(self) -> None:
        while True:
            given = await self._receive()
            self._active.set()
            if not self._messages.spend(1):
                raise CloseError(REFUSED, "flood", "Too many messages: send them in real time")
            if isinstance(given, bytes):
                await self._hear_sound(given)
            else:
                await self._hear_message(wire.parse_message(given))

    async def _watch(self) -> None:
        await self._opened.wait()
        while True:
            self._active.clear()
            try:
                async with asyncio.timeout(self._limits.idle_seconds):
                    await self._active.wait()
            except TimeoutError:
                raise CloseError(REFUSED, "idle", "The client sent nothing") from None

    async def _hear_sound(self, frame: bytes) -> None:
        seconds = self._sound.seconds(len(frame))
        whole = bool(frame) and not len(frame) % self._sound.sample_bytes
        if not whole or seconds > self._limits.frame_seconds:
            reason = (
                f"A frame must be whole samples, at most {self._limits.frame_seconds:g} seconds"
            )
            raise CloseError(REFUSED, "frame", reason)
        if not self._sound_pace.spend(seconds):
            reason = "Too much audio: send it in real time"
            raise CloseError(REFUSED, "flood", reason)
        sound, kind = self._sound.decode(frame), self._sound.mime_type
        await self._heard.put(
            ProcessorPart(sound, mimetype=kind, role="user", substream_name="realtime")
        )

    async def _hear_message(self, given: wire.ClientMessage) -> None:
        if not self._texts.spend(1):
            raise CloseError(REFUSED, "flood", "Too many messages: send them in real time")
        if isinstance(given, wire.Answered):
            self._answer(given)
        elif isinstance(given, wire.Text):
            self._moment.record_typing()
            await self._heard.put(ProcessorPart(given.text, role="user"))
        else:
            ended = {"audio_stream_end": True}
            await self._heard.put(
                ProcessorPart("", role="user", substream_name="realtime", metadata=ended)
            )

    def _answer(self, given: wire.Answered) -> None:
        decision = Decision.approve() if given.approve else Decision.deny()
        try:
            self._session.get(Approvals).decide(given.question, decision, by="gateway")
        except ToolError as error:  # it has another answer already, or has expired
            self._tell("problem", question=given.question, text=str(error))

    async def _send(self) -> None:
        while True:
            item = await self._unsent.get()
            try:
                async with asyncio.timeout(_SEND_SECONDS):
                    if isinstance(item, bytes):
                        await self._websocket.send_bytes(item)
                    else:
                        await self._websocket.send_text(item)
            except TimeoutError:
                raise CloseError(REFUSED, "slow_reader", "The client reads too slowly") from None

    async def _converse(self) -> None:
        live = LiveToolSession(self._model, self._tools, session=self._session)
        try:
            async with processor.context():  # without it, cancelling a chain would hang
                async for part in live(self._stream_heard()):
                    self._hear(part)
        except Exception as error:
            raise self._close_error(error) from error
        if self._is_at_limit:
            raise CloseError(REFUSED, "usage_limit", "A limit of tokens or costs is reached")
        raise CloseError(ENDED, "ended", "The agent has ended the conversation")

    def _close_error(self, error: BaseException) -> CloseError:
        """Return the `CloseError` for an error of the agent."""
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, CloseError):
            return error
        if isinstance(error, APIError):  # its message has the reason; a traceback does not
            logger.error("%s has failed: %s", self, message_of(error))
        else:
            logger.error("%s has failed", self, exc_info=error)
        return CloseError(FAILED, "failed", "The agent failed: see the log of the server")

    async def _stream_heard(self) -> AsyncIterator[ProcessorPart]:
        while True:
            yield await self._heard.get()

    def _hear(self, part: ProcessorPart) -> None:
        if isinstance(part, EventPart):
            self._unsent.put(wire.tool_message(part.event))
            return
        if (happened := part.metadata.get(LIVE_EVENT)) is not None:
            if happened["event"] == "connection_opened" and not self._opened.is_set():
                self._begin(resumed=bool(happened["resumed"]))
            self._is_at_limit |= happened.get("state") == "reached"
            return
        self._moment.record_part(part)
        if part.metadata.get("interrupted"):
            self._to_client.drop()
            self._unsent.drop_sound()
            self._moment.record_silence()
            self._tell("interrupted")
        elif part.mimetype.startswith("audio/") and (sound := part.bytes):
            self._play(self._to_client.take(sound, part.mimetype))
        elif (who := _SPEAKERS.get(part.substream_name)) and part.part.text:
            self._tell("transcript", who=who, text=part.part.text)
        if part.metadata.get("turn_complete"):
            self._play(self._to_client.finish())
            self._tell("turn_complete")

    def _begin(self, *, resumed: bool) -> None:
        """Send `ready`: the model is connected."""
        sound, id_ = self._sound, self._session.id
        self._tell("ready", session=id_, format=sound.encoding, rate=sound.hertz, resumed=resumed)
        self._opened.set()
        logger.info("%s has begun%s", self, ", as the model resumes it" if resumed else "")
        self._tell_questions()

    def _play(self, sound: bytes) -> None:
        self._moment.plays(self._sound.seconds(len(sound)))
        for start in range(0, len(sound), self._frame_bytes):
            self._unsent.put(sound[start : start + self._frame_bytes])

    def _tell_questions(self) -> None:
        if not self._opened.is_set():
            return  # a question from elsewhere may be pending before the model is connected
        pending = {each.id: each for each in self._session.get(Approvals).pending()}
        for gone in self._asked - pending.keys():
            self._tell("question_closed", id=gone)
        for new in pending.keys() - self._asked:
            self._unsent.put(wire.question_message(pending[new]))
        self._asked = set(pending)

    def _tell_resumption(self, handle: str) -> None:
        session, read = self._session, tools_read_in(self._session)
        process = "" if self._guard is None else self._guard.process
        token = make_resumption(
            self._secret, self._user, session.id, handle, read=read, process=process
        )
        if token is not None:
            self._tell("resumption", token=token)

    def _tell(self, kind: str, **fields: object) -> None:
        self._unsent.put(wire.message(kind, **fields))

    async def _drain(self) -> None:
        await self._draining.wait()
        self._tell("draining", seconds=self._limits.grace_seconds)
        await self._moment.quiet()
        await self._unsent.wait_until_sent()
        raise _restarting()

    async def _close(self) -> None:
        await self._closing.wait()
        raise _restarting()

    async def _leave(self, wanted: asyncio.Event) -> None:
        await wanted.wait()
        raise CloseError(ENDED, "replaced", "The conversation goes on over another connection")


def _restarting() -> CloseError:
    return CloseError(RESTARTING, "draining", "The server is restarting: connect again")
