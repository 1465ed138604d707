"""Bootstrap over clusters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.timeline.resampling import draw, in_parts, mean_interval, median_interval, percentiles, weighted_medians


@given(
    st.lists(st.tuples(st.floats(-1e3, 1e3), st.integers(0, 4)), min_size=1, max_size=20).filter(
        lambda one: any(w for _, w in one)
    )
)
def test_weighted_median_is_that_of_each_value_so_often(drawn: list[tuple[float, int]]) -> None:
    values = np.array([value for value, _ in drawn])
    weights = np.array([[weight for _, weight in drawn]], dtype=float)
    plain = np.median([value for value, weight in drawn for _ in range(weight)])
    assert weighted_medians(values, weights)[0] == pytest.approx(plain)


def test_values_of_one_cluster_are_drawn_together() -> None:
    weights = draw(np.array([0, 0, 1, 2, 2, 2]), np.random.default_rng(1), 50)
    assert (weights[:, 0] == weights[:, 1]).all()
    assert (weights[:, 3] == weights[:, 5]).all()
    assert (weights[:, 0] + weights[:, 2] + weights[:, 3] == 3).all()
    assert len(set(map(tuple, weights))) > 5


def test_resamples_are_drawn_in_parts_that_fit() -> None:
    assert sum(in_parts(2000, of=1_000_000)) == 2000
    assert max(in_parts(2000, of=1_000_000)) == 1
    assert list(in_parts(2000, of=10)) == [2000]


def test_copies_of_a_value_make_no_interval_narrower() -> None:
    values = np.random.default_rng(3).exponential(size=20)
    alone = median_interval(values, range(20))
    copied = median_interval(np.repeat(values, 8), np.repeat(range(20), 8).tolist())
    taken_apart = median_interval(np.repeat(values, 8), range(160))
    assert alone is not None
    assert copied == pytest.approx(alone, rel=0.1)
    assert taken_apart is not None
    assert taken_apart[1] - taken_apart[0] < 0.6 * (alone[1] - alone[0])


def test_interval_of_a_mean_covers_it_as_often_as_stated_though_values_go_together() -> None:
    generator = np.random.default_rng(11)
    covered = 0
    for _ in range(200):
        values = np.repeat(generator.normal(5, 1, size=20), 4) + generator.normal(0, 0.2, size=80)
        found = mean_interval(values, np.repeat(range(20), 4).tolist(), resamples=400)
        assert found is not None
        covered += found[0] <= 5 <= found[1]
    assert 182 <= covered <= 199


def test_too_few_clusters_have_no_interval_however_many_values_they_hold() -> None:
    generator = np.random.default_rng(2)
    assert median_interval(generator.normal(size=500), [index % 5 for index in range(500)], resamples=100) is None
    assert median_interval(generator.normal(size=6), range(6), resamples=100) is not None
    assert mean_interval(generator.normal(size=500), [index % 19 for index in range(500)], resamples=100) is None


def test_interval_is_drawn_alike_in_whatever_order_values_come_and_whatever_they_are_called() -> None:
    values = np.random.default_rng(4).exponential(size=120)
    runs = np.repeat(range(30), 4)
    order = np.random.default_rng(5).permutation(120)
    renamed = [f"r{29 - number}" for number in runs[order]]
    for interval in (median_interval, mean_interval):
        assert interval(values, runs.tolist()) == interval(values[order], renamed)


@pytest.mark.parametrize(("clusters", "tail"), [(6, 0.00243), (7, 0.00411), (21, 0.01627), (1001, 0.02476)])
def test_few_clusters_are_given_wider_percentiles(clusters: int, tail: float) -> None:
    """The tails are Phi(-sqrt(n / (n - 1)) t) with t of Student's table: 2.5706, 2.4469, 2.0860, 1.9623."""
    low, high = percentiles(np.linspace(0, 1, 100_001), clusters=clusters)
    assert low == pytest.approx(tail, rel=0.02)
    assert high == pytest.approx(1 - tail, rel=0.001)
