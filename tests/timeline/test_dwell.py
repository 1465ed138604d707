"""Which dwells have rows of their own."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.model.instant import Knowledge, Origin
from hwd.timeline import Sample, Stage, StageName
from hwd.timeline.dwell import by_dwell


def sample(
    reconfiguration: int,
    dwell_s: float | None,
    seconds: float | None,
    *,
    link: int = 0,
    stage: StageName = StageName.TURNAROUND,
) -> Sample:
    knowledge = Knowledge.UNKNOWN if seconds is None else Knowledge.SEEN
    return Sample(
        group=(),
        stage=Stage(name=stage, knowledge=knowledge, seconds=seconds, error_s=0.0, origin=Origin.TWIN),
        virtual_time=False,
        reconfiguration=f"r{reconfiguration}",
        link=f"l{link}",
        dwell_s=dwell_s,
    )


def classes(*points: tuple[float | None, float | None]) -> list[int]:
    """The class of each reconfiguration, from the dwell and the turnaround of its two links."""
    found = by_dwell(
        [
            sample(index, dwell_s, seconds and seconds * (1 + 0.001 * link), link=link)
            for index, (dwell_s, seconds) in enumerate(points)
            for link in range(2)
        ]
    )
    assert all(found[f"r{index}", "l0"] == found[f"r{index}", "l1"] for index in range(len(points)))
    return [found[f"r{index}", "l0"] for index in range(len(points))]


def test_short_and_long_dwells_are_apart_where_one_is_slower() -> None:
    assert classes((3.5, 5.4), (5.6, 3.2), (3.4, 5.3), (5.5, 3.4)) == [0, 1, 0, 1]


def test_dwells_are_together_where_durations_are_alike() -> None:
    assert classes((3.5, 3.2), (5.6, 3.3), (3.4, 3.4), (300.0, 3.2)) == [0, 0, 0, 0]


def test_a_difference_that_misleads_nobody_splits_nothing() -> None:
    assert classes((1.0, 3.02), (1.1, 3.03), (9.0, 3.00), (9.1, 3.01)) == [0, 0, 0, 0]


def test_every_hump_is_a_class() -> None:
    assert classes((0.7, 9.4), (3.0, 6.0), (12.0, 3.2)) == [0, 1, 2]


def test_dwells_that_are_alike_are_not_cut_at_a_chance_difference() -> None:
    draw = random.Random(1)
    points = [(3.4 + 0.001 * index, draw.gauss(5.0, 0.6)) for index in range(12)]
    assert set(classes(*points)) == {0}


def test_unknown_dwells_are_apart_only_where_their_durations_are() -> None:
    assert classes((None, 3.3), (3.5, 5.4), (3.4, 5.3)) == [1, 0, 0]
    assert classes((None, 3.3), (5.5, 3.4), (5.4, 3.2)) == [0, 0, 0]
    assert classes((None, 3.3), (None, 9.0)) == [0, 0], "nothing is known to tell them apart by"


def test_unknown_dwells_are_the_last_of_several() -> None:
    assert classes((None, 3.3), (3.5, 5.4), (5.6, 3.2)) == [2, 0, 1]


def test_link_without_a_duration_belongs_to_the_class_of_its_dwell() -> None:
    assert classes((3.5, 5.4), (5.6, 3.2), (3.0, None), (4.0, None), (9.0, None)) == [0, 1, 0, 0, 1]


def test_where_no_transfer_was_seen_the_carrier_decides() -> None:
    unseen = [sample(0, 3.5, None), sample(1, 5.5, None)]
    carrier = [
        sample(number, dwell_s, seconds, link=link, stage=StageName.ACTIVATION)
        for number, dwell_s, seconds in ((0, 3.5, 5.2), (1, 5.5, 3.1))
        for link in range(2)
    ]
    assert by_dwell([*unseen, *carrier]) == {
        ("r0", "l0"): 0, ("r0", "l1"): 0, ("r1", "l0"): 1, ("r1", "l1"): 1,
    }  # fmt: skip


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
            sample(number, dwell_s, 3 * (1 + abs(draw.gauss(0, spread))), link=link)
            for number, dwell_s in enumerate(dwells_s)
            for link in range(links)
        ]
        split += any(by_dwell(taken).values())
    assert split <= 200 * 0.05


def test_one_duration_is_no_hump() -> None:
    assert set(by_dwell([sample(0, 0.5, 9.0), *(sample(n, 5.0 + n / 10, 3.0) for n in range(1, 9))]).values()) == {0}


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
