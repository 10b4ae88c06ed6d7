"""Measure which features a live model supports, in short sessions with its server.

A server closes the connection at a feature that it does not support, in the setup or later. So a
feature counts as supported if the model replies after its use.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from google.auth.exceptions import GoogleAuthError
from google.genai import errors, types
from websockets.exceptions import ConnectionClosed

from leonidas_tools.live import connection
from leonidas_tools.live.profiles import UNKNOWN, ModelProfile, find_profile
from leonidas_tools.tools.metadata import ToolBehavior

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from genai_processors.content_api import ProcessorPart
    from google.genai import Client
    from google.genai.live import AsyncSession

_WORD: Final = "banana"
_RESULT: Final = "papaya"  # in no text for the model: it can only be from the response
_FUNCTION: Final = "get_word"
_OTHER_FUNCTION: Final = "find_fruit"
_INSTRUCTION: Final = (
    "You are being tested. Call a function when you are told to, without asking. Say only what you "
    "are told to say, in one word."
)
_SAY: Final = f"Say only the word {_WORD}."
_LEVELS: Final = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
_FILES: Final = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")
_MAX_SESSIONS: Final = 3  # at once
_MAX_REASON_LENGTH: Final = 200
_MAX_TEXT_LENGTH: Final = 1000
_MAX_CALLS: Final = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """The bounds of a probe."""

    reply_seconds: float = 15.0
    silence_seconds: float = 6.0  # after which a model without a reply counts as waiting
    fact_seconds: float = 90.0
    total_seconds: float = 300.0
    tokens: int = 50_000  # after which no more sessions are opened


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The value of one field of a profile, and what it was concluded from."""

    value: Any
    evidence: str
    measured: bool = True  # false for the most careful value


class UnmeasuredError(Exception):
    """Raised if a fact cannot be judged; the message is the reason."""


_UNMEASURED: Final = (UnmeasuredError, TypeError, ValueError)
"""google-genai raises the last two for a field that it does not send to this server."""


class Probe:
    """Measures the facts about one model; `on_finding` gets each as soon as it is known."""

    def __init__(
        self,
        client: Client,
        model: str,
        *,
        bounds: Bounds,
        on_finding: Callable[[str, Finding], object] = lambda *_: None,
    ) -> None:
        self.findings: dict[str, Finding] = {}
        self.sessions = self.tokens = 0
        self._client, self._model = client, model
        self._bounds, self._on_finding = bounds, on_finding
        self._deadline = 0.0
        self._slots = asyncio.Semaphore(_MAX_SESSIONS)

    async def run(self) -> None:
        """Measure all facts; a fact that cannot be measured gets the most careful value.

        If no session can be opened, only the first is tried.
        """
        self._deadline = asyncio.get_running_loop().time() + self._bounds.total_seconds
        for field in _NEEDED:
            await self._find(field)
            if not self.sessions:
                return
        async with asyncio.TaskGroup() as tasks:
            for field in [field for field in FACTS if field not in _NEEDED]:
                tasks.create_task(self._find(field), name=f"probe:{field}")

    async def _find(self, field: str) -> None:
        async with self._slots:
            latest = asyncio.get_running_loop().time() + self._bounds.fact_seconds
            try:
                async with asyncio.timeout_at(min(self._deadline, latest)):
                    finding = await FACTS[field](self)
            except (*connection.LOST, GoogleAuthError, *_UNMEASURED) as error:
                reason = connection.message_of(error)[:_MAX_REASON_LENGTH] or "the time is over"
                careful = getattr(find_profile(UNKNOWN), field)
                finding = Finding(value=careful, evidence=reason, measured=False)
        self.findings[field] = finding
        self._on_finding(field, finding)

    def measured(self, field: str) -> Any:
        """Return the value of an earlier fact; raise `UnmeasuredError` if it is not measured."""
        if not self.findings[field].measured:
            raise UnmeasuredError(f"{field} is unknown")
        return self.findings[field].value

    @asynccontextmanager
    async def open(
        self, *functions: types.FunctionDeclaration, **setup: Any
    ) -> AsyncIterator[_Talk]:
        """Open a session that declares functions, with other fields of its setup."""
        if self.tokens >= self._bounds.tokens:
            raise UnmeasuredError(f"the bound of {self._bounds.tokens} tokens is reached")
        levels = self.findings["thinking_levels"].value if self.findings else None
        defaults = {"thinking_config": {"thinking_level": levels[0]} if levels else None}
        config = types.LiveConnectConfig(
            response_modalities=[types.Modality.AUDIO],
            system_instruction=_INSTRUCTION,
            output_audio_transcription=types.AudioTranscriptionConfig(),
            tools=[types.Tool(function_declarations=list(functions))] if functions else None,
            **{**defaults, **setup},
        )
        async with connection.connect(self._client, self._model, config) as link:
            self.sessions += 1
            talk = _Talk(link, self._bounds)
            try:
                yield talk
                if talk.has_replied:  # the server counts the tokens at the end of a turn
                    await talk.wait(lambda: talk.is_turn_over)
            finally:
                self.tokens += talk.tokens
                await talk.close()

    async def try_out(
        self,
        *functions: types.FunctionDeclaration,
        use: Callable[[_Talk], Awaitable[None]] | None = None,
        **setup: Any,
    ) -> Finding:
        """Return whether a session with this setup, and its use by `use`, is accepted."""
        try:
            async with self.open(*functions, **setup) as talk:
                await (use or _Talk.reply)(talk)
        except errors.APIError as error:
            # Other codes may be a failure; an HTTP status refuses more than the feature.
            if not connection.is_refusal(error) or error.code < connection.NORMAL:
                raise
            return Finding(value=False, evidence=f"closed with {connection.message_of(error)}")
        return Finding(value=True, evidence="accepted, and the model replied")

    def profile(self, source: str) -> ModelProfile:
        """Return the profile with all findings; `source` names the probe and the day."""
        name = self._model.rpartition("/")[2]
        found = {field: self.findings[field] for field in FACTS}
        values = {field: each.value for field, each in found.items()}
        values["behaviors"] |= {values["default_behavior"]}
        sources = {
            field: f"{'' if each.measured else 'not '}measured by {source}: {each.evidence}"
            for field, each in found.items()
        }
        models, vertex = (name.lower(),), bool(self._client.vertexai)
        return ModelProfile(name=name, models=models, vertex=vertex, sources=sources, **values)


class _Talk:
    """One short session, in which the probe types and listens."""

    def __init__(self, link: connection.Connection, bounds: Bounds) -> None:
        self.calls: deque[types.FunctionCall] = deque(maxlen=_MAX_CALLS)
        self.handle: str | None = None
        self.tokens = 0
        self.spoken = ""
        self.has_replied = self.is_turn_over = self.is_cancelled = False
        self._link = link
        self._bounds = bounds
        self._changed = asyncio.Event()
        self._listening = asyncio.create_task(link.receive(self))
        self._listening.add_done_callback(lambda _: self._changed.set())

    async def close(self) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    def receive(self, message: types.LiveServerMessage) -> None:
        usage, update = message.usage_metadata, message.session_resumption_update
        self.tokens += (usage and usage.total_token_count) or 0
        self.handle = (update and update.new_handle) or self.handle
        self.is_cancelled = self.is_cancelled or message.tool_call_cancellation is not None
        self.calls.extend((message.tool_call and message.tool_call.function_calls) or ())
        if message.server_content is not None:
            self._receive_content(message.server_content)
        self._changed.set()

    def _receive_content(self, content: types.LiveServerContent) -> None:
        parts = (content.model_turn and content.model_turn.parts) or ()
        self.calls.extend(part.function_call for part in parts if part.function_call)
        text = (content.output_transcription and content.output_transcription.text) or ""
        self.spoken = (self.spoken + "".join(text.split()).casefold())[-_MAX_TEXT_LENGTH:]
        if text or any(not part.thought and not part.function_call for part in parts):
            self.has_replied = True
        in_progress = content.interaction_status is types.InteractionStatus.IN_PROGRESS
        if content.turn_complete and self.has_replied and not in_progress:
            self.is_turn_over = True

    def receive_audio(self, parts: Sequence[ProcessorPart]) -> None:
        self.has_replied = self.has_replied or bool(parts)
        self._changed.set()

    async def send(self, message: Callable[[AsyncSession], Awaitable[None]]) -> None:
        """Send a message; what the model has said before is forgotten."""
        self.spoken, self.has_replied, self.is_turn_over = "", False, False
        try:
            await self._link.send(message)
        except ConnectionClosed:
            await self._listening  # raises the error with the close code
            raise

    async def wait(self, ready: Callable[[], object], seconds: float | None = None) -> bool:
        """Return whether something has happened before the model counts as waiting."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds or self._bounds.silence_seconds):
                while not ready():
                    if self._listening.done():
                        self._listening.result()
                    self._changed.clear()
                    await self._changed.wait()
        return bool(ready())

    async def expect(self, ready: Callable[[], object], failure: str) -> None:
        """Wait until something has happened; raise `UnmeasuredError` if it does not in time."""
        seconds = self._bounds.reply_seconds
        if not await self.wait(ready, seconds):
            raise UnmeasuredError(f"{failure} within {seconds:g} s")

    async def type(self) -> None:
        await self.send(lambda session: session.send_realtime_input(text=_SAY))

    async def reply(self) -> None:
        """Type, and wait for the end of the reply."""
        await self.type()
        await self.expect(lambda: self.is_turn_over, "no reply")

    async def call(self, name: str = _FUNCTION) -> types.FunctionCall:
        """Let the model call a function, and return the call."""
        text = f"Call the function {name} with the word {_WORD}, then say its result."
        await self.send(lambda session: session.send_realtime_input(text=text))
        await self.expect(lambda: self.calls, f"no call of {name!r}")
        return self.calls.popleft()

    async def respond(self, call: types.FunctionCall, result: str = _RESULT, **fields: Any) -> None:
        content = {"result": result}
        response = types.FunctionResponse(id=call.id, name=call.name, response=content, **fields)
        await self.send(lambda session: session.send_tool_response(function_responses=response))

    async def respond_and_listen(self, **fields: Any) -> None:
        """Respond to a call, and wait until the model says the result."""
        await self.respond(await self.call(), **fields)
        await self.expect(lambda: _RESULT in self.spoken, "the result was not spoken")


def _declare(name: str = _FUNCTION, **fields: Any) -> types.FunctionDeclaration:
    return types.FunctionDeclaration(name=name, description="Returns a word.", **fields)


async def _try_async(probe: Probe, use: Callable[[_Talk], Awaitable[None]]) -> Finding:
    """Try a feature of NON_BLOCKING functions."""
    behavior = types.Behavior.NON_BLOCKING if probe.measured("behavior_field") else None
    if behavior is None and probe.measured("default_behavior") is ToolBehavior.BLOCKING:
        return Finding(value=False, evidence="no function can be NON_BLOCKING")
    return await probe.try_out(_declare(behavior=behavior), use=use)


def _summarize(tried: Mapping[Any, Finding]) -> Finding:
    """Return the supported ones of some features, and the reasons why the others are not."""
    refused: dict[str, list[str]] = {}
    for name, each in tried.items():
        if not each.value:
            refused.setdefault(each.evidence, []).append(name)
    evidence = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in refused.items())
    value = frozenset(name for name, each in tried.items() if each.value)
    return Finding(value=value, evidence=evidence or "all are accepted")


async def _find_thinking_levels(probe: Probe) -> Finding:
    """Try a setup with each level, with a budget, and with none of them."""
    levels = {
        level: await probe.try_out(thinking_config={"thinking_level": level}) for level in _LEVELS
    }
    budget = await probe.try_out(thinking_config={"thinking_budget": 128})
    none = await probe.try_out(thinking_config=None)
    accepted = tuple(level for level, each in levels.items() if each.value)
    if none.value and (accepted or budget.value):
        return Finding(value=None, evidence="accepted with and without a level or a budget")
    if none.value:
        return Finding(value=(), evidence=f"with LOW {levels['LOW'].evidence}")
    if accepted:
        return Finding(value=accepted, evidence=f"without a level {none.evidence}")
    raise UnmeasuredError(f"no setup is accepted: {none.evidence}")


async def _find_behaviors(probe: Probe) -> Finding:
    """Declare a function with each behavior."""
    return _summarize(
        {each: await probe.try_out(_declare(behavior=each.value)) for each in ToolBehavior}
    )


async def _find_behavior_field(probe: Probe) -> Finding:
    """Judge by the behaviors: if only BLOCKING is accepted, the field changes nothing."""
    value = ToolBehavior.NON_BLOCKING in probe.measured("behaviors")
    return Finding(value=value, evidence=probe.findings["behaviors"].evidence)


async def _find_default_behavior(probe: Probe) -> Finding:
    """Leave a call of a function without `behavior` unanswered, and type."""
    behaviors = probe.findings["behaviors"]
    if behaviors.measured and len(behaviors.value) == 1:
        return Finding(value=min(behaviors.value), evidence="no other behavior is accepted")
    async with probe.open(_declare()) as talk:
        await talk.call()
        await talk.type()
        await talk.wait(lambda: _WORD in talk.spoken or talk.is_cancelled)
        if _WORD in talk.spoken and not talk.is_cancelled:
            evidence = "a reply while a call was unanswered"
            return Finding(value=ToolBehavior.NON_BLOCKING, evidence=evidence)
    return Finding(value=ToolBehavior.BLOCKING, evidence="no reply while a call was unanswered")


async def _find_will_continue(probe: Probe) -> Finding:
    """Respond to a NON_BLOCKING call twice: the model must speak of the second response."""
    is_spoken = True

    async def use(talk: _Talk) -> None:
        nonlocal is_spoken
        call = await talk.call()
        await talk.respond(call, "not yet known", will_continue=True)
        await talk.respond(call, will_continue=False)
        is_spoken = await talk.wait(lambda: _RESULT in talk.spoken)

    found = await _try_async(probe, use)
    if is_spoken:
        return found
    return Finding(value=False, evidence="accepted, but the result that follows is not spoken")


async def _find_client_content(probe: Probe) -> Finding:
    """Send content after the first reply."""

    async def use(talk: _Talk) -> None:
        await talk.reply()
        turn = types.Content(role="user", parts=[types.Part(text=_SAY)])
        await talk.send(lambda session: session.send_client_content(turns=turn))
        await talk.expect(lambda: talk.is_turn_over, "no reply to the content")

    return await probe.try_out(use=use)


async def _find_context_update(probe: Probe) -> Finding:
    """Declare another function after the first reply, and let the model call it."""

    async def use(talk: _Talk) -> None:
        await talk.reply()
        tools: types.ToolListUnion = [types.Tool(function_declarations=[_declare(_OTHER_FUNCTION)])]
        await talk.send(lambda session: session.send_context_update(tools=tools))
        await talk.call(_OTHER_FUNCTION)

    return await probe.try_out(_declare(), use=use)


async def _find_json_schema(probe: Probe) -> Finding:
    """Declare a parameter by JSON Schema: the model must call with it."""
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    calls: list[types.FunctionCall] = []

    async def use(talk: _Talk) -> None:
        calls.append(await talk.call())

    found = await probe.try_out(_declare(parameters_json_schema=schema), use=use)
    if all("word" in (call.args or {}) for call in calls):
        return found
    return Finding(value=False, evidence="accepted, but called without arguments")


async def _find_response_media(probe: Probe) -> Finding:
    """Respond with a file of each type."""
    tried = {}
    for kind in _FILES:
        blob = types.FunctionResponseBlob(mime_type=kind, data=_build_file(kind))
        parts = [types.FunctionResponsePart(inline_data=blob)]
        use = functools.partial(_Talk.respond_and_listen, parts=parts)
        tried[kind] = await probe.try_out(_declare(), use=use)
    return _summarize(tried)


def _build_file(kind: str) -> bytes:
    """Return a small file of a type."""
    if kind == "text/plain":
        return _WORD.encode()
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (32, 32), "yellow").save(file, kind.partition("/")[2])
    return file.getvalue()


async def _find_session_resumption(probe: Probe) -> Finding:
    """Get a handle after a reply, and open another session with it."""
    async with probe.open(session_resumption={}) as talk:
        await talk.reply()
        if not await talk.wait(lambda: talk.handle):
            return Finding(value=False, evidence="no handle was sent after a turn")
    return await probe.try_out(session_resumption={"handle": talk.handle})


async def _find_answers_lost_calls(probe: Probe) -> Finding:
    """Leave a session while a call is unanswered, and type in the resumed one."""
    async with probe.open(_declare(), session_resumption={}) as talk:
        await talk.reply()
        await talk.expect(lambda: talk.handle, "no handle")
        await talk.call()
    async with probe.open(_declare(), session_resumption={"handle": talk.handle}) as resumed:
        await resumed.type()
        if await resumed.wait(lambda: resumed.has_replied):
            return Finding(value=False, evidence="the first turn after the resume was answered")
        await resumed.reply()
    return Finding(value=True, evidence="only the second turn after the resume was answered")


FACTS: Final[Mapping[str, _Measure]] = {
    "thinking_levels": _find_thinking_levels,
    "behaviors": _find_behaviors,
    "behavior_field": _find_behavior_field,
    "default_behavior": _find_default_behavior,
    "scheduling": lambda probe: _try_async(
        probe, functools.partial(_Talk.respond_and_listen, scheduling="WHEN_IDLE")
    ),
    "will_continue": _find_will_continue,
    "client_content": _find_client_content,
    "context_update": _find_context_update,
    "json_schema": _find_json_schema,
    "response_media": _find_response_media,
    "affective_dialog": lambda probe: probe.try_out(enable_affective_dialog=True),
    "context_compression": lambda probe: probe.try_out(
        context_window_compression={"sliding_window": {}}
    ),
    "session_resumption": _find_session_resumption,
    "answers_lost_calls": _find_answers_lost_calls,
}
"""The function that measures each field of a profile."""
_Measure: TypeAlias = "Callable[[Probe], Awaitable[Finding]]"
_NEEDED: Final = ("thinking_levels", "behaviors", "behavior_field", "default_behavior")
"""The facts that the sessions for other facts need, in order."""
