"""What one session may do by itself, and who it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.rules.rule import Mode

if TYPE_CHECKING:
    from leonidas_tools.rules.rule import Rule


class SessionPolicy:
    """The policy of one conversation; the application may change it at any time.

    No tool of the library changes it: how much a session may do by itself is not for the model to
    say.

    Args:
        mode: How much the session may do by itself; `None` leaves it to the settings.
        user: Who it belongs to; `None` leaves it to the session.
        language: The language questions are put in, such as `en`, `pt` or `zh`.

    Example:
        >>> from leonidas_tools.calls import ToolSession
        >>> session = ToolSession(user="ana")
        >>> session.get(SessionPolicy).mode = "read_only"
        >>> session.get(SessionPolicy).mode
        <Mode.READ_ONLY: 'read_only'>
    """

    __slots__ = ("_mode", "always", "language", "rules", "user")

    def __init__(
        self, mode: Mode | str | None = None, *, user: str | None = None, language: str = "en"
    ) -> None:
        self.mode = mode
        self.user = user
        self.language = language
        self.rules: list[Rule] = []
        """Rules of this session, which go before those of the settings."""
        self.always: list[Rule] = []
        """Questions that were answered with "always", for this session."""

    @property
    def mode(self) -> Mode | None:
        """How much the session may do by itself."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode | str | None) -> None:
        self._mode = None if mode is None else Mode(mode)
