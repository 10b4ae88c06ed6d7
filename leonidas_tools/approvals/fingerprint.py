"""What stands for a tool and for one call of it: what is approved, and nothing else."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.metadata import ToolMetadata


def fingerprint_of(metadata: ToolMetadata) -> str:
    """Stands for what a tool says it is: name, description and schema."""
    return _digest([metadata.name, metadata.description, metadata.parameters])


def hash_of(tool: str, fingerprint: str, arguments: Mapping[str, Any]) -> str:
    """Stands for one call: the tool, what it says it is, and the arguments."""
    return _digest([tool, fingerprint, arguments])


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


# Made once: `json.dumps` makes an encoder for each call.
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode
