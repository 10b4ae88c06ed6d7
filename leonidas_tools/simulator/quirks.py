"""Differences between Gemini Live servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BLOCKING: Final = "BLOCKING"
NON_BLOCKING: Final = "NON_BLOCKING"


@dataclass(frozen=True, kw_only=True, slots=True)
class Quirks:
    """The behaviour of a server; the defaults are the plain one.

    Args:
        audio_blocked_while_pending: Microphone audio while a BLOCKING call is unanswered closes
            the connection with 1008, as reported of some models.
        refuse_media_chunks: The deprecated `mediaChunks` is refused, as 3.1 does. Upstream
            `LiveProcessor` sends it.
        max_message_bytes: The longest client message; None for no limit. The client's own limit
            for server messages is 1 MiB by default.
        text_frames: Send text frames instead of binary ones.
        default_behavior: What a declaration without `behavior` means: BLOCKING up to Gemini 3.1,
            NON_BLOCKING from 3.8 on.
        behaviors: What a declaration may say as its `behavior`, in the setup or later.
        takes_scheduling: A function response may say `scheduling`.
        takes_will_continue: A function response may say `willContinue`.
        plain_blocking_answers: The answer to a BLOCKING call may say neither. Servers ignore both
            there; a client that says them takes the call for another kind than it is.
        seed_only_client_content: `clientContent` is taken only as the history of a new session:
            before the first realtime input, and up to the first turn that is complete.
        takes_context_update: `contextUpdate` is taken.
        turn_waits_for_answers: No `turnComplete` comes while a BLOCKING call is unanswered.
        interaction_status: `turnComplete` comes after each thing that is said, with an
            `interactionStatus` of IN_PROGRESS; only IDLE ends the interaction.
        automatic_handles: Handles to resume with come by themselves, if the setup asks for them:
            after each turn and after the answers; and `resumable: false` while calls run.
        call_ids: Calls carry their ids. Without, answers are told apart by name.
        handle_seconds: How long a handle is good after its session's last connection ended.
        unknown_handle_code: The close code for a handle that is unknown or no longer good.
    """

    audio_blocked_while_pending: bool = False
    refuse_media_chunks: bool = False
    max_message_bytes: int | None = None
    text_frames: bool = False
    default_behavior: str = BLOCKING
    behaviors: frozenset[str] = frozenset({BLOCKING, NON_BLOCKING})
    takes_scheduling: bool = True
    takes_will_continue: bool = True
    plain_blocking_answers: bool = False
    seed_only_client_content: bool = False
    takes_context_update: bool = True
    turn_waits_for_answers: bool = False
    interaction_status: bool = False
    automatic_handles: bool = False
    call_ids: bool = True
    handle_seconds: float = 7200.0
    unknown_handle_code: int = 1008
