"""Describe the operations of the console as OpenAPI."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leonidas_tools.console.api import Operation

_ERROR = {
    "description": "What is wrong, and what to do.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"error": {"type": "string"}},
                "required": ["error"],
            }
        }
    },
}


def described(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the OpenAPI description of the operations and of the event stream."""
    paths: dict[str, dict[str, Any]] = {
        "/api/events": {
            "get": {
                "summary": "Stream all events as server-sent events, the state first.",
                "operationId": "get_api_events",
                "parameters": [
                    _query("session", "Only events of this session."),
                    _query("kinds", "Only these kinds, separated by commas."),
                    _query("after", "The number of the last event read, as `Last-Event-ID`."),
                ],
                "responses": {
                    "200": {
                        "description": "The events.",
                        "content": {"text/event-stream": {"schema": {"type": "string"}}},
                    },
                    "default": _ERROR,
                },
            }
        }
    }
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Leonidas console", "version": version("leonidas-tools")},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
        "paths": paths,
    }


def _operation(operation: Operation) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", operation.path)
    inside = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ]
    parameters = [*inside, *(_query(name, what) for name, what in (operation.query or {}).items())]
    body: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": re.sub(r"\W+", "_", f"{operation.method.lower()}{operation.path}").strip(
            "_"
        ),
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done.", "content": {"application/json": {}}},
            "default": _ERROR,
        },
    }
    if operation.body is not None:
        schema: dict[str, Any] = {"type": "object"}
        if issubclass(operation.body, BaseModel):
            schema = operation.body.model_json_schema()
        body["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return body


def _query(name: str, what: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": what, "schema": {"type": "string"}}
