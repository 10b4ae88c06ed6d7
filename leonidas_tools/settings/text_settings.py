"""The texts that can be reworded in the settings: a setting for each."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, create_model, model_validator

from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import TEXTS, Text
from leonidas_tools.settings.model import SettingsModel

logger = visible_logger(__name__)

REMOVED_TEXTS = frozenset(
    {
        "mcp_samples", "mcp_samples_pt", "mcp_samples_zh", "mcp_task_cancelled",
        "mcp_task_cancelled_because", "mcp_task_lost",
    }
)  # fmt: skip
"""Texts that no longer exist; files that reword them still load."""


class _Texts(SettingsModel):
    @model_validator(mode="before")
    @classmethod
    def _drop_removed(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        for key in sorted(REMOVED_TEXTS & data.keys()):
            logger.warning("texts.%s has no effect, because the text is gone: remove it", key)
        return {key: value for key, value in data.items() if key not in REMOVED_TEXTS}


def _checked(template: str, text: Text) -> str:
    text.check(template)
    return template


def _field(text: Text) -> Any:
    """Return the type and the default of a setting."""
    names = ", ".join(f"{{{name}}}" for name in text.placeholders)
    about = f"{text.when} Placeholders: {names}." if names else text.when
    check = AfterValidator(partial(_checked, text=text))
    return Annotated[str, Field(min_length=1, description=about), check], text.default


if TYPE_CHECKING:

    class TextSettings(SettingsModel):
        """Texts of the library for models and users, by key."""

else:
    TextSettings = create_model(
        "TextSettings",
        __base__=_Texts,
        __doc__="Messages of the library to models and users, by key.",
        __module__=__name__,
        **{key: _field(text) for key, text in TEXTS.items()},
    )
