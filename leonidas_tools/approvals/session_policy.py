"""What one session may do by itself, and who it belongs to."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.rules.rule import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.calls import ToolSession
    from leonidas_tools.rules.rule import Rule


@dataclass(frozen=True, kw_only=True, slots=True)
class Preferred:
    """What the user of a session prefers, in all of his sessions.

    Args:
        mode: How much they may do by themselves; `None` leaves it to the settings.
        always: Questions that the user has answered for good.
    """

    mode: Mode | None = None
    always: Sequence[Rule] = ()


_NOTHING_PREFERRED = Preferred()


class SessionPolicy:
    """The policy of one conversation; the application may change it at any time.

    No tool of the library changes it: how much a session may do by itself is not for the model to
    say.

    Args:
        mode: How much the session may do by itself; `None` leaves it to the user's preferences,
            and then to the settings.
        user: Who it belongs to; `None` leaves it to the session.
        language: The language questions are put in, such as `en`, `pt` or `zh`.

    Example:
        >>> from leonidas_tools import SessionPolicy, ToolSession
        >>> session = ToolSession(user="ana")
        >>> session.get(SessionPolicy).mode = "read_only"
        >>> session.get(SessionPolicy).mode
        <Mode.READ_ONLY: 'read_only'>
    """

    __slots__ = (
        "_listeners", "_mode", "_preferred", "always", "channel", "keep_always", "language",
        "rules", "user",
    )  # fmt: skip

    def __init__(
        self, mode: Mode | str | None = None, *, user: str | None = None, language: str = "en"
    ) -> None:
        self._listeners: list[Callable[[], None]] = []
        self._mode = None if mode is None else Mode(mode)
        self._preferred = _NOTHING_PREFERRED
        self.user = user
        self.language = language
        self.rules: list[Rule] = []
        """Rules of this session, which go before those of the settings."""
        self.always: list[Rule] = []
        """Questions that were answered with "always", for this session."""
        self.channel: Channel | None = None
        """Asks the person of this session; `None` leaves it to how all are asked."""
        self.keep_always: Callable[[Rule], None] | None = None
        """Keeps an "always" among the preferences of the user, where there are any."""

    @property
    def mode(self) -> Mode | None:
        """How much the session may do by itself."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode | str | None) -> None:
        self._mode = None if mode is None else Mode(mode)
        self._changed()

    @property
    def preferred(self) -> Preferred:
        """What its user prefers; the session's own mode goes before that of the user."""
        return self._preferred

    @preferred.setter
    def preferred(self, preferred: Preferred) -> None:
        if preferred != self._preferred:
            self._preferred = preferred
            self._changed()

    @property
    def is_silent(self) -> bool:
        """Whether it says nothing that the settings do not say."""
        return not (
            self._mode
            or self.rules
            or self.always
            or self._preferred.mode
            or self._preferred.always
        )

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """The rules that hold here beside those of the settings."""
        return (*self.rules, *self.always, *self._preferred.always)

    def mode_or(self, usual: Mode) -> Mode:
        """The mode that is in force.

        Args:
            usual: The mode of sessions of which nobody has said anything.
        """
        return self._mode or self._preferred.mode or usual

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls back when the mode, or what the user prefers, has changed.

        Args:
            listener: Called in the thread that makes the change.

        Returns:
            A function that ends it.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return unsubscribe

    def _changed(self) -> None:
        for listener in tuple(self._listeners):
            listener()


def user_of(session: ToolSession) -> str | None:
    """Who a session belongs to, as far as anybody has said so.

    Args:
        session: The conversation.
    """
    policy = session.find(SessionPolicy)
    return session.user if policy is None else policy.user or session.user
