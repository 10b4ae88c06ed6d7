"""The texts that can be reworded in the settings: a setting for each."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, create_model

from leonidas_tools.results.texts import TEXTS, Text
from leonidas_tools.settings.model import SettingsModel


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
        __base__=SettingsModel,
        __doc__="Messages of the library to models and users, by key.",
        __module__=__name__,
        **{key: _field(text) for key, text in TEXTS.items()},
    )
