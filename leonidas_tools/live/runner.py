"""Open the connections of a conversation one after another, and transfer its messages."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from typing import TYPE_CHECKING

from genai_processors import processor

from leonidas_tools.live import connection
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from genai_processors.content_api import ProcessorPart
    from google.genai.types import LiveConnectConfig

    from leonidas_tools.live.conversation import Conversation
    from leonidas_tools.live.gemini import GeminiLiveProcessor
    from leonidas_tools.live.session_setup import Setup

logger = visible_logger(__name__)

_FIRST_DELAY_SECONDS = 0.1
_MAX_DELAY_SECONDS = 0.8
_FIRST_CONNECTION_SECONDS = 10.0
_ARRIVAL_SECONDS = 1.0
_CONFIRM_SECONDS = 0.25
_STABLE_SECONDS = 5.0
"""Age at which a connection counts as stable: its loss resets the count of failures."""
_BURST = 16
_REASON = 200
"""Maximum characters of a reason that the listener receives."""


class ConversationRunner:
    """Runs a conversation over one connection after another."""

    def __init__(
        self, live: GeminiLiveProcessor, conversation: Conversation, config: LiveConnectConfig
    ) -> None:
        self._live = live
        self._config = config
        self._conversation = conversation
        self._state = conversation.state
        self._number = 0
        self._failures = 0
        self._stable_at = self._state.now()
        self._sent = asyncio.Event()
        self._written = 0
        self._ended = self._is_last = False

    async def run(self, content: AsyncIterable[ProcessorPart]) -> None:
        """Run the conversation to its end, and raise its failure to the listener."""
        reading = processor.create_task(self._read(content))
        failure: BaseException | None = None
        try:
            while not self._conversation.over and not self._ended:
                await self._run_connection()
        except Exception as error:  # noqa: BLE001 - raised to the reader of the stream
            failure = error
        finally:
            reading.cancel()
            self._state.out.close(failure)
            await asyncio.wait([reading])

    async def _read(self, content: AsyncIterable[ProcessorPart]) -> None:
        try:
            async for part in content:
                self._conversation.put(part)
        except Exception as error:  # noqa: BLE001 - raised to the reader of the stream
            self._state.out.close(error)
        finally:
            self._conversation.end_input()

    # Connections.

    async def _run_connection(self) -> None:
        """Run one connection, from its setup to its end."""
        setup = self._conversation.next_setup()
        config = self._conversation.config(setup, self._config)
        number = self._number
        try:
            async with connection.connect(self._live.client, self._live.model, config) as link:
                self._number += 1
                self._conversation.opened(self._number, setup)
                await self._serve(link)
                if not self._conversation.over:
                    self._conversation.lost(connection.NORMAL, "")
            if not self._conversation.over:
                await self._pause_after_leaving()
        except connection.LOST as error:
            if self._number > number:
                await self._handle_loss(error)
            else:
                await self._handle_refusal(setup, error)
        except (TypeError, ValueError) as error:  # Google's client cannot write this setup
            if self._number > number or not self._conversation.refused(setup):
                raise
            logger.warning("The setup cannot be sent: %s", connection.message_of(error))

    async def _pause_after_leaving(self) -> None:
        """Wait if we have left several connections in quick succession."""
        self._note_stable()
        self._stable_at = self._state.now()
        if self._failures:
            await self._delay()
        self._failures += 1

    async def _handle_loss(self, error: BaseException) -> None:
        announced = self._state.renewal.deadline is not None
        self._note_stable()
        code = connection.code_of(error)
        said = connection.message_of(error)
        self._conversation.lost(code, said)
        if connection.is_simulated_failure(error):
            raise error
        if connection.is_closed_by_server(error) and not announced and self._state.handle is None:
            self._ended = True
            return
        if self._state.inputs.ended:  # retry once, to send the rest of the input
            self._ended, self._is_last = self._is_last, True
            if self._ended:
                return
        self._state.publish("connection_lost", code=code, reason=said[:_REASON])
        logger.warning("The connection was lost; reconnecting: %s", said)
        if self._failures:
            await self._wait(error)
        self._failures += 1

    async def _handle_refusal(self, setup: Setup, error: BaseException) -> None:
        self._failures += 1
        said = connection.message_of(error)
        self._state.publish("connection_refused", reason=said[:_REASON])
        if not connection.is_refusal(error):
            logger.warning("Connecting failed: %s", said)
            await self._wait(error)
        elif not self._conversation.refused(setup):
            raise error

    def _note_stable(self) -> None:
        if self._state.now() > self._state.opened_at + _STABLE_SECONDS:
            self._failures, self._stable_at = 0, self._state.now()

    async def _wait(self, error: BaseException) -> None:
        """Wait before the next retry, or raise the error if retries have lasted too long."""
        patience = self._live.give_up_seconds if self._number else _FIRST_CONNECTION_SECONDS
        if self._state.now() > self._stable_at + patience:
            raise error
        await self._delay()

    async def _delay(self) -> None:
        """Wait with backoff and jitter, so that many sessions do not reconnect at once."""
        longest = min(_MAX_DELAY_SECONDS, _FIRST_DELAY_SECONDS * 2 ** min(self._failures, 8))
        await asyncio.sleep(random.uniform(longest / 2, longest))  # noqa: S311 - no secret

    # Messages.

    async def _serve(self, link: connection.Connection) -> None:
        """Send and receive until the conversation is over, or another connection is wanted."""
        # Not tasks of the processor's context: an error in one of them would end that context.
        receiving = asyncio.create_task(link.receive(self._conversation))
        sending = asyncio.create_task(self._send(link))
        confirming = asyncio.create_task(self._confirm(link))
        tasks = {receiving, sending, confirming}
        try:
            await asyncio.wait({receiving, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and sending.exception() is None:
                await self._leave(link, receiving)
                return
            # If sending failed, only the receiving task gets the close code and the reason.
            await asyncio.wait({receiving}, timeout=_ARRIVAL_SECONDS)
            (receiving if receiving.done() else sending).result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _leave(self, link: connection.Connection, receiving: asyncio.Task[None]) -> None:
        """Close the connection after all sent messages have arrived, and receive the rest."""
        sent = self._written
        with contextlib.suppress(*connection.LOST):
            async with asyncio.timeout(_ARRIVAL_SECONDS):
                await (await link.ping(functools.partial(self._conversation.confirm, sent)))
        with contextlib.suppress(*connection.LOST):
            if await link.close():
                self._conversation.confirm(sent)
        await asyncio.wait({receiving}, timeout=_ARRIVAL_SECONDS)

    async def _send(self, link: connection.Connection) -> None:
        """Send the queued messages, until the queue is empty or another connection is needed."""
        changed = self._state.changed
        while True:
            changed.clear()
            since = self._state.now()
            while (message := self._conversation.next_message()) is not None:
                try:
                    await link.send(message)
                except (TypeError, ValueError) as error:  # Google's client refuses it
                    self._conversation.unsendable(error)
                # Only now: a ping may overtake a waiting message.
                self._written = self._conversation.chosen
                self._sent.set()
                if self._conversation.chosen % _BURST == 0:
                    await asyncio.sleep(0)  # a send alone does not let other tasks run
                    if self._conversation.should_renew():
                        return
            if self._conversation.over or self._conversation.should_renew():
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._conversation.next_check(since)):
                    await changed.wait()

    async def _confirm(self, link: connection.Connection) -> None:
        """Confirm at intervals which messages have arrived."""
        while True:
            await self._sent.wait()
            self._sent.clear()
            with contextlib.suppress(*connection.LOST):
                await link.ping(functools.partial(self._conversation.confirm, self._written))
            # Spread, or sessions that were late together would all ping at once from then on.
            await asyncio.sleep(_CONFIRM_SECONDS * random.uniform(0.75, 1.25))  # noqa: S311 - no secret
