"""What is known of the generations of Gemini Live models, as quirks of their servers.

Nothing here was measured on a real server. "Documented" is Google's pages or the docstrings of
google-genai 3.4.0, "reported" an issue or pull request on GitHub, "taken as" our reading where the
sources say nothing or contradict each other; then the stricter reading is taken.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator.quirks import BLOCKING, NON_BLOCKING, Quirks

if TYPE_CHECKING:
    from collections.abc import Mapping

GENERATIONS: Final[Mapping[str, Quirks]] = MappingProxyType(
    {
        "2.5": Quirks(
            # Documented: the default is BLOCKING, and NON_BLOCKING is taken.
            # Documented: scheduling and willContinue are ignored for BLOCKING; taken as a breach.
            plain_blocking_answers=True,
            # Taken as refused: contextUpdate came to the SDK with 3.8; no source names 2.5.
            takes_context_update=False,
            # Documented: sessionResumptionUpdate comes unasked, resumable is false in calls.
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
            # Reported: NON_BLOCKING unless said otherwise (livekit/agents #7302, PR #7329).
            default_behavior=NON_BLOCKING,
            plain_blocking_answers=True,
            # Taken as 3.1, as ADK does with every 3.x; not measured by anybody.
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
    """Return the quirks of a generation; those of a plain server for None.

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
        raise SimulatorError(f"There is no generation {generation!r}; known are {known}")
    return GENERATIONS[generation]
