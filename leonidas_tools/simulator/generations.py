"""The known differences between generations of Gemini Live models, as quirks of their servers.

Nothing here was measured on a real server. "Documented" refers to Google's pages or the
docstrings of google-genai 3.4.0, "reported" to an issue or pull request on GitHub. "Taken as" marks
our reading where the sources are silent or contradictory; it is the stricter one.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from leonidas_tools.errors import SimulatorError

if TYPE_CHECKING:
    from collections.abc import Mapping

BLOCKING: Final = "BLOCKING"
NON_BLOCKING: Final = "NON_BLOCKING"


@dataclass(frozen=True, kw_only=True, slots=True)
class Quirks:
    """The behaviour of a server; the defaults are a server without quirks.

    Args:
        audio_blocked_while_pending: Microphone audio while a BLOCKING call is pending closes the
            connection with 1008, as reported of some models.
        refuse_media_chunks: The deprecated `mediaChunks` is refused, as 3.1 does. Upstream
            `LiveProcessor` sends it.
        max_message_bytes: The longest client message; None for no limit. The client's own limit
            for server messages is 1 MiB by default.
        text_frames: Send text frames instead of binary ones.
        default_behavior: The behavior of a declaration without one: BLOCKING up to Gemini 3.1,
            NON_BLOCKING from 3.8 on.
        behaviors: The `behavior` values that a declaration may have, in the setup or later.
        takes_scheduling: A function response may set `scheduling`.
        takes_will_continue: A function response may set `willContinue`.
        plain_blocking_answers: The answer to a BLOCKING call may set neither of the two. Servers
            ignore both; a client that sets them mistakes the call for a NON_BLOCKING one.
        seed_only_client_content: `clientContent` is accepted only as the history of a new session:
            before the first realtime input, and up to the first turn that is complete.
        takes_context_update: `contextUpdate` is accepted.
        turn_waits_for_answers: No `turnComplete` is sent while a BLOCKING call is pending.
        interaction_status: `turnComplete` follows each utterance, with an
            `interactionStatus` of IN_PROGRESS; only IDLE ends the interaction.
        automatic_handles: Resumption handles are sent automatically if the setup asks for them:
            after each turn and after the answers; and `resumable: false` while calls run.
        call_ids: Calls have ids. Without them, answers are matched by name.
        handle_seconds: How long a handle is valid after its session's last connection ended.
        unknown_handle_code: The close code for an unknown or expired handle.
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


GENERATIONS: Final[Mapping[str, Quirks]] = MappingProxyType(
    {
        "2.5": Quirks(
            # Documented: the default is BLOCKING, and NON_BLOCKING is accepted.
            # Documented: scheduling and willContinue are ignored for BLOCKING; taken as refused.
            plain_blocking_answers=True,
            # Taken as refused: contextUpdate came to the SDK with 3.8; no source names 2.5.
            takes_context_update=False,
            # Documented: sessionResumptionUpdate is sent unasked, resumable is false in calls.
            automatic_handles=True,
        ),
        "3.1": Quirks(
            # Documented: synchronous only. Reported otherwise by Patter PR #210.
            behaviors=frozenset({BLOCKING}),
            plain_blocking_answers=True,
            # Reported: 1007 "media_chunks is deprecated" (sokuji #150, sip-to-ai PR #5).
            refuse_media_chunks=True,
            # Reported: 1007 after the first turn (adk-python #5018, livekit/agents #5496).
            # Reported as lifted since 2026-09 (livekit/agents PR #7289); taken as not.
            seed_only_client_content=True,
            # Taken as refused: no source names 3.1.
            takes_context_update=False,
            # Reported: no turnComplete before the answer (adk-python #5407).
            turn_waits_for_answers=True,
            automatic_handles=True,
        ),
        "3.8-live": Quirks(
            # Reported: NON_BLOCKING by default (livekit/agents #7302, PR #7329).
            default_behavior=NON_BLOCKING,
            plain_blocking_answers=True,
            # Taken as 3.1, as ADK does with every 3.x; not measured.
            turn_waits_for_answers=True,
            # Taken as accepted: the SDK has contextUpdate since 3.4.0.
            automatic_handles=True,
        ),
        "3.8-thinking": Quirks(
            # Reported: BLOCKING is refused (livekit/agents #7302, pipecat's table of models).
            default_behavior=NON_BLOCKING,
            behaviors=frozenset({NON_BLOCKING}),
            plain_blocking_answers=True,
            # Documented: only interactionStatus IDLE ends the interaction.
            interaction_status=True,
            automatic_handles=True,
        ),
        "vertex": Quirks(
            # Reported: the SDK refuses `behavior` for Vertex (python-genai #1739).
            behaviors=frozenset(),
            # Documented: willContinue is not supported; livekit's plugin drops scheduling, too.
            takes_scheduling=False,
            takes_will_continue=False,
            plain_blocking_answers=True,
            takes_context_update=False,
            # Reported: calls may come without ids (js-genai #1210).
            call_ids=False,
            automatic_handles=True,
        ),
    }
)
"""The quirks of each generation by its name; `vertex` is 2.5 on Vertex AI."""


def quirks_of(generation: str | None) -> Quirks:
    """Return the quirks of a generation; for None, a server without quirks.

    Raises:
        SimulatorError: There is no such generation.

    Example:
        >>> quirks_of("3.8-live").default_behavior
        'NON_BLOCKING'
    """
    if generation is None:
        return Quirks()
    if generation not in GENERATIONS:
        known = ", ".join(map(repr, GENERATIONS))
        raise SimulatorError(f"There is no generation {generation!r}; choose from {known}")
    return GENERATIONS[generation]
