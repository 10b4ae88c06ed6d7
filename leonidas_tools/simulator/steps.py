"""The steps of a scenario; each plays the session's method of the same name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, replace
from pathlib import Path  # noqa: TC003 -- pydantic reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias

import yaml
from pydantic import Field

from leonidas_tools.simulator.function_call import FunctionCall
from leonidas_tools.simulator.protocol import INTERNAL
from leonidas_tools.simulator.session import WAIT_SECONDS, StepFailedError
from leonidas_tools.simulator.template import fill_in

if TYPE_CHECKING:
    from leonidas_tools.simulator.recording import Answer
    from leonidas_tools.simulator.session import SimulatedSession

_MAX_SHOWN_LENGTH = 160

Seconds: TypeAlias = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Step:
    """An action of the simulated model, or a wait."""

    mapping_is_value: ClassVar[bool] = False
    """True if a mapping in YAML is the value of the first field, not the fields."""

    @classmethod
    def step_name(cls) -> str:
        """Return the name in YAML, which is also the name of the session's method.

        Example:
            >>> from leonidas_tools.simulator import WaitForAnswers
            >>> WaitForAnswers.step_name()
            'wait_for_answers'
        """
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    async def play(self, session: SimulatedSession) -> None:
        """Play the session's method of the same name, with the fields as its arguments."""
        method = getattr(session, self.step_name())
        await method(**{each.name: getattr(self, each.name) for each in fields(self)})

    def __str__(self) -> str:
        """Return the step as YAML on one line, shortened if it is long."""
        values = {each.name: _plain(getattr(self, each.name)) for each in _changed_fields(self)}
        if not values:
            return self.step_name()
        first = fields(self)[0]
        short = list(values) == [first.name] and not first.kw_only
        value: Any = values[first.name] if short else values
        if isinstance(value, list) and len(value) == 1:
            (value,) = value
        text = yaml.safe_dump(
            {self.step_name(): value},
            default_flow_style=True,
            allow_unicode=True,
            sort_keys=False,
            width=math.inf,
        )
        text = text.strip()[1:-1]
        return text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[: _MAX_SHOWN_LENGTH - 1]}…"


def _changed_fields(value: Any) -> list[Any]:
    """Return the fields of a step or call that differ from their defaults."""
    return [
        each
        for each in fields(value)
        if each.repr and (each.default is MISSING or getattr(value, each.name) != each.default)
    ]


def _plain(value: Any) -> Any:
    """Return a value in its YAML form."""
    if isinstance(value, FunctionCall):
        return {each.name: _plain(getattr(value, each.name)) for each in _changed_fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if type(value) in {str, int, float, bool, type(None)} else str(value)


CloseCode = Annotated[int, Field(ge=1000, le=4999)]


@dataclass(frozen=True, slots=True)
class WaitForInput(Step):
    """Waits for input of the user that no earlier wait has returned.

    Args:
        kind: The kind of input to wait for.
        count: The number of texts, audio chunks or activity signals.
        containing: Text that a text must contain, ignoring case.
        within_seconds: How long to wait.
    """

    kind: Literal["any", "text", "audio", "video", "activity"] = "any"
    _: KW_ONLY
    count: Annotated[int, Field(ge=1)] = 1
    containing: str = ""
    within_seconds: Seconds = WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class SessionResumption(Step):
    """Sends the handle with which the session can be resumed.

    Args:
        handle: The handle; without one the session cannot be resumed at this moment.
        resumable: Whether it can be resumed; by default, whether there is a handle.
    """

    handle: str | None = None
    _: KW_ONLY
    resumable: bool | None = None


@dataclass(frozen=True, slots=True)
class GoAway(Step):
    """Warns that the connection ends soon.

    Args:
        time_left_seconds: The time left, by the loop's clock; the speed does not shorten it.
        close: Close the connection when the time is over, with 1011 as reported of real servers;
            otherwise closing it needs another step.
    """

    time_left_seconds: Seconds
    _: KW_ONLY
    close: bool = False


@dataclass(frozen=True, slots=True)
class Pause(Step):
    """Pauses for some seconds; a higher speed shortens the pause.

    Args:
        seconds: The duration at speed 1.
    """

    seconds: Seconds


@dataclass(frozen=True, slots=True)
class Close(Step):
    """Closes the connection with a closing handshake.

    Args:
        code: The close code.
        reason: The reason, at most 123 bytes.
    """

    code: CloseCode = 1000
    _: KW_ONLY
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Drop(Step):
    """Drops the connection without a close frame, as a lost network does."""


@dataclass(frozen=True, slots=True)
class WaitForContextUpdate(Step):
    """Waits for the next context update that no earlier wait has returned.

    Args:
        declaring: A function that the update must declare; empty for any update.
        within_seconds: How long to wait.
    """

    declaring: str = ""
    _: KW_ONLY
    within_seconds: Seconds = WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class WaitForClose(Step):
    """Waits until the client has closed the connection, as a goAway requests.

    Args:
        within_seconds: How long to wait.
    """

    _: KW_ONLY
    within_seconds: Seconds = WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class WaitForProgress(Step):
    """Waits until a tool reports progress that no earlier wait has returned, so that it runs.

    `leonidas run` passes it on; a program does so by `LiveSimulator.note_progress`.

    Args:
        tool: The tool.
        within_seconds: How long to wait.
    """

    tool: str
    _: KW_ONLY
    within_seconds: Seconds = WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class ExpireHandles(Step):
    """Expires all handles of this session that were sent so far."""


@dataclass(frozen=True, slots=True)
class StallPongs(Step):
    """Ignores the client for some seconds, pings included; the scenario continues.

    Args:
        seconds: The duration, by the loop's clock; the speed does not shorten it.
    """

    seconds: Seconds


@dataclass(frozen=True, slots=True)
class GoSilent(Step):
    """Ignores the client and sends nothing until it has dropped the connection."""


@dataclass(frozen=True, slots=True)
class RefuseConnections(Step):
    """Refuses the next connections.

    Args:
        count: The number of connections.
        http_status: The status of a refusal at the HTTP request; None to refuse after the setup.
        close_code: The close code of a refusal after the setup.
        reason: The reason that the client receives.
    """

    count: Annotated[int, Field(ge=1)] = 1
    _: KW_ONLY
    http_status: Annotated[int, Field(ge=300, le=599)] | None = None
    close_code: CloseCode = INTERNAL
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StopListening(Step):
    """Stops listening for some seconds: new connections are refused by the network.

    Args:
        seconds: The duration, by the loop's clock; the speed does not shorten it.
    """

    seconds: Seconds


@dataclass(frozen=True, slots=True)
class Say(Step):
    """Speaks: sends the text as output transcription, and a recording or a tone as audio.

    Args:
        text: The text; `{answers.ID.KEY}` quotes from an answer.
        audio: A WAV file (16-bit PCM; in YAML relative to the scenario's file), or
            16-bit PCM at 24 kHz, one channel.
        audio_seconds: The length of the tone if there is no recording; by default the duration
            of the spoken text.
        paced: Send the audio in real time instead of as fast as possible.
    """

    text: str
    _: KW_ONLY
    audio: Path | str | bytes | None = field(default=None, repr=False)
    audio_seconds: Seconds | None = None
    paced: bool = False


@dataclass(frozen=True, slots=True)
class Call(Step):
    """Calls functions in one message, without waiting for the answers.

    Args:
        calls: The calls; texts in their arguments may quote from answers, as in `Say`.
        in_model_turn: Send them as parts of a model turn instead of a tool call.

    Example:
        >>> Call.one("get_weather", {"city": "Lisbon"}, id="c1").calls[0].id
        'c1'
    """

    calls: tuple[FunctionCall, ...]
    _: KW_ONLY
    in_model_turn: bool = False

    def __post_init__(self) -> None:
        """Check the calls.

        Raises:
            TypeError: `calls` is the name of a function.
        """
        if isinstance(self.calls, str):
            raise TypeError(f"calls must be FunctionCalls; for one, write Call.one({self.calls!r})")

    @classmethod
    def one(cls, name: str, args: Mapping[str, Any] | None = None, **options: Any) -> Call:
        """Return a step that calls one function; the options are those of `FunctionCall`."""
        return cls((FunctionCall(name, {} if args is None else args, **options),))

    async def play(self, session: SimulatedSession) -> None:
        """Play the step."""
        try:
            calls = [_fill_call(call, session.answers) for call in self.calls]
        except LookupError as error:
            raise StepFailedError(error.args[0]) from None
        await session.send_calls(*calls, in_model_turn=self.in_model_turn)


def _fill_call(call: FunctionCall, answers: Mapping[str, Answer]) -> FunctionCall:
    return replace(call, args=fill_in(call.args, answers)) if call.args else call


@dataclass(frozen=True, slots=True)
class WaitForAnswers(Step):
    """Waits until calls have their final answers.

    Args:
        ids: The calls; without any, all that are pending.
        within_seconds: How long to wait.
    """

    ids: tuple[str, ...] = ()
    _: KW_ONLY
    within_seconds: Seconds = WAIT_SECONDS

    async def play(self, session: SimulatedSession) -> None:
        """Play the step."""
        await session.wait_for_answers(*self.ids, within_seconds=self.within_seconds)


@dataclass(frozen=True, slots=True)
class Expect(Step):
    """Waits for the answer to a call and checks it.

    Args:
        id: The call.
        status: The expected `status`.
        response: The expected content; other keys are allowed, at every depth.
        within_seconds: How long to wait for it.
    """

    id: str
    _: KW_ONLY
    status: str | None = None
    response: Mapping[str, Any] | None = None
    within_seconds: Seconds = WAIT_SECONDS

    async def play(self, session: SimulatedSession) -> None:
        """Play the step."""
        await session.expect(
            self.id,
            status=self.status,
            response=self.response,
            within_seconds=self.within_seconds,
        )


@dataclass(frozen=True, slots=True)
class Cancel(Step):
    """Cancels calls.

    Args:
        ids: The calls.
    """

    ids: tuple[str, ...]

    async def play(self, session: SimulatedSession) -> None:
        """Play the step."""
        await session.cancel(*self.ids)


@dataclass(frozen=True, slots=True)
class Interrupt(Step):
    """Signals that the user interrupts the model.

    Args:
        cancel: Also cancel the pending calls.
    """

    _: KW_ONLY
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class GenerationComplete(Step):
    """Signals that the model has generated its whole turn."""


@dataclass(frozen=True, slots=True)
class TurnComplete(Step):
    """Ends the model's turn, if necessary after the answers to BLOCKING calls.

    Args:
        reason: A `TurnCompleteReason`, such as `MALFORMED_FUNCTION_CALL`.
        interaction_status: The status that newer models send along, by default `IDLE`.
        within_seconds: How long to wait for answers.
    """

    reason: str | None = None
    _: KW_ONLY
    interaction_status: str | None = None
    within_seconds: Seconds = WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class InputTranscription(Step):
    """Sends a transcription of the user's speech.

    Args:
        text: The transcription.
        finished: Whether the user has finished speaking. Models mark this at the end of all
            speech, or never; where it is never marked, a yes counts only after a pause.
    """

    text: str
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Usage(Step):
    """Sends usage metadata.

    Args:
        metadata: The metadata, such as `{"totalTokenCount": 10}`.
    """

    mapping_is_value: ClassVar[bool] = True
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Send(Step):
    """Sends a raw message; a text is sent as a frame even if it is not JSON.

    Args:
        message: The message.
    """

    mapping_is_value: ClassVar[bool] = True
    message: Mapping[str, Any] | str


STEPS: Final[Mapping[str, type[Step]]] = {
    kind.step_name(): kind
    for kind in (
        Say, Call, WaitForAnswers, Expect, WaitForInput, WaitForContextUpdate, WaitForProgress,
        WaitForClose, Cancel, Interrupt, GenerationComplete, TurnComplete, InputTranscription,
        Usage, SessionResumption, ExpireHandles, GoAway, Pause, Close, Drop, StallPongs, GoSilent,
        RefuseConnections, StopListening, Send,
    )
}  # fmt: skip
"""Every step by its name in YAML."""
