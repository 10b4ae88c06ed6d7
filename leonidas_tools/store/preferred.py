"""The preferences of a user that the library itself reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from leonidas_tools.approvals.session_policy import Preferred
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.rules.rule import Mode
from leonidas_tools.settings.rules import AlwaysSettings

if TYPE_CHECKING:
    from leonidas_tools.rules.rule import Rule
    from leonidas_tools.store.rows import Preferences

logger = visible_logger(__name__)

ALWAYS, MODE = "always", "mode"


_UNKNOWN = Preferred(is_known=False)


def preferred_or_strictest(preferences: Preferences, *, may_be_lost: bool) -> Preferred:
    """Return what a user prefers; what cannot be read makes the session stricter.

    Args:
        preferences: As they are stored.
        may_be_lost: Whether the store has lost records: then none is not the same as nothing said.
    """
    if preferences.version == 0 and may_be_lost:
        return _UNKNOWN
    values = preferences.values
    try:
        return preferred_by(values)
    except ValueError as error:
        logger.warning("The preferences of %r cannot all be read: %s", preferences.user, error)
    try:
        return preferred_by({MODE: values.get(MODE)})
    except ValueError:
        return Preferred(mode=Mode.READ_ONLY)


def preferred_by(values: Mapping[str, Any]) -> Preferred:
    """Return how much a user's sessions may do by themselves, as the user prefers.

    Args:
        values: The preferences.

    Raises:
        ValueError: The mode, or an answer that was given for good, is none.

    Example:
        >>> preferred_by({"mode": "autonomous", "voice": "Kore"}).mode
        <Mode.AUTONOMOUS: 'autonomous'>
    """
    mode, always = values.get(MODE), values.get(ALWAYS) or {}
    options = [each.value for each in Mode]
    if mode is not None and mode not in options:
        raise ValueError(f"The preference {MODE!r} is {mode!r}: it is one of {options}")
    if not isinstance(always, Mapping):
        raise ValueError(f"The preference {ALWAYS!r} maps names to what was answered")  # noqa: TRY004 - what is stored is wrong, and not the program
    rules = tuple(_rule(str(name), entry) for name, entry in always.items())
    return Preferred(mode=None if mode is None else Mode(mode), always=rules)


def kept(rule: Rule) -> dict[str, Any]:
    """Return a change of the preferences that keeps an answer that was given for good.

    Args:
        rule: The answer.
    """
    entry = {"tools": list(rule.tools), "question": rule.lifts, "fingerprint": rule.fingerprint}
    servers = {"servers": list(rule.servers)} if rule.servers else {}
    return {ALWAYS: {rule.name: {**entry, **servers}}}


def _rule(name: str, entry: Any) -> Rule:
    try:
        return AlwaysSettings.model_validate(entry).rule(name)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(step) for step in (ALWAYS, name, *found["loc"]))
        raise ValueError(f"The preference {place!r} cannot be read: {found['msg']}") from None
