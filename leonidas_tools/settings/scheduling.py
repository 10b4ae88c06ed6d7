"""Scheduling of answers in the settings."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from leonidas_tools.settings.fields import choice, choice_schema
from leonidas_tools.settings.model import Model
from leonidas_tools.tools import metadata
from leonidas_tools.tools.tool import ToolScheduling

_read = choice(ToolScheduling)
_WORDS = choice_schema(ToolScheduling)

_When = Annotated[ToolScheduling | None, BeforeValidator(_read), WithJsonSchema(_WORDS)]


class SchedulingSettings(Model):
    """The scheduling of answers that the model did not wait for, by kind of answer.

    Args:
        ok: The tool did what it was asked.
        error: It did not.
        late: The connection that asked is closed meanwhile.
        progress: It is not done yet; unless this is set, the model hears of no progress.
    """

    ok: _When = None
    error: _When = None
    late: _When = None
    progress: _When = None

    def over(self, own: metadata.Scheduling | None) -> metadata.Scheduling:
        """Return the merged scheduling where a tool has its own."""
        words = {
            key: said if (said := getattr(self, key)) is not None else getattr(own, key, None)
            for key in type(self).model_fields
        }
        return metadata.Scheduling(**words)


def _spread(value: Any) -> Any:
    """Return one word stands for every final answer."""
    if value is None or isinstance(value, Mapping | BaseModel):
        return value
    if isinstance(value, metadata.Scheduling):
        return {key: getattr(value, key) for key in SchedulingSettings.model_fields}
    word = _read(value)
    return None if word is None else dict.fromkeys(metadata.FINAL_ANSWERS, word)


Scheduling = Annotated[
    SchedulingSettings | None,
    BeforeValidator(_spread),
    WithJsonSchema(
        {
            "anyOf": [
                *_WORDS["anyOf"],
                {
                    "type": "object",
                    "properties": dict.fromkeys(("ok", "error", "late", "progress"), _WORDS),
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


def merged(below: SchedulingSettings | None, above: SchedulingSettings) -> SchedulingSettings:
    """Merge two schedules; the first wins where set."""
    if below is None:
        return above
    return below.model_copy(update={key: getattr(above, key) for key in above.model_fields_set})
