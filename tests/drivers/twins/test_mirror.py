"""The mirror model: one crossconnect an end, dark while tuning, loss and power by seed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, CrossconnectState, PortSide
from hwd_drivers.twins.loss import PORT_SPREAD_DB
from hwd_drivers.twins.mirror import NOISE_DB, Mirror
from hwd_drivers.twins.timing import Settling, SwitchTiming, find_timing

from ..parts import capabilities, ids, pairs, square

MS = 1_000_000


def after(*optical_ms: float) -> SwitchTiming:
    """The n-th pair of a command settles after the n-th time."""
    return SwitchTiming(
        name="stated",
        source="the test",
        fitted_to=None,
        draws=lambda pairs, rng: Settling(optical_s=tuple(ms / 1e3 for ms in optical_ms[:pairs]), answer_s=0.1),
    )


def mirror(timing: SwitchTiming | None = None, *, seed: int = 7, reciprocal: bool = True) -> Mirror:
    return Mirror(
        name="ocs1",
        capabilities=capabilities(square(4), reciprocal=reciprocal, monitored=square(4)[4:]),
        timing=timing or find_timing("ideal"),
        draws=Draws(seed),
    )


A1, B2 = PortSide.parse("1A"), PortSide.parse("2B")


def test_pairs_are_tuning_until_each_has_settled_and_one_that_is_there_does_not_go_dark() -> None:
    optics = mirror(after(30, 10))
    assert optics.connect(pairs("1A-2B 2A-1B"), 5 * MS, move=True).answer_s == 0.1
    assert ids(optics, 5 * MS) == ["1A-2B tuning", "2A-1B tuning"]
    assert optics.next_ns() == 15 * MS
    assert optics.advance(14 * MS) == ()
    assert optics.advance(15 * MS) == pairs("2A-1B")
    assert optics.next_ns() == 35 * MS
    assert ids(optics, 35 * MS) == ["1A-2B tuned", "2A-1B tuned"]
    assert optics.next_ns() is None
    optics = mirror(after(10, 10))
    optics.connect(pairs("1A-2B"), 0, move=True)
    optics.connect(pairs("1A-2B 2A-1B"), 20 * MS, move=True)
    assert ids(optics, 20 * MS) == ["1A-2B tuned", "2A-1B tuning"]


def test_ports_in_use_are_moved_or_a_list_is_refused_whole_as_one_with_a_wrong_pair() -> None:
    optics = mirror()
    optics.connect(pairs("1A-2B 3A-3B"), 0, move=True)
    optics.connect(pairs("1A-3B"), 1, move=True)
    assert ids(optics) == ["1A-3B tuned"]
    assert optics.crossconnect_at(B2) is None
    optics = mirror()
    optics.connect(pairs("1A-2B"), 0, move=False)
    with pytest.raises(RefusedError, match="ocs1: cannot connect 1A-3B: 1A already carries 1A-2B"):
        optics.connect(pairs("2A-1B 1A-3B"), 1, move=False)
    for wrong in ("1A-2B 1A-3B", "1A-9B", "1-2"):
        with pytest.raises(ConfigError):
            optics.connect(pairs(f"4A-4B {wrong}"), 2, move=True)
    assert ids(optics) == ["1A-2B tuned"]


def test_removed_pairs_are_dark_at_once_and_the_rest_stays_and_every_change_is_reported_with_its_time() -> None:
    optics = mirror()
    optics.connect(pairs("1A-2B 2A-1B"), 0, move=True)
    optics.disconnect(pairs("1A-2B 4A-4B"), 1)
    assert ids(optics) == ["2A-1B tuned"]
    optics = mirror(after(10))
    told: list[int] = []
    optics.on_change.append(told.append)
    optics.connect(pairs("1A-2B"), 5, move=True)
    optics.advance(6)
    optics.advance(5 + 10 * MS)
    optics.disconnect(pairs("1A-2B"), 11 * MS)
    optics.disconnect(pairs("1A-2B"), 12 * MS)
    assert told == [5, 5 + 10 * MS, 11 * MS]


def test_light_passes_with_the_loss_of_its_path_when_it_is_tuned_both_ways_only_through_a_reciprocal_switch() -> None:
    optics = mirror(after(10))
    optics.set_input(A1, 1.0)
    optics.connect(pairs("1A-2B"), 0, move=True)
    assert optics.output(B2, 9 * MS) is None
    assert optics.power(B2, 9 * MS) is None
    loss_db = optics.loss_db(pairs("1A-2B")[0])
    assert abs(loss_db - 1.5) <= 2 * PORT_SPREAD_DB
    assert optics.output(B2, 10 * MS) == pytest.approx(1.0 - loss_db)
    assert optics.power(B2, 10 * MS) == pytest.approx(1.0 - loss_db, abs=NOISE_DB)
    assert optics.power(A1, 10 * MS) == pytest.approx(1.0, abs=NOISE_DB)
    optics.set_input(A1, None)
    assert optics.power(B2, 10 * MS) is None
    for reciprocal in (True, False):
        optics = mirror(reciprocal=reciprocal)
        optics.set_input(B2, 0.0)
        optics.connect(pairs("1A-2B"), 0, move=True)
        assert (optics.output(A1, 0) is not None) is reciprocal


def test_losses_and_times_and_readings_repeat_by_seed() -> None:
    def story(seed: int) -> list[object]:
        optics = mirror(find_timing("polatis-opus"), seed=seed)
        optics.set_input(A1, 0.0)
        told: list[object] = [optics.connect(pairs("1A-2B 2A-1B"), 0, move=True)]
        return [*told, optics.next_ns(), optics.power(B2, 200 * MS), optics.loss_db(pairs("2A-1B")[0])]

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_a_stuck_mirror_is_answered_and_does_not_move() -> None:
    optics = mirror()
    optics.connect(pairs("1A-2B"), 0, move=True)
    optics.stick([A1])
    optics.connect(pairs("1A-3B 4A-4B"), 1, move=True)
    optics.disconnect(pairs("1A-2B"), 2)
    assert ids(optics) == ["1A-2B tuned", "4A-4B tuned"]
    optics.release(3)
    optics.disconnect(pairs("1A-2B"), 3)
    assert ids(optics) == ["4A-4B tuned"]


ports = st.integers(1, 4)
crossconnects = st.builds(lambda a, b: Crossconnect.parse(f"{a}A-{b}B"), ports, ports)
moves = st.tuples(st.booleans(), st.lists(crossconnects, max_size=4), st.integers(0, 120 * MS), st.booleans())


@given(st.lists(moves, max_size=12), st.integers(0, 99))
def test_an_end_is_in_at_most_one_crossconnect_in_every_observable_state(
    steps: list[tuple[bool, list[Crossconnect], int, bool]], seed: int
) -> None:
    optics = mirror(find_timing("polatis-opus"), seed=seed)

    def check(now_ns: int) -> None:
        ends = [end for reading in optics.readings(now_ns) for end in reading.crossconnect.ends]
        assert len(ends) == len(set(ends))

    optics.on_change.append(check)
    now_ns = 0
    for connects, wanted, wait_ns, move in steps:
        if connects:
            try:
                optics.connect(wanted, now_ns, move=move)
            except (ConfigError, RefusedError):
                pass
        else:
            optics.disconnect(wanted, now_ns)
        check(now_ns)
        now_ns += wait_ns
        settles_ns = optics.next_ns()
        assert settles_ns is None or settles_ns > now_ns - wait_ns
        optics.advance(now_ns)
    optics.advance(now_ns + 1000 * MS)
    assert all(reading.state is CrossconnectState.TUNED for reading in optics.readings(now_ns + 1000 * MS))
