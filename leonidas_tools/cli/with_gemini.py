"""A conversation with Gemini Live."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from google.auth.exceptions import GoogleAuthError
from google.genai import types

from leonidas_tools.cli import summary
from leonidas_tools.cli.conversation import ConversationParts, TerminalConversation, live_config
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.live.gemini import GeminiLiveProcessor

if TYPE_CHECKING:
    from leonidas_tools import AdvancedToolProcessor

_VERTEX_API_VERSION = "v1beta1"
_SETTLE_SECONDS = 10.0


async def with_gemini(
    parts: ConversationParts, *, model: str, profile: str | None, api_key: str | None
) -> summary.Summary:
    """Run a conversation with Gemini Live; the user types, or speaks into the microphone.

    `api_key` is `None` for Vertex AI, with the access of the environment.
    """
    live = gemini_model(parts.tools, model=model, profile=profile, api_key=api_key)
    conversation = TerminalConversation(parts)
    await conversation.run(
        live, partial(_over, conversation, parts), settle_seconds=_SETTLE_SECONDS
    )
    return summary.of_session(
        conversation.log, conversation.errors, interrupted=conversation.interrupted
    )


async def _over(conversation: TerminalConversation, parts: ConversationParts) -> None:
    """Wait until the input of the user ends."""
    if parts.voice.ends:
        await conversation.heard_all.wait()
        await conversation.reply()
    else:
        ended = asyncio.Event() if parts.typed is None else parts.typed.ended
        await ended.wait()  # without typed input: until Ctrl-C


def gemini_model(
    tools: AdvancedToolProcessor | None, *, model: str, profile: str | None, api_key: str | None
) -> GeminiLiveProcessor:
    """Return the live model with these tools.

    `api_key` is `None` for Vertex AI, with the access of the environment.
    """
    # Google's pages name another version for Vertex AI than for the Gemini API.
    options = None if api_key else types.HttpOptions(api_version=_VERTEX_API_VERSION)
    try:
        return GeminiLiveProcessor(
            model,
            config=live_config(),
            tools=tools,
            api_key=api_key,
            http_options=options,
            profile=profile,
        )
    except (ValueError, GoogleAuthError) as error:  # the environment is incomplete
        raise ConfigurationError(str(error)) from None
