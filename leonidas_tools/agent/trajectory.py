"""Trajectories for fine-tuning: a run as one line of JSON, in the chat format of OpenAI."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leonidas_tools.agent.models.model import Message, ModelCall, object_of
from leonidas_tools.agent.models.openai_model import chat_function, chat_message, names_in
from leonidas_tools.redaction import MASK, PLAIN_REDACTION, KnownSecrets, Redaction
from leonidas_tools.tools.names import undotted_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.agent.record import AgentResult


def trajectory(result: AgentResult) -> dict[str, Any]:
    """Return a run as an example in the chat fine-tuning format of OpenAI: messages and tools.

    Secrets are masked: text that looks like a secret, and the values of secret arguments wherever
    they occur, including those of fragments and delegated work. The thoughts of the model are left
    out, as in requests. Tools are included even if none was called, as a model learns that too. If
    the model calls by text, its prompt describes the tools instead. A run without an answer ends
    with a result, from which no service learns.

    Args:
        result: The run.

    Example:
        >>> import asyncio
        >>> from leonidas_tools.agent import ReActAgent, ScriptedModel
        >>> run = asyncio.run(ReActAgent(ScriptedModel(["Hello."])).run("Hi."))
        >>> trajectory(run)["messages"][1]
        {'role': 'assistant', 'content': 'Hello.'}
    """
    masked = _Masked(result)
    messages = [masked.message(message) for message in result.messages]
    names = undotted_names([*(tool.name for tool in result.tools), *names_in(messages)])
    body: dict[str, Any] = {"messages": [chat_message(each, names) for each in messages]}
    if result.tools and not result.by_text:
        body["tools"] = [chat_function(tool, names) for tool in result.tools]
    return body


def trajectory_line(result: AgentResult) -> str:
    """Return the trajectory of a run as one line of a JSONL file, with its line break.

    Args:
        result: The run.
    """
    return json.dumps(trajectory(result), ensure_ascii=False, default=str) + "\n"


class _Masked:
    """Masks the secrets of a run in its messages."""

    def __init__(self, result: AgentResult) -> None:
        self._tools = {tool.name: tool.tool for tool in result.tools}
        said = [call for message in result.messages for call in message.calls]
        calls = [*said, *(call for turn in result.turns for call in turn.calls)]
        declared = (
            text
            for call in calls
            for text in self._redaction(call.name).declared_in(_mapping(call))
        )
        self._known = KnownSecrets({*declared, *result.secrets})
        names = {name for tool in self._tools.values() for name in tool.redaction.names}
        # In calls by text, mask a secret by its name too, as it may be too short to search for.
        choice = "|".join(re.escape(name) for name in sorted(names))
        self._named = re.compile(
            rf"""(["']?\b(?:{choice})\b["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,}})]+)"""
        )
        self._has_names = bool(names)

    def message(self, message: Message) -> Message:
        """Return a message without secrets."""
        return replace(
            message,
            text=self._text(message.text),
            calls=tuple(self._call(call) for call in message.calls),
        )

    def _redaction(self, name: str) -> Redaction:
        tool = self._tools.get(name)
        return PLAIN_REDACTION if tool is None else tool.redaction

    def _call(self, call: ModelCall) -> ModelCall:
        shown = self._redaction(call.name).arguments(_mapping(call))
        return replace(call, arguments=self._known(shown))

    def _text(self, text: str) -> str:
        shown: str = PLAIN_REDACTION(self._known(text))
        return self._named.sub(rf'\1"{MASK}"', shown) if self._has_names else shown


def _mapping(call: ModelCall) -> Mapping[str, Any]:
    return object_of(call.arguments)
