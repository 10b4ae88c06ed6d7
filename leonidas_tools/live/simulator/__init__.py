"""A simulator of the Gemini Live server: test a voice agent without key or network."""

from leonidas_tools.live.simulator.exchange import ClientLeftError, StepFailedError
from leonidas_tools.live.simulator.function_call import ABSENT, FunctionCall
from leonidas_tools.live.simulator.protocol import MEBIBYTE, Quirks
from leonidas_tools.live.simulator.recording import (
    Answer,
    CallRecord,
    Outcome,
    RecordedMessage,
    Violation,
)
from leonidas_tools.live.simulator.scenario import Scenario
from leonidas_tools.live.simulator.server import LiveSimulator
from leonidas_tools.live.simulator.session import SimulatedSession
from leonidas_tools.live.simulator.steps import (
    Call,
    Cancel,
    Close,
    Drop,
    Expect,
    GenerationComplete,
    GoAway,
    InputTranscription,
    Interrupt,
    Pause,
    Say,
    Send,
    SessionResumption,
    Step,
    TurnComplete,
    Usage,
    WaitForAnswers,
    WaitForInput,
)
from leonidas_tools.live.simulator.user_input import UserInput

__all__ = [
    "ABSENT", "MEBIBYTE", "Answer", "Call", "CallRecord", "Cancel", "ClientLeftError", "Close",
    "Drop", "Expect", "FunctionCall", "GenerationComplete", "GoAway", "InputTranscription",
    "Interrupt", "LiveSimulator", "Outcome", "Pause", "Quirks", "RecordedMessage", "Say",
    "Scenario", "Send", "SessionResumption", "SimulatedSession", "Step", "StepFailedError",
    "TurnComplete", "Usage", "UserInput", "Violation", "WaitForAnswers", "WaitForInput",
]  # fmt: skip
