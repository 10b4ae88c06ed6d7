"""One connection to Gemini Live: google-genai's session, hardened against malformed messages."""

from __future__ import annotations

import asyncio
import itertools
import json
import warnings
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from google.auth.exceptions import RefreshError, TransportError
from google.genai import errors
from google.genai.live import AsyncSession
from pydantic import ValidationError
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from leonidas_tools.live.gradual_socket import LONG_BYTES, MAX_VALUES, GradualSocket
from leonidas_tools.live.sound_frames import sound_parts
from leonidas_tools.redaction import described, redact_text
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.json_size import count_values, has_too_many_values

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
"""Exceptions raised if a connection or its token cannot be obtained, or a connection is lost."""

_CONNECT_SECONDS = 10.0
_BURST = 16
_VALUES_A_TURN = 64
"""Values of a message for which the listener has one turn: a message may have very many parts."""
NORMAL = 1000
"""The close code of a connection that has ended as intended."""
_ABNORMAL = 1006
_REFUSALS = frozenset({1003, 1007, 1008, 1009, 400, 401, 403, 404})
_STEP_FAILED = 4000
"""The close code of a simulated session that has failed; the real server sends no private code."""


def code_of(error: BaseException) -> int:
    """Return the close code or HTTP status of an error, or 1006 if it has none."""
    if isinstance(error, errors.APIError):
        return error.code
    return error.response.status_code if isinstance(error, InvalidStatus) else _ABNORMAL


def message_of(error: BaseException) -> str:
    """Return the message of a connection error, with likely secrets redacted."""
    text = str(error)
    if isinstance(error, errors.APIError) and error.status is None:  # of a close frame
        text = text.replace(f"{error.code} None. ", f"{error.code} ", 1).rstrip()
    return redact_text(text)


def is_refusal(error: BaseException) -> bool:
    """Return whether a retry of the same request cannot succeed."""
    return code_of(error) in _REFUSALS


class Receiver(Protocol):
    """Receives the messages of a server."""

    def receive(self, message: types.LiveServerMessage) -> None:
        """Handle a message."""

    def receive_audio(self, parts: Sequence[ProcessorPart]) -> None:
        """Handle a message that contains only audio, as parts."""


class Connection:
    """An open connection.

    Args:
        session: The google-genai session.
    """

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._received = _Received(session._ws)  # noqa: SLF001 - as below
        # google-genai's reader, for messages that are not audio.
        self._reader = AsyncSession(session._api_client, self._received)  # type: ignore[arg-type]  # noqa: SLF001

    async def send(self, message: Callable[[AsyncSession], Awaitable[None]]) -> None:
        """Send a message.

        Raises:
            websockets.exceptions.ConnectionClosed: The connection is closed.
        """
        await message(self._session)

    async def receive(self, receiver: Receiver) -> None:
        """Yield the messages in order until the connection closes.

        Raises:
            google.genai.errors.APIError: The connection is closed; its code says why.
        """

        def take(message: bytes) -> bool:
            sound = sound_parts(message)
            if sound is None or len(sound) > 1:  # many parts at a time would wait for the listener
                return False
            receiver.receive_audio(sound)
            return True

        if isinstance(self._socket, GradualSocket):
            self._socket.take = take
        try:
            for number in itertools.count(1):
                turns = self._received.turns or int(number % _BURST == 0)
                for _ in range(turns):
                    await asyncio.sleep(0)  # a read alone does not let other tasks run
                await self._receive_next(receiver)
        finally:
            if isinstance(self._socket, GradualSocket):
                self._socket.take = None

    async def _receive_next(self, receiver: Receiver) -> None:
        try:
            sound = await self._received.sound()
            if sound is None:  # `receive` would end with every turn
                message = self._received.completed(await self._reader._receive())  # noqa: SLF001
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            # Unknown to the client, not JSON, or too large: the message is consumed.
            logger.warning("Skipped a server message: %s", described(error))
            return
        if sound is None:
            receiver.receive(message)
        else:
            receiver.receive_audio(sound)

    async def ping(self, confirm: Callable[[float], object]) -> asyncio.Future[float]:
        """Send a ping, and return its pong: all messages sent before have then arrived.

        The pong calls `confirm` with the seconds since the ping.

        Raises:
            websockets.exceptions.ConnectionClosed: The connection is closed.
        """
        now = asyncio.get_running_loop().time
        began = now()
        pong: asyncio.Future[float] = await self._socket.ping()

        def on_pong(done: asyncio.Future[float]) -> None:
            if not done.cancelled() and done.exception() is None:
                confirm(now() - began)

        pong.add_done_callback(on_pong)
        return pong

    async def close(self) -> bool:
        """Close the connection, which also ends `receive`.

        Returns:
            Whether the server has answered our close frame. It does so after it has read all
            earlier messages; a server that closes first may have read nothing.
        """
        await self._session.close()
        protocol = self._socket.protocol
        return protocol.close_rcvd is not None and not protocol.close_rcvd_then_sent

    @property
    def _socket(self) -> Any:
        return self._session._ws  # noqa: SLF001 - only the socket knows what has arrived


class _TooManyValuesError(ValueError):
    """Raised if parsing a message would block the event loop."""


class _Received:
    """Reads the messages of a socket: audio here, all others through google-genai."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._unread: bytes | None = None
        self._arguments: Sequence[Any] = ()
        self._closed: ConnectionClosed | None = None
        self.turns = 0
        """Turns of the event loop that other tasks need after the last message."""

    async def sound(self) -> Sequence[ProcessorPart] | None:
        """Return the parts of the next message if it is audio, or `None` to leave it to `recv`."""
        try:
            self._unread = await self._socket.recv(decode=False)
        except ConnectionClosed as error:  # `recv` raises it again; the socket might not
            self._closed = error
            return None
        values = count_values(self._unread)
        self.turns = max(int(len(self._unread) > LONG_BYTES), values // _VALUES_A_TURN)
        self._arguments = ()
        if values > MAX_VALUES:
            unread, self._unread = self._unread, None  # consumed, even if the next line raises
            self._unread, self._arguments = _remove_arguments(unread)
        parts = sound_parts(self._unread)
        if parts is not None:
            self._unread = None
        return parts

    def completed(self, message: types.LiveServerMessage) -> types.LiveServerMessage:
        """Return the message with the call arguments that were removed before it was parsed."""
        if self._arguments and message.tool_call is not None:
            calls = message.tool_call.function_calls or ()
            for call, arguments in zip(calls, self._arguments, strict=True):
                call.args = arguments
        return message

    async def recv(self, *, decode: bool = False) -> bytes | str:
        """Return the message that `sound` has left, or the next one."""
        if self._closed is not None:
            raise self._closed
        unread, self._unread = self._unread, None
        received: bytes | str = await self._socket.recv(decode=decode) if unread is None else unread
        return received


def _remove_arguments(text: bytes) -> tuple[bytes, Sequence[Any]]:
    """Return a message without the arguments of its calls, and those arguments.

    The model waits for a response even if a call has too many arguments to run.
    """
    message = {} if has_too_many_values(text) else json.loads(text)
    calls = message.get("toolCall", {}).get("functionCalls", [])
    arguments = [call.pop("args", None) for call in calls]
    left = json.dumps(message).encode()
    are_read = any(arguments) and all(isinstance(each, dict | None) for each in arguments)
    if not are_read or has_too_many_values(left, MAX_VALUES):
        raise _TooManyValuesError
    return left, arguments


@asynccontextmanager
async def connect(
    client: Client, model: str, config: types.LiveConnectConfig
) -> AsyncIterator[Connection]:
    """Open a connection, and close it on exit.

    Raises:
        google.genai.errors.APIError: The server refused the setup.
        OSError: The server cannot be reached, or its reply cannot be read.
        TimeoutError: The server does not answer the setup in time.
    """
    # Each text that is no value of an enumeration would be printed, and kept for the process.
    warnings.filterwarnings("ignore", ".* is not a valid ", UserWarning, r"google\.genai\._common")
    connecting = client.aio.live.connect(model=model, config=config)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            session = await connecting.__aenter__()
    except TimeoutError:
        message = f"the server did not respond to the setup within {_CONNECT_SECONDS:g} s"
        raise TimeoutError(message) from None
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        if not _is_unreadable_reply(error):
            raise
        raise OSError("the reply of the server to the setup cannot be read") from None
    try:
        yield Connection(session)
    finally:
        try:
            await connecting.__aexit__(None, None, None)
        finally:  # if cancelled during the close handshake, the client leaves the socket open
            session._ws.transport.abort()  # noqa: SLF001 - the client has no such method


def _is_unreadable_reply(error: Exception) -> bool:
    """Return whether google-genai has failed at the reply to a setup, and not at the setup."""
    if isinstance(error, ValidationError):
        return error.title.startswith("LiveServer")
    is_of_form = isinstance(error, AttributeError | RecursionError)
    return is_of_form or str(error).startswith(("Failed to parse response", "Exceeds the limit"))


def is_simulated_failure(error: BaseException) -> bool:
    """Return whether a step of a simulated scenario has failed, so that a retry cannot help."""
    return isinstance(error, errors.APIError) and error.code == _STEP_FAILED


def is_closed_by_server(error: BaseException) -> bool:
    """Return whether the server has closed the connection normally."""
    return isinstance(error, errors.APIError) and error.code == NORMAL
