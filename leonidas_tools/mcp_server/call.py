"""One call of an MCP client, from the request to the result."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import math
import secrets
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    ImageContent,
    TextContent,
)
from pydantic import TypeAdapter, ValidationError

from leonidas_tools.calls.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from leonidas_tools.approvals.request import ApprovalRequest, Decision
    from leonidas_tools.calls.call import Media, ToolResult, ToolSession
    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.mcp_server.sessions import Context

_MAX_PROGRESS = 32
_PLAIN = {"status", "result", "retryable"}
_RESOURCES = "resources"


class ServedCall:
    """A running call.

    A request waits for its result. In the newer protocol, this may be a second request, which
    contains the user's answer to an approval form.
    """

    def __init__(
        self, context: Context, name: str, arguments: Mapping[str, Any], session: ToolSession
    ) -> None:
        self.id = f"{context.request_id}-{secrets.token_hex(4)}"
        """Id of the call; unlike the id of the request, it is unique."""
        self.context = context
        """The request that waits for the result."""
        self.name = name
        self.arguments = arguments
        self.session = session
        self.asked: ApprovalRequest | None = None
        """The approval request that has no decision yet."""
        self._decided: asyncio.Future[Decision] | None = None
        self._task: asyncio.Task[ToolResult] | None = None
        self._news = asyncio.Event()
        self._progress: deque[ToolEvent] = deque(maxlen=_MAX_PROGRESS)
        self._last = -math.inf
        self._total: float | None = None

    def start(self, run: Coroutine[Any, Any, ToolResult]) -> None:
        """Start the call as a task."""
        self._task = asyncio.create_task(run)
        self._task.add_done_callback(lambda _: self._news.set())

    def cancel(self) -> None:
        """Cancel the task of the call."""
        if self._task is not None:
            self._task.cancel()

    def on_event(self, event: ToolEvent) -> None:
        """Queue progress for the client; drop the oldest report if the client is too slow."""
        if event.kind is EventKind.PROGRESS:
            self._progress.append(event)
            self._news.set()

    async def ask(self, request: ApprovalRequest) -> Decision:
        """Make `step` return an approval request, and wait for its decision."""
        self.asked, self._decided = request, asyncio.get_running_loop().create_future()
        self._news.set()
        try:
            return await self._decided
        finally:
            self.asked = self._decided = None

    def decide(self, request: ApprovalRequest, decision: Decision) -> None:
        """Set the decision on an approval request, if that request is still open."""
        if self.asked is request and self._decided is not None and not self._decided.done():
            self._decided.set_result(decision)
            self.asked = None

    async def step(self) -> ToolResult | ApprovalRequest:
        """Wait for the result or an approval request, and send progress meanwhile.

        Cancellation cancels the call.
        """
        assert self._task is not None
        try:
            while True:
                await self._send_progress()
                if self._task.done():
                    return self._task.result()
                if self.asked is not None:
                    return self.asked
                await self._news.wait()
                self._news.clear()
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def _send_progress(self) -> None:
        while self._progress:
            event = self._progress.popleft()
            data = event.shown()
            amount, total = self._amount(data)
            message = data.get("message")
            with contextlib.suppress(MCPError):  # the client has disconnected
                await self.context.session.report_progress(
                    amount, total, None if message is None else str(message)
                )

    def _amount(self, data: Mapping[str, Any]) -> tuple[float, float | None]:
        """Return progress and total; increase progress with each report, as MCP requires."""
        fraction, done = _number(data.get("fraction")), _number(data.get("progress"))
        amount = done if fraction is None else fraction
        if fraction is not None:
            self._total = 1.0
        elif amount is None and self._total is None:
            amount = 0.0 if self._last == -math.inf else self._last + 1.0
        if amount is None or amount <= self._last:
            amount = math.nextafter(self._last, math.inf)
        self._last = amount
        return amount, self._total


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def to_answer(result: ToolResult) -> CallToolResult:
    """Convert a result to an MCP result.

    The text is the returned value, or, if there is a message or an error, the envelope that a model
    reads. A successful value that is not a text is also structured content. Resource links and
    embedded resources, which results of MCP servers have under `resources`, become content blocks.

    Example:
        >>> from leonidas_tools.calls.call import ToolResult
        >>> answer = to_answer(ToolResult(result={"celsius": 21}))
        >>> answer.content[0].text, answer.structured_content, answer.is_error
        ('{"celsius": 21}', {'celsius': 21}, False)
    """
    envelope = result.to_response()
    media = [_media_block(one) for one in result.media]
    if not result.ok:
        return CallToolResult(content=[_text(envelope), *media], is_error=True)
    value, resources = _split_resources(result.result)
    if resources and "result" in envelope:
        envelope["result"] = value
    plain = envelope.keys() <= _PLAIN and envelope["status"] == "ok"
    content = [*media, *resources]
    if not plain or value is not None or not content:
        content.insert(0, _text(value if plain else envelope))
    return CallToolResult(content=content, structured_content=_to_structured(value))


def _to_structured(value: Any) -> dict[str, Any] | None:
    if isinstance(value, Mapping):
        return dict(value)
    return None if value is None or isinstance(value, str) else {"result": value}


def _text(value: Any) -> TextContent:
    if value is None:
        return TextContent(text="")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return TextContent(text=text)


def _media_block(media: Media) -> ContentBlock:
    kind = AudioContent if media.mime_type.startswith("audio/") else ImageContent
    return kind(data=base64.b64encode(media.data).decode(), mime_type=media.mime_type)


def _split_resources(value: Any) -> tuple[Any, list[ContentBlock]]:
    """Split a value into the rest and its resources."""
    if not isinstance(value, Mapping) or not isinstance(value.get(_RESOURCES), list):
        return value, []
    adapter: TypeAdapter[list[ContentBlock]] = TypeAdapter(list[ContentBlock])
    try:
        resources = adapter.validate_python(value[_RESOURCES], by_name=False)
    except ValidationError:
        return value, []
    if any(block.type not in {"resource", "resource_link"} for block in resources):
        return value, []
    rest = {key: left for key, left in value.items() if key != _RESOURCES}
    if rest.keys() == {"text"}:
        return rest["text"], resources
    return rest or None, resources
