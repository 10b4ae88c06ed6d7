"""Values of numpy, pandas, Pillow and matplotlib reach the model as data and media."""

import datetime as dt
import io
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pydantic
import pytest
from matplotlib.figure import Figure
from PIL import Image

from leonidas_tools import AdvancedToolProcessor, Media, ToolError, ToolResult, tool
from leonidas_tools.calls.sendable import sendable
from tests.policies import sabotages

PNG = b"\x89PNG\r\n\x1a\n"


def image(mode="RGB", size=(4, 3)):
    return Image.new(mode, size)


def size_of(media):
    return Image.open(io.BytesIO(media.data)).size


ARRAYS = [
    (np.bool_(False), False),
    (np.int64(3), 3),
    (np.float32(0.5), 0.5),
    (np.float64("nan"), "nan"),
    (np.longdouble(0.5), 0.5),
    (np.str_("a"), "a"),
    (np.datetime64("2026-01-02T03:04"), "2026-01-02T03:04"),
    (np.timedelta64(5, "s"), "5 seconds"),
    (np.array(7), 7),
    (np.arange(3), [0, 1, 2]),
    (np.arange(1500), list(range(1500))),
    (np.eye(2, dtype=bool), [[True, False], [False, True]]),
    (np.array(["2026-01-02"], dtype="datetime64[ns]"), ["2026-01-02T00:00:00.000000000"]),
    (np.array([{1}, None], dtype=object), [[1], None]),
    (np.ma.array([1, 2], mask=[False, True]), [1, None]),
    ({"hot": np.bool_(True), "at": [np.array([1.5])]}, {"hot": True, "at": [[1.5]]}),
]


@pytest.mark.parametrize(("value", "shown"), ARRAYS)
def test_a_value_of_numpy_is_data(value, shown):
    assert sendable(value, 65_536, tool="t") == ToolResult(result=shown)


def test_a_value_of_numpy_in_a_model_is_data():
    class Reading(pydantic.BaseModel, arbitrary_types_allowed=True):
        values: np.ndarray
        plot: Image.Image

    result = sendable(Reading(values=np.arange(2), plot=image()), 1000, tool="t")
    assert result.result == {"values": [0, 1], "plot": "attached: image/png of 4 x 3 pixels"}
    assert [size_of(media) for media in result.media] == [(4, 3)]


def test_a_large_array_names_its_shape():
    result = sendable(np.zeros((5000, 5000)), 1000, tool="t")
    assert (result.result["shape"], result.result["dtype"]) == ([5000, 5000], "float64")
    *values, more = result.result["first_values"]
    assert set(values) == {0.0}
    assert more.endswith(" more")
    assert "truncated" in result.message


def test_a_frame_is_a_list_of_records():
    frame = pd.DataFrame(
        {
            "city": ["Porto", "Faro"],
            "t": [1.5, None],
            "on": pd.to_datetime(["2026-01-02", None]),
        }
    )
    records = [
        {"city": "Porto", "t": 1.5, "on": "2026-01-02T00:00:00"},
        {"city": "Faro", "t": None, "on": None},
    ]
    for value, shown in (
        (frame, records),
        (frame.set_index("city"), records),
        (frame["t"], [1.5, None]),
        (frame.set_index("city")["t"], [{"city": "Porto", "t": 1.5}, {"city": "Faro", "t": None}]),
        (pd.NaT, None),
    ):
        assert sendable(value, 1000, tool="t").result == shown
    long = sendable(pd.DataFrame({"a": range(5000)}), 1000, tool="t")
    assert long.result["rows"] == 5000
    assert long.result["first_rows"][0] == {"a": 0}


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "F", "I;16"])
def test_an_image_is_media(mode):
    result = sendable([image(mode), "x"], 1000, tool="t")
    (media,) = result.media
    assert result.result == [f"attached: {media.mime_type} of 4 x 3 pixels", "x"]
    assert size_of(media) == (4, 3)


def test_a_large_image_is_reduced():
    noise = Image.effect_noise((4000, 2000), 100)
    result = sendable(noise, 1000, tool="t")
    assert result.result == "attached: image/jpeg of 1024 x 512 pixels, reduced from 4000 x 2000"
    assert size_of(result.media[0]) == (1024, 512)


def test_a_figure_is_media():
    figure = Figure(figsize=(100, 50))
    axes = figure.add_subplot()
    result = sendable({"plot": figure, "axes": axes}, 1000, tool="t")
    assert set(result.result.values()) == {"attached: image/png of a figure"}
    assert [size_of(media) for media in result.media] == [(1024, 512)] * 2


BYTES = [
    (PNG + b"1", "image/png"),
    (b"\xff\xd8\xff\xe0", "image/jpeg"),
    (b"GIF89a", "image/gif"),
    (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
    (b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio/wav"),
]


@pytest.mark.parametrize(("data", "mime_type"), BYTES)
async def test_bytes_of_media_are_media(data, mime_type):
    @tool(effect="read")
    def draw() -> bytes:
        """Draw."""
        return data

    result = await AdvancedToolProcessor([draw]).execute("draw")
    assert result.result == f"attached: {mime_type}"
    assert result.media == (Media(mime_type=mime_type, data=data),)


def test_other_bytes_are_base64():
    assert sendable(b"RIFF\x00", 1000, tool="t") == ToolResult(result="UklGRgA=")


def test_media_beyond_the_limit_are_left_out():
    result = sendable([PNG + b"1" * 400_000, PNG + b"2" * 400_000], 1000, tool="t")
    assert result.result == ["attached: image/png", "An image or audio clip was left out."]
    assert len(result.media) == 1


def test_media_with_a_secret_are_left_out():
    mask = SimpleNamespace(are_in=lambda data: b"sesame" in data)

    class Mask(SimpleNamespace):
        def __call__(self, value):
            return value

    result = sendable(PNG + b"sesame", 1000, tool="t", mask=Mask(**vars(mask)))
    assert (result.media, result.message) == ((), "An image or audio clip was left out.")


RETURNED = [
    (ValueError("the password is sesame"), "failed", "The tool 'give' failed."),
    (ToolError("Closed.", status="unavailable"), "unavailable", "Closed."),
]


@pytest.mark.parametrize(("error", "status", "message"), RETURNED)
async def test_a_returned_exception_is_a_failure(error, status, message):
    @tool
    def give() -> Exception:
        """Give."""
        return error

    result = await AdvancedToolProcessor([give]).execute("give")
    assert (result.status, result.message) == (status, message)


def test_an_exception_among_data_hides_its_text():
    data = [1, ValueError("the password is sesame"), ToolError("Closed.")]
    assert sendable(data, 1000, tool="t").result == [
        1,
        {"error": "ValueError"},
        {"error": "Closed."},
    ]


async def test_a_worker_process_returns_media_and_failures():
    tools = AdvancedToolProcessor(
        [tool(sabotages.draws, cpu_bound=True), tool(sabotages.returns_an_error, cpu_bound=True)]
    )
    async with tools:
        drawn, failed = await tools.execute("draws"), await tools.execute("returns_an_error")
    assert (drawn.result, len(drawn.media)) == ([[0, 1], "attached: image/png of 4 x 3 pixels"], 1)
    assert failed.status == "failed"


def test_no_library_is_imported():
    code = (
        "import sys; from leonidas_tools.calls.sendable import sendable\n"
        "sendable({1: [b'a', 1j]}, 100, tool='t')\n"
        "sys.exit(str({'numpy', 'pandas', 'PIL', 'matplotlib'} & {*sys.modules} or '') or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_date_stays_a_date():
    assert sendable(dt.date(2026, 1, 2), 100, tool="t").result == "2026-01-02"
