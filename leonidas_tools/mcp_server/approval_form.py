"""Ask the user of an MCP client for approval, if a rule requires it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult

from leonidas_tools.approvals.request import Decision
from leonidas_tools.redaction.visible import visible
from leonidas_tools.results.jsonable import utf8_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.approvals.request import ApprovalRequest
    from leonidas_tools.mcp_server.sessions import Context

ANSWER = "approval"
"""The key of the approval form among the input requests of the newer protocol."""

_FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {
            "type": "boolean",
            "title": "Approve",
            "description": "Whether the tool may do this, only this time.",
        },
        "reason": {
            "type": "string",
            "title": "Reason",
            "description": "Why the tool may not do this; the model reads it.",
        },
    },
    "required": ["approve"],
}


def can_be_asked(context: Context) -> bool:
    """Return whether the client supports forms for its user."""
    capabilities = context.session.client_capabilities
    can = None if capabilities is None else capabilities.elicitation
    return can is not None and (can.form is not None or can.url is None)


def elicitation(request: ApprovalRequest) -> ElicitRequest:
    """Return the elicitation request: the title, the tool and all of its arguments."""
    details = json.dumps(dict(request.details), ensure_ascii=False, default=str)
    message = f"{visible(request.title)}\n\n{visible(request.tool)} {visible(details)}"
    return ElicitRequest(
        params=ElicitRequestFormParams(message=utf8_text(message), requested_schema=dict(_FORM))
    )


def decision_of(answer: ElicitResult) -> Decision:
    """Return the user's decision; approve only if an accepted form has `approve` set to true."""
    content = answer.content or {}
    if answer.action == "accept" and content.get("approve") is True:
        return Decision.approve()
    reason = content.get("reason")
    return Decision.deny(reason if isinstance(reason, str) and reason else None)
