"""The calls over one connection, and what they end with where it fails them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import mcp_types
from mcp.client import InputRequiredRoundsExceededError
from mcp.shared.exceptions import MCPError

from leonidas_tools.errors import ToolError
from leonidas_tools.mcp.calls import errors
from leonidas_tools.mcp.transport.http_client import NOT_SENT, SESSION_GONE
from leonidas_tools.mcp.transport.unreadable import TOO_LONG, UNREADABLE
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.client.client import Client

    from leonidas_tools.mcp.calls.call_terms import ServerCall
    from leonidas_tools.mcp.calls.tool_task import TaskReports, ToolTask
    from leonidas_tools.mcp.connection.health import Health
    from leonidas_tools.mcp.features.calls import OnProgress
    from leonidas_tools.mcp.features.offers import Offers
    from leonidas_tools.mcp.listing.output_schemas import OutputSchemas
    from leonidas_tools.mcp.transport.redaction import Redaction

logger = visible_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Calling:
    """Makes the calls over one connection.

    Args:
        name: The server's name.
        client: Is connected to it, or about to be.
        health: Told how long calls may take.
        offers: Answers the tools that are none of the server's own.
        outputs: Know how answers have to be.
        redact: Takes secrets out of what the server says.
        reports: Where what the server reports of tasks is brought.
        gone: Why no call can be made, if none can.
        lose: Called when the server is gone.
        doubt: Called when it may be gone.
        by_request: Whether one request may be cut off while the others go on.
    """

    name: str
    client: Client
    health: Health
    offers: Offers
    outputs: OutputSchemas
    redact: Redaction
    reports: TaskReports
    gone: Callable[[], str | None]
    lose: Callable[[str], None]
    doubt: Callable[[str], None]
    by_request: bool
    under_way: set[asyncio.Future[None]] = field(default_factory=set)
    """The calls that have not ended, each of which sets its future then."""

    async def call(
        self, call: ServerCall, on_progress: OnProgress, task: ToolTask | None
    ) -> mcp_types.CallToolResult:
        """Calls a tool; being cancelled cancels the call at the server.

        Telling a server that hangs of a cancellation may take the client seconds.

        Args:
            call: What is called.
            on_progress: Awaited with each report.
            task: The call as a task, if it is made so.

        Raises:
            RetryableError: The server is gone and nothing happened.
            ToolError: The server is gone, and something may have happened; or it refused.
        """
        gone = self.gone()
        if gone is not None:
            raise self._not_reached(gone, call, task)
        ended = asyncio.get_running_loop().create_future()
        self.under_way.add(ended)
        try:
            with self.health.call(call.seconds):
                return await self._answer(call, on_progress, task)
        except MCPError as error:
            raise self._tool_error(error, call, task) from error
        except InputRequiredRoundsExceededError as error:
            rounds = error.max_rounds
            raise errors.asks_without_end(self.name, call.tool, rounds, once=call.once) from error
        except (RuntimeError, ValueError) as error:
            logger.warning("MCP server %r: an answer of %r is malformed", self.name, call.tool)
            raise errors.malformed_answer(self.name, call.tool, once=call.once) from error
        finally:
            self.under_way.discard(ended)
            ended.set_result(None)

    async def _answer(
        self, call: ServerCall, on_progress: OnProgress, task: ToolTask | None
    ) -> mcp_types.CallToolResult:
        if task is not None:
            answer = await task.run(self.client, self.reports, on_progress)
        elif (offered := self.offers.request(self.client, call.tool, call.arguments)) is not None:
            return await offered
        else:
            answer = await self.client.call_tool(
                call.tool, dict(call.arguments), progress_callback=on_progress
            )
        self.outputs.check(call.tool, answer)
        return answer

    def _tool_error(self, error: MCPError, call: ServerCall, task: ToolTask | None) -> ToolError:
        if error.code == TOO_LONG:
            return errors.too_long_answer(self.name, call.tool, error.message)
        if error.code in UNREADABLE:
            return errors.malformed_answer(self.name, call.tool, once=call.once)
        if error.code == SESSION_GONE:
            self.lose(error.message)
        if error.code in {NOT_SENT, SESSION_GONE}:
            return self._not_reached(error.message, call, task)
        gone, cut_off = self.gone(), self.by_request and error.code == mcp_types.CONNECTION_CLOSED
        if gone is None and not cut_off:
            return ToolError(self.redact(error.message), reason_code="mcp_error")
        self.doubt(error.message)
        return errors.server_lost(self.name, gone or self.redact(error.message), once=call.once)

    def _not_reached(self, why: str, call: ServerCall, task: ToolTask | None) -> ToolError:
        """What a call ends with of which a request has not reached the server."""
        if task is not None and task.id is not None:  # it asked after what runs by now
            return errors.server_lost(self.name, why, once=call.once)
        return errors.server_down(self.name, why)
