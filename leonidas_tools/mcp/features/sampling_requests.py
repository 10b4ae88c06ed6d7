"""Handle sampling requests: check the settings, ask the user, and answer."""

from __future__ import annotations

import asyncio
import base64
import binascii
from time import monotonic
from typing import TYPE_CHECKING, Any

import mcp_types

from leonidas_tools.approvals.inquiry import Inquiry
from leonidas_tools.approvals.request import Answer
from leonidas_tools.calls.call import Media
from leonidas_tools.calls.last_minute import LastMinute
from leonidas_tools.mcp.features.sampling import SamplingRequest, SamplingTurn
from leonidas_tools.mcp.features.wording import clean, samples
from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.rules.subject import Subject
from leonidas_tools.tools.tool import ToolCategory, ToolEffect, ToolMetadata, ToolOrigin

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext
    from mcp_types import RequestParamsMeta

    from leonidas_tools.mcp.features.ongoing_calls import OngoingCalls
    from leonidas_tools.mcp.features.sampling import SamplingModel
    from leonidas_tools.redaction import KnownSecrets
    from leonidas_tools.settings.mcp_settings import SamplingSettings

logger = visible_logger(__name__)

_REFUSED = -1
"""Error code of the specification for a user's refusal."""
_MAX_WARNINGS_PER_MINUTE = 10
_MAX_TURNS = 100
_MAX_LENGTH = 262_144
"""Most characters of text in a request."""


class RefusedError(Exception):
    """Raised for a request that is refused, with the reason and the error code."""

    def __init__(self, message: str, code: int = mcp_types.INVALID_PARAMS) -> None:
        super().__init__(message)
        self.code = code


class SamplingRequests:
    """Answers a server's sampling requests with a model, if a rule or the user allows this.

    In rules, sampling is the tool `SERVER__sampling`.

    `identity` identifies the command or the address of the server. `secrets` are texts of the
    server's settings, which the server must not disclose.
    """

    def __init__(
        self,
        server: str,
        identity: str,
        settings: SamplingSettings,
        model: SamplingModel,
        calls: OngoingCalls,
        secrets: KnownSecrets,
    ) -> None:
        self._server = server
        # An "always" applies to this server, not to another one with the same name.
        self._metadata = ToolMetadata(
            name=f"{server}__sampling",
            description="",
            parameters={},
            category=ToolCategory.MCP,
            effect=ToolEffect.READ,
            origin=ToolOrigin(server=server, tool="sampling", identity=identity),
        )
        self._settings = settings
        self._model = model
        self._calls = calls
        self._secrets = secrets
        self._requests = LastMinute()
        self._warnings = LastMinute()

    async def __call__(
        self, context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        """Return the answer of the model, or an error with the reason for a refusal."""
        try:
            return await self._sample(params, context.meta)
        except RefusedError as error:
            if self._warnings.admits(_MAX_WARNINGS_PER_MINUTE, monotonic()):
                logger.warning(
                    "Refused a sampling request of the MCP server %r: %s", self._server, error
                )
            return mcp_types.ErrorData(code=error.code, message=str(error))

    async def _sample(
        self, params: mcp_types.CreateMessageRequestParams, meta: RequestParamsMeta | None
    ) -> mcp_types.CreateMessageResult:
        request = self._request(params)
        most = self._settings.calls_per_minute
        if not self._requests.admits(most, monotonic()):
            raise RefusedError(f"it exceeds {most} requests a minute", _REFUSED)
        await self._ask(request, meta)
        try:
            answer = await self._model(request)
        except Exception as error:  # the model may be foreign code, which may raise anything
            logger.warning("The model %r raised %s", request.model, described(error))
            raise RefusedError("The model has failed.", mcp_types.INTERNAL_ERROR) from error
        return mcp_types.CreateMessageResult(
            role="assistant",
            content=mcp_types.TextContent(text=answer.text),
            model=answer.model,
            stop_reason=answer.stop_reason,
        )

    async def _ask(self, request: SamplingRequest, meta: RequestParamsMeta | None) -> None:
        """Ask the user of the call that the request belongs to."""
        call = self._calls.asking(meta)
        if call is None:
            raise RefusedError("the call that it belongs to is unknown", _REFUSED)
        text = _last_text(request)
        inquiry = Inquiry(
            rule="sampling",
            title=lambda language, words: samples(self._server, text, language, words),
            details={
                "server": self._server,
                "model": request.model,
                "messages": len(request.turns),
                "system_prompt": clean(request.system_prompt or ""),
                "message": clean(text),
            },
            answered=asyncio.get_running_loop().create_future(),
            subject=Subject(
                names=(self._metadata.name,),
                category="mcp",
                tags=frozenset({"mcp", self._server}),
                effect=ToolEffect.READ,
                server=self._server,
                requires_approval=True,
                metadata=self._metadata,
            ),
        )
        decision, _ = await call.ask(inquiry)
        if decision.answer is Answer.DENY:
            raise RefusedError("the user does not allow it", _REFUSED)

    def _request(self, params: mcp_types.CreateMessageRequestParams) -> SamplingRequest:
        if params.tools or params.tool_choice is not None:
            raise RefusedError("it requests tools, which servers may not use")
        # Before the search for secrets, which would block the event loop.
        if not 0 < len(params.messages) <= _MAX_TURNS or _length(params) > _MAX_LENGTH:
            raise RefusedError("it contains no messages, too many, or too much text")
        turns = tuple(_turn(message, self._secrets) for message in params.messages)
        model, most = self._settings.model, self._settings.max_tokens
        assert model is not None
        # `includeContext` is not supported, so the model gets nothing of the conversation. The
        # settings choose the model, not the preferences of the server.
        return SamplingRequest(
            server=self._server,
            model=model,
            turns=turns,
            max_tokens=max(1, min(params.max_tokens, most)),
            system_prompt=params.system_prompt and self._secrets.text(params.system_prompt),
            temperature=params.temperature,
            stop_sequences=tuple(params.stop_sequences or ()),
        )


def _length(params: mcp_types.CreateMessageRequestParams) -> int:
    """Return the number of characters of all texts."""
    blocks = [block for message in params.messages for block in message.content_as_list]
    texts = [block.text for block in blocks if block.type == "text"]
    return sum(map(len, [*texts, params.system_prompt or "", *(params.stop_sequences or ())]))


def _turn(message: mcp_types.SamplingMessage, secrets: KnownSecrets) -> SamplingTurn:
    content = tuple(_content(block, secrets) for block in message.content_as_list)
    return SamplingTurn(role=message.role, content=content)


def _content(block: Any, secrets: KnownSecrets) -> str | Media:
    if block.type == "text":
        return secrets.text(str(block.text))
    if block.type not in {"image", "audio"}:
        raise RefusedError(f"it contains {block.type!r}, which is not text, image or audio")
    try:
        data = base64.b64decode(block.data, validate=True)
    except binascii.Error as error:
        raise RefusedError("it contains an image or audio that cannot be decoded") from error
    return Media(mime_type=block.mime_type, data=data)


def _last_text(request: SamplingRequest) -> str:
    texts = [each for turn in request.turns for each in turn.content if isinstance(each, str)]
    return texts[-1] if texts else "…"
