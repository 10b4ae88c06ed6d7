"""`GeminiLiveProcessor`: Gemini Live as a processor that outlives its connections."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import ssl
from typing import TYPE_CHECKING, Any

import certifi
from genai_processors import processor
from google.genai import Client, types

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.live.adaptation import Adaptation
from leonidas_tools.live.conversation import Conversation
from leonidas_tools.live.input_buffer import InputBuffer
from leonidas_tools.live.profiles import (
    UNKNOWN,
    ModelProfile,
    closest_profile,
    named_profile,
    profile_for,
)
from leonidas_tools.live.runner import ConversationRunner
from leonidas_tools.live.session_setup import DeclaresTools, FixedTools, declarer
from leonidas_tools.live.state import LiveState
from leonidas_tools.live.tool_options import follow_declarations
from leonidas_tools.processors import stream
from leonidas_tools.processors.stage import Stage
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.runtime.arguments import known_arguments_only
from leonidas_tools.session.resumption import Resumption
from leonidas_tools.session.speech import SpeechState

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Sequence

    from genai_processors.content_api import ProcessorPart
    from google.auth.credentials import Credentials

    from leonidas_tools.calls.call import ToolSession

logger = visible_logger(__name__)

API_VERSION = "v1beta"
"""Of the Developer API: the client's own default is not the one Google's Live pages name."""

_OF_THE_ENVIRONMENT = (
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENAI_USE_ENTERPRISE",
)
_NO_KEY = (
    "GeminiLiveProcessor has no API key: set GOOGLE_API_KEY or GEMINI_API_KEY in the environment, "
    "or give api_key= or a client=. The simulator needs none: give it api_key='none', and "
    "http_options=simulator.http_options()"
)


class GeminiLiveProcessor(Stage):
    """Gemini Live: microphone and text in, speech and function calls out, over any connection.

    It takes and gives the parts that genai-processors' `LiveProcessor` does, and more. A lost
    connection is resumed: what the user says meanwhile is held, running calls go on, and their
    outcome reaches the model once. Tools that change, and a voice that does, reach the running
    session. Declarations and answers are adapted to what the model takes.

    In: parts in the substream `realtime` are sound, video and text as they happen, and the signals
    `audio_stream_end`, `activity_start` and `activity_end` in the metadata. Parts in the default
    substream are content, with `turn_complete` in the metadata. Function responses answer calls.
    Parts of other substreams pass.

    Out: what the model says; transcriptions in the substreams `input_transcription` and
    `output_transcription`; calls and cancellations; all else as metadata of empty parts. Events of
    the connection are JSON text in the substream `status`, with `live_event` in the metadata:
    `connection_opened`, `connection_lost`, `connection_refused`, `connection_renewed`,
    `tools_changed`, `malformed_function_call`.

    Args:
        model: The name of a live model.
        config: What a connection is set up with; the tools in it are declared besides `tools`.
            Without `response_modalities` the model speaks.
        tools: What declares tools, such as an `AdvancedToolProcessor`, or declarations; by default
            the tools of the `LiveToolSession` that it is in, unless `config` declares functions.
        api_key: The key; by default from the environment, as Google's client reads it.
        vertexai: Whether to go to Vertex AI; by default as the environment says.
        project: The project on Vertex AI.
        location: Its location.
        credentials: Credentials for Vertex AI.
        http_options: Options of the client; API version, pings and message sizes have defaults
            that suit live sessions.
        client: A client to use instead of a new one, with its own options.
        profile: How the model behaves, or the name of a built-in profile; by default by the
            model's name.
        held_audio_seconds: How much sound and video may wait while there is no connection; the
            oldest is dropped first, and the event that tells of the next connection says how much.
        gate_microphone_seconds: How long the microphone is held back while the model waits for a
            tool, for models that close the connection otherwise. `None` never holds it back.
        give_up_seconds: How long a connection may be missing before the stream ends with an error.

    Raises:
        ConfigurationError: There is no profile of that name, or no key.
        TypeError: An argument is of a wrong type; the message says what to give.
        google.genai.errors.APIError: The server refuses the session, or it can no longer be
            resumed; raised to the reader of the stream.

    Example:
        >>> live = GeminiLiveProcessor("gemini-3.8-live", api_key="made up")
        >>> live.profile.name
        '3.8-live'
    """

    takes_interim_answers = True
    """True: it accepts interim answers, and knows which calls take them."""
    takes_late_results = True
    """True: it accepts results of calls already answered, and delivers them at a fitting moment."""

    @known_arguments_only
    def __init__(  # noqa: PLR0913 - the surface of a whole service, by keyword
        self,
        model: str,
        *,
        config: types.LiveConnectConfig | dict[str, Any] | None = None,
        tools: DeclaresTools | Sequence[types.Tool] | None = None,
        api_key: str | None = None,
        vertexai: bool | None = None,
        project: str | None = None,
        location: str | None = None,
        credentials: Credentials | None = None,
        http_options: types.HttpOptionsOrDict | None = None,
        client: Client | None = None,
        profile: ModelProfile | str | None = None,
        held_audio_seconds: float = 30.0,
        gate_microphone_seconds: float | None = None,
        give_up_seconds: float = 120.0,
    ) -> None:
        if not isinstance(model, str):
            raise TypeError(
                f"model takes the name of a model, such as 'gemini-3.8-live', not {model!r}"
            )
        self.model = model
        self.config = _speaking(types.LiveConnectConfig.model_validate(config or {}))
        self.tools = None if tools is None else declarer(tools)
        self.client = client or _client(
            http_options,
            api_key=api_key,
            vertexai=vertexai,
            project=project,
            location=location,
            credentials=credentials,
        )
        self.profile = _profile(profile, model, vertex=bool(self.client.vertexai))
        self.held_audio_seconds = held_audio_seconds
        self.gate_microphone_seconds = gate_microphone_seconds
        self.give_up_seconds = give_up_seconds

    async def call(
        self,
        content: processor.ProcessorStream,
        take_sound: Callable[[ProcessorPart], bool] | None = None,
    ) -> AsyncIterable[ProcessorPart]:
        """Yield the model's parts for a stream of the user's parts.

        Args:
            content: What the user says.
            take_sound: Receives each frame of sound at once, if the reader has handled all parts
                before it. A frame for which it returns `False` is yielded in its turn.
        """
        session = stream.session()
        speech = session.get(SpeechState)
        tools = self._declared_in(stream.tools())
        state = self._state(session, tools, speech.current.voice)
        state.take_sound = take_sound
        conversation = Conversation(state)
        runner = ConversationRunner(self, conversation)
        with contextlib.ExitStack() as stack:
            stack.callback(
                speech.on_change(lambda s: conversation.note_voice(s.voice), heard=["voice"])
            )
            stack.callback(follow_declarations(tools, session, conversation.note_tools))
            running = processor.create_task(runner.run(content))
            try:
                async for part in state.out.parts():
                    yield part
            finally:
                running.cancel()
                await asyncio.wait([running])

    def _declared_in(self, tools: object | None) -> DeclaresTools:
        """Return what declares the tools of a stream, whose session may have tools of its own."""
        if self.tools is not None:
            return self.tools
        given = self.config.tools or ()
        by_hand = any(getattr(tool, "function_declarations", None) for tool in given)
        return tools if isinstance(tools, DeclaresTools) and not by_hand else FixedTools()

    def _state(self, session: ToolSession, tools: DeclaresTools, voice: str | None) -> LiveState:
        configured = self.config.session_resumption
        handle = session.get(Resumption).take()
        if handle is None and configured is not None:
            handle = configured.handle
        given = self.config.tools or ()
        return LiveState(
            profile=self.profile,
            adaptation=Adaptation(self.profile),
            source=tools,
            session=session,
            inputs=InputBuffer(self.held_audio_seconds),
            gate_seconds=self.gate_microphone_seconds,
            own_tools=[tool for tool in given if isinstance(tool, types.Tool)],
            other_tools=[tool for tool in given if not isinstance(tool, types.Tool)],
            needs_ids=not self.client.vertexai,
            wanted_voice=voice,
            handle=handle,
        )


def _speaking(config: types.LiveConnectConfig) -> types.LiveConnectConfig:
    """Return the configuration of a model that speaks, unless it says otherwise."""
    generation = config.generation_config
    if config.response_modalities or (generation and generation.response_modalities):
        return config
    return config.model_copy(update={"response_modalities": [types.Modality.AUDIO]})


class _WireLogger(logging.Logger):
    """Takes what the websocket library logs: at `DEBUG` that is the API key and every message."""

    def __init__(self) -> None:
        super().__init__(f"{__name__}.wire", logging.WARNING)  # whatever the root logger is set to
        self.parent = visible_logger(__name__)

    def __deepcopy__(self, memo: object) -> _WireLogger:
        return self


def _client(http_options: types.HttpOptionsOrDict | None, **options_of_client: Any) -> Client:
    options = types.HttpOptions.model_validate(http_options or {}).model_copy()
    # Pongs of 8 to 30 s are reported, where the library waits 20 s, and messages of over 1 MiB,
    # which is the library's limit; without one, a message that never ends takes all memory.
    defaults: dict[str, Any] = {
        "ping_interval": 20,
        "ping_timeout": 60,
        "max_size": 16 * 1024**2,
        "close_timeout": 1,
    }
    defaults["logger"] = _WireLogger()
    given = {**defaults, **(options.async_client_args or {})}
    paths = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    shared = {"ssl": _context_for_websockets(*paths), "verify": _context_for_http(*paths)}
    version = options.api_version
    options.async_client_args = {**shared, **given}
    options.api_version = version or API_VERSION
    try:
        client = Client(http_options=options, **options_of_client)
    except ValueError:
        if any(options_of_client.values()) or any(map(os.environ.get, _OF_THE_ENVIRONMENT)):
            raise
        raise ConfigurationError(_NO_KEY) from None
    if not client.vertexai:
        return client
    # The Vertex AI client has its own API version, and may load a client certificate.
    options.async_client_args = given
    options.api_version = version
    return Client(http_options=options, **options_of_client)


@functools.cache
def _context_for_websockets(cafile: str | None, capath: str | None) -> ssl.SSLContext:
    """Return the TLS context that all clients share, as google-genai makes one for each.

    Reading the certificates of the authorities holds the event loop for 20 ms.
    """
    return ssl.create_default_context(cafile=cafile or certifi.where(), capath=capath)


@functools.cache
def _context_for_http(cafile: str | None, capath: str | None) -> ssl.SSLContext:
    """Return another one: HTTP clients change the protocols that theirs offers."""
    return ssl.create_default_context(cafile=cafile or certifi.where(), capath=capath)


def _profile(profile: ModelProfile | str | None, model: str, *, vertex: bool) -> ModelProfile:
    if isinstance(profile, ModelProfile):
        return profile
    if profile:
        return named_profile(profile)
    found = profile_for(model, vertex=vertex)
    if found.name == UNKNOWN:
        logger.warning(
            "The model %r is not known: only what works everywhere is sent to it. The closest "
            "known profile is %r: give profile=%r if the model behaves like it",
            model,
            *[closest_profile(model, vertex=vertex)] * 2,
        )
    return found
