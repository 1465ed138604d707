"""Statistics of stages."""

import random
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hwd.model.instant import Knowledge, Origin
from hwd.timeline import Sample, Stage, StageName, samples, summarise

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
