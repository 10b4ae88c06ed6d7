"""The approval policy of one session, and its user."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.calls.listeners import Listeners
from leonidas_tools.rules.rule import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.rules.rule import Rule


@dataclass(frozen=True, kw_only=True, slots=True)
class Preferred:
    """The preferences of a user, which apply in all sessions of that user.

    Args:
        mode: The mode of the sessions; `None` for the mode of the settings.
        always: Rules for the questions that the user has answered with "always".
        is_known: Whether the preferences have been read. Until then the stricter of `ask` and the
            mode of the settings applies.
    """

    mode: Mode | None = None
    always: Sequence[Rule] = ()
    is_known: bool = True


_NOTHING_PREFERRED = Preferred()


class SessionPolicy:
    """The policy of one session; the application may change it at any time.

    No tool of the library changes it, so the model cannot extend the rights of a session.

    Args:
        mode: The mode of the session; `None` for the mode of the user's preferences, or else of the
            settings.
        user: The user of the session; `None` for the one that the session names.
        language: The language of questions, such as `en`, `pt` or `zh`.

    Example:
        >>> from leonidas_tools import SessionPolicy, ToolSession
        >>> session = ToolSession(user="ana")
        >>> session.get(SessionPolicy).mode = "read_only"
        >>> session.get(SessionPolicy).mode
        <Mode.READ_ONLY: 'read_only'>
    """

    __slots__ = (
        "_listeners", "_mode", "_once", "_preferred", "always", "channel", "keep_always",
        "language", "rules", "user",
    )  # fmt: skip

    def __init__(
        self, mode: Mode | str | None = None, *, user: str | None = None, language: str = "en"
    ) -> None:
        self._listeners = Listeners[[]]("the mode and preferences")
        self._mode = None if mode is None else Mode(mode)
        self._preferred = _NOTHING_PREFERRED
        self._once: dict[str, float] = {}
        self.user = user
        self.language = language
        self.rules: list[Rule] = []
        """Rules of this session, which take precedence over those of the settings."""
        self.always: list[Rule] = []
        """Rules for the questions that were answered with "always", for this session only."""
        self.channel: Channel | None = None
        """Asks the person of this session; `None` for the channel of all sessions."""
        self.keep_always: Callable[[Rule], None] | None = None
        """Stores an "always" in the user's preferences, if any."""

    @property
    def mode(self) -> Mode | None:
        """Return the mode of the session; `None` if only settings and preferences apply."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode | str | None) -> None:
        self._mode = None if mode is None else Mode(mode)
        self._listeners.notify()

    @property
    def preferred(self) -> Preferred:
        """Return the user's preferences; the session's own mode takes precedence over theirs."""
        return self._preferred

    @preferred.setter
    def preferred(self, preferred: Preferred) -> None:
        if preferred != self._preferred:
            self._preferred = preferred
            self._listeners.notify()

    @property
    def is_silent(self) -> bool:
        """Return whether the policy leaves the settings unchanged."""
        return not (
            self._mode
            or self.rules
            or self.always
            or self._preferred.mode
            or self._preferred.always
            or not self._preferred.is_known
        )

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """Return all rules that apply to this session in addition to the settings."""
        return (*self.rules, *self.always, *self._preferred.always)

    def mode_or(self, usual: Mode) -> Mode:
        """Return the effective mode."""
        if self._mode is not None:
            return self._mode
        if not self._preferred.is_known and usual is Mode.AUTONOMOUS:
            return Mode.ASK  # the user may have chosen a stricter mode
        return self._preferred.mode or usual

    def autonomous_once(self, tool: str, *, seconds: float = 60.0) -> None:
        """Let only the next call of a tool run as in the mode `autonomous`.

        It affects only calls that need approval in the mode `ask`: rules of the user still ask or
        deny.

        Args:
            tool: The tool's own name.
            seconds: Seconds for which this applies; later calls ask again.
        """
        self._once[tool] = time.monotonic() + seconds

    def use_once(self, tool: str) -> bool:
        """Use up the permission of `autonomous_once`, and return whether it was still valid."""
        until = self._once.pop(tool, None)
        return until is not None and time.monotonic() < until

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Subscribe to changes of the mode and the user's preferences.

        Args:
            listener: Called in the thread that makes the change.

        Returns:
            A function that unsubscribes.
        """
        return self._listeners.subscribe(listener)


def user_of(session: ToolSession) -> str | None:
    """Return the user of a session; `None` if it has no user.

    An empty name is a user like any other.
    """
    policy = session.find(SessionPolicy)
    return session.user if policy is None or policy.user is None else policy.user
