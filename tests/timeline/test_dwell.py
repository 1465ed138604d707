"""Which dwells have rows of their own."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.timeline import Sample, StageName
from hwd.timeline.dwell import by_dwell

from .conftest import sample


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
