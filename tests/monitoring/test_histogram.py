import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools.monitoring.histogram import DurationHistogram

durations = st.lists(st.floats(1e-6, 9_999.0), min_size=1, max_size=300)


def filled(values):
    histogram = DurationHistogram()
    for value in values:
        histogram.add(value)
    return histogram


@given(values=durations, percent=st.sampled_from([1, 25, 50, 75, 90, 95, 99, 100]))
def test_a_percentile_is_within_four_percent_of_the_one_of_the_sorted_list(values, percent):
    true = sorted(values)[math.ceil(len(values) * percent / 100) - 1]

    assert filled(values).percentile(percent) == pytest.approx(true, rel=0.04)
    assert filled(values).percentile(percent) <= max(values)


@given(values=durations)
def test_count_sum_mean_and_maximum_are_exact(values):
    histogram = filled(values)

    assert histogram.count == len(values)
    assert histogram.total_seconds == pytest.approx(sum(values))
    assert histogram.mean_seconds == pytest.approx(sum(values) / len(values))
    assert histogram.max_seconds == max(values)


@given(values=durations)
def test_cumulative_counts_are_those_of_the_sorted_list(values):
    for edge, count in filled(values).cumulative():
        # An edge is a power of ten that floating point misses by its last digits.
        surely = sum(value <= edge * (1 - 1e-12) for value in values)
        perhaps = sum(value <= edge * (1 + 1e-12) for value in values)
        assert surely <= count <= perhaps


@given(values=durations, at=st.integers(0, 300))
def test_merged_histograms_are_one_of_all_their_durations(values, at):
    merged = DurationHistogram.merged([filled(values[:at]), filled(values[at:])])

    assert merged.buckets == filled(values).buckets
    assert merged.max_seconds == max(values)
    assert merged.total_seconds == pytest.approx(sum(values))


def test_before_the_first_duration_there_is_no_percentile_and_no_mean():
    empty = DurationHistogram()

    assert (empty.count, empty.percentile(99), empty.mean_seconds) == (0, None, None)
    assert DurationHistogram.merged([]).percentile(50) is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-9, 1e-6])
def test_a_duration_too_short_to_measure_counts_as_the_shortest(seconds):
    histogram = filled([seconds, 1.0])

    assert histogram.percentile(50) == pytest.approx(1e-6, rel=0.04)
    assert histogram.count == 2


def test_a_duration_beyond_the_last_bucket_is_known_by_the_maximum():
    assert filled([1e9]).percentile(50) == 1e9


def test_the_edges_shown_are_close_to_one_two_and_five():
    edges = [edge for edge, _ in DurationHistogram().cumulative()]

    assert edges[:4] == [pytest.approx(e, rel=0.003) for e in (0.001, 0.002, 0.005, 0.01)]
    assert edges[-2:] == [pytest.approx(1000.0), math.inf]
