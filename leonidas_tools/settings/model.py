"""The base model of all settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SettingsModel(BaseModel):
    """The base of all settings: frozen; an unknown key is an error that never shows a value.

    Modules of models have no `from __future__ import annotations`: pydantic would compile each
    annotation separately, and the import of the settings would take a fifth longer.
    """

    # Deferred: the validators are built with the first settings, not by the import.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )
