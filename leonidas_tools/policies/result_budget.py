"""Limit the length of a result: truncate it, or store it for later reads."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.invocation import current
from leonidas_tools.calls.sendable import has_only_value
from leonidas_tools.errors import StoreError, log_level
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.plain import MAX_ON_LOOP, beginning, fitting, length, whole_items
from leonidas_tools.results.spill import Results
from leonidas_tools.results.texts import join, say
from leonidas_tools.tools.metadata import Overflow

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from leonidas_tools.calls.call import Run, ToolCall, ToolResult
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.results.plain import Keep
    from leonidas_tools.settings.effective import EffectiveOptions

logger = visible_logger(__name__)
READ_RESULT = "read_result"
"""The tool with which the model reads more of a result."""
_LONG_TEXT = 300
_KEEPS: dict[Overflow, Keep] = {
    Overflow.HEAD: "head",
    Overflow.TAIL: "tail",
    Overflow.BOTH: "both",
    Overflow.SPILL: "both",
}
_MAX_CHARACTERS = 300
_LOOKED_AT = 4000
_MAX_SENTENCES = 2
_MARKUP = (
    (re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)"), ""),
    (re.compile(r"```.*?(?:```|\Z)", re.DOTALL), " "),
    (re.compile(r"<[^<>\n]{1,200}>"), " "),
    (re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*\)"), r"\1"),
    (re.compile(r"https?://\S+"), ""),
    (re.compile(r"^[ \t]*(?:#{1,6}|>+|[-*+•]|\d{1,3}[.)])[ \t]+", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*[|:\-=_*]{3,}[ \t]*$", re.MULTILINE), ""),
    (re.compile(r"[*`~|]+|\b_+|_+\b"), ""),
    (re.compile(r"[\x00-\x08\x0b-\x1f\x7f]"), ""),
)
_SENTENCE = re.compile(r".+?(?:[.!?…](?=\s|$)|[\u3002\uff01\uff1f]|\n|$)", re.DOTALL)
_ENDS = ".!?…:;,\u3002\uff01\uff1f"
"""Marks that end a sentence or a clause, also in Chinese."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultBudget:
    """Limits a result, keeps it valid JSON, and states the omissions.

    A long text gets one or two sentences to speak, unless the tool has set them. The other
    texts of the result count too: the message, the hint, the options and the speech. They may use
    half of the limit, or the rest that the value leaves if this is more.
    """

    max_bytes: int  # of its JSON, with all but ASCII escaped: four bytes make a token
    overflow: Overflow
    in_thread: Callable[..., Awaitable[Any]]  # runs blocking code in a thread

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call, and shorten its result to the limit."""
        result = await run(call)
        body = result.result
        size = 0 if body is None else current().length_of(body)
        if size <= self.max_bytes and type(body) is not str and has_only_value(result):
            return result
        result = self._words_cut(result, size)
        if result.speech is None and isinstance(body, str) and len(body) > _LONG_TEXT:
            result = replace(result, speech=self._speech_of(body, size, _length_of_words(result)))
        available = self.max_bytes - _length_of_words(result)
        if size <= available:
            return result
        if self.overflow is Overflow.SPILL and call.session.get(Results).keeps:
            handle = await self._store_body(call, body, size)
            if handle is not None:
                preview = await self._cut(body, size, max(available - len(handle) - 40, 40), "both")
                return _build_preview(result, handle, preview)
        cut = await self._cut(body, size, available, _KEEPS[self.overflow])
        message = say("result_cut", tokens=self.max_bytes // 4)
        return replace(result, result=cut, message=join(result.message, message))

    async def _cut(self, body: Any, size: int, max_bytes: int, keep: Keep) -> Any:
        if size > MAX_ON_LOOP:
            return await self.in_thread(fitting, body, max_bytes, keep)
        return fitting(body, max_bytes, keep)

    async def _store_body(self, call: ToolCall, body: Any, size: int) -> str | None:
        if size > MAX_ON_LOOP:
            content = await self.in_thread(_serialize, call, body)
        else:
            content = _serialize(call, body)
        mime_type = "text/plain" if isinstance(body, str) else "application/json"
        session = call.session
        try:
            return await session.get(Results).store.put(
                content, mime_type=mime_type, session=session.id
            )
        except (StoreError, ValueError) as error:
            logger.log(log_level(error), "The result of %r cannot be stored: %s", call.name, error)
            return None

    def _words_cut(self, result: ToolResult, size: int) -> ToolResult:
        """Return the result with its other texts cut to the available length."""
        available = max(self.max_bytes - size, self.max_bytes // 2)
        if _length_of_words(result) <= available:
            return result
        kept: dict[str, Any] = {}
        for name in ("message", "retry_hint", "valid_options", "speech"):
            value = getattr(result, name)
            if value is None:
                continue
            if name == "valid_options":
                value = whole_items(value, available) or None
            else:
                value = beginning(str.__str__(value), available)
            kept[name] = value
            available -= 0 if value is None else length(value)
        return replace(result, **kept)

    def _speech_of(self, body: str, size: int, used: int) -> str | None:
        """Return the sentences of a text to speak, at no cost to a text within the limit."""
        free = self.max_bytes - used
        available = (
            free - size if size <= free else min(self.max_bytes // 2 - used, self.max_bytes // 4)
        )
        said = speakable(body)
        return None if said is None else beginning(said, max(available, 0))


def _length_of_words(result: ToolResult) -> int:
    """Return the length of the texts and options, without the value."""
    options = None if result.valid_options is None else list(result.valid_options)
    texts = (result.message, result.retry_hint, result.speech)
    of_texts = sum(length(str.__str__(each)) for each in texts if each is not None)
    return of_texts if options is None else of_texts + length(options)


def _build_preview(result: ToolResult, handle: str, preview: Any) -> ToolResult:
    message = say("result_part", reader=READ_RESULT)
    return replace(
        result,
        result={"handle": handle, "preview": preview},
        message=join(result.message, message),
    )


def _serialize(call: ToolCall, body: Any) -> bytes:
    """Return the content to store for a result, with its secrets masked."""
    redaction = call.redaction.hiding(call.arguments)
    text = _text(body)
    if not redaction.is_needless(text):
        text = _text(redaction(body))
    return text.encode("utf-8", "replace")


def _text(body: Any) -> str:
    """Return a result as lines of text, which can be searched."""
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, indent=1)


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[ResultBudget]:
    """Yield the result budget of a tool, if it has one."""
    if options.has_result_budget:
        tokens, most = options.max_result_tokens, options.max_result_bytes
        yield ResultBudget(
            max_bytes=min(most, _BYTES_A_TOKEN * tokens) if tokens else most,
            overflow=options.overflow,
            in_thread=shared.workers.in_thread,
        )


_BYTES_A_TOKEN = 4


def speakable(text: str) -> str | None:
    r"""Return the first one or two sentences, without markup; `None` if there are none.

    Example:
        >>> speakable("# Weather\n\n**Sunny**, see [here](https://example.org). Wind: weak.")
        'Weather. Sunny, see here.'
    """
    text = text[:_LOOKED_AT]
    for pattern, instead in _MARKUP:
        text = pattern.sub(instead, text)
    found = (" ".join(match[0].split()) for match in _SENTENCE.finditer(text))
    sentences = [sentence for sentence in found if any(map(str.isalnum, sentence))]
    said = " ".join(map(_end_sentence, sentences[:_MAX_SENTENCES]))
    return _shorten(said) or None


def _end_sentence(sentence: str) -> str:
    return sentence if sentence[-1] in _ENDS else f"{sentence}."


def _shorten(text: str) -> str:
    if len(text) <= _MAX_CHARACTERS:
        return text
    kept = text[: _MAX_CHARACTERS - 1]
    words = kept.rsplit(" ", 1)
    return f"{words[0] if len(words[0]) > _MAX_CHARACTERS // 2 else kept}…"
