"""`tools.attach(session)`: answer the calls of a plain google-genai session.

The user's own loop keeps receiving. The tools see each message first, and a separate task sends the
function responses.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from genai_processors.content_api import ProcessorPart
from google.genai import types

from leonidas_tools.calls.call import ToolSession
from leonidas_tools.live import connection
from leonidas_tools.live.adaptation import Adaptation
from leonidas_tools.live.conversation import Conversation
from leonidas_tools.live.input_buffer import REALTIME, InputBuffer
from leonidas_tools.live.profiles import UNKNOWN, find_profile, profile_with_tools
from leonidas_tools.live.session import LiveToolSession
from leonidas_tools.live.session_setup import Setup
from leonidas_tools.live.state import LiveState
from leonidas_tools.live.tool_options import follow_declarations, wording_of
from leonidas_tools.processors.stage import Stage
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Iterator

    from genai_processors import processor
    from google.genai.live import AsyncSession

    from leonidas_tools.processors.advanced import AdvancedToolProcessor

logger = visible_logger(__name__)


@asynccontextmanager
async def attached(
    tools: AdvancedToolProcessor,
    session: AsyncSession,
    *,
    model: str | None,
    conversation: ToolSession | None,
) -> AsyncIterator[ToolSession]:
    """Answer the calls that `session.receive()` yields; see `AdvancedToolProcessor.attach`."""
    if not callable(getattr(session, "receive", None)):
        raise TypeError(
            f"attach takes the session of `client.aio.live.connect(…)`, inside its `async with`, "
            f"not {session!r}"
        )
    if "receive" in vars(session):
        raise ValueError(f"tools are attached to {session!r} already; leave that block first")
    conversation = conversation or ToolSession()
    async with tools:
        plain = _PlainSession(session, tools, conversation, model)
        live = LiveToolSession(plain, tools, session=conversation)
        answering = asyncio.create_task(_run(live, plain))
        wrapped = {
            "receive": plain.receive,
            "send_client_content": plain.send_client_content,
            "send_realtime_input": plain.send_realtime_input,
        }
        vars(session).update(wrapped)  # on this object only
        try:
            yield conversation
        finally:
            for name in wrapped:
                vars(session).pop(name, None)
            answering.cancel()
            await asyncio.wait([answering])
    if not answering.cancelled():
        answering.result()


def adapt_declarations(
    declared: list[types.Tool], tools: AdvancedToolProcessor, model: str, *, vertex: bool
) -> list[types.Tool]:
    """Return the declarations as a model reads them; see `AdvancedToolProcessor.declarations`."""
    return Adaptation(profile_with_tools(model, tools, vertex=vertex)).declarations(declared)


async def _run(live: LiveToolSession, plain: _PlainSession) -> None:
    async for _ in live(plain.typed()):
        pass  # the user's own loop has received it already


class _PlainSession(Stage):
    """An open session as the model of a `LiveToolSession`; the user's program drives it."""

    takes_interim_answers = True
    takes_late_results = True
    outlives_shutdown = True
    """True: the user's program ends the session, and calls are answered until it does."""

    def __init__(
        self,
        session: AsyncSession,
        tools: AdvancedToolProcessor,
        conversation: ToolSession,
        model: str | None,
    ) -> None:
        vertex = bool(session._api_client.vertexai)  # noqa: SLF001 - it has no public name
        profile = (
            profile_with_tools(model, tools, vertex=vertex) if model else find_profile(UNKNOWN)
        )
        # A copy with the same socket keeps the methods that the wrappers replace.
        self._session = copy.copy(session)
        self.model = model
        self._tools = tools
        self._conversation = conversation
        self._typed: asyncio.Queue[ProcessorPart] = asyncio.Queue()
        self._state = LiveState(
            profile=profile,
            adaptation=Adaptation(profile, functools.partial(wording_of, tools)),
            source=tools,
            session=conversation,
            inputs=InputBuffer(0.0),
            gate_seconds=None,
            needs_ids=not vertex,
        )
        self._talk = Conversation(self._state)
        setup = Setup(tools=self._state.declarations())
        self._state.declared(setup.tools)  # how a function was declared decides how it is answered
        self._talk.opened(1, setup)

    # Called by the user's program.

    async def receive(self) -> AsyncIterator[types.LiveServerMessage]:
        """Yield the session's messages, and pass each to the tools first."""
        async for message in self._session.receive():
            self._talk.receive(message)
            yield message

    async def send_client_content(self, **content: Any) -> None:
        """Send as the session does, and pass the user's text to the tools."""
        for text in _texts(content.get("turns")):
            self._typed.put_nowait(ProcessorPart(text, role="user"))
        await self._session.send_client_content(**content)

    async def send_realtime_input(self, **given: Any) -> None:
        """Send as the session does, and pass the user's text to the tools."""
        if given.get("text"):
            self._typed.put_nowait(ProcessorPart(given["text"], substream_name=REALTIME))
        await self._session.send_realtime_input(**given)

    async def typed(self) -> AsyncIterator[ProcessorPart]:
        """Yield the text that the user types, as parts."""
        while True:
            yield await self._typed.get()

    # Called by the `LiveToolSession`.

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Send function responses, and yield what the user's program has received."""
        tasks = [asyncio.create_task(self._read(content)), asyncio.create_task(self._send())]
        unfollow = follow_declarations(self._tools, self._conversation, self._talk.note_tools)
        try:
            async for part in self._state.out.parts():
                yield part
        finally:
            unfollow()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _read(self, content: processor.ProcessorStream) -> None:
        async for part in content:
            if part.part.function_response is not None:
                self._talk.put(part)
            else:  # the user's program has sent it already
                self._state.turn.user_spoke(self._state.now())
                self._state.calls.note_user_input()
        self._state.out.close()  # only a limit ends the input

    async def end_at_limit(self) -> None:
        """Close the connection, which ends the user's own loop, too."""
        await self._session.close()

    async def _send(self) -> None:
        """Send function responses as they become ready, until the connection is lost."""
        talk, changed = self._talk, self._state.changed
        while True:
            changed.clear()
            since = self._state.now()
            while (message := talk.next_message()) is not None:
                try:
                    await message(self._session)
                except connection.LOST as error:
                    logger.warning(
                        "A function response was not sent because the connection was lost: %s",
                        connection.message_of(error),
                    )
                    return
                except (TypeError, ValueError) as error:  # Google's client refuses it
                    talk.unsendable(error)
                else:
                    talk.confirm(talk.chosen)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(talk.next_check(since)):
                    await changed.wait()


def _texts(turns: Any) -> Iterator[str]:
    """Yield the user's texts in the `turns` of `send_client_content`."""
    for turn in turns if isinstance(turns, list) else [turns]:
        content = types.Content.model_validate(turn) if isinstance(turn, dict) else turn
        if isinstance(content, types.Content) and content.role in (None, "user"):
            yield from (part.text for part in content.parts or () if part.text)
