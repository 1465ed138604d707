"""The light of the mirror model: shutters, failures, attenuators, drifts, repeatability, averages, power cycles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import BugError, ConfigError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import PortSide
from hwd_drivers.twins.loss import DRIFT_STEP_DB, REPEATABILITY_DB
from hwd_drivers.twins.mirror import NOISE_DB, Mirror
from hwd_drivers.twins.timing import Settling, SwitchTiming, find_timing

from ..parts import capabilities, ids, pairs, square

MS = 1_000_000
S = 1000 * MS

SIZE = 4
ENDS = square(SIZE)
A1, A2, B1, B2 = ENDS[0], ENDS[1], ENDS[SIZE], ENDS[SIZE + 1]
TEN_MS = SwitchTiming(
    name="stated",
    source="the test",
    fitted_to=None,
    draws=lambda pairs, rng: Settling(optical_s=(0.01,) * pairs, answer_s=0.02),
)


def mirror(*, timing: SwitchTiming | None = None, latching: bool = False, remembers_s: float = 0.0) -> Mirror:
    return Mirror(
        name="ocs1",
        capabilities=capabilities(ENDS, latching=latching, monitored=ENDS[SIZE:], attenuated=ENDS[SIZE:]),
        timing=timing or find_timing("ideal"),
        draws=Draws(7),
        remembers_s=remembers_s,
    )


def lit(text: str = "", *, remembers_s: float = 0.0) -> Mirror:
    """0 dBm come in at every end of side A."""
    optics = mirror(remembers_s=remembers_s)
    for end in ENDS[:SIZE]:
        optics.set_input(end, 0.0)
    optics.connect(pairs(text), 0, move=True)
    return optics


def loss(optics: Mirror, end: PortSide = B1, now_ns: int = 0) -> float:
    output = optics.output(end, now_ns)
    assert output is not None
    return -output


def test_blocked_end_is_dark_and_its_crossconnect_stays_and_a_stuck_mirror_moves_no_shutter() -> None:
    optics = lit("1A-1B 2A-2B")
    told: list[int] = []
    optics.on_change.append(told.append)
    optics.block([A1, B2, ENDS[2]], 5)
    assert ids(optics) == ["1A-1B blocked", "2A-2B blocked"]
    assert (optics.output(B1, 5), optics.power(B2, 5), optics.lit_paths(5)) == (None, None, {})
    assert not optics.passes(pairs("1A-1B")[0], 5)
    assert optics.blocked == {A1, B2, ENDS[2]}
    optics.unblock([A1, ENDS[2]], 6)
    assert ids(optics) == ["1A-1B tuned", "2A-2B blocked"]
    optics.block([ENDS[2]], 7)
    optics.unblock([ENDS[3]], 8)
    assert told == [5, 6], "nothing is in the way of the others"
    optics.connect(pairs("3A-3B"), 9, move=True)
    assert ids(optics, 9)[-1] == "3A-3B blocked", "a shutter holds what comes later too"
    optics = lit("1A-1B 2A-2B")
    optics.block([A1], 0)
    optics.stick([A1, A2])
    optics.block([A2], 1)
    optics.unblock([A1], 2)
    assert ids(optics) == ["1A-1B blocked", "2A-2B tuned"]


def test_failed_end_passes_nothing_until_it_is_released_and_a_panel_moves_what_is_in_the_way() -> None:
    optics = lit("1A-1B")
    optics.fail([B1, B2], 1)
    optics.connect(pairs("2A-2B"), 2, move=True)
    assert ids(optics) == ["1A-1B failed", "2A-2B failed"]
    assert optics.output(B1, 3) is None
    optics.block([B1], 3)
    assert ids(optics)[0] == "1A-1B failed"
    optics.release(4)
    assert ids(optics) == ["1A-1B blocked", "2A-2B tuned"]
    optics = lit("1A-1B 2A-2B 3A-3B")
    optics.change(pairs("1A-1B 3A-3B"), pairs("1A-2B"), 1)
    assert ids(optics) == ["1A-2B tuned"]


def test_loss_is_a_little_off_each_time_a_path_is_made_and_stays_while_it_is_there() -> None:
    optics = lit("1A-1B")
    seen = []
    for _ in range(200):
        optics.disconnect(pairs("1A-1B"), 0)
        expected = optics.loss_db(pairs("1A-1B")[0])
        optics.connect(pairs("1A-1B"), 0, move=True)
        optics.connect(pairs("1A-1B 2A-2B"), 0, move=True)
        seen.append(optics.loss_db(pairs("1A-1B")[0]) - expected)
        assert loss(optics) == pytest.approx(seen[-1] + expected)
    assert len(set(seen)) > 190
    assert max(map(abs, seen)) <= REPEATABILITY_DB
    assert max(seen) > 0.08
    assert min(seen) < -0.08
    assert abs(sum(seen) / len(seen)) < 0.02


def test_attenuator_has_its_set_loss() -> None:
    optics = lit("1A-1B")
    before = loss(optics)
    optics.attenuate(B1, 3.0, 1)
    assert [loss(optics) - before, optics.attenuation_db(B1)] == pytest.approx([3, 3])
    assert optics.loss_db(pairs("1A-1B")[0]) == pytest.approx(loss(optics))
    assert optics.lit_paths(1) == {pairs("1A-1B")[0]: pytest.approx(loss(optics))}
    optics.disconnect(pairs("1A-1B"), 2)
    assert optics.attenuation_db(B1) == 3, "of any light"
    optics.connect(pairs("2A-1B"), 3, move=True)
    optics.attenuate(B1, None, 4)
    assert optics.attenuation_db(B1) == 0
    with pytest.raises(ConfigError, match="no port 9B"):
        optics.attenuate(PortSide.parse("9B"), 1.0, 5)


def test_attenuator_holds_the_output_while_the_input_moves() -> None:
    optics = lit("1A-1B")
    told: list[int] = []
    optics.on_change.append(told.append)
    optics.attenuate(B1, 0.0, 1, at_most_dbm=-5.0)
    assert optics.output(B1, 1) == pytest.approx(-5)
    optics.set_input(A1, 10.0, 2)
    assert optics.output(B1, 2) == pytest.approx(-5)
    assert told == [1, 2], "the loss is another, who follows the light must know"
    optics.set_input(A1, -10.0, 3)
    assert optics.output(B1, 3) == pytest.approx(-10 - optics.loss_db(pairs("1A-1B")[0]))
    assert optics.attenuation_db(B1) == 0
    optics.attenuate(B1, 2.0, 4, at_most_dbm=-5.0)
    assert optics.attenuation_db(B1) == 2


def test_drift_takes_light_in_small_steps_until_it_is_over_or_released() -> None:
    optics = lit("1A-1B 2A-2B")
    before = (loss(optics), loss(optics, B2))
    optics.drift([A1], 1.0, 0, over_s=10.0)
    told: list[int] = []
    optics.on_change.append(told.append)
    assert optics.next_ns() == 1 * S
    seen = [loss(optics, now_ns=at_s * S) - before[0] for at_s in range(12)]
    assert seen == pytest.approx([*(DRIFT_STEP_DB * step for step in range(11)), 1.0])
    assert (told, optics.next_ns()) == ([at_s * S for at_s in range(1, 11)], None)
    assert loss(optics, B2) == before[1]
    optics.drift([A1, B2], 0.5, 12 * S)
    assert [loss(optics), loss(optics, B2)] == pytest.approx([before[0] + 1.5, before[1] + 0.5])
    optics.release(13 * S)
    assert (loss(optics), loss(optics, B2)) == before
    optics = lit("1A-1B")
    level = loss(optics)
    optics.drift([A1], 1.0, 0, over_s=10.0)
    optics.release(5 * S)
    assert optics.next_ns() is None
    assert loss(optics, now_ns=20 * S) == level


def test_monitor_averages_over_what_it_saw() -> None:
    optics = lit(remembers_s=1.0)
    optics.connect(pairs("1A-1B"), 10 * S, move=True)
    level = optics.output(B1, 10 * S)
    assert level is not None
    assert optics.power(B1, 10 * S, 0.1) is None, "it was dark until now"
    for ms, less_db in ((1, 20), (10, 10), (50, 3.01), (100, 0), (1000, 0)):
        read = optics.power(B1, 10 * S + ms * MS, 0.1)
        assert read == pytest.approx(level - less_db, abs=NOISE_DB + 0.01)
    optics.set_input(A1, 10.0, 20 * S)
    assert optics.power(B1, 20 * S + 500 * MS, 1.0) == pytest.approx(level + 7.40, abs=NOISE_DB + 0.01)
    assert optics.power(B1, 20 * S + 500 * MS) == pytest.approx(level + 10, abs=NOISE_DB)
    optics.set_input(A1, -5.0)
    assert optics.power(B1, 20 * S + 500 * MS, 1.0) == pytest.approx(level - 5, abs=NOISE_DB + 0.01), "for ever"


def test_average_counts_the_time_at_which_a_path_was_tuned_and_one_without_a_history_is_a_bug() -> None:
    optics = mirror(timing=TEN_MS, remembers_s=1.0)
    optics.set_input(A1, 0.0)
    optics.connect(pairs("1A-1B"), 0, move=True)
    read = optics.power(B1, 20 * MS, 0.02)
    assert read == pytest.approx(-optics.loss_db(pairs("1A-1B")[0]) - 3.01, abs=NOISE_DB + 0.01)
    for end, averaging_s in ((B1, 2.0), (A1, 0.1)):
        with pytest.raises(BugError, match="cannot average"):
            optics.power(end, 20 * MS, averaging_s)


def test_unit_without_power_is_dark_unless_it_latches_and_comes_back_as_it_is_told() -> None:
    for restore, expected in ((False, []), (True, ["1A-1B tuning", "2A-2B tuning"])):
        optics = mirror(timing=TEN_MS)
        optics.connect(pairs("1A-1B 2A-2B"), 0, move=True)
        optics.block([A1], 1 * S)
        optics.attenuate(B1, 3.0, 1 * S)
        optics.power_down(2 * S)
        assert (ids(optics, 2 * S), optics.powered, optics.blocked) == ([], False, frozenset())
        optics.connect(pairs("3A-3B"), 3 * S, move=True)
        assert ids(optics, 3 * S) == [], "nothing moves"
        optics.power_up(5 * S, restore=restore)
        assert (ids(optics, 5 * S), optics.powered) == (expected, True)
        assert optics.attenuation_db(B1) == 0
    optics = lit("1A-1B")
    optics.power_up(1, restore=False)
    assert ids(optics) == []
    optics = mirror(latching=True)
    optics.connect(pairs("1A-1B"), 0, move=True)
    optics.power_down(1)
    optics.power_up(2, restore=False)
    assert ids(optics) == ["1A-1B tuned"]


operations = st.one_of(
    st.tuples(st.just("connect"), st.integers(1, SIZE), st.integers(1, SIZE)),
    st.tuples(st.just("disconnect"), st.integers(1, SIZE), st.integers(1, SIZE)),
    st.tuples(st.sampled_from(["block", "unblock", "fail", "drift", "hold"]), st.integers(0, 2 * SIZE - 1), st.just(0)),
    st.tuples(st.just("input"), st.integers(0, SIZE - 1), st.integers(-20, 5)),
    st.tuples(st.sampled_from(["down", "up", "release"]), st.just(0), st.just(0)),
)


@given(st.lists(st.tuples(operations, st.integers(0, 30 * MS)), max_size=25))
def test_average_is_the_integral_of_the_light_whatever_happens(steps: list[tuple[tuple[str, int, int], int]]) -> None:
    optics = mirror(timing=TEN_MS, remembers_s=1.0)
    energy, now_ns = 0.0, 0

    def pass_time(until_ns: int) -> float:
        """Milliwatts times nanoseconds, from change to change."""
        total, at_ns = 0.0, now_ns
        while at_ns < until_ns:
            level = optics.output(B1, at_ns)
            due_ns = optics.next_ns()
            next_ns = until_ns if due_ns is None else min(until_ns, due_ns)
            total += (0.0 if level is None else 10 ** (level / 10)) * (next_ns - at_ns)
            at_ns = next_ns
            optics.advance(at_ns)
        return total

    for (name, one, other), wait_ns in steps:
        match name:
            case "connect":
                optics.connect(pairs(f"{one}A-{other}B"), now_ns, move=True)
            case "disconnect":
                optics.disconnect(pairs(f"{one}A-{other}B"), now_ns)
            case "block":
                optics.block([ENDS[one]], now_ns)
            case "unblock":
                optics.unblock([ENDS[one]], now_ns)
            case "fail":
                optics.fail([ENDS[one]], now_ns)
            case "drift":
                optics.drift([ENDS[one]], 0.5, now_ns, over_s=0.02)
            case "hold":
                optics.attenuate(ENDS[one], 1.0, now_ns, at_most_dbm=-6.0)
            case "input":
                optics.set_input(ENDS[one], float(other), now_ns)
            case "down":
                optics.power_down(now_ns)
            case "up":
                optics.power_up(now_ns, restore=True)
            case "release":
                optics.release(now_ns)
        energy += pass_time(now_ns + wait_ns)
        now_ns += wait_ns
    read = optics.power(B1, now_ns, 1.0) if now_ns else None
    if energy == 0:
        assert read is None
    else:
        assert read is not None
        assert 10 ** (read / 10) * S == pytest.approx(energy, rel=0.012 + 1e-3), "but for the noise"
