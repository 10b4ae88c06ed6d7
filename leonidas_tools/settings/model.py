"""The base model of all settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SettingsModel(BaseModel):
    """Settings: frozen, and an unknown key is an error that never shows a value.

    A module of models has no `from __future__ import annotations`: pydantic would compile the text
    of each annotation by itself, which makes the import of the settings a fifth longer.
    """

    # Deferred: the validators are built with the first settings, not by the import.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )
