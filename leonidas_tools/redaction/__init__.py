"""Takes secrets out of what is kept, logged or shown: by declaration, by name and by look."""

from leonidas_tools.redaction.failures import described
from leonidas_tools.redaction.marks import Secret, is_marked, secret_marks, without_presets
from leonidas_tools.redaction.names import is_secret_name
from leonidas_tools.redaction.text import MASK, redact_text
from leonidas_tools.redaction.values import (
    PLAIN_REDACTION,
    Redaction,
    redact,
    secrets_in,
    without_names,
    without_texts,
)

__all__ = [
    "MASK",
    "PLAIN_REDACTION",
    "Redaction",
    "Secret",
    "described",
    "is_marked",
    "is_secret_name",
    "redact",
    "redact_text",
    "secret_marks",
    "secrets_in",
    "without_names",
    "without_presets",
    "without_texts",
]
