"""Request bodies: JSON of limited size, received in time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from leonidas_tools.results.json_size import has_too_many_values

if TYPE_CHECKING:
    from starlette.requests import Request

_MAX_BYTES = 1 << 20
_MAX_VALUES = 10_000
"""Most values in a body: to check and write settings takes up to 25 microseconds each."""


async def json_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises:
        HTTPException: The body is too long, did not arrive in time, or is not a JSON object.
    """
    content = bytearray()
    try:
        async for piece in request.stream():
            content += piece
            if len(content) > _MAX_BYTES:
                raise HTTPException(413, f"A body may have at most {_MAX_BYTES} bytes")
    except ClientDisconnect:
        raise HTTPException(408, "The body did not arrive in time") from None
    try:
        values = json.loads(content)
        json.dumps(values, allow_nan=False)  # Python reads `NaN` and `1e999`, which are not JSON
    except (ValueError, RecursionError):
        raise HTTPException(400, "The body is not valid JSON") from None
    if has_too_many_values(bytes(content), _MAX_VALUES):
        raise HTTPException(413, f"A body may have at most {_MAX_VALUES} values")
    if not isinstance(values, dict):
        raise HTTPException(400, "The body must be a JSON object")
    return values
