"""Follow whose turn it is by the messages."""

from __future__ import annotations

_REPLY_SECONDS = 5.0
_SILENCE_SECONDS = 15.0


class Turn:
    """Tells when a conversation is quiet: no speech, and no reply expected.

    A sign that a reply is expected holds for five seconds; a model that has begun and neither goes
    on nor ends counts as done after fifteen.

    Example:
        >>> turn = Turn()
        >>> turn.user_spoke(now=10.0)
        >>> turn.is_quiet(now=11.0), turn.is_quiet(now=15.0)
        (False, True)
    """

    def __init__(self) -> None:
        self.quiet_at = 0.0
        """When it is quiet at the latest, if nothing more happens."""
        self.number = 0
        """How often the user has begun to speak."""
        self._user_speaks = False

    def user_spoke(self, now: float) -> None:
        """Note that the user spoke: the model will reply."""
        self.number += not self._user_speaks
        self._user_speaks = True
        self.quiet_at = max(self.quiet_at, now + _REPLY_SECONDS)

    def model_spoke(self, now: float) -> None:
        """Note that the model spoke or called: its turn goes on."""
        self.quiet_at = now + _SILENCE_SECONDS
        self._user_speaks = False

    def over(self) -> None:
        """Note the end of the model's turn."""
        self.quiet_at = 0.0

    def is_quiet(self, now: float) -> bool:
        """Return whether there is no speech and no reply expected."""
        return now >= self.quiet_at
