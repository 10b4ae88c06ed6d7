"""A model behind a server: the limits of its answers, and their errors without secrets."""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from contextlib import aclosing, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from leonidas_tools.agent.models.model import (
    DEFAULT_PARAMETERS,
    Chunk,
    Declared,
    End,
    EndReason,
    Message,
    ModelParameters,
    Restart,
)
from leonidas_tools.errors import ModelError
from leonidas_tools.redaction import KnownSecrets
from leonidas_tools.results.texts import shorten

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

_CLIENTS = (("httpx2", "HTTPError"), ("httpx", "HTTPError"), ("aiohttp", "ClientError"))
_MAX_BACKOFF_SECONDS = 30.0
_MAX_MESSAGE_LENGTH = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerLimits:
    """The timeout of an answer, and the number of its retries.

    Args:
        timeout_seconds: The timeout of the whole answer in seconds, including all attempts and
            the waits between them.
        retries: The maximum number of retries after a retryable error.
        backoff_seconds: The wait before the first retry in seconds; it doubles with each retry.

    Raises:
        ValueError: A value is out of range.
    """

    timeout_seconds: float = 120.0
    retries: int = 2
    backoff_seconds: float = 0.5

    def __post_init__(self) -> None:
        if self.timeout_seconds <= 0:
            raise ValueError(f"timeout_seconds must be above 0, not {self.timeout_seconds!r}")
        if self.retries < 0 or self.backoff_seconds < 0:
            raise ValueError(
                f"retries and backoff_seconds must be 0 or more, not {self.retries!r} and "
                f"{self.backoff_seconds!r}"
            )


class ServedModel(ABC):
    """A model behind a server.

    `async with` closes the connections at the end. Without it, `aclose` or the end of the process
    closes them.
    """

    def __init__(self, name: str, secrets: Iterable[str], **limits: Any) -> None:
        self.name = name
        self.limits = AnswerLimits(**limits)
        self._secrets = KnownSecrets(secrets)
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the next request opens new ones."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await self._close(client)

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[Declared] = (),
        parameters: ModelParameters = DEFAULT_PARAMETERS,
    ) -> AsyncGenerator[Chunk]:
        """Yield an answer in chunks within the limits, with `Restart` before each retry.

        The time of the consumer is not counted.

        Raises:
            ModelError: There is no answer; the error says why, without secrets.
        """
        limits = self.limits
        clock = _Clock(limits.timeout_seconds)
        for number in range(limits.retries + 1):
            try:
                async with aclosing(self._attempt(messages, tools, parameters)) as chunks:
                    while (chunk := await clock.next(chunks)) is not None:
                        yield chunk
            except ModelError as error:
                # The cause is left out, as it may have secrets.
                failure = ModelError(
                    shorten(self._secrets.text(str(error)), _MAX_MESSAGE_LENGTH),
                    reason=error.reason,
                    retryable=error.retryable,
                    retry_after_seconds=error.retry_after_seconds,
                )
            else:
                return
            backoff = min(limits.backoff_seconds * 2.0**number, _MAX_BACKOFF_SECONDS)
            jitter = random.uniform(0.75, 1.25)  # noqa: S311 - not cryptography
            wait = failure.retry_after_seconds or backoff * jitter
            is_last = number == limits.retries or wait >= clock.seconds_left
            if is_last or not failure.retryable:
                raise failure
            clock.seconds_left -= wait
            yield Restart(str(failure))
            await asyncio.sleep(wait)

    def _connect(self) -> Any:
        """Return a client for this event loop, which cannot use connections of another loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            self._client = self._open()
        return self._client

    @abstractmethod
    def _attempt(
        self, messages: Sequence[Message], tools: Sequence[Declared], parameters: ModelParameters
    ) -> AsyncGenerator[Chunk]:
        """Send one request to the server, and yield the chunks of its answer."""

    @abstractmethod
    def _open(self) -> Any:
        """Return a new client."""

    @abstractmethod
    async def _close(self, client: Any) -> None:
        """Close the connections of a client."""


def connection_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of the installed HTTP clients that the clients of models may use."""
    found: list[type[Exception]] = [OSError]
    for client, error in _CLIENTS:
        with suppress(ImportError):
            found.append(getattr(import_module(client), error))
    return tuple(found)


class _Clock:
    """The remaining time for the server."""

    def __init__(self, seconds: float) -> None:
        self.seconds_left = seconds
        self._timeout_seconds = seconds

    async def next(self, chunks: AsyncGenerator[Chunk]) -> Chunk | None:
        """Return the next chunk, or `None` at the end."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self.seconds_left):
                return await anext(chunks, None)
        except TimeoutError:
            raise ModelError(
                f"no complete answer within {self._timeout_seconds:g} s: give it more time by "
                "timeout_seconds, or ask for less",
                reason="timeout",
            ) from None
        finally:
            self.seconds_left -= time.monotonic() - begun


def connection_error(error: BaseException) -> ModelError:
    """Return the error of a connection that failed."""
    return ModelError(
        f"the connection to the server failed ({type(error).__name__}): check its address and that "
        "it runs",
        reason="connection",
        retryable=True,
    )


def check_complete(end: EndReason | None) -> End:
    """Return the end of an answer.

    Raises:
        ModelError: The stream ended before the answer was complete.
    """
    if end is None:
        raise ModelError(
            "the server closed the stream before its answer was complete",
            reason="connection",
            retryable=True,
        )
    return End(end)
