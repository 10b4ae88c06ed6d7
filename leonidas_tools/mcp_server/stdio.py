"""The pipes of a server over stdio, kept free of the output of tools and their children."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from leonidas_tools.mcp_server.request_ids import UnansweredRequests
from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.jsonable import utf8_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    MessageSource: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
    MessageSink: TypeAlias = MemoryObjectSendStream[SessionMessage]

logger = visible_logger(__name__)

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_MAX_ID_DIGITS = 20
_MAX_WAITING = 64
_FLUSH_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipes:
    """The file descriptors of a message stream."""

    input: int
    output: int


@contextmanager
def claim_pipes() -> Iterator[Pipes]:
    """Reserve standard input and output for messages.

    Inside, other readers of standard input find its end, and printed output goes to standard error.
    Both also apply to child processes.
    """
    sys.stdout.flush()
    # Children inherit neither: a copy made by `os.dup` is closed when they start.
    pipes = Pipes(input=os.dup(0), output=os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield pipes
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(pipes.input, 0)
        os.dup2(pipes.output, 1)
        # The copies stay open: a thread may still be reading, and the number must not be reused.
        os.close(nothing)


@asynccontextmanager
async def streams(pipes: Pipes) -> AsyncIterator[tuple[MessageSource, MessageSink]]:
    """Open message streams over two pipes.

    Each pipe has its own thread, which nothing waits for: a pipe may stay silent or full.
    """
    received, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbox, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    requests = UnansweredRequests()
    reading = asyncio.create_task(_read(pipes.input, received, outbox.clone(), requests))
    writing = asyncio.create_task(_write(pipes.output, to_send, requests))
    writing.add_done_callback(lambda _: reading.cancel())  # the client no longer reads responses
    try:
        yield inbox, outbox
    finally:
        outbox.close()
        reading.cancel()
        await asyncio.wait({writing}, timeout=_FLUSH_SECONDS)
        writing.cancel()
        await asyncio.wait({reading, writing})
        inbox.close()


async def _read(
    pipe: int,
    received: MemoryObjectSendStream[SessionMessage | Exception],
    refusals: MessageSink,
    requests: UnansweredRequests,
) -> None:
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()
    room = threading.Semaphore(_MAX_WAITING)

    def deliver(line: bytes | None) -> None:
        room.acquire()
        loop.call_soon_threadsafe(lines.put_nowait, line)

    _in_thread("mcp-stdin", lambda: _read_lines(pipe, deliver))
    gone = contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError)
    with received, refusals, gone:
        while (line := await lines.get()) is not None:
            room.release()
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                # The text is not logged, because it may contain arguments.
                logger.warning("A line of %d bytes is not a valid message", len(line))
                if (refusal := _refusal(line)) is not None:
                    requests.begin(refusal.id)
                    await refusals.send(SessionMessage(refusal))
                continue
            if (refusal := requests.heard(message)) is not None:
                await refusals.send(SessionMessage(refusal))
            else:
                await received.send(SessionMessage(message))


def _refusal(line: bytes) -> JSONRPCError | None:
    """Return the error response to an unreadable request; `None` if no request is found.

    The message parser rejects JSON that other programs send: numbers with thousands of digits, lone
    surrogates, deep nesting. The sender of such a request also waits for a response.
    """
    try:
        found = json.loads(line, parse_int=_id_or_none)
    except RecursionError:
        found = {"id": None, "method": ""}  # perhaps a request; the parser cannot find its id
    except ValueError:
        return None
    if not isinstance(found, dict) or "method" not in found or "id" not in found:
        return None
    identifier = found["id"]
    if not isinstance(identifier, str | int) or isinstance(identifier, bool):
        identifier = None
    elif isinstance(identifier, str):
        identifier = utf8_text(identifier)
    error = ErrorData(code=PARSE_ERROR, message="The message cannot be parsed as JSON-RPC.")
    return JSONRPCError(jsonrpc="2.0", id=identifier, error=error)


def _id_or_none(digits: str) -> int | None:
    return int(digits) if len(digits) < _MAX_ID_DIGITS else None


def _read_lines(pipe: int, deliver: Callable[[bytes | None], None]) -> None:
    """Deliver lines, and `None` at the end; drop lines that are too long."""
    line, too_long = bytearray(), False
    with contextlib.suppress(RuntimeError):  # the loop is closed: no reader is left
        while chunk := _chunk(pipe):
            *ended, rest = chunk.split(b"\n")
            for piece in ended:
                line += piece
                if too_long:
                    logger.warning("A message of more than %d bytes is ignored", MAX_MESSAGE_BYTES)
                elif line.strip():
                    deliver(bytes(line))
                line, too_long = bytearray(), False
            line += rest
            if len(line) > MAX_MESSAGE_BYTES:
                line, too_long = bytearray(), True
        deliver(None)


def _chunk(pipe: int) -> bytes:
    try:
        return os.read(pipe, _CHUNK_BYTES)
    except OSError:
        return b""


async def _write(
    pipe: int, to_send: MemoryObjectReceiveStream[SessionMessage], requests: UnansweredRequests
) -> None:
    loop = asyncio.get_running_loop()
    texts: SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = SimpleQueue()

    def settle(written: asyncio.Future[None], error: OSError | None) -> None:
        if written.done():
            return
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)

    def write() -> None:
        while (item := texts.get()) is not None:
            text, written = item
            error = _write_all(pipe, text)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, written, error)

    _in_thread("mcp-stdout", write)
    try:
        async for message in to_send:
            requests.said(message.message)
            written: asyncio.Future[None] = loop.create_future()
            texts.put((_encode(message.message), written))
            await written
    except OSError:
        logger.info("The client has disconnected: its pipe is closed")
    finally:
        texts.put(None)
        to_send.close()


def _encode(message: JSONRPCMessage) -> bytes:
    """Return the message as a line of JSON; replace a response without JSON form by an error."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError as error:  # also pydantic's errors: no message may stop the server
        logger.warning("A message cannot be written as JSON: %s", described(error))
    if not isinstance(message, JSONRPCResponse):
        return b""
    said = ErrorData(code=INTERNAL_ERROR, message="The answer cannot be written as JSON.")
    return _encode(JSONRPCError(jsonrpc="2.0", id=message.id, error=said))


def _write_all(pipe: int, text: bytes) -> OSError | None:
    try:
        left = memoryview(text)
        while left:
            left = left[os.write(pipe, left) :]
    except OSError as error:
        return error
    return None


def _in_thread(name: str, work: Callable[[], None]) -> None:
    """Run a function in a daemon thread, which the interpreter does not wait for at exit."""
    threading.Thread(target=work, name=name, daemon=True).start()
