"""Mask secrets: declared ones, values with a secret name, and texts that look like keys.

`Redaction` masks output for storage, logs and display, by a tool's declaration. `Masking` masks
the output of one call, by the values that are known to be secret in it.
"""

from leonidas_tools.redaction.failures import described
from leonidas_tools.redaction.known import KnownSecrets
from leonidas_tools.redaction.marks import Secret, is_marked, secret_marks, without_presets
from leonidas_tools.redaction.masking import Masking
from leonidas_tools.redaction.names import is_secret_name
from leonidas_tools.redaction.text import MASK, redact_text
from leonidas_tools.redaction.values import (
    PLAIN_REDACTION,
    Redaction,
    redact,
    secrets_in,
    texts_in,
    without_names,
)

__all__ = [
    "MASK",
    "PLAIN_REDACTION",
    "KnownSecrets",
    "Masking",
    "Redaction",
    "Secret",
    "described",
    "is_marked",
    "is_secret_name",
    "redact",
    "redact_text",
    "secret_marks",
    "secrets_in",
    "texts_in",
    "without_names",
    "without_presets",
]
