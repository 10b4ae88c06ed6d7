"""Convert events to rows of limited size, without secrets."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls.call import normalize_name
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.calls.once_calls import exact_digest_of
from leonidas_tools.redaction import MASK, redact_text
from leonidas_tools.results.jsonable import is_utf8, utf8_text
from leonidas_tools.results.plain import NotPlainError, plain
from leonidas_tools.settings.effective import effect_of
from leonidas_tools.store.rows import STARTED
from leonidas_tools.store.schema import executions
from leonidas_tools.tools.metadata import ToolEffect

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from leonidas_tools.calls.call import ToolCall, ToolResult, ToolSession
    from leonidas_tools.redaction import Redaction
    from leonidas_tools.settings.tool_configuration import ToolConfiguration
    from leonidas_tools.store.outbox import CallLane, Row
    from leonidas_tools.tools.registry import AnyTool

_START = EventKind.START
_UNTRUSTED = EventKind.UNTRUSTED
_MAX_STEPS = 32
_STEP_BYTES = 256
_MAX_NAME_LENGTH = 128
_MAX_MESSAGE_LENGTH = 1024
_MAX_DIGESTS = 16_384

_EMPTY = {**dict.fromkeys(executions.c.keys()), "cached": False}

LOCAL_USER = "local"
"""The name under which the data of no user is stored."""


class Recorder:
    """Converts events to rows and queues them; long arguments and results are truncated."""

    def __init__(self, run: str, calls: CallLane, *, max_value_bytes: int) -> None:
        self.run = run
        """The id of this opening of the store."""
        self.may_be_once: Callable[[AnyTool, ToolConfiguration], bool] = _is_once
        """Returns whether a call of a tool may have an effect that happens only once."""
        self._calls = calls
        self._max_bytes = max_value_bytes
        self._number = 0
        self._steps: dict[Hashable, list[str]] = {}
        self._secretive: set[Hashable] = set()
        self._digests: OrderedDict[str, bytes] = OrderedDict()
        self._marks: dict[Hashable, Row] = {}
        self._first_starts: WeakKeyDictionary[ToolSession, float] = WeakKeyDictionary()

    def __call__(self, event: ToolEvent) -> None:
        """Record an event of a call."""
        if event.kind is _START:
            self.begin(event.call, event.at)
        elif event.result is None:
            self._add_step(event)
        else:
            self._end(event)

    def begin(self, call: ToolCall, at: float) -> bool:
        """Record the start of a call, unless it is recorded already; return whether it is."""
        key = key_of(call)
        if self._calls.find(key) is not None:
            return True
        self._first_starts.setdefault(call.session, at)
        arguments, may_have_secrets = self.kept_arguments(call)
        row = self._row(call, at, arguments)
        if not self._calls.begin(key, row):
            return False
        if may_have_secrets:
            self._secretive.add(key)
            if self.is_once(call):
                self._keep_digest(row["id"], call)
        return True

    def _keep_digest(self, id_: str, call: ToolCall) -> None:
        digest = exact_digest_of(call.name, call.arguments)
        if digest is None:
            return
        self._digests[id_] = digest
        if len(self._digests) > _MAX_DIGESTS:
            self._digests.popitem(last=False)

    def digest_of(self, id_: str) -> bytes | None:
        """Return the digest of a call whose arguments are not stored in whole, if it is known.

        It is known in this process only: a stored hash would reveal a short secret.
        """
        return self._digests.get(id_)

    def first_start(self, session: ToolSession) -> float | None:
        """Return when the first call of this session object began; `None` if there was none."""
        return self._first_starts.get(session)

    def redaction(self, call: ToolCall) -> Redaction:
        """Return the redaction of a call's arguments."""
        if any(known.are_many for known in call.inherited):
            return replace(call.redaction, hides_all=True)
        return call.redaction

    def arguments(self, call: ToolCall) -> str:
        """Return a call's arguments as JSON without secrets."""
        return self.kept_arguments(call)[0]

    def kept_arguments(self, call: ToolCall) -> tuple[str, bool]:
        """Return a call's arguments as JSON without secrets, and whether some are left out."""
        redaction = self.redaction(call)
        given = dict(call.arguments)
        if call.tool is None:  # the intended tool may declare any argument secret
            given = dict.fromkeys(given, MASK)
        elif redaction.everything:
            given = redaction.arguments(given)
        shown, cut = self._json(given, redaction, self._max_bytes)
        if MASK not in shown and not cut:
            return shown, False
        # One argument may repeat a secret of another, also of one that was cut off.
        return self._json(given, redaction.hiding(call.arguments), self._max_bytes)[0], True

    def _row(self, call: ToolCall, at: float, arguments: str) -> Row:
        self._number += 1
        session, tool = call.session, call.tool
        return _EMPTY | {
            "id": f"{self.run}-{self._number:09d}",
            "run": self.run,
            "session": name_of(session.id),
            "user": user_name_of(user_of(session)),
            "trace_id": name_of(call.trace_id),
            "call_id": None if call.id is None else name_of(call.id),
            "tool": name_of(call.name if tool is not None else redact_text(call.name)),
            "effect": None if tool is None else self._effect_of(call, tool).value,
            "arguments": arguments,
            "started": at,
            "status": STARTED,
        }

    def is_once(self, call: ToolCall) -> bool:
        """Return whether the effect of a call may happen only once."""
        return call.tool is not None and self._effect_of(call, call.tool) is ToolEffect.ONCE

    def _effect_of(self, call: ToolCall, tool: AnyTool) -> ToolEffect:
        """Return the effect of a call; `once` if the tool or a fallback may be `once`."""
        settings = call.settings
        if settings is None:
            return tool.metadata.effect
        return ToolEffect.ONCE if self.may_be_once(tool, settings) else effect_of(tool, settings)

    def _add_step(self, event: ToolEvent) -> None:
        """Record a step of a running call, within limits."""
        key = key_of(event.call)
        if self._calls.find(key) is None:
            return
        self._mark(key, event.data)
        steps = self._steps.setdefault(key, [])
        if len(steps) < _MAX_STEPS or event.kind is _UNTRUSTED:  # a later session needs it
            data, _ = self._json(
                dict(event.data), self._output_redaction(key, event.call), _STEP_BYTES
            )
            steps.append(f"[{event.at!r},{json.dumps(event.kind.value)},{data}]")

    def _mark(self, key: Hashable, data: Mapping[str, Any]) -> None:
        """Record the approval id of an event, and whether the result is cached."""
        if "approval_id" in data:
            self._marks.setdefault(key, {})["approval_id"] = name_of(str(data["approval_id"]))
        if "cached" in data:
            self._marks.setdefault(key, {})["cached"] = bool(data["cached"])

    def _end(self, event: ToolEvent) -> None:
        call, result = event.call, event.result
        assert result is not None
        key = key_of(call)
        redaction = self._output_redaction(key, call)
        self._secretive.discard(key)
        if event.data:
            self._mark(key, event.data)
        ending: Row = {
            **self._outcome(result, redaction),
            "ending": event.kind.value,
            "ended": event.at,
            "seconds": event.seconds,
            "approval_id": None,
            "cached": False,
            "steps": self._pop_steps(key),
            **self._marks.pop(key, {}),
        }
        if not self._calls.end(key, ending):
            row = self._row(call, event.at - (event.seconds or 0.0), self.arguments(call))
            self._calls.add({**row, **ending})

    def outcome(self, call: ToolCall, result: ToolResult) -> Row:
        """Return the columns for the outcome of a call of another process."""
        redaction = self.redaction(call).hiding(call.arguments)
        return {**self._outcome(result, redaction), "ended": time.time()}

    def _outcome(self, result: ToolResult, redaction: Redaction) -> Row:
        message, value = result.message, result.result
        shown = None if value is None else self._json(value, redaction, self._max_bytes)[0]
        return {
            "status": result.status.value,
            "result": shown,
            "message": None if message is None else clean(redaction(message)[:_MAX_MESSAGE_LENGTH]),
            "reason": None if result.reason_code is None else name_of(result.reason_code),
        }

    def _pop_steps(self, key: Hashable) -> str | None:
        steps = self._steps.pop(key, None)
        return None if steps is None else f"[{','.join(steps)}]"

    def _output_redaction(self, key: Hashable, call: ToolCall) -> Redaction:
        """Return the redaction of a call's output, which may repeat its arguments."""
        redaction = self.redaction(call)
        harmless = key not in self._secretive and self._calls.find(key) is not None
        return redaction if harmless else redaction.hiding(call.arguments)

    def _json(self, value: Any, redaction: Redaction, max_bytes: int) -> tuple[str, bool]:
        """Return a value as JSON without secrets, and whether it was cut."""
        try:
            shown, cut = plain(value, max_bytes)
            if cut:  # mask before truncating
                shown, _ = plain(value, max_bytes, mask=redaction)
        except NotPlainError:
            return f'"{MASK}"', False
        return clean(redaction.to_json(shown)), cut


def _is_once(tool: AnyTool, settings: ToolConfiguration) -> bool:
    return effect_of(tool, settings) is ToolEffect.ONCE


def key_of(call: ToolCall) -> Hashable:
    """Return the key of a running call: its session and number, or the id of its object."""
    return (call.session, call.number) if call.number else id(call)


def name_of(text: str) -> str:
    """Return a name of limited length, since a model or a user may have chosen it."""
    return clean(normalize_name(text, longest=_MAX_NAME_LENGTH))


def user_name_of(user: str | None) -> str:
    """Return the name of a user in the rows of calls, questions and long results."""
    return name_of(owner_of(user))


def clean(text: str) -> str:
    """Return the text without NUL and lone surrogates, which databases refuse."""
    return utf8_text(text.replace("\0", "") if "\0" in text else text)


def owner_of(user: str | None) -> str:
    r"""Return the name under which a user's data is stored; each user and no user has its own.

    Example:
        >>> owner_of("ana"), owner_of(None), owner_of("local")
        ('ana', 'local', '=local')
        >>> print(owner_of("ana\0"), owner_of(r"\ana\x00"))  # databases refuse NUL
        \ana\x00 =\ana\x00
    """
    if user is None:
        return LOCAL_USER
    if "\0" in user or not is_utf8(user):
        return "\\" + user.encode("unicode_escape").decode()
    own = user.lstrip("=")
    return f"={user}" if own == LOCAL_USER or own.startswith("\\") else user
