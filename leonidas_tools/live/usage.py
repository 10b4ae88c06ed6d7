"""Count the tokens of a live session by turn and kind.

Twelve recordings of real sessions (2.5 native audio, 2.5 on Vertex AI, 3.1 flash live) have 14
messages with `usage_metadata`, one in every message with `turn_complete` and no other:

- Each counts one turn and is not a running total, but its input contains the whole context again:
  two turns of a session had 1185 + 51 and 1251 + 63 tokens. A call and the reply to its response
  are one turn, unless the model completes a turn after the call, too.
- None repeats. A message that does, or counts a turn again, is counted only for what it adds.
- `total_token_count` is the sum of prompt and response; thoughts come on top (28 beside 1234).
- Details may be fewer than their count (3.1: 360 of 482) or lack a number: the rest is `other`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from leonidas_tools.processors.parts import StatusPart

if TYPE_CHECKING:
    from genai_processors.content_api import ProcessorPart

MAX_TOKENS = 2**31 - 1
"""The largest count of a message: the protocol has 32 bits."""
_MODALITIES = ("other", "text", "image", "audio", "video")  # cached tokens are taken off in order


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Numbers of tokens; no token is in two of them.

    `other` has no known modality. Cached tokens are input, and thoughts are output.

    Example:
        >>> (Usage(input_text=12, output_audio=3) + Usage(output_audio=4)).to_json()
        {'input': {'text': 12}, 'output': {'audio': 7}}
    """

    input_text: int = 0
    input_audio: int = 0
    input_image: int = 0
    input_video: int = 0
    input_other: int = 0
    input_cached: int = 0
    input_tool_use: int = 0
    output_text: int = 0
    output_audio: int = 0
    output_image: int = 0
    output_video: int = 0
    output_other: int = 0
    output_thoughts: int = 0

    @classmethod
    def from_metadata(cls, metadata: object) -> Self:
        """Return the counts of `usage_metadata` as JSON; a value that is no count is 0."""
        given = metadata if isinstance(metadata, Mapping) else {}
        prompt = _count(given, "prompt_token_count")
        cached = _count(given, "cached_content_token_count")
        tool_use = _count(given, "tool_use_prompt_token_count")
        response = _count(given, "response_token_count")
        # A server that counts no response, or only a part, still has it in the total.
        response = max(response, _count(given, "total_token_count") - prompt - tool_use)
        input_ = _by_modality(given.get("prompt_tokens_details"), prompt)
        output = _by_modality(given.get("response_tokens_details"), response)
        left = cached
        for name in _MODALITIES:
            taken = min(left, input_[name])
            input_[name] -= taken
            left -= taken
        counts = {f"input_{name}": count for name, count in input_.items()}
        counts |= {f"output_{name}": count for name, count in output.items()}
        counts |= {"input_cached": cached, "input_tool_use": tool_use}
        return cls(**counts, output_thoughts=_count(given, "thoughts_token_count"))

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: mine + getattr(other, name) for name, mine in self._items()})

    def beyond(self, counted: Usage) -> Usage:
        """Return by how much each number exceeds that of `counted`."""
        pairs = ((name, mine - getattr(counted, name)) for name, mine in self._items())
        return Usage(**{name: max(more, 0) for name, more in pairs})

    def to_json(self) -> dict[str, dict[str, int]]:
        """Return the numbers above 0 by direction and kind."""
        sides: dict[str, dict[str, int]] = {"input": {}, "output": {}}
        for name, count in self._items():
            if count:
                side, _, kind = name.partition("_")
                sides[side][kind] = count
        return sides

    def _items(self) -> list[tuple[str, int]]:
        return [(each.name, getattr(self, each.name)) for each in fields(self)]


def _count(given: Mapping[Any, Any], name: str) -> int:
    """Return a count of the protocol; one that is missing or negative is 0."""
    count = given.get(name)
    return max(0, min(count, MAX_TOKENS)) if type(count) is int else 0


def _by_modality(details: object, count: int) -> dict[str, int]:
    """Return the tokens by modality; the details may have more or fewer than `count`."""
    counts = dict.fromkeys(_MODALITIES, 0)
    for each in details if isinstance(details, list) else ():
        if isinstance(each, Mapping):
            name = str(each.get("modality")).lower()
            counts[name if name in counts else "other"] += _count(each, "token_count")
    counts["other"] += max(count - sum(counts.values()), 0)
    return counts


class TurnUsage:
    """Counts the tokens of a session's turns from the parts of the model's output.

    A turn begins with output after the end of the last one; counts after the end belong to it.
    """

    def __init__(self) -> None:
        self.turn = 1
        """The number of the turn, from 1."""
        self.uncounted = 0
        """The number of turns in a row that have ended without a count above 0."""
        self.is_over = False
        """Whether the turn has ended."""
        self._counted = Usage()
        self._has_ended_again = False
        """Whether the last end repeats the one before, or ends a turn without output."""

    def add(self, part: ProcessorPart) -> Usage | None:
        """Handle a part, and return the tokens that it adds to the turn, if any."""
        metadata = part.metadata
        if "usage_metadata" in metadata:
            usage = Usage.from_metadata(metadata["usage_metadata"])
            if usage != Usage():
                self.uncounted = 0
            if self._has_ended_again and usage != self._counted:
                self._begin_turn()
            self._has_ended_again = False
            more = usage.beyond(self._counted)
            self._counted += more
            return more if more != Usage() else None
        if "turn_complete" in metadata:  # also false, at the end of a piece of the interaction
            self.uncounted += 1
            self._has_ended_again = self.is_over
            self.is_over = True
        elif self.is_over and _is_output(part):
            self._begin_turn()
            self.is_over = False
        return None

    def _begin_turn(self) -> None:
        self.turn += 1
        self._counted, self._has_ended_again = Usage(), False


def _is_output(part: ProcessorPart) -> bool:
    if isinstance(part, StatusPart) or part.substream_name == "input_transcription":
        return False
    inner = part.part
    return bool(inner.text or inner.inline_data or inner.function_call)
