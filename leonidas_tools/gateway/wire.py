"""The messages and audio formats of a client, and the codes with which its connection closes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, TypeAdapter, ValidationError

from leonidas_tools.results.jsonable import utf8_text

if TYPE_CHECKING:
    from leonidas_tools.approvals.request import ApprovalRequest
    from leonidas_tools.calls.events import ToolEvent

PROTOCOL: Final = "leonidas.gateway.v1"
ENDED: Final = 1000
LEAVING: Final = 1001
UNSUPPORTED: Final = 1003
REFUSED: Final = 1008
FAILED: Final = 1011
RESTARTING: Final = 1012
BUSY: Final = 1013
Encoding: TypeAlias = Literal["pcm16", "mulaw"]
_T = TypeVar("_T")
_SHOWN = ("event", "call_id", "tool", "status", "reason_code", "message", "fraction", "seconds")


class CloseError(Exception):
    """Raised to end a conversation; the client receives the code and the reason.

    Args:
        code: The close code.
        why: The reason as a label of the metrics.
        reason: The reason, at most 123 bytes.
    """

    def __init__(self, code: int, why: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.why = why
        self.reason = reason


@dataclass(frozen=True, kw_only=True, slots=True)
class SoundFormat:
    """An audio format with one channel.

    Args:
        encoding: `pcm16` (little-endian) or `mulaw` (G.711).
        hertz: The sample rate.
    """

    encoding: Encoding = "pcm16"
    hertz: int = 16_000

    @property
    def sample_bytes(self) -> int:
        """Return the length of a sample in bytes."""
        return 1 if self.encoding == "mulaw" else 2

    @property
    def mime_type(self) -> str:
        """Return the MIME type of the decoded audio; the model accepts any rate in it."""
        return f"audio/pcm;rate={self.hertz}"

    def seconds(self, length: int) -> float:
        """Return the duration of `length` bytes."""
        return length / (self.hertz * self.sample_bytes)

    def bytes_of(self, seconds: float) -> int:
        """Return the length of `seconds` in bytes."""
        return int(seconds * self.hertz) * self.sample_bytes


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Start(_Message):
    """The first message: the client's audio format, and the token of a resumption."""

    type: Literal["start"]
    format: Encoding = "pcm16"
    rate: Annotated[int, Field(ge=8000, le=24_000)] | None = None
    resume: str | None = None

    @property
    def sound(self) -> SoundFormat:
        """Return the audio format."""
        usual = 8000 if self.format == "mulaw" else 16_000
        return SoundFormat(encoding=self.format, hertz=self.rate or usual)


class Text(_Message):
    """A typed text."""

    type: Literal["text"]
    text: Annotated[str, Field(min_length=1, max_length=4000)]


class AudioEnd(_Message):
    """A pause in the audio: the microphone is muted."""

    type: Literal["audio_end"]


class Answered(_Message):
    """The answer to a question."""

    type: Literal["answer"]
    question: Annotated[str, Field(max_length=128)]
    approve: StrictBool


ClientMessage: TypeAlias = Text | AudioEnd | Answered
_START: TypeAdapter[Start] = TypeAdapter(Start)
MESSAGES: Final[TypeAdapter[ClientMessage]] = TypeAdapter(
    Annotated[Text | AudioEnd, Field(discriminator="type")]
)
MESSAGES_WITH_ANSWERS: Final[TypeAdapter[ClientMessage]] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="type")]
)


def parse_start(text: str | None) -> Start:
    """Parse the first message.

    Raises:
        CloseError: The message is not a valid `start`.
    """
    reason = 'First send {"type": "start"}, with format pcm16 or mulaw and rate 8000 to 24000'
    return _parse(text or "", _START, reason)


def parse_message(text: str, messages: TypeAdapter[ClientMessage]) -> ClientMessage:
    """Parse any message after the first.

    Raises:
        CloseError: The message is not one of these.
    """
    reason = "A message must be JSON of a known type; a text has 1 to 4000 characters"
    return _parse(text, messages, reason)


def _parse(text: str, adapter: TypeAdapter[_T], reason: str) -> _T:
    try:
        return adapter.validate_json(text)
    except ValidationError:
        raise CloseError(UNSUPPORTED, "protocol", reason) from None


def message(kind: str, **fields: Any) -> str:
    """Return a message to the client as JSON."""
    return utf8_text(json.dumps({"type": kind, **fields}, ensure_ascii=False))


def tool_message(event: ToolEvent) -> str:
    """Return the message about an event of a call, without arguments and results."""
    happened = event.to_json()
    return message("tool", **{name: happened[name] for name in _SHOWN if name in happened})


def question_message(asked: ApprovalRequest) -> str:
    """Return the message of a question, with its secrets masked."""
    body = asked.to_json()
    shown = {name: body[name] for name in ("tool", "title", "details", "deadline")}
    return message("question", id=asked.id, **shown)
