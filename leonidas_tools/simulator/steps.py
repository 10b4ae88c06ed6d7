"""The steps of a scenario: small values, each playing the session's method of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leonidas_tools.simulator.session_steps import (
    Close,
    Drop,
    ExpireHandles,
    GoAway,
    GoSilent,
    Pause,
    RefuseConnections,
    SessionResumption,
    StallPongs,
    StopListening,
    WaitForClose,
    WaitForContextUpdate,
    WaitForInput,
)
from leonidas_tools.simulator.turn_steps import (
    Call,
    Cancel,
    Expect,
    GenerationComplete,
    InputTranscription,
    Interrupt,
    Say,
    Send,
    TurnComplete,
    Usage,
    WaitForAnswers,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.simulator.step import Step

STEPS: Final[Mapping[str, type[Step]]] = {
    kind.step_name(): kind
    for kind in (
        Say, Call, WaitForAnswers, Expect, WaitForInput, WaitForContextUpdate, WaitForClose, Cancel,
        Interrupt, GenerationComplete, TurnComplete, InputTranscription, Usage, SessionResumption,
        ExpireHandles, GoAway, Pause, Close, Drop, StallPongs, GoSilent, RefuseConnections,
        StopListening, Send,
    )
}  # fmt: skip
"""Every step by its name in YAML."""
