"""One connection to Gemini Live: google-genai's session, hardened against malformed messages."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from google.auth.exceptions import RefreshError, TransportError
from google.genai import errors
from google.genai.live import AsyncSession
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from leonidas_tools.live.sound_frames import sound_parts
from leonidas_tools.redaction import described, redact_text
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.json_size import has_too_many_values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from typing import Any

    from genai_processors.content_api import ProcessorPart
    from google.genai import Client, types

logger = visible_logger(__name__)

LOST = (
    errors.APIError,
    WebSocketException,
    OSError,
    TimeoutError,
    TransportError,
    RefreshError,
)
"""Exceptions raised when a connection, or its token, cannot be had or is lost."""

_CONNECT_SECONDS = 10.0
_MOST_VALUES = 20_000
"""Limit of a message: the client and we may take some 50 microseconds for each of its values."""
_BURST = 16
_LONG_BYTES = 16_384
"""Of a message after which others have their turn: what is in it may take as long as a burst."""
_NORMAL = 1000
_ABNORMAL = 1006
_REFUSALS = frozenset({1003, 1007, 1008, 1009, 400, 401, 403, 404})
_STEP_FAILED = 4000
"""The close code of a simulated session that has failed; the real server sends no private code."""


def code_of(error: BaseException) -> int:
    """Return the close code or HTTP status behind an error; 1006 where there is none."""
    if isinstance(error, errors.APIError):
        return error.code
    return error.response.status_code if isinstance(error, InvalidStatus) else _ABNORMAL


def said_by(error: BaseException) -> str:
    """Return what an error of a connection says, without what looks like a secret."""
    return redact_text(str(error))


def is_refusal(error: BaseException) -> bool:
    """Return whether trying the same again cannot help."""
    return code_of(error) in _REFUSALS


class Connection:
    """An open connection.

    Args:
        session: Google's session.
    """

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._received = _Received(session._ws)  # noqa: SLF001 - as below
        # Google's reader of messages, for those that are not sound.
        self._reader = AsyncSession(session._api_client, self._received)  # type: ignore[arg-type]  # noqa: SLF001

    async def send(self, message: Callable[[AsyncSession], Awaitable[None]]) -> None:
        """Send a message.

        Raises:
            websockets.exceptions.ConnectionClosed: The connection is gone.
        """
        await message(self._session)

    async def messages(self) -> AsyncIterator[types.LiveServerMessage | Sequence[ProcessorPart]]:
        """Yield what the server says, until it closes; sound alone as parts.

        Raises:
            google.genai.errors.APIError: The connection is gone; its code says why.
        """
        for number in itertools.count(1):
            if number % _BURST == 0 or self._received.was_long:
                await asyncio.sleep(0)  # a read alone does not let others have their turn
            try:
                sound = await self._received.sound()
                if sound is None:  # `receive` ends with every turn
                    yield self._received.completed(await self._reader._receive())  # noqa: SLF001
                else:
                    yield sound
            except (AttributeError, TypeError, ValueError, RecursionError) as error:
                # Of a kind that the client does not know, no JSON, or too much: it is used up.
                logger.warning("A message of the server is skipped: %s", described(error))

    async def arrived(self, confirm: Callable[[float], object]) -> None:
        """Wait until all that was sent has arrived: the pong comes after it.

        Raises:
            websockets.exceptions.ConnectionClosed: The connection is gone.
        """
        now = asyncio.get_running_loop().time
        began = now()
        pong: asyncio.Future[float] = await self._socket.ping()

        def answered(done: asyncio.Future[float]) -> None:
            if not done.cancelled() and done.exception() is None:
                confirm(now() - began)

        pong.add_done_callback(answered)
        await asyncio.shield(pong)

    async def close(self) -> bool:
        """End the connection; `messages` ends with it.

        Returns:
            Whether the server has answered our close frame, which it does after it has read all
            before it; a server that closes by itself may have read nothing.
        """
        await self._session.close()
        protocol = self._socket.protocol
        return protocol.close_rcvd is not None and not protocol.close_rcvd_then_sent

    @property
    def _socket(self) -> Any:
        return self._session._ws  # noqa: SLF001 - only the socket knows what has arrived


class _TooManyValuesError(ValueError):
    """Reading a message would hold the event loop."""


class _Received:
    """Messages of a socket: sound is read here, all else by google-genai."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._unread: bytes | None = None
        self._arguments: Sequence[Any] = ()
        self._closed: ConnectionClosed | None = None
        self.was_long = False
        """Whether the last message was so long that others should have their turn after it."""

    async def sound(self) -> Sequence[ProcessorPart] | None:
        """Return the parts of the next message if it is sound; `None` leaves it to `recv`.

        Raises:
            ValueError: It has too many values; it is used up.
        """
        try:
            self._unread = await self._socket.recv(decode=False)
        except ConnectionClosed as error:  # `recv` raises it again; the socket might not
            self._closed = error
            return None
        self.was_long = len(self._unread or b"") > _LONG_BYTES
        self._arguments = ()
        if has_too_many_values(self._unread, _MOST_VALUES):
            unread, self._unread = self._unread, None
            self._unread, self._arguments = _without_arguments(unread)
        parts = sound_parts(self._unread)
        if parts is not None:
            self._unread = None
        return parts

    def completed(self, message: types.LiveServerMessage) -> types.LiveServerMessage:
        """Return the message that was read, with the arguments that its calls were read without."""
        if self._arguments and message.tool_call is not None:
            calls = message.tool_call.function_calls or ()
            for call, arguments in zip(calls, self._arguments, strict=True):
                call.args = arguments
        return message

    async def recv(self, *, decode: bool = False) -> bytes | str:
        """Return the message that was left, or the next one."""
        if self._closed is not None:
            raise self._closed
        unread, self._unread = self._unread, None
        received: bytes | str = await self._socket.recv(decode=decode) if unread is None else unread
        return received


def _without_arguments(text: bytes) -> tuple[bytes, Sequence[Any]]:
    """Return a message without the arguments of its calls, and these.

    The model waits for an answer also to a call with more arguments than may run.

    Raises:
        ValueError: It has too many values also without them.
    """
    message = {} if has_too_many_values(text) else json.loads(text)
    calls = message.get("toolCall", {}).get("functionCalls", [])
    arguments = [call.pop("args", None) for call in calls]
    left = json.dumps(message).encode()
    are_read = any(arguments) and all(isinstance(each, dict | None) for each in arguments)
    if not are_read or has_too_many_values(left, _MOST_VALUES):
        raise _TooManyValuesError
    return left, arguments


@asynccontextmanager
async def connect(
    client: Client, model: str, config: types.LiveConnectConfig
) -> AsyncIterator[Connection]:
    """Open a connection, and close it on exit.

    Raises:
        google.genai.errors.APIError: The server refused the setup.
        OSError: There is no server, or no way to it.
        TimeoutError: The server does not answer.
    """
    connecting = client.aio.live.connect(model=model, config=config)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            session = await connecting.__aenter__()
    except TimeoutError:
        message = f"the server has not answered the setup within {_CONNECT_SECONDS:g} s"
        raise TimeoutError(message) from None
    try:
        yield Connection(session)
    finally:
        try:
            await connecting.__aexit__(None, None, None)
        finally:  # cancelled while it waits for the server's good-bye, the client leaves it open
            session._ws.transport.abort()  # noqa: SLF001 - the client has no such method


def failed_in_simulation(error: BaseException) -> bool:
    """Return whether a step of a scenario has failed: another connection cannot help."""
    return isinstance(error, errors.APIError) and error.code == _STEP_FAILED


def ended_by_server(error: BaseException) -> bool:
    """Return whether the server has ended the conversation, and not lost it."""
    return isinstance(error, errors.APIError) and error.code == _NORMAL
