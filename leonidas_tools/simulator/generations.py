"""The known differences between generations of Gemini Live models, as quirks of their servers.

Nothing here was measured on a real server. "Documented" refers to Google's pages or the
docstrings of google-genai 3.4.0, "reported" to an issue or pull request on GitHub, "tried" to the
trials of pydantic-ai 2.68 with the real server (2026-09-16 to 2026-10-27), "recorded" to sessions
with real servers that it publishes. "Taken as" marks our reading where the sources are silent or
contradictory; it is the stricter one.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

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
        thinking_levels: The levels of which the setup must have one; empty if it must have no
            `thinkingConfig`, None if it may have any.
        proactivity_version: The version of the Developer API that takes `proactivity`; None for
            any.
        takes_affective_dialog: The setup may enable affective dialog.
        takes_compression: The setup may set `contextWindowCompression`.
        modalities: The response modalities that the setup may ask for.
        reads_json_schema: Declarations may have `parametersJsonSchema`. Servers that do not read it
            accept it, and call without arguments; here it is refused.
        response_media: The MIME types of files in function responses; None for any.
        awaits_lost_calls: A resumed session waits for responses to the calls that the last
            connection has lost. Without them it takes the user's next turn for their end, and does
            not answer it; a response with an `error` ends the wait.
        session_seconds: How long a session lasts, over its connections, without
            `contextWindowCompression`; None for no limit.
        video_session_seconds: The same once the user has sent video.
        thoughts: A part with a thought begins each reply.
        empty_messages: An empty `serverContent` begins each reply.
        joined_transcription: A transcription and its sound come in one message.
        call_ends_turn: A `turnComplete` follows a call, too, whether or not it was answered.
        unasked_handles: Handles are sent automatically even if the setup does not ask for them.
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
    thinking_levels: frozenset[str] | None = None
    proactivity_version: str | None = None
    takes_affective_dialog: bool = True
    takes_compression: bool = True
    modalities: frozenset[str] = frozenset({"AUDIO", "TEXT"})
    reads_json_schema: bool = True
    response_media: frozenset[str] | None = None
    awaits_lost_calls: bool = False
    session_seconds: float | None = None
    video_session_seconds: float | None = None
    thoughts: bool = False
    empty_messages: bool = False
    joined_transcription: bool = False
    call_ends_turn: bool = False
    unasked_handles: bool = False
    automatic_handles: bool = False
    call_ids: bool = True
    handle_seconds: float = 7200.0
    unknown_handle_code: int = 1008


_IMAGES_AND_TEXT: Final = frozenset({"image/png", "image/jpeg", "image/webp", "text/plain"})
# Tried: of the versions of the Developer API only v1alpha takes `proactivity`, for every model.
# Documented (live-session, 2026-11): without compression a session lasts for 15 minutes, with
# video for 2. Reported (adk-python #4140, 2026-01): its end is 1011 "Deadline expired".
_LIMITS: Final[Mapping[str, Any]] = {
    "proactivity_version": "v1alpha",
    "session_seconds": 900.0,
    "video_session_seconds": 120.0,
    # Documented: sessionResumptionUpdate is sent if asked for; resumable is false in calls.
    "automatic_handles": True,
    # Documented: scheduling and willContinue are ignored for BLOCKING; taken as refused.
    "plain_blocking_answers": True,
}

GENERATIONS: Final[Mapping[str, Quirks]] = MappingProxyType(
    {
        "2.5": Quirks(
            **_LIMITS,
            # Documented: the default is BLOCKING, and NON_BLOCKING is accepted.
            # Taken as refused: contextUpdate came to the SDK with 3.8; no source names 2.5.
            takes_context_update=False,
            # Tried: native-audio models and 3.1 refuse TEXT.
            modalities=frozenset({"AUDIO"}),
            # Reported: not read (livekit/agents PR #3135, Google_GenerativeAI #90).
            reads_json_schema=False,
            # Tried: not read, the model guesses; taken as refused, as other 2.5 models refuse it
            # (bifrost #4202).
            response_media=frozenset(),
            thoughts=True,  # recorded
        ),
        "3.1": Quirks(
            **_LIMITS,
            # Documented: synchronous only. Reported otherwise by Patter PR #210.
            behaviors=frozenset({BLOCKING}),
            # Reported: 1007 "media_chunks is deprecated" (sokuji #150, sip-to-ai PR #5).
            refuse_media_chunks=True,
            # Reported: 1007 after the first turn (adk-python #5018, livekit/agents #5496).
            # Reported as lifted since 2026-09 (livekit/agents PR #7289); taken as not.
            seed_only_client_content=True,
            # Taken as refused: no source names 3.1.
            takes_context_update=False,
            # Reported: no turnComplete before the answer (adk-python #5407).
            turn_waits_for_answers=True,
            modalities=frozenset({"AUDIO"}),  # tried
            takes_affective_dialog=False,  # tried: refused in the setup
            # Reported: refused (tau2-bench), accepted without effect (adk-python #6455).
            takes_compression=False,
            response_media=_IMAGES_AND_TEXT,  # tried: a PDF closes the session
            empty_messages=True,  # recorded, as are the next two
            joined_transcription=True,
            unasked_handles=True,
        ),
        "3.8-live": Quirks(
            **_LIMITS,
            # Reported: NON_BLOCKING by default (livekit/agents #7302, PR #7329).
            default_behavior=NON_BLOCKING,
            # Taken as 3.1, as ADK does with every 3.x; not measured.
            turn_waits_for_answers=True,
            # Taken as accepted: the SDK has contextUpdate since 3.4.0.
            thinking_levels=frozenset(),  # tried
            takes_affective_dialog=False,  # tried: closed at the first input
            response_media=_IMAGES_AND_TEXT,  # tried: a PDF closes the session
            awaits_lost_calls=True,  # tried
        ),
        "3.8-thinking": Quirks(
            **_LIMITS,
            # Tried, and reported (livekit/agents #7302): BLOCKING is refused.
            default_behavior=NON_BLOCKING,
            behaviors=frozenset({NON_BLOCKING}),
            # Tried, and reported (openclaw PR #152413, 2026-09-19); pipecat 1.14 sends it.
            takes_scheduling=False,
            # Reported there: accepted, but the result is never spoken; taken as refused.
            takes_will_continue=False,
            # Documented: only interactionStatus IDLE ends the interaction.
            interaction_status=True,
            thinking_levels=frozenset({"LOW", "MEDIUM", "HIGH"}),  # tried
            takes_affective_dialog=False,  # tried: closed at the first input
            # Reported: calls come as text (aiden-firmware PR #708, 2026-09-20).
            reads_json_schema=False,
            response_media=_IMAGES_AND_TEXT,  # tried: a PDF closes the session
            awaits_lost_calls=True,  # taken as 3.8-live, as in pydantic-ai
        ),
        "vertex": Quirks(
            **{**_LIMITS, "proactivity_version": None},
            # Reported: the SDK refuses `behavior` for Vertex (python-genai #1739).
            behaviors=frozenset(),
            # Documented: willContinue is not supported; livekit's plugin drops scheduling, too.
            takes_scheduling=False,
            takes_will_continue=False,
            takes_context_update=False,
            reads_json_schema=False,  # taken as 2.5
            response_media=frozenset(),  # taken as 2.5
            # Reported: calls may come without ids (js-genai #1210); a recorded one has its id.
            call_ids=False,
            call_ends_turn=True,  # tried and recorded with gemini-live-2.5-flash
        ),
        "vertex-3.8": Quirks(
            **{**_LIMITS, "proactivity_version": None},
            # Documented by s3ns.fr: `behavior` and `scheduling` as in 3.8-live. Livekit's plugin
            # drops scheduling, and reports that a response without an id is ignored.
            default_behavior=NON_BLOCKING,
            takes_will_continue=False,  # documented: not supported in Vertex AI
            # Taken as 3.8-live, as is all that follows.
            turn_waits_for_answers=True,
            thinking_levels=frozenset(),
            takes_affective_dialog=False,
            response_media=_IMAGES_AND_TEXT,
            awaits_lost_calls=True,
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
