"""Asking the person behind an MCP client, where a rule says so."""

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
"""The key of the question in a request of the newer protocol."""

_FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {
            "type": "boolean",
            "title": "Approve",
            "description": "Whether the tool may do this, this once.",
        },
        "reason": {
            "type": "string",
            "title": "Reason",
            "description": "Why not; the model reads it.",
        },
    },
    "required": ["approve"],
}


def can_be_asked(context: Context) -> bool:
    """Return whether the client can put a form to its user."""
    capabilities = context.session.client_capabilities
    can = None if capabilities is None else capabilities.elicitation
    return can is not None and (can.form is not None or can.url is None)


def elicitation(request: ApprovalRequest) -> ElicitRequest:
    """Return the question for the client: the sentence, the tool and all of its arguments."""
    details = json.dumps(dict(request.details), ensure_ascii=False, default=str)
    message = f"{visible(request.title)}\n\n{visible(request.tool)} {visible(details)}"
    return ElicitRequest(
        params=ElicitRequestFormParams(message=utf8_text(message), requested_schema=dict(_FORM))
    )


def decision_of(answer: ElicitResult) -> Decision:
    """Return what a person has said: only a yes in the form is a yes."""
    content = answer.content or {}
    if answer.action == "accept" and content.get("approve") is True:
        return Decision.approve()
    reason = content.get("reason")
    return Decision.deny(reason if isinstance(reason, str) and reason else None)
