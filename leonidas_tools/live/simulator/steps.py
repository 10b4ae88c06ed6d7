"""The steps of a scenario: small values, each playing the session's method of the same name."""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 -- pydantic reads the annotations
from dataclasses import KW_ONLY, MISSING, dataclass, fields
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import Field

from leonidas_tools.live.simulator.function_call import FunctionCall
from leonidas_tools.live.simulator.session import WAIT_SECONDS, SimulatedSession

Seconds: TypeAlias = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Step:
    """Something the simulated model does or waits for."""

    mapping_is_value: ClassVar[bool] = False
    """Whether a mapping in YAML is the value of the first field, not the fields."""

    @classmethod
    def step_name(cls) -> str:
        """The name in YAML, which is also the name of the session's method.

        Example:
            >>> WaitForAnswers.step_name()
            'wait_for_answers'
        """
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    async def play(self, session: SimulatedSession) -> None:
        """Plays the session's method of the same name, with the fields as its arguments."""
        method = getattr(session, self.step_name())
        await method(**{each.name: getattr(self, each.name) for each in fields(self)})

    def __str__(self) -> str:
        told = {each.name: getattr(self, each.name) for each in fields(self) if _told(self, each)}
        text = ", ".join(f"{name}={value!r}" for name, value in told.items())
        return f"{self.step_name()}({text[:120]})"


def _told(step: Step, each: Any) -> bool:
    return each.default is MISSING or getattr(step, each.name) != each.default


@dataclass(frozen=True, slots=True)
class Say(Step):
    """Speaks: the text as output transcription, beside it a tone as audio.

    Args:
        text: What to say; `{answers.ID.KEY}` quotes from an answer.
        audio_seconds: How much audio; by default as long as the text takes to say.
        paced: Send the audio in real time instead of as fast as it goes.
    """

    text: str
    _: KW_ONLY
    audio_seconds: Seconds | None = None
    paced: bool = False


@dataclass(frozen=True, slots=True)
class Call(Step):
    """Calls functions, all in one message, without waiting for the answers.

    Args:
        calls: The calls.
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
        """A step that calls one function; the options are those of `FunctionCall`."""
        return cls((FunctionCall(name, {} if args is None else args, **options),))

    async def play(self, session: SimulatedSession) -> None:
        """Plays the step."""
        await session.send_calls(*self.calls, in_model_turn=self.in_model_turn)


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
        """Plays the step."""
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
        """Plays the step."""
        await session.expect(
            self.id,
            status=self.status,
            response=self.response,
            within_seconds=self.within_seconds,
        )


@dataclass(frozen=True, slots=True)
class WaitForInput(Step):
    """Waits until the user has sent something that no earlier wait has taken.

    Args:
        kind: What to wait for.
        count: How much of it: texts, audio chunks, activity signals.
        containing: What a text must contain, in any case.
        within_seconds: How long to wait.
    """

    kind: Literal["any", "text", "audio", "video", "activity"] = "any"
    _: KW_ONLY
    count: Annotated[int, Field(ge=1)] = 1
    containing: str = ""
    within_seconds: Seconds = WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class Cancel(Step):
    """Takes calls back.

    Args:
        ids: The calls.
    """

    ids: tuple[str, ...]

    async def play(self, session: SimulatedSession) -> None:
        """Plays the step."""
        await session.cancel(*self.ids)


@dataclass(frozen=True, slots=True)
class Interrupt(Step):
    """Tells that the user has begun to speak over the model."""


@dataclass(frozen=True, slots=True)
class GenerationComplete(Step):
    """Tells that the model has generated all of its turn."""


@dataclass(frozen=True, slots=True)
class TurnComplete(Step):
    """Ends the model's turn.

    Args:
        reason: A `TurnCompleteReason`, such as `MALFORMED_FUNCTION_CALL`.
        interaction_status: What newer models send along, such as `IDLE`.
    """

    reason: str | None = None
    _: KW_ONLY
    interaction_status: str | None = None


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
    """Warns that the connection ends soon; ending it is another step.

    Args:
        time_left_seconds: How soon.
    """

    time_left_seconds: Seconds


@dataclass(frozen=True, slots=True)
class Pause(Step):
    """Does nothing for a while, or less at a higher speed.

    Args:
        seconds: How long.
    """

    seconds: Seconds


@dataclass(frozen=True, slots=True)
class Close(Step):
    """Closes the connection in good order.

    Args:
        code: The close code.
        reason: The reason, at most 123 bytes.
    """

    code: Annotated[int, Field(ge=1000, le=4999)] = 1000
    _: KW_ONLY
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Drop(Step):
    """Drops the connection without a closing frame, as a lost network does."""


@dataclass(frozen=True, slots=True)
class Send(Step):
    """Sends a message as it is; a text is sent as a frame even if it is not JSON.

    Args:
        message: The message.
    """

    mapping_is_value: ClassVar[bool] = True
    message: Mapping[str, Any] | str


STEPS: Final[Mapping[str, type[Step]]] = {
    kind.step_name(): kind
    for kind in (
        Say, Call, WaitForAnswers, Expect, WaitForInput, Cancel, Interrupt, GenerationComplete,
        TurnComplete, InputTranscription, Usage, SessionResumption, GoAway, Pause, Close, Drop,
        Send,
    )
}  # fmt: skip
"""Every step by its name in YAML."""
