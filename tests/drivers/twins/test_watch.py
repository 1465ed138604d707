"""Watches: alarms are raised and cleared as the light crosses their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import PortSide
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.watch import Crossing, Limit, Watch

from ..parts import capabilities, pairs, square

S = 1_000_000_000
END = PortSide.parse("1B")


def said(crossings: list[Crossing]) -> list[str]:
    return [f"{one.limit} {'raised' if one.raised else 'cleared'} at {one.at_ns}" for one in crossings]


def test_alarms_are_raised_beyond_their_limits_and_cleared_better_than_the_hysteresis_for_so_long() -> None:
    watch = Watch(
        end=END, on_crossing=lambda crossing: None, low_dbm=-25, degraded_dbm=-20, high_dbm=5, hysteresis_db=2
    )
    assert said(watch.moved(1, -10)) == []
    assert said(watch.moved(2, -21)) == ["degraded raised at 2"]
    assert said(watch.moved(3, None)) == ["low raised at 3"]
    assert said(watch.moved(4, -24)) == [], "within the hysteresis"
    assert said(watch.moved(5, -23)) == ["low cleared at 5"]
    assert watch.raised == {Limit.DEGRADED}
    assert said(watch.moved(6, 6)) == ["high raised at 6", "degraded cleared at 6"]
    assert said(watch.moved(7, 3)) == ["high cleared at 7"]
    watch = Watch(end=END, on_crossing=lambda crossing: None, low_dbm=-25, clears_after_s=3)
    watch.moved(0, None)
    assert watch.moved(1 * S, 0) == []
    assert watch.next_ns() == 4 * S
    watch.moved(2 * S, None)
    assert watch.next_ns() is None, "it went again before"
    watch.moved(5 * S, 0)
    assert watch.advance(7 * S) == []
    assert said(watch.advance(9 * S)) == [f"low cleared at {8 * S}"]


@given(st.lists(st.tuples(st.integers(0, 3 * S), st.none() | st.floats(-60, 20)), max_size=20), st.integers(0, 2))
def test_an_alarm_stands_whenever_the_light_is_beyond_its_limit(
    steps: list[tuple[int, float | None]], clears_after_s: int
) -> None:
    watch = Watch(end=END, on_crossing=lambda crossing: None, low_dbm=-25, high_dbm=5, clears_after_s=clears_after_s)
    now_ns = 0
    standing: set[Limit] = set()
    for wait_ns, dbm in steps:
        now_ns += wait_ns
        for crossing in [*watch.advance(now_ns), *watch.moved(now_ns, dbm)]:
            assert (crossing.limit in standing) is not crossing.raised, "raised and cleared in turns"
            standing ^= {crossing.limit}
        assert standing == watch.raised
        assert (dbm is not None and dbm >= -25) or Limit.LOW in standing
        assert dbm is None or dbm <= 5 or Limit.HIGH in standing


@pytest.fixture
def mirror() -> Mirror:
    return Mirror(name="ocs1", capabilities=capabilities(square(2)), timing=find_timing("lowradix-8ms"), draws=Draws(7))


def test_mirror_tells_of_light_that_comes_and_goes_at_an_end(mirror: Mirror) -> None:
    told: list[Crossing] = []
    watch = Watch(end=END, on_crossing=told.append, low_dbm=-10, clears_after_s=1)
    mirror.set_input(PortSide.parse("1A"), 0.0)
    mirror.watch(watch, 1)
    assert said(told) == ["low raised at 1"], "it is dark already"
    mirror.connect(pairs("1A-1B"), 2, move=True)
    mirror.advance(2 + 8_000_000)
    assert mirror.next_ns() == 2 + 8_000_000 + S
    mirror.advance(2 * S)
    assert said(told)[1:] == [f"low cleared at {2 + 8_000_000 + S}"]
    mirror.block([END], 3 * S)
    mirror.unblock([END], 4 * S)
    mirror.set_input(PortSide.parse("1A"), -20.0, 4 * S + 1)
    mirror.advance(9 * S)
    assert said(told)[2:] == [f"low raised at {3 * S}"], "it was well for too short a time"
    mirror.unwatch(watch)
    mirror.set_input(PortSide.parse("1A"), 0.0, 10 * S)
    mirror.advance(20 * S)
    assert (len(told), mirror.next_ns()) == (3, None)


def test_schedule_is_told_whenever_the_next_time_is_another(mirror: Mirror) -> None:
    dues: list[int | None] = []
    mirror.on_schedule.append(lambda: dues.append(mirror.next_ns()))
    mirror.watch(Watch(end=PortSide.parse("1A"), on_crossing=lambda crossing: None, low_dbm=-10, clears_after_s=1), 0)
    mirror.set_input(PortSide.parse("1A"), 0.0, 5)
    assert dues[-1] == 5 + S
    mirror.drift([PortSide.parse("2A")], 1.0, 6, over_s=0.5)
    assert dues[-1] == 6 + S // 20
