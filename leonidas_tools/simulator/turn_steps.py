"""Steps of the model: what it says, what it calls, and the answers it awaits."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 -- pydantic reads the annotations
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path  # noqa: TC003 -- as above
from typing import TYPE_CHECKING, Any, ClassVar

from leonidas_tools.simulator.calling import WAIT_SECONDS
from leonidas_tools.simulator.exchange import StepFailedError
from leonidas_tools.simulator.function_call import FunctionCall
from leonidas_tools.simulator.step import Seconds, Step
from leonidas_tools.simulator.template import fill_in

if TYPE_CHECKING:
    from leonidas_tools.simulator.recording import Answer
    from leonidas_tools.simulator.session import SimulatedSession


@dataclass(frozen=True, slots=True)
class Say(Step):
    """Speaks: the text as output transcription, beside it a recording, or a tone, as audio.

    Args:
        text: What to say; `{answers.ID.KEY}` quotes from an answer.
        audio: How it sounds: a WAV file (16-bit PCM; in YAML relative to the scenario's file), or
            16-bit PCM at 24 kHz, one channel.
        audio_seconds: Without a recording, how much of the tone; by default as long as the text
            takes to say.
        paced: Send the audio in real time instead of as fast as it goes.
    """

    text: str
    _: KW_ONLY
    audio: Path | str | bytes | None = field(default=None, repr=False)
    audio_seconds: Seconds | None = None
    paced: bool = False


@dataclass(frozen=True, slots=True)
class Call(Step):
    """Calls functions, all in one message, without waiting for the answers.

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

    @classmethod
    def one(cls, name: str, args: Mapping[str, Any] | None = None, **options: Any) -> Call:
        """Return a step that calls one function; the options are those of `FunctionCall`."""
        return cls((FunctionCall(name, {} if args is None else args, **options),))

    async def play(self, session: SimulatedSession) -> None:
        """Play the step."""
        try:
            calls = [_filled(call, session.answers) for call in self.calls]
        except LookupError as error:
            raise StepFailedError(error.args[0]) from None
        await session.send_calls(*calls, in_model_turn=self.in_model_turn)


def _filled(call: FunctionCall, answers: Mapping[str, Answer]) -> FunctionCall:
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
        status: What its `status` is to be.
        response: What is to be in it; other keys are allowed, at every depth.
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
    """Takes calls back.

    Args:
        ids: The calls.
    """

    ids: tuple[str, ...]

    async def play(self, session: SimulatedSession) -> None:
        """Play the step."""
        await session.cancel(*self.ids)


@dataclass(frozen=True, slots=True)
class Interrupt(Step):
    """Tells that the user has begun to speak over the model.

    Args:
        cancel: Take back the calls that await their answer, too.
    """

    _: KW_ONLY
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class GenerationComplete(Step):
    """Tells that the model has generated all of its turn."""


@dataclass(frozen=True, slots=True)
class TurnComplete(Step):
    """Ends the model's turn, which may have to wait for the answers to BLOCKING calls.

    Args:
        reason: A `TurnCompleteReason`, such as `MALFORMED_FUNCTION_CALL`.
        interaction_status: What newer models send along; where the model does, by default `IDLE`.
        within_seconds: How long to wait for answers.
    """

    reason: str | None = None
    _: KW_ONLY
    interaction_status: str | None = None
    within_seconds: Seconds = WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class InputTranscription(Step):
    """Shows what the user was understood to say.

    Args:
        text: What that is.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Usage(Step):
    """Sends usage metadata.

    Args:
        metadata: Such as `{"totalTokenCount": 10}`.
    """

    mapping_is_value: ClassVar[bool] = True
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Send(Step):
    """Send a raw message; a text is sent as a frame even if it is not JSON.

    Args:
        message: The message.
    """

    mapping_is_value: ClassVar[bool] = True
    message: Mapping[str, Any] | str
