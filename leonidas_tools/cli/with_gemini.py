"""A conversation with Gemini Live."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from google.auth.exceptions import GoogleAuthError
from google.genai import types

from leonidas_tools.cli import summary
from leonidas_tools.cli.conversation import Company, TerminalConversation, live_config
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.live.gemini import GeminiLiveProcessor

if TYPE_CHECKING:
    from leonidas_tools import AdvancedToolProcessor

_VERTEX_API_VERSION = "v1beta1"
_SETTLE_SECONDS = 10.0


async def with_gemini(
    company: Company, *, model: str, profile: str | None, api_key: str | None
) -> summary.Summary:
    """Talks to Gemini Live; what is typed or heard by the microphone is what the user says.

    `api_key` is `None` for Vertex AI, as the environment has it.

    Raises:
        ConfigurationError: The environment does not say how to reach Vertex AI.
    """
    live = gemini_model(company.tools, model=model, profile=profile, api_key=api_key)
    conversation = TerminalConversation(company)
    await conversation.hold(
        live, partial(_over, conversation, company), settle_seconds=_SETTLE_SECONDS
    )
    return summary.of_session(
        conversation.log, conversation.errors, interrupted=conversation.interrupted
    )


async def _over(conversation: TerminalConversation, company: Company) -> None:
    """Wait until the user has said all."""
    if company.voice.ends:
        await conversation.heard_all.wait()
        await conversation.reply()
    else:
        ended = asyncio.Event() if company.typed is None else company.typed.ended
        await ended.wait()  # where nothing is typed: until Ctrl-C


def gemini_model(
    tools: AdvancedToolProcessor, *, model: str, profile: str | None, api_key: str | None
) -> GeminiLiveProcessor:
    """Return the live model with these tools.

    `api_key` is `None` for Vertex AI, as the environment has it.

    Raises:
        ConfigurationError: The environment does not say how to reach Vertex AI.
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
    except (ValueError, GoogleAuthError) as error:  # what is missing in the environment
        raise ConfigurationError(str(error)) from None
