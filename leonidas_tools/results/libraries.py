"""Values of numpy, pandas, Pillow and matplotlib as data and media; imports none of them."""

from __future__ import annotations

import io
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MAX_SIDE_PIXELS = 1024
"""Largest side of an image: models read larger ones at no higher resolution."""
_MAX_PNG_BYTES = 200_000
"""Size from which an image is a JPEG, so that several fit into a message."""
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
_RIFF_FORMATS: Mapping[bytes, str] = MappingProxyType({b"WEBP": "image/webp", b"WAVE": "audio/wav"})


class Attachment(NamedTuple):
    """An image or audio in a value, and a text for its place there."""

    mime_type: str
    data: bytes
    text: str


def attachment(value: Any) -> Attachment | None:
    """Return a Pillow image, a matplotlib figure, or the bytes of an image or audio as media."""
    if isinstance(value, bytes):
        return _bytes(value)
    draw = _find(_DRAWN, type(value))
    return None if draw is None else draw(value)


def library_data(value: Any, room: int) -> tuple[Any] | None:
    """Return a value of numpy or pandas as data, in a tuple; `None` for other values.

    A value with more than `room` items becomes its size and its first items.
    """
    convert = _find(_DATA, type(value))
    return None if convert is None else (convert(value, max(room, 1)),)


def _find(table: Mapping[tuple[str, str], Any], kind: type) -> Any:
    for base in kind.__mro__:
        found = table.get((str(base.__module__).partition(".")[0], base.__name__))
        if found is not None:
            return found
    return None


def _bytes(data: bytes) -> Attachment | None:
    kind = _RIFF_FORMATS.get(data[8:12]) if data.startswith(b"RIFF") else None
    kind = kind or next((name for start, name in _SIGNATURES if data.startswith(start)), None)
    return None if kind is None else Attachment(kind, data, f"attached: {kind}")


def _scalar(value: Any, room: int) -> Any:  # noqa: ARG001 - as the others
    if value.dtype.kind in "mM":
        return str(value)
    item = value.item()
    return float(item) if type(item) is type(value) else item  # a long double stays one


def _array(value: Any, room: int) -> Any:
    first = value if value.size <= room else value.flat[:room]
    data = (first.astype(str) if first.dtype.kind in "mM" else first).tolist()
    if first is value:
        return data
    return {"shape": list(value.shape), "dtype": str(value.dtype), "first_values": data}


def _column(value: Any, room: int) -> Any:
    first = value[:room]
    missing = first.isna()
    data = [None if gap else each for each, gap in zip(first.tolist(), missing, strict=True)]
    return data if len(value) <= room else {"length": len(value), "first_values": data}


def _series(value: Any, room: int) -> Any:
    return _column(value, room) if _is_numbered(value) else _frame(value.to_frame(), room)


def _frame(value: Any, room: int) -> Any:
    rows = max(room // max(len(value.columns), 1), 1)
    first = value.head(rows)
    if not _is_numbered(value):
        first = first.reset_index(allow_duplicates=True)
    cells = first.astype(object).where(first.notna(), None)
    if cells.columns.is_unique:
        data: Any = cells.to_dict("records")
    else:
        data = {"columns": cells.columns.tolist(), "data": cells.to_numpy().tolist()}
    return data if len(value) <= rows else {"rows": len(value), "first_rows": data}


def _is_numbered(value: Any) -> bool:
    """Return whether an index only numbers the rows."""
    return type(value.index).__name__ == "RangeIndex"


def _image(image: Any) -> Attachment:
    reduced = image.copy()
    reduced.thumbnail((_MAX_SIDE_PIXELS, _MAX_SIDE_PIXELS))
    kind, data = "image/png", b""
    if reduced.mode in _PNG_MODES:
        data = _encode(reduced, "PNG")
    if not data or len(data) > _MAX_PNG_BYTES:
        kind, data = "image/jpeg", _encode(reduced.convert("RGB"), "JPEG")
    text = f"attached: {kind} of {reduced.width} x {reduced.height} pixels"
    if reduced.size != image.size:
        text += f", reduced from {image.width} x {image.height}"
    return Attachment(kind, data, text)


_PNG_MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I;16"})


def _encode(image: Any, kind: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def _figure(figure: Any) -> Attachment:
    buffer = io.BytesIO()
    dpi = min(figure.dpi, _MAX_SIDE_PIXELS / max(figure.get_size_inches()))
    figure.savefig(buffer, format="png", dpi=dpi)
    return Attachment("image/png", buffer.getvalue(), "attached: image/png of a figure")


_DATA: Mapping[tuple[str, str], Callable[[Any, int], Any]] = MappingProxyType(
    {
        ("numpy", "generic"): _scalar,
        ("numpy", "ndarray"): _array,
        ("pandas", "DataFrame"): _frame,
        ("pandas", "Series"): _series,
        ("pandas", "Index"): _column,
        ("pandas", "ExtensionArray"): _column,
        ("pandas", "NAType"): lambda _, __: None,
        ("pandas", "NaTType"): lambda _, __: None,
    }
)
_DRAWN: Mapping[tuple[str, str], Callable[[Any], Attachment]] = MappingProxyType(
    {
        ("PIL", "Image"): _image,
        ("matplotlib", "Figure"): _figure,
        ("matplotlib", "Axes"): lambda axes: _figure(axes.figure),
    }
)
"""Classes, by the library and the name, as subclasses have them in their `__mro__`."""
