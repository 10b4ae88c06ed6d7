"""The base model of all settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, PrivateAttr

from leonidas_tools.redaction import KnownSecrets


class SettingsModel(BaseModel):
    """The base of all settings: frozen; an unknown key is an error that never shows a value.

    Modules of models have no `from __future__ import annotations`: pydantic would compile each
    annotation separately, and the import of the settings would take a fifth longer.
    """

    # Deferred: the validators are built with the first settings, not by the import.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )


class MaskedSettings(SettingsModel):
    """Settings whose text forms mask the values of the environment."""

    _hidden: set[str] = PrivateAttr(default_factory=set)

    def masked(self, text: str) -> str:
        """Return a text about these settings without values of the environment."""
        return KnownSecrets(self._hidden).text(text)

    def __repr__(self) -> str:
        return self.masked(super().__repr__())

    def __str__(self) -> str:
        return self.masked(super().__str__())
