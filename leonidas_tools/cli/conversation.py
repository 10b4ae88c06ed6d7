"""One conversation from beginning to end: with Gemini, or with the simulator."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from google.auth.exceptions import GoogleAuthError
from google.genai import types
from google.genai.errors import APIError
from websockets.exceptions import WebSocketException

from leonidas_tools import LiveToolSession
from leonidas_tools.calls.call import ToolSession
from leonidas_tools.cli import summary
from leonidas_tools.cli.happenings import HappeningListener
from leonidas_tools.cli.voice.interface import MICROPHONE_HERTZ
from leonidas_tools.live.connection import is_simulated_failure
from leonidas_tools.live.speech.output import SpeechOutputProcessor

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from leonidas_tools import AdvancedToolProcessor
    from leonidas_tools.cli.display import Display
    from leonidas_tools.cli.happenings import Happening
    from leonidas_tools.cli.typed import TypedLines
    from leonidas_tools.cli.voice.choice import ChosenVoice
    from leonidas_tools.cli.voice.interface import Microphone, Speaker
    from leonidas_tools.live.gemini import GeminiLiveProcessor

INSTRUCTION = (
    "You are Leonidas, a voice agent. Use your tools where they help, and say briefly what you do."
)
_USER = "local"
"""The user of the sessions in the terminal, whose preferences apply in them."""
_REPLY_SECONDS = 15.0
LOST = (APIError, OSError, WebSocketException, GoogleAuthError)
"""The errors that end a conversation early."""
_MAX_WAITING = 64
_REALTIME = "realtime"
_MIME_TYPE = f"audio/pcm;rate={MICROPHONE_HERTZ}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationParts:
    """The parts of a conversation besides the model."""

    tools: AdvancedToolProcessor
    display: Display
    voice: ChosenVoice
    typed: TypedLines | None = None  # `None` if lines are not read


def live_config() -> types.LiveConnectConfig:
    """Return the setup of every session of the program, without the tools."""
    return types.LiveConnectConfig(
        response_modalities=[types.Modality.AUDIO],
        system_instruction=types.Content(parts=[types.Part(text=INSTRUCTION)]),
    )


class TerminalConversation:
    """Runs one conversation, shows its happenings, and records its calls."""

    def __init__(self, parts: ConversationParts) -> None:
        self.log = summary.CallLog()
        self.errors: list[str] = []
        self.interrupted = False
        self.heard_all = asyncio.Event()
        """Set when the audio of the microphone ends."""
        self._parts = parts
        self._turn_over = asyncio.Event()
        self._session = ToolSession(user=_USER)
        self._listener = HappeningListener(declared=self._declared_names)

    async def run(
        self,
        live: GeminiLiveProcessor,
        until: Callable[[], Awaitable[float | None]],
        *,
        settle_seconds: float,
    ) -> None:
        """Run the conversation to its end, over any number of connections.

        `until` ends the user's input when it returns. It returns the seconds that the rest may
        take, or `None` for no limit. The model has `settle_seconds` for its last words.
        """
        agent = self._agent(live, settle_seconds)
        limit = asyncio.timeout(None)

        async def over() -> None:
            seconds = await until()
            if seconds is not None:
                limit.reschedule(asyncio.get_running_loop().time() + seconds)

        try:
            async with limit:
                await self._converse(agent, over)
        except BrokenPipeError:  # the reader of the output has exited
            raise
        except LOST as error:
            if not limit.expired() and not is_simulated_failure(error):  # shown in the summary
                self.errors.append(f"the connection was lost: {error}")
                self._show(self._listener.happening("lost", text=str(error)))
        except asyncio.CancelledError:  # Ctrl-C: the summary still follows
            self.interrupted = True
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        for happening in self._listener.pause():
            self._show(happening)

    async def _converse(
        self, agent: processor.Processor, until: Callable[[], Awaitable[None]]
    ) -> None:
        speaker = self._parts.voice.speaker
        async with self._parts.voice, aclosing(together(self._sources(), until)) as user:
            # Without a context, cancelling the agent would hang. The agent ends before `user` is
            # closed: a generator that is still read cannot be closed, and would hide the error.
            async with processor.context():
                async for part in agent(user):
                    self._receive(part)
            if speaker is not None:
                await speaker.drain()

    async def reply(self) -> None:
        """Wait until the model has ended its next turn, at most 15 seconds."""
        self._turn_over.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_REPLY_SECONDS):
                await self._turn_over.wait()

    def _agent(self, live: GeminiLiveProcessor, settle_seconds: float) -> processor.Processor:
        session = self._session
        session.put(self._parts.tools.registry)  # a demo tool adds another tool to it
        agent = LiveToolSession(
            live, self._parts.tools, session=session, settle_seconds=settle_seconds
        )
        if self._parts.voice.speaker is None:
            return agent
        return agent + SpeechOutputProcessor(session=session, paced=True)

    def _sources(self) -> list[AsyncIterator[ProcessorPart]]:
        sources: list[AsyncIterator[ProcessorPart]] = []
        if self._parts.typed is not None:
            sources.append(self._read_typed(self._parts.typed))
        if self._parts.voice.microphone is not None:
            sources.append(stream_microphone(self._parts.voice.microphone, self.heard_all))
        return sources

    async def _read_typed(self, typed: TypedLines) -> AsyncIterator[ProcessorPart]:
        async for line in typed.lines():
            self._show(self._listener.happening("said", who="user", text=line))
            yield ProcessorPart(line, role="user")
            if not typed.interactive:  # a person waits, or interrupts
                await self.reply()

    def _receive(self, part: ProcessorPart) -> None:
        if self._parts.voice.speaker is not None:
            _play(self._parts.voice.speaker, part)
        for happening in self._listener.receive(part):
            self._show(happening)
        if part.metadata.get("turn_complete"):
            self._turn_over.set()

    def _show(self, happening: Happening) -> None:
        self.log.note(happening)
        self._parts.display.show(happening)

    def _declared_names(self) -> set[str]:
        declared = self._parts.tools.declarations(self._session)
        return {each.name or "" for tool in declared for each in tool.function_declarations or ()}


def _play(speaker: Speaker, part: ProcessorPart) -> None:
    blob = part.part.inline_data
    if part.metadata.get("interrupted"):
        speaker.flush()
    elif blob is not None and blob.data and (blob.mime_type or "").startswith("audio/"):
        speaker.play(blob.data)


async def stream_microphone(
    microphone: Microphone, ended: asyncio.Event | None = None
) -> AsyncIterator[ProcessorPart]:
    """Yield the audio of a microphone in real time.

    Args:
        microphone: The microphone, open.
        ended: Set when the audio ends.
    """
    async for frame in microphone.frames():
        yield ProcessorPart(frame, mimetype=_MIME_TYPE, role="user", substream_name=_REALTIME)
    yield ProcessorPart(
        "", role="user", substream_name=_REALTIME, metadata={"audio_stream_end": True}
    )
    if ended is not None:
        ended.set()


async def together(
    sources: list[AsyncIterator[ProcessorPart]], until: Callable[[], Awaitable[object]]
) -> AsyncGenerator[ProcessorPart]:
    """Yield the parts of several sources as they arrive, until `until` returns.

    Args:
        sources: The sources of the parts; the end of a source has no effect.
        until: Ends the iteration when it returns.
    """
    parts: asyncio.Queue[ProcessorPart | BaseException | None] = asyncio.Queue(_MAX_WAITING)
    tasks = [asyncio.create_task(_pump(source, parts)) for source in sources]
    tasks.append(asyncio.create_task(_end(until, parts)))
    try:
        while (part := await parts.get()) is not None:
            if isinstance(part, BaseException):
                raise part
            yield part
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _pump(
    source: AsyncIterator[ProcessorPart],
    parts: asyncio.Queue[ProcessorPart | BaseException | None],
) -> None:
    try:
        async for part in source:
            await parts.put(part)
    except Exception as error:  # noqa: BLE001 - carried to the reader of the parts
        await parts.put(error)


async def _end(
    until: Callable[[], Awaitable[object]],
    parts: asyncio.Queue[ProcessorPart | BaseException | None],
) -> None:
    await until()
    await parts.put(None)
