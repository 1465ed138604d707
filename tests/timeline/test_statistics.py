"""Statistics of stages."""

import bisect
import math
import random
from collections.abc import Iterable
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hwd.model.instant import Knowledge, Origin
from hwd.timeline import Distribution, Sample, Stage, StageName, distribution, samples, summarise
from hwd.timeline.dwell import by_dwell
from hwd.timeline.resampling import draw, in_parts, mean_interval, median_interval, percentiles, weighted_medians

from .conftest import Story, sample


def apart(values: Iterable[float]) -> list[Sample]:
    """Each in a reconfiguration of its own."""
    return [sample(float(value), number) for number, value in enumerate(values)]


def test_p99_is_there_from_a_hundred_values_on() -> None:
    taken = [sample(float(value), error_s=value / 100) for value in range(100)]
    (row,) = summarise(taken[:99])
    assert row.p99_s is None
    (row,) = summarise(taken)
    assert row.p99_s == pytest.approx(98.01)
    assert (row.n, row.median_s, row.mean_s, row.max_s) == (100, 49.5, 49.5, 99)
    assert row.error_s == pytest.approx(0.495)


def test_virtual_and_real_time_are_kept_apart() -> None:
    rows = summarise([sample(1), sample(2, virtual=True)])
    assert [(row.virtual_time, row.n) for row in rows] == [(False, 1), (True, 1)]


def test_origin_is_the_weakest_of_all() -> None:
    (row,) = summarise([sample(1, origin=Origin.MEASURED), sample(2, origin=Origin.TWIN)])
    assert row.origin is Origin.TWIN


def test_row_without_values_counts_what_is_missing() -> None:
    stages = [
        Stage(name=StageName.RDMA, knowledge=Knowledge.UNKNOWN, why="no source"),
        Stage(name=StageName.RDMA, knowledge=Knowledge.NEVER_LEFT, why="kept"),
    ]
    taken = [Sample(group=("a",), stage=stage, virtual_time=False, reconfiguration="r") for stage in stages]
    (row,) = summarise(taken)
    assert (row.n, row.unknown, row.never_left) == (0, 1, 1)
    assert [row.median_s, row.median_low_s, row.mean_s, row.p95_s, row.max_s, row.error_s] == [None] * 6
    assert row.origin is None


def test_row_does_not_depend_on_other_rows() -> None:
    own = apart(range(30))
    (alone,) = summarise(own)
    beside = summarise([sample(3, group="pairs"), *own])
    assert beside[1] == alone


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 9)), min_size=20, max_size=40), st.randoms())
def test_same_values_have_the_same_figures_in_whatever_order_and_under_whatever_name(
    drawn: list[tuple[float, int]], shuffled: random.Random
) -> None:
    own = [sample(seconds, number) for seconds, number in drawn]
    (alone,) = summarise(own, resamples=50)
    elsewhere = [sample(seconds, group="run a7", reconfiguration=900 - number) for seconds, number in drawn]
    shuffled.shuffle(elsewhere)
    (found,) = summarise(elsewhere, resamples=50)
    assert replace(found, group=alone.group) == alone


def test_bootstrap_interval_covers_the_true_median_about_as_often_as_stated() -> None:
    generator = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        values = generator.exponential(size=60)
        (row,) = summarise(apart(values), resamples=400)
        assert row.median_low_s is not None
        assert row.median_high_s is not None
        covered += row.median_low_s <= np.log(2) <= row.median_high_s
    assert 178 <= covered <= 199


@pytest.mark.parametrize("reconfigurations", [6, 7, 20])
def test_interval_holds_the_median_as_often_as_stated_where_links_of_a_reconfiguration_go_together(
    reconfigurations: int,
) -> None:
    """Links differ by a tenth of what reconfigurations do: taken for independent, they would hold it in two of five."""
    generator = np.random.default_rng(7)
    held = 0
    for _ in range(150):
        together = generator.normal(10, 1, size=reconfigurations)
        taken = [
            sample(float(seconds), number)
            for number, middle in enumerate(together)
            for seconds in middle + generator.normal(0, 0.1, size=8)
        ]
        (row,) = summarise(taken, resamples=300)
        assert row.median_low_s is not None
        assert row.median_high_s is not None
        assert (row.n, row.reconfigurations) == (8 * reconfigurations, reconfigurations)
        held += row.median_low_s <= 10 <= row.median_high_s
    assert held >= 0.9 * 150


def test_no_interval_is_stated_below_six_reconfigurations() -> None:
    five = [sample(seconds, number) for number in range(5) for seconds in (1.0, 2.0, 3.0)]
    (row,) = summarise(five)
    assert (row.n, row.reconfigurations, row.median_s) == (15, 5, 2.0)
    assert (row.median_low_s, row.median_high_s) == (None, None)
    (row,) = summarise([*five, sample(2.0, 5)])
    assert row.median_low_s is not None


@given(st.lists(st.floats(0, 100), min_size=6, max_size=40))
def test_interval_holds_the_median_and_lies_within_the_values(values: list[float]) -> None:
    (row,) = summarise(apart(values), resamples=200)
    assert row.median_s is not None
    assert row.median_low_s is not None
    assert row.median_high_s is not None
    assert min(values) <= row.median_low_s <= row.median_high_s <= max(values)
    assert row.max_s == max(values)


def test_kept_links_give_no_samples(story: Story) -> None:
    story.links.append({"link": "h2.eth0<->h3.eth0", "kept": True, "crossconnects": []})
    taken = samples([story.tell()], virtual_time=False)
    assert len(taken) == len(StageName)
    assert {one.group for one in taken} == {("pairs",)}


# --- bootstrap over clusters


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


# --- cumulative distributions and the band in which the true one lies


def of(values: Iterable[float], *, error_s: float = 0.0) -> Distribution:
    """Each value in a reconfiguration of its own."""
    found = distribution([sample(value, number, error_s=error_s) for number, value in enumerate(values)])
    assert found is not None
    return found


def share(edge: tuple[tuple[float, float], ...], seconds: float, before: float) -> float:
    index = bisect.bisect_right([at_s for at_s, _ in edge], seconds)
    return edge[index - 1][1] if index else before


def holds(found: Distribution, quantiles: list[tuple[float, float]]) -> bool:
    """Whether the band holds a distribution, given as times and shares."""
    assert found.half_width is not None
    return all(
        share(found.low, at_s, 0.0) <= true <= share(found.high, at_s, min(1.0, found.half_width))
        for at_s, true in quantiles
    )


def test_half_width_is_the_one_of_the_inequality() -> None:
    found = of(float(value) for value in range(100))
    assert found.half_width == pytest.approx(math.sqrt(math.log(40) / 200))
    assert found.low[0][1] == 0
    assert found.high[-1][1] == 1


def test_band_holds_the_whole_true_distribution_at_least_as_often_as_stated() -> None:
    draw = random.Random(4)
    true = [(at / 20, 1 - math.exp(-at / 20)) for at in range(100)]
    held = sum(holds(of(draw.expovariate(1) for _ in range(30)), true) for _ in range(300))
    assert held >= 0.95 * 300 - 8


@pytest.mark.parametrize("spread_s", [0.1, 1.0])
def test_band_holds_it_where_links_of_a_reconfiguration_go_together(spread_s: float) -> None:
    """With a spread of 0.1 s, links taken for independent would hold it hardly ever."""
    draw = random.Random(6)
    normal = NormalDist(10, math.hypot(1, spread_s))
    true = [(5 + at / 10, normal.cdf(5 + at / 10)) for at in range(100)]
    held = 0
    for _ in range(100):
        middles = [draw.gauss(10, 1) for _ in range(6)]
        links = [
            sample(draw.gauss(middle, spread_s), number)
            for number, middle in enumerate(middles)
            for _ in range((8, 8, 8, 8, 8, 2)[number])
        ]
        found = distribution(links)
        assert found is not None
        held += holds(found, true)
    assert held >= 93


def test_band_holds_where_values_are_only_known_to_lie_within_bounds() -> None:
    """Looked at each half second only: what is reported is the end of the gap, and the truth anywhere in it."""
    draw = random.Random(9)
    true = [(at / 20, 1 - math.exp(-at / 20)) for at in range(100)]
    held = blind = 0
    for _ in range(60):
        seen = [math.ceil(draw.expovariate(1) / 0.5) * 0.5 for _ in range(200)]
        held += holds(of((value - 0.25 for value in seen), error_s=0.25), true)
        blind += holds(of(seen), true)
    assert held >= 56
    assert blind < 6, "the bounds are what makes it honest"


def test_reconfigurations_are_what_the_band_counts() -> None:
    found = distribution([sample(0.2 + number, number) for number in range(8) for _ in range(16)])
    assert found is not None
    assert (len(found.best_s), found.reconfigurations) == (128, 8)
    assert found.half_width == pytest.approx(math.sqrt(math.log(40) / 16))


def test_reconfiguration_with_most_of_the_links_counts_for_most_of_the_curve() -> None:
    uneven = [sample(0.2, 0) for _ in range(95)] + [sample(0.3, number) for number in range(1, 6)]
    found = distribution(uneven)
    assert found is not None
    assert found.half_width is not None
    assert found.half_width > 1, "it is little better than one value"


def test_no_band_is_stated_below_six_reconfigurations() -> None:
    found = distribution([sample(0.2, number) for number in range(5) for _ in range(64)])
    assert found is not None
    assert (len(found.best_s), found.reconfigurations, found.half_width) == (320, 5, None)
    assert (found.low, found.high) == ((), ())


def test_nothing_seen_has_no_distribution() -> None:
    assert distribution([sample(None)]) is None


# --- which dwells have rows of their own


def turnaround(reconfiguration: int, dwell_s: float | None, seconds: float | None, link: int = 0) -> Sample:
    return sample(seconds, reconfiguration, stage=StageName.TURNAROUND, dwell_s=dwell_s, link=link)


def classes(*points: tuple[float | None, float | None]) -> list[int]:
    """The class of each reconfiguration, from the dwell and the turnaround of its two links."""
    found = by_dwell(
        [
            turnaround(index, dwell_s, seconds and seconds * (1 + 0.001 * link), link)
            for index, (dwell_s, seconds) in enumerate(points)
            for link in range(2)
        ]
    )
    assert all(found[f"r{index}", "l0"] == found[f"r{index}", "l1"] for index in range(len(points)))
    return [found[f"r{index}", "l0"] for index in range(len(points))]


@pytest.mark.parametrize(
    ("points", "found"),
    [
        ([(3.5, 5.4), (5.6, 3.2), (3.4, 5.3), (5.5, 3.4)], [0, 1, 0, 1]),
        ([(0.7, 9.4), (3.0, 6.0), (12.0, 3.2)], [0, 1, 2]),
        ([(3.5, 3.2), (5.6, 3.3), (3.4, 3.4), (300.0, 3.2)], [0, 0, 0, 0]),
        ([(1.0, 3.02), (1.1, 3.03), (9.0, 3.00), (9.1, 3.01)], [0, 0, 0, 0]),
        ([(None, 3.3), (3.5, 5.4), (3.4, 5.3)], [1, 0, 0]),
        ([(None, 3.3), (5.5, 3.4), (5.4, 3.2)], [0, 0, 0]),
        ([(None, 3.3), (None, 9.0)], [0, 0]),
        ([(None, 3.3), (3.5, 5.4), (5.6, 3.2)], [2, 0, 1]),
        ([(3.5, 5.4), (5.6, 3.2), (3.0, None), (4.0, None), (9.0, None)], [0, 1, 0, 0, 1]),
    ],
    ids=[
        "short and long are apart where one is slower",
        "every hump is a class",
        "dwells are together where durations are alike",
        "a difference that misleads nobody splits nothing",
        "unknown ones are apart where their durations are",
        "and only there",
        "nothing is known to tell two unknown ones apart by",
        "unknown ones are the last of several",
        "a link without a duration belongs to the class of its dwell",
    ],
)
def test_dwells_are_apart_where_durations_are(
    points: list[tuple[float | None, float | None]], found: list[int]
) -> None:
    assert classes(*points) == found


def test_dwells_that_are_alike_are_not_cut_at_a_chance_difference() -> None:
    draw = random.Random(1)
    points = [(3.4 + 0.001 * index, draw.gauss(5.0, 0.6)) for index in range(12)]
    assert set(classes(*points)) == {0}


def test_where_no_transfer_was_seen_the_carrier_decides() -> None:
    unseen = [turnaround(0, 3.5, None), turnaround(1, 5.5, None)]
    carrier = [
        sample(seconds, number, stage=StageName.ACTIVATION, dwell_s=dwell_s, link=link)
        for number, dwell_s, seconds in ((0, 3.5, 5.2), (1, 5.5, 3.1))
        for link in range(2)
    ]
    assert by_dwell([*unseen, *carrier]) == {(f"r{number}", f"l{link}"): number for number in (0, 1) for link in (0, 1)}


@pytest.mark.parametrize("dwell_s", [0.0, None])
def test_dwells_of_nothing_are_no_fault(dwell_s: float | None) -> None:
    assert classes((dwell_s, 9.0), (2.0, 3.0)) in ([0, 1], [1, 0])
    assert by_dwell([]) == {}


@pytest.mark.parametrize(("reconfigurations", "links", "spread"), [(6, 1, 0.3), (6, 8, 0.1), (10, 1, 0.3)])
def test_noise_is_hardly_ever_taken_for_two_humps(reconfigurations: int, links: int, spread: float) -> None:
    draw = random.Random(5)
    split = 0
    for _ in range(200):
        dwells_s = [math.exp(draw.uniform(0, 4)) for _ in range(reconfigurations)]
        taken = [
            turnaround(number, dwell_s, 3 * (1 + abs(draw.gauss(0, spread))), link)
            for number, dwell_s in enumerate(dwells_s)
            for link in range(links)
        ]
        split += any(by_dwell(taken).values())
    assert split <= 200 * 0.05


def test_one_duration_is_no_hump() -> None:
    others = [turnaround(n, 5.0 + n / 10, 3.0) for n in range(1, 9)]
    assert set(by_dwell([turnaround(0, 0.5, 9.0), *others]).values()) == {0}


POINTS = st.lists(
    st.tuples(st.none() | st.floats(0, 1e4), st.none() | st.floats(0, 20)), min_size=1, max_size=12
)  # fmt: skip


@given(POINTS)
def test_classes_are_ranges_of_dwells_in_their_order(points: list[tuple[float | None, float | None]]) -> None:
    found = classes(*points)
    known = sorted((dwell_s, number) for (dwell_s, _), number in zip(points, found, strict=True) if dwell_s is not None)
    assert [number for _, number in known] == sorted(number for _, number in known)
    of_unknown = {number for (dwell_s, _), number in zip(points, found, strict=True) if dwell_s is None}
    assert len(of_unknown) <= 1


@given(POINTS, st.randoms())
def test_the_order_of_reconfigurations_does_not_matter(
    points: list[tuple[float | None, float | None]], draw: random.Random
) -> None:
    order = draw.sample(range(len(points)), len(points))
    assert classes(*(points[index] for index in order)) == [classes(*points)[index] for index in order]
