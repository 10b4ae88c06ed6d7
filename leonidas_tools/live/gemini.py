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
from leonidas_tools.live.gradual_socket import GradualSocket
from leonidas_tools.live.input_buffer import InputBuffer
from leonidas_tools.live.profiles import (
    ModelProfile,
    find_profile,
    profile_for,
    profile_with_tools,
    profiles_of,
)
from leonidas_tools.live.runner import ConversationRunner
from leonidas_tools.live.session_setup import DeclaresTools, FixedTools, declarer, fit_config
from leonidas_tools.live.state import LiveState
from leonidas_tools.live.tool_options import follow_declarations, wording_of
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

API_VERSION = "v1beta"
"""Version of the Developer API that Google's Live pages use; the client's default differs."""
PROACTIVITY_VERSION = "v1alpha"
"""The only version of the Developer API that takes `proactivity`: others refuse the setup (tried
2026-10-22 with four models, pydantic-ai 2.68 realtime/google.py)."""

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
    """Connects to Gemini Live, and reconnects: audio and text in, speech and function calls out.

    It receives and yields the same parts as genai-processors' `LiveProcessor`, and more. A lost
    connection is resumed. Meanwhile, the user's input is buffered and calls keep running; the model
    gets each result once. Changed tools and a changed voice apply to the running session. Function
    declarations and responses are adapted to the model.

    Input: parts in the substream `realtime` are live audio, video and text, and the signals
    `audio_stream_end`, `activity_start` and `activity_end` in the metadata. Parts in the default
    substream are content, with `turn_complete` in the metadata. Function responses answer calls.
    Parts of other substreams pass unchanged.

    Output: the model's speech and text; transcriptions in the substreams `input_transcription` and
    `output_transcription`; calls and cancellations; other fields in the metadata of empty parts.
    Connection events are JSON text in the substream `status`, with `live_event` in the metadata:
    `connection_opened`, `connection_lost`, `connection_refused`, `connection_renewed`,
    `tools_changed`, `malformed_function_call`.

    Args:
        model: The name of a live model.
        config: The configuration of each connection; its tools are declared in addition to `tools`.
            Without `response_modalities` the model responds with audio. The speech of both sides is
            transcribed, since approvals by voice need it. The context is compressed by a sliding
            window if the model supports that, unless the configuration sets another compression.
        tools: A source of declarations, such as an `AdvancedToolProcessor`, or a list of them; by
            default the tools of its `LiveToolSession`, unless `config` declares functions.
        api_key: The API key; by default from the environment, as Google's client reads it.
        vertexai: Whether to use Vertex AI; by default from the environment.
        project: The project on Vertex AI.
        location: The location on Vertex AI.
        credentials: Credentials for Vertex AI.
        http_options: Options of the client; API version, pings and message sizes have defaults
            for live sessions.
        client: A client to use instead of a new one, with its own options.
        profile: The profile of the model, or the name of a built-in profile, or of one that the
            settings of the tools name; by default chosen by the model's name.
        held_audio_seconds: Seconds of audio and video to buffer at most while there is no
            connection, while the microphone is held back, or once the server has left the oldest
            unread for as long. The oldest is dropped first; the next connection event counts
            dropped parts.
        gate_microphone_seconds: Seconds to hold back the microphone at most while the model waits
            for a tool, for models that close the connection otherwise. `None` disables this.
        give_up_seconds: Seconds without a connection before the stream ends with an error. The
            limit for the first connection is 10 s.
        transcribed: Whether to transcribe speech where `config` does not say so.

    Raises:
        ConfigurationError: There is no profile of that name, or no API key.
        TypeError: An argument is of a wrong type; the message says what to give.
        google.genai.errors.APIError: The server refuses the session, or it can no longer be
            resumed; raised to the reader of the stream.

    Example:
        >>> live = GeminiLiveProcessor("gemini-3.8-live", api_key="made up")
        >>> live.profile.name
        '3.8-live'
    """

    takes_interim_answers = True
    """True: it accepts interim responses, and sends them only for calls that take them."""
    takes_late_results = True
    """True: it accepts results of calls already answered, and sends them at a quiet moment."""

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
        transcribed: bool = True,
    ) -> None:
        if not isinstance(model, str):
            raise TypeError(
                f"model takes the name of a model, such as 'gemini-3.8-live', not {model!r}"
            )
        self.model = model
        given = types.LiveConnectConfig.model_validate(config or {})
        self.tools = None if tools is None else declarer(tools)
        self.client = client or _client(
            http_options,
            version=None if given.proactivity is None else PROACTIVITY_VERSION,
            api_key=api_key,
            vertexai=vertexai,
            project=project,
            location=location,
            credentials=credentials,
        )
        self._is_profile_given = bool(profile)
        self.profile = _profile(profile, model, self.tools, vertex=bool(self.client.vertexai))
        if given.proactivity is not None and not self.client.vertexai:
            _check_version(self.client, PROACTIVITY_VERSION)
        self._fit = functools.partial(fit_config, given, transcribed=transcribed)
        self.config = self._fit(self.profile)
        self.held_audio_seconds = held_audio_seconds
        self.gate_microphone_seconds = gate_microphone_seconds
        self.give_up_seconds = give_up_seconds

    async def call(
        self,
        content: processor.ProcessorStream,
        take_audio: Callable[[ProcessorPart], bool] | None = None,
    ) -> AsyncIterable[ProcessorPart]:
        """Yield the model's parts for a stream of the user's parts.

        Args:
            content: The user's parts.
            take_audio: Receives each audio frame at once, if the reader has handled all earlier
                parts. If it returns `False`, the frame is yielded in order.
        """
        session = stream.session()
        speech = session.get(SpeechState)
        tools = self._resolve_declared(stream.tools())
        profile = self.profile
        if not self._is_profile_given:  # the settings of the stream's tools may name another
            source, vertex = stream.tools() or self.tools, bool(self.client.vertexai)
            profile = profile_with_tools(self.model, source, vertex=vertex)
        state = self._state(session, tools, profile)
        state.take_audio = take_audio
        conversation = Conversation(state)
        config = self.config if profile is self.profile else self._fit(profile)
        runner = ConversationRunner(self, conversation, config)
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

    def _resolve_declared(self, tools: object | None) -> DeclaresTools:
        """Return the source of declarations: by default `tools`, which are those of the stream."""
        if self.tools is not None:
            return self.tools
        given = self.config.tools or ()
        by_hand = any(getattr(tool, "function_declarations", None) for tool in given)
        return tools if isinstance(tools, DeclaresTools) and not by_hand else FixedTools()

    def _state(
        self, session: ToolSession, tools: DeclaresTools, profile: ModelProfile
    ) -> LiveState:
        configured = self.config.session_resumption
        handle = session.get(Resumption).take()
        if handle is None and configured is not None:
            handle = configured.handle
        given = self.config.tools or ()
        return LiveState(
            profile=profile,
            adaptation=Adaptation(profile, functools.partial(wording_of, tools)),
            source=tools,
            session=session,
            inputs=InputBuffer(self.held_audio_seconds),
            gate_seconds=self.gate_microphone_seconds,
            own_tools=[tool for tool in given if isinstance(tool, types.Tool)],
            other_tools=[tool for tool in given if not isinstance(tool, types.Tool)],
            needs_ids=not self.client.vertexai,
            wanted_voice=session.get(SpeechState).current.voice,
            handle=handle,
        )


class _WireLogger(logging.Logger):
    """Drops the websocket library's debug logs, which contain the API key and every message."""

    def __init__(self) -> None:
        super().__init__(f"{__name__}.wire", logging.WARNING)  # whatever the root logger is set to
        self.parent = visible_logger(__name__)

    def __deepcopy__(self, memo: object) -> _WireLogger:
        return self


def _check_version(client: Client, needed: str) -> None:
    """Raise if a client's API version would refuse `proactivity`, without a word of the reason."""
    version = client._api_client._http_options.api_version  # noqa: SLF001 - it has no public name
    if version != needed:
        raise ConfigurationError(
            f"`proactivity` needs version {needed!r} of the API, and the client has {version!r}: "
            f"give http_options={{'api_version': {needed!r}}}, or leave the version out"
        )


def _client(
    http_options: types.HttpOptionsOrDict | None, *, version: str | None, **options_of_client: Any
) -> Client:
    options = types.HttpOptions.model_validate(http_options or {}).model_copy()
    # Users report pongs after 8 to 30 s, and messages over 1 MiB; the library's limits are 20 s and
    # 1 MiB. Without a limit, an endless message would use up the memory.
    defaults: dict[str, Any] = {
        "ping_interval": 20,
        "ping_timeout": 60,
        "max_size": 16 * 1024**2,
        "close_timeout": 1,
        "compression": None,  # a small message could expand to a large one
        "create_connection": GradualSocket,
    }
    defaults["logger"] = _WireLogger()
    given = {**defaults, **(options.async_client_args or {})}
    paths = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    shared = {"ssl": _context_for_websockets(*paths), "verify": _context_for_http(*paths)}
    chosen = options.api_version
    options.async_client_args = {**shared, **given}
    options.api_version = chosen or version or API_VERSION
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
    options.api_version = chosen
    return Client(http_options=options, **options_of_client)


@functools.cache
def _context_for_websockets(cafile: str | None, capath: str | None) -> ssl.SSLContext:
    """Return a TLS context that all clients share; google-genai would create one for each.

    Reading the CA certificates blocks the event loop for 20 ms.
    """
    return ssl.create_default_context(cafile=cafile or certifi.where(), capath=capath)


@functools.cache
def _context_for_http(cafile: str | None, capath: str | None) -> ssl.SSLContext:
    """Return a second shared TLS context: HTTP clients change the protocols of theirs."""
    return ssl.create_default_context(cafile=cafile or certifi.where(), capath=capath)


def _profile(
    profile: ModelProfile | str | None, model: str, tools: object, *, vertex: bool
) -> ModelProfile:
    if isinstance(profile, ModelProfile):
        return profile
    if profile:
        return find_profile(profile, profiles_of(tools))
    return profile_for(model, vertex=vertex, profiles=profiles_of(tools))
