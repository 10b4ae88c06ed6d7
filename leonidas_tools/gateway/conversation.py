"""One conversation of a user of the gateway."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NoReturn

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.approvals.untrusted import UntrustedContent, tools_read_in
from leonidas_tools.calls.call import ToolSession
from leonidas_tools.errors import ToolError
from leonidas_tools.gateway import wire
from leonidas_tools.gateway.sound import SoundToClient, decode
from leonidas_tools.gateway.talk import Talk, close_error, leave, receive, run_until_first
from leonidas_tools.gateway.tokens import make_resumption, resumption_of
from leonidas_tools.gateway.wire import ENDED, REFUSED, RESTARTING, UNSUPPORTED, CloseError
from leonidas_tools.live.live_events import LIVE_EVENT
from leonidas_tools.live.session import LiveToolSession
from leonidas_tools.live.speech.output import SpeechOutputProcessor
from leonidas_tools.processors.parts import EventPart
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.session.resumption import Resumption

if TYPE_CHECKING:
    from genai_processors.content_api import ProcessorPart
    from starlette.websockets import WebSocket

    from leonidas_tools.gateway.limits import GatewayLimits, RunningSessions
    from leonidas_tools.gateway.resumption_guard import ResumptionGuard
    from leonidas_tools.gateway.tokens import Resumed
    from leonidas_tools.live.gemini import GeminiLiveProcessor
    from leonidas_tools.processors.advanced import AdvancedToolProcessor

logger = visible_logger(__name__)

_START_SECONDS = 10.0
_SPEAKERS = {"input_transcription": "user", "output_transcription": "agent"}


class _Moment:
    """Detects quiet moments of the conversation: no turn, no call, no audio to play."""

    def __init__(self) -> None:
        self._in_turn = False
        self._calls: set[str] = set()
        self._played_at = 0.0
        self._changed = asyncio.Event()

    def record_part(self, part: ProcessorPart) -> None:
        """Record a part from the agent."""
        if part.metadata.get("interrupted"):
            self._played_at = 0.0  # the client stops playback
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


class GatewayConversation(Talk):
    """One conversation of a user with the model.

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

    messages = wire.MESSAGES_WITH_ANSWERS

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
        super().__init__(frame_seconds=limits.frame_seconds)
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
        self._moment = _Moment()
        self._opened = asyncio.Event()
        self._asked: set[str] = set()
        self._is_at_limit = False

    def __str__(self) -> str:
        return f"The conversation {self._session.id} of {self._user!r}"

    async def run(self) -> None:
        """Run the conversation until either side ends it.

        Raises:
            WebSocketDisconnect: The client has left.
            CloseError: The conversation ends for another reason.
        """
        start = await self._receive_start()
        sound, limits = start.sound, self._limits
        self.use(sound, sound, unsent_seconds=limits.unsent_seconds, converter=SoundToClient(sound))
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
        try:
            async with asyncio.timeout(self._limits.longest_seconds):
                await run_until_first(
                    [
                        self.listen(self._websocket),
                        self._watch(),
                        self.send(self._websocket),
                        self._converse(),
                        self._drain(),
                        _restart(self._closing),
                        leave(wanted),
                    ]
                )
        except TimeoutError:
            raise CloseError(ENDED, "too_long", "The conversation has lasted too long") from None
        finally:
            for stop in stops:
                stop()

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
        try:
            async with asyncio.timeout(_START_SECONDS):
                given = await run_until_first([receive(self._websocket), _restart(self._draining)])
        except TimeoutError:
            raise CloseError(REFUSED, "idle", "The first message did not arrive in time") from None
        return wire.parse_start(given if isinstance(given, str) else None)

    async def _watch(self) -> NoReturn:
        await self._opened.wait()
        while True:
            self.active.clear()
            try:
                async with asyncio.timeout(self._limits.idle_seconds):
                    await self.active.wait()
            except TimeoutError:
                raise CloseError(REFUSED, "idle", "The client sent nothing") from None

    def hear_sound(self, frame: bytes) -> None:
        """Pass audio on to the model."""
        super().hear_sound(decode(frame) if self.sound.encoding == "mulaw" else frame)

    def hear_message(self, given: wire.ClientMessage) -> None:
        """Take the answer to a question, or pass a message on to the model."""
        if isinstance(given, wire.Answered):
            self._answer(given)
            return
        if isinstance(given, wire.Text):
            self._moment.record_typing()
        super().hear_message(given)

    def _answer(self, given: wire.Answered) -> None:
        decision = Decision.approve() if given.approve else Decision.deny()
        try:
            self._session.get(Approvals).decide(given.question, decision, by="gateway")
        except ToolError as error:  # it has another answer already, or has expired
            self.tell("problem", question=given.question, text=str(error))

    async def _converse(self) -> NoReturn:
        agent = LiveToolSession(self._model, self._tools, session=self._session)
        try:
            await self.converse(agent + SpeechOutputProcessor(session=self._session))
        except Exception as error:
            raise close_error(error, self) from error
        if self._is_at_limit:
            raise CloseError(REFUSED, "usage_limit", "A limit of tokens or costs is reached")
        raise CloseError(ENDED, "ended", "The agent has ended the conversation")

    def take_part(self, part: ProcessorPart) -> None:
        """Send to the client what a part of the model or the tools contains for it."""
        if isinstance(part, EventPart):
            self.put_message(wire.tool_message(part.event))
            return
        if (happened := part.metadata.get(LIVE_EVENT)) is not None:
            if happened["event"] == "connection_opened" and not self._opened.is_set():
                self._begin(resumed=bool(happened["resumed"]))
            self._is_at_limit |= happened.get("state") == "reached"
            return
        self._moment.record_part(part)
        if (who := _SPEAKERS.get(part.substream_name)) and part.part.text:
            self.tell("transcript", who=who, text=part.part.text)
        super().take_part(part)

    def _begin(self, *, resumed: bool) -> None:
        """Send `ready`: the model is connected."""
        sound, id_ = self.sound, self._session.id
        self.tell("ready", session=id_, format=sound.encoding, rate=sound.hertz, resumed=resumed)
        self._opened.set()
        logger.info("%s has begun%s", self, ", as the model resumes it" if resumed else "")
        self._tell_questions()

    def play(self, sound: bytes) -> None:
        """Send audio to the client."""
        self._moment.plays(self.sound.seconds(len(sound)))
        super().play(sound)

    def _tell_questions(self) -> None:
        if not self._opened.is_set():
            return  # a question from elsewhere may be pending before the model is connected
        pending = {each.id: each for each in self._session.get(Approvals).pending()}
        for gone in self._asked - pending.keys():
            self.tell("question_closed", id=gone)
        for new in pending.keys() - self._asked:
            self.put_message(wire.question_message(pending[new]))
        self._asked = set(pending)

    def _tell_resumption(self, handle: str) -> None:
        session, read = self._session, tools_read_in(self._session)
        process = "" if self._guard is None else self._guard.process
        token = make_resumption(
            self._secret, self._user, session.id, handle, read=read, process=process
        )
        if token is not None:
            self.tell("resumption", token=token)

    async def _drain(self) -> NoReturn:
        await self._draining.wait()
        self.tell("draining", seconds=self._limits.grace_seconds)
        await self._moment.quiet()
        await self.wait_until_sent()
        raise restarting()


async def _restart(closing: asyncio.Event) -> NoReturn:
    await closing.wait()
    raise restarting()


def restarting() -> CloseError:
    """Return the error that ends a conversation for a restart."""
    return CloseError(RESTARTING, "draining", "The server is restarting: connect again")
