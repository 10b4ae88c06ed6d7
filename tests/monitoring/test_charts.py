"""Pictures for notebooks: well-formed SVG, with everything in it that is shown."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.monitoring.charts import timeline
from leonidas_tools.monitoring.histogram import DurationHistogram

pytestmark = pytest.mark.slow

SVG = "{http://www.w3.org/2000/svg}"


def parts(svg, name):
    return ET.fromstring(svg).findall(f".//{SVG}{name}")


def test_a_timeline_has_a_row_for_each_lane_and_a_bar_for_each_span():
    chart = timeline({"speech": [(0.0, 2.0, "Hello")], "calls": [(0.5, 1.0, "a"), (1.0, 1.0, "b")]})
    bars = parts(chart.svg, "rect")
    assert len(bars) == 3
    assert len({bar.get("y") for bar in bars}) == 2
    texts = {text.text for text in parts(chart.svg, "text")}
    assert {"speech", "calls", "Hello", "a", "b", "0", "2", "seconds since the start"} <= texts


spans = st.tuples(st.floats(0, 1000), st.floats(0, 1000), st.text(max_size=60)).map(
    lambda span: (min(span[:2]), max(span[:2]), span[2])
)


@given(lanes=st.dictionaries(st.text(max_size=20), st.lists(spans, max_size=5), max_size=5))
def test_any_timeline_is_well_formed_and_stays_in_the_picture(lanes):
    svg = timeline(lanes).svg
    bars = parts(svg, "rect")
    assert len(bars) == sum(map(len, lanes.values()))
    assert all(0 <= float(bar.get("x")) <= 760 for bar in bars)
    assert len(parts(svg, "line")) <= 12


@given(seconds=st.lists(st.floats(0, 10_000), max_size=50))
def test_a_histogram_draws_every_duration(seconds):
    histogram = DurationHistogram()
    for each in seconds:
        histogram.add(each)
    titles = [title.text for title in parts(histogram._repr_svg_(), "title")]
    assert sum(int(title.rpartition(": ")[2]) for title in titles) == len(seconds)


@pytest.mark.parametrize("tool", [None, "add"])
async def test_a_monitor_gives_the_durations_of_its_calls(tool):
    def add(a: int) -> int:
        return a + 1

    async with AdvancedToolProcessor(tools=[add]) as tools:
        for number in range(5):
            await tools.execute("add", {"a": number})
        assert tools.monitor.durations(tool).count == 5
        assert tools.monitor.durations("other").count == 0
        assert "5 calls" in tools.monitor.durations(tool)._repr_svg_()
