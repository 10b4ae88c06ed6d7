"""The HTTP API of the console: its operations, and their description for OpenAPI."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.console.bodies import json_object
from leonidas_tools.console.preferences import PreferenceEndpoint
from leonidas_tools.errors import (
    ConfigurationError,
    StaleVersionError,
    StoreError,
    ToolDeniedError,
    ToolError,
    ToolNotFoundError,
    ToolValidationError,
)
from leonidas_tools.mcp.trust.pins import Pins, PinsError, identity_of
from leonidas_tools.mcp.trust.quarantine import diff_of, fields_of
from leonidas_tools.mcp_server.guard import TokenBucket
from leonidas_tools.results.jsonable import utf8_text
from leonidas_tools.settings.effective import effect_of
from leonidas_tools.settings.option_sources import effective
from leonidas_tools.tools.exports import describe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from starlette.requests import Request

    from leonidas_tools.calls.call import ToolResult, ToolSession
    from leonidas_tools.runtime.runtime import ToolRuntime
    from leonidas_tools.store import Store
    from leonidas_tools.tools.registry import AnyTool


_MAX_ROWS = 1000
_CHANGES_PER_SECOND = 20.0
_MAX_CHANGES_AT_ONCE = 40.0
_NO_STORE = {"cache-control": "no-store"}
_ERROR = {
    "description": "The error, and how to fix it.",
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


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CallDecision(_Body):
    """The session of a call, if the id of the call is not unique."""

    session: str | None = None


class ApprovalAnswer(_Body):
    """A person's answer to a question."""

    answer: Literal["approve", "deny", "edit", "fill", "always"]
    reason: str | None = None
    arguments: dict[str, Any] | None = None
    scope: Literal["session", "user", "file"] = "session"


class SessionMode(_Body):
    """Mode of a session; `null` for the mode of the user or the settings."""

    mode: Literal["ask", "autonomous", "read_only"] | None


class TrustedTool(_Body):
    """A changed MCP tool that a person trusts, with the fingerprint that was shown."""

    tool: str
    fingerprint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One operation of the HTTP API.

    Args:
        method: Its HTTP method.
        path: Its path, with parameters in braces.
        summary: A summary for OpenAPI.
        answer: Returns the JSON value of its response.
        body: The model of its body; `dict` for settings by name.
        query: Its query parameters, each with its description.
    """

    method: str
    path: str
    summary: str
    answer: Callable[[Request, Any], Awaitable[Any]]
    body: type[BaseModel | dict[str, Any]] | None = None
    query: Mapping[str, str] | None = None


class Api:
    """The HTTP API of some tools.

    Args:
        tools: The tools.
        has_agent: Whether a person can talk to an agent on the page.
    """

    def __init__(self, tools: ToolRuntime, *, has_agent: bool) -> None:
        self._tools = tools
        self._has_agent = has_agent
        self._change_rate = TokenBucket(
            per_second=_CHANGES_PER_SECOND, at_once=_MAX_CHANGES_AT_ONCE
        )
        self._operations = self._all()

    def routes(self) -> list[Route]:
        """Return the route of every operation, of the metrics, the health checks and OpenAPI."""
        description = _openapi(self._operations)

        async def openapi(_: Request) -> Response:
            return JSONResponse(description)

        routes = [self._route(each) for each in self._operations]
        routes += [
            Route("/openapi.json", openapi),
            Route("/metrics", self._prometheus),
            Route("/healthz", self._is_alive),
            Route("/readyz", self._is_ready),
        ]
        if self._tools.store is not None:
            endpoint = PreferenceEndpoint(self._tools.store.preferences)
            path, methods = "/api/preferences/{user:path}", ["GET", "PUT", "PATCH"]
            routes.append(Route(path, endpoint.answer, methods=methods))
        return routes

    def _all(self) -> list[Operation]:
        call = "The id of the call, or its trace id."
        find = {
            "tool": "Only calls of this tool.",
            "status": "Only calls with this status.",
            "session": "Only calls of this session.",
            "since": "Only calls since this time, in seconds since the epoch.",
            "text": "Only calls with this text in name, arguments or result; needs a store.",
            "limit": f"The maximum number of rows, up to {_MAX_ROWS}.",
        }
        return [
            Operation(method="GET", path="/api/sessions", summary="List the sessions.",
                      answer=self._sessions),
            Operation(method="PATCH", path="/api/sessions/{session}",
                      summary="Set what a session may do without asking.",
                      answer=self._set_mode, body=SessionMode),
            Operation(method="POST", path="/api/calls/{call}/cancel",
                      summary=f"Stop a running call. {call}",
                      answer=self._decision(self._tools.cancel), body=CallDecision),
            Operation(method="POST", path="/api/calls/{call}/retry",
                      summary=f"Retry a failed call. {call}",
                      answer=self._decision(self._tools.retry), body=CallDecision),
            Operation(method="POST", path="/api/calls/{call}/skip",
                      summary=f"Continue without a call. {call}",
                      answer=self._decision(self._tools.skip), body=CallDecision),
            Operation(method="GET", path="/api/failures",
                      summary="List the failed calls that can be retried or skipped.",
                      answer=self._failures),
            Operation(method="GET", path="/api/approvals", summary="List the open questions.",
                      answer=self._approvals),
            Operation(method="POST", path="/api/approvals/{approval}",
                      summary="Answer a question.", answer=self._decide, body=ApprovalAnswer),
            Operation(method="GET", path="/api/tools", summary="List the tools.",
                      answer=self._list_tools),
            Operation(method="GET", path="/api/tools/{tool}",
                      summary="Show a tool, and each effective setting with its source.",
                      answer=self._show_tool),
            Operation(method="PATCH", path="/api/tools/{tool}",
                      summary="Change settings of a tool, in the file too; null removes one.",
                      answer=self._change_tool, body=dict),
            Operation(method="GET", path="/api/servers", summary="List the MCP servers.",
                      answer=self._servers),
            Operation(method="GET", path="/api/servers/{server}/changes",
                      summary="Show the changed tools of a server, with their diffs.",
                      answer=self._changes),
            Operation(method="POST", path="/api/servers/{server}/trust",
                      summary="Trust a changed tool, with the fingerprint that was shown.",
                      answer=self._trust, body=TrustedTool),
            Operation(method="GET", path="/api/history", summary="List the calls, newest first.",
                      answer=self._history, query=find),
            Operation(method="GET", path="/api/conversations",
                      summary="List the stored conversations, newest first.",
                      answer=self._conversations,
                      query={"user": "Only of this user.", "limit": find["limit"]}),
            Operation(method="GET", path="/api/conversations/{session}",
                      summary=f"Replay a stored conversation: its last {_MAX_ROWS} calls.",
                      answer=self._replay, query={"user": "Only of this user."}),
            Operation(method="GET", path="/api/metrics",
                      summary="Return the metrics of one tool or of all.",
                      answer=self._metrics, query={"tool": "Only of this tool."}),
            Operation(method="GET", path="/api/talk",
                      summary="Return whether a WebSocket at this path connects to an agent.",
                      answer=self._can_talk),
            Operation(method="GET", path="/api/health", summary="Return the health report.",
                      answer=self._health),
        ]  # fmt: skip

    def _route(self, operation: Operation) -> Route:
        async def answer(request: Request) -> Response:
            body = None
            if operation.method != "GET":
                self._count_change()
                body = await _body(request, operation.body)
            told = await operation.answer(request, body)
            headers = {**_NO_STORE}
            if operation.path.startswith("/api/tools"):
                headers["etag"] = f'"{self._tools.settings.generation}"'
            # JSON of tools and models may contain lone surrogates, which UTF-8 cannot encode.
            text = utf8_text(json.dumps(told, ensure_ascii=False, default=str))
            return Response(text, headers=headers, media_type="application/json")

        # `:path`, since servers decode `%2F` to a slash before the app receives it.
        path = re.sub(r"{(\w+)}", r"{\1:path}", operation.path)
        return Route(path, answer, methods=[operation.method])

    def _count_change(self) -> None:
        """Count one request that changes something."""
        if not self._change_rate.spend():
            raise HTTPException(429, "Too many requests: wait a second", {"Retry-After": "1"})

    # Sessions, calls and questions.

    def _session(self, name: str | None) -> ToolSession | None:
        if name is None:
            return None
        found = [session for session in self._tools.events.sessions() if session.id == name]
        if not found:
            raise HTTPException(404, f"There is no session {name!r}")
        if len({session.user for session in found}) > 1:
            raise HTTPException(409, f"Several users have a session {name!r}")
        return found[0]

    async def _sessions(self, _: Request, __: None) -> list[dict[str, Any]]:
        return [
            {
                "id": session.id,
                "user": session.user,
                "mode": None if (policy := session.find(SessionPolicy)) is None else policy.mode,
                "is_default": session is self._tools.session,
            }
            for session in self._tools.events.sessions()
        ]

    async def _set_mode(self, request: Request, body: SessionMode) -> dict[str, Any]:
        session = self._session(request.path_params["session"])
        assert session is not None
        session.get(SessionPolicy).mode = body.mode
        return {"id": session.id, "mode": body.mode}

    def _decision(
        self, decide: Callable[..., asyncio.Future[ToolResult]]
    ) -> Callable[[Request, CallDecision], Awaitable[Any]]:
        async def answer(request: Request, body: CallDecision) -> dict[str, Any]:
            call = request.path_params["call"]
            decide(call, session=self._session(body.session))
            return {"call": call, "accepted": True}

        return answer

    async def _failures(self, _: Request, __: None) -> list[dict[str, Any]]:
        return [
            {
                "trace_id": call.trace_id,
                "call_id": call.id,
                "tool": call.name,
                "session": call.session.id,
                "status": result.status.value,
                "reason_code": result.reason_code,
            }
            for call, result in self._tools.executor.failures()
        ]

    async def _approvals(self, _: Request, __: None) -> list[dict[str, Any]]:
        return [question.to_json() for desk in self._desks() for question in desk.pending()]

    async def _decide(self, request: Request, body: ApprovalAnswer) -> dict[str, Any]:
        question = request.path_params["approval"]
        decision = Decision.from_json(body.model_dump(exclude_none=True, exclude_defaults=True))
        desks = list(self._desks())
        for desk in desks:
            if any(each.id == question for each in desk.pending()):
                desk.decide(question, decision, by="console")
                return {"approval": question, "answer": decision.answer.value}
        for desk in desks:
            desk.question(question)  # raises with the reason if it is closed
        raise HTTPException(404, f"There is no question {question!r}")

    def _desks(self) -> list[Approvals]:
        found = (session.find(Approvals) for session in self._tools.events.sessions())
        return [desk for desk in found if desk is not None]

    # Tools and their settings.

    def _tool(self, request: Request) -> AnyTool:
        return self._tools.registry[request.path_params["tool"]]

    def _describe(self, tool: AnyTool) -> dict[str, Any]:
        settings = self._tools.settings.current.for_tool(tool.name, tool.origin)
        return {
            **describe(self._tools.registry, tool),
            "effect": effect_of(tool, settings).value,
            "enabled": settings.enabled is not False,
        }

    async def _list_tools(self, _: Request, __: None) -> list[dict[str, Any]]:
        return [self._describe(tool) for tool in self._tools.registry]

    async def _show_tool(self, request: Request, __: None) -> dict[str, Any]:
        tool = self._tool(request)
        values = effective(tool, self._tools.settings.current)
        shown = {each.name: self._add_location(each.to_json()) for each in values}
        return {**self._describe(tool), "effective": shown}

    def _add_location(self, value: dict[str, Any]) -> dict[str, Any]:
        place = self._tools.settings.locate(value["key"]) if value.get("key") else ""
        return {**value, "place": place.rpartition("/")[2]} if place else value

    async def _change_tool(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        tool = self._tool(request)
        wanted, generation = request.headers.get("if-match"), self._tools.settings.generation
        if wanted not in {None, "*", f'"{generation}"'}:
            raise HTTPException(412, "The settings have changed in the meantime: read them again")
        if "${" in json.dumps(body):
            # It would be expanded when the file is read, and the response would show it.
            raise HTTPException(422, "A value may not name a variable of the environment")
        await asyncio.to_thread(self._tools.settings.update, {"tools": {tool.name: body}})
        return await self._show_tool(request, None)

    # MCP servers.

    async def _servers(self, _: Request, __: None) -> list[dict[str, Any]]:
        return self._tools.mcp_servers.status()

    def _pins(self, request: Request) -> Pins:
        name = request.path_params["server"]
        settings = self._tools.settings.current.mcp_servers.get(name)
        if settings is None:
            raise HTTPException(404, f"There is no MCP server {name!r}")
        return Pins(name, identity_of(settings))

    async def _changes(self, request: Request, __: None) -> list[dict[str, Any]]:
        return await asyncio.to_thread(_changes_of, self._pins(request))

    async def _trust(self, request: Request, body: TrustedTool) -> dict[str, Any]:
        pins = self._pins(request)
        trusted = await asyncio.to_thread(pins.trust, {body.tool: body.fingerprint})
        if body.tool not in trusted:
            said = f"{body.tool!r} has changed since it was shown: review it again"
            raise HTTPException(409, said)
        return {"trusted": body.tool}

    # History, metrics and health.

    def _store(self) -> Store:
        store = self._tools.store
        if store is None:
            raise HTTPException(404, "There is no store: set store.url in the settings")
        return store

    async def _history(self, request: Request, __: None) -> list[dict[str, Any]]:
        asked = request.query_params
        since = asked.get("since")
        filters: dict[str, Any] = {
            "tool": asked.get("tool"),
            "status": asked.get("status"),
            "session": asked.get("session"),
            "since": None if since is None else float(since),
            "limit": _limit(request),
        }
        if self._tools.store is None:
            if asked.get("text"):
                self._store()
            return self._tools.monitor.history(**filters)
        found = await self._tools.store.executions(text=asked.get("text"), **filters)
        return [asdict(each) for each in found]

    async def _conversations(self, request: Request, __: None) -> list[dict[str, Any]]:
        user = request.query_params.get("user")
        found = await self._store().sessions(user=user, limit=_limit(request))
        return [asdict(each) for each in found]

    async def _replay(self, request: Request, __: None) -> list[dict[str, Any]]:
        user = request.query_params.get("user")
        session = request.path_params["session"]
        found = await self._store().replay(session, user=user, limit=_MAX_ROWS)
        if not found:
            raise HTTPException(404, "There is no such conversation")
        return [asdict(each) for each in found]

    async def _metrics(self, request: Request, __: None) -> dict[str, Any]:
        return self._tools.monitor.metrics(request.query_params.get("tool"))

    async def _health(self, _: Request, __: None) -> dict[str, Any]:
        return self._tools.monitor.health()

    async def _can_talk(self, _: Request, __: None) -> dict[str, Any]:
        return {"available": self._has_agent}

    async def _prometheus(self, _: Request) -> Response:
        page = await asyncio.to_thread(self._tools.monitor.prometheus().exposition)
        return Response(page, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _is_alive(self, _: Request) -> Response:
        return JSONResponse({"status": "alive"}, headers=_NO_STORE)

    async def _is_ready(self, _: Request) -> Response:
        """Return whether calls can be made now; `/api/health`, with the token, has the reason."""
        waiting = [
            server["name"]
            for server in self._tools.mcp_servers.status()
            if server["state"] in {"starting", "connecting"}
        ]
        body = {"status": "starting" if waiting else "ready"}
        return JSONResponse(body, 503 if waiting else 200, headers=_NO_STORE)


def _changes_of(pins: Pins) -> list[dict[str, Any]]:
    """Return the tools that have changed, with their differences. This blocks."""
    return [
        {
            "tool": name,
            "changed": fields_of(pin),
            "diff": diff_of(pin),
            "fingerprint": pin.waiting.fingerprint,
        }
        for name, pin in pins.pinned().items()
        if pin.waiting is not None
    ]


def errors_as_json() -> dict[type[Exception], Callable[[Request, Exception], Response]]:
    """Return exception handlers for Starlette that send each kind of error as JSON."""
    statuses: dict[type[Exception], int] = {
        ToolNotFoundError: 404,
        ToolValidationError: 422,
        ToolDeniedError: 409,
        ToolError: 409,
        PinsError: 409,
        ValueError: 422,
    }

    def plain(status: int) -> Callable[[Request, Exception], Response]:
        return lambda _, error: _error(status, str(error))

    def http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _error(error.status_code, error.detail, error.headers)

    def settings(_: Request, error: Exception) -> Response:
        assert isinstance(error, ConfigurationError)
        file = error.file or ""
        return _error(422, str(error).replace(file, Path(file).name))  # without the directory

    def store(_: Request, error: Exception) -> Response:
        if isinstance(error, StaleVersionError):
            return _error(412, str(error))
        return _error(503, "The store cannot be used now: try again later")  # `error` has paths

    return {
        HTTPException: http,
        ConfigurationError: settings,
        StoreError: store,
        **{kind: plain(status) for kind, status in statuses.items()},
    }


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status, {**_NO_STORE, **(headers or {})})


def _limit(request: Request) -> int:
    asked = request.query_params.get("limit", "100")
    is_short = asked.isascii() and asked.isdecimal() and len(asked) <= len(str(_MAX_ROWS))
    if not (is_short and 1 <= int(asked) <= _MAX_ROWS):
        raise HTTPException(
            422, f"limit must be a number from 1 to {_MAX_ROWS}, not {asked[:20]!r}"
        )
    return int(asked)


async def _body(request: Request, model: type[BaseModel | dict[str, Any]] | None) -> Any:
    """Return the JSON body of a request; other origins cannot send it without a preflight."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "Send the body as application/json")
    said = await json_object(request)
    if model is None or not issubclass(model, BaseModel):
        return said
    try:
        return model.model_validate(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise HTTPException(422, f"{place}: {first['msg']}") from None


def _openapi(operations: Iterable[Operation]) -> dict[str, Any]:
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
