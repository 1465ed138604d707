import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.timeline.alignment import Aligner, Alignment, Sample

NS_IN_S = 1_000_000_000
US = 1_000


class Pair:
    """A daemon's clock and an agent's; `agent_ns` is the truth that the aligner must find."""

    def __init__(self, *, offset_ns: int, drift_ppm: float) -> None:
        self.offset_ns = offset_ns
        self.drift_ppb = round(drift_ppm * 1000)

    def agent_ns(self, daemon_ns: int) -> int:
        return daemon_ns + self.offset_ns + daemon_ns * self.drift_ppb // NS_IN_S

    def exchange(self, sent_ns: int, there_ns: int, held_ns: int, back_ns: int) -> Sample:
        came_ns = sent_ns + there_ns
        left_ns = came_ns + held_ns
        return Sample(
            t1_ns=sent_ns, t2_ns=self.agent_ns(came_ns), t3_ns=self.agent_ns(left_ns), t4_ns=left_ns + back_ns
        )


def bursts(*, until_s: float) -> Iterator[int]:
    """When the gateway asks: 20 times at birth, then 4 times at growing distances, at most 3 s."""
    yield from (round(number * 0.007 * NS_IN_S) for number in range(20))
    at_s, step_s = 0.14, 0.25
    while at_s < until_s:
        step_s = min(3.0, step_s * 1.5)
        at_s += step_s
        yield from (round((at_s + number * 0.005) * NS_IN_S) for number in range(4))


def aligned(aligner: Aligner) -> Alignment:
    alignment = aligner.alignment
    assert alignment is not None
    return alignment


def errors_and_bounds(pair: Pair, delay_ns: Callable[[], tuple[int, int]], *, from_s: float) -> list[tuple[int, int]]:
    """Between exchanges, as events come: how far the estimate is from the truth, and what the bound said."""
    draws = random.Random(3)
    aligner = Aligner("boot")
    found = []
    asked = list(bursts(until_s=300))
    for at_ns, next_ns in zip(asked, [*asked[1:], asked[-1] + NS_IN_S], strict=True):
        there_ns, back_ns = delay_ns()
        assert not aligner.add(pair.exchange(at_ns, there_ns, draws.randrange(20, 200) * US, back_ns))
        if at_ns > from_s * NS_IN_S:
            truth_ns = at_ns + there_ns + back_ns + draws.randrange(next_ns - at_ns)
            mid_ns, bound_ns = aligned(aligner).to_daemon(pair.agent_ns(truth_ns))
            found.append((abs(mid_ns - truth_ns), bound_ns))
    return found


@pytest.mark.parametrize("drift_ppm", [50.0, -50.0, 0.0])
def test_truth_is_within_the_bound_and_p99_within_100_us_on_a_noisy_lopsided_network(drift_ppm: float) -> None:
    draws = random.Random(1)

    def delay_ns() -> tuple[int, int]:
        there_us, back_us = 90 + draws.expovariate(1 / 60), 150 + draws.expovariate(1 / 120)
        if draws.random() < 0.02:
            back_us += draws.expovariate(1 / 20_000)
        return round(there_us * US), round(back_us * US)

    found = errors_and_bounds(Pair(offset_ns=5 * NS_IN_S, drift_ppm=drift_ppm), delay_ns, from_s=0)
    assert sum(error <= bound for error, bound in found) >= 0.99 * len(found)
    errors = sorted(error for error, _ in found)
    assert errors[int(0.99 * len(errors))] <= 100 * US
    settled = sorted(bound for _, bound in found[len(found) // 2 :])
    assert settled[-1] <= 300 * US


def test_drift_is_found() -> None:
    draws = random.Random(2)
    pair = Pair(offset_ns=-3 * NS_IN_S, drift_ppm=50.0)
    aligner = Aligner("boot")
    for at_ns in bursts(until_s=60):
        aligner.add(pair.exchange(at_ns, draws.randrange(100, 200) * US, 0, draws.randrange(100, 200) * US))
    alignment = aligned(aligner)
    assert alignment.drift_ppm == pytest.approx(50.0, abs=2.0)
    assert alignment.drift_error_ppm < 5
    assert 200 * US <= alignment.round_trip_ns < 220 * US


delays = st.integers(0, 5_000_000)
exchanges = st.lists(st.tuples(st.integers(0, 400), delays, delays, delays), min_size=1, max_size=30)


@given(
    offset_ns=st.integers(-(10**18), 10**18),
    drift_ppb=st.integers(-200_000, 200_000),
    each=exchanges,
    asked_s=st.floats(-1000, 1000),
)
def test_truth_is_always_within_the_bound_for_constant_drift(
    offset_ns: int, drift_ppb: int, each: list[tuple[int, int, int, int]], asked_s: float
) -> None:
    pair = Pair(offset_ns=offset_ns, drift_ppm=drift_ppb / 1000)
    aligner = Aligner("boot")
    at_ns = 0
    for step_ds, there_ns, held_ns, back_ns in each:
        at_ns += step_ds * NS_IN_S // 10
        assert not aligner.add(pair.exchange(at_ns, there_ns, held_ns, back_ns))
    truth_ns = at_ns + round(asked_s * NS_IN_S)
    mid_ns, error_ns = aligned(aligner).to_daemon(pair.agent_ns(truth_ns))
    assert abs(mid_ns - truth_ns) <= error_ns
    agent_ns, error_ns = aligned(aligner).to_agent(truth_ns)
    assert abs(agent_ns - pair.agent_ns(truth_ns)) <= error_ns


@given(
    drift_ppb=st.integers(-200_000, 200_000),
    each=exchanges,
    step_ns=st.integers(30_000_000, 10**15) | st.integers(-(10**15), -30_000_000),
)
def test_step_beyond_the_delays_is_seen_at_once_and_the_bound_holds_after_it(
    drift_ppb: int, each: list[tuple[int, int, int, int]], step_ns: int
) -> None:
    before = Pair(offset_ns=0, drift_ppm=drift_ppb / 1000)
    after = Pair(offset_ns=step_ns, drift_ppm=drift_ppb / 1000)
    aligner = Aligner("boot")
    at_ns = 0
    for step_ds, there_ns, held_ns, back_ns in each:
        at_ns += step_ds * NS_IN_S // 10
        aligner.add(before.exchange(at_ns, there_ns, held_ns, back_ns))
    at_ns += 10_000_000
    assert aligner.add(after.exchange(at_ns, 200 * US, 0, 200 * US))
    assert aligner.steps == 1
    assert aligned(aligner).samples == 1
    mid_ns, error_ns = aligned(aligner).to_daemon(after.agent_ns(at_ns + NS_IN_S))
    assert abs(mid_ns - at_ns - NS_IN_S) <= error_ns


def test_error_grows_with_the_distance_from_the_samples() -> None:
    pair = Pair(offset_ns=NS_IN_S, drift_ppm=10.0)
    aligner = Aligner("boot")
    for at_ns in bursts(until_s=30):
        aligner.add(pair.exchange(at_ns, 150 * US, 0, 150 * US))
    alignment = aligned(aligner)
    away_s = [0, 10, 100, 1000]
    errors = [alignment.to_daemon(alignment.at_agent_ns + each * NS_IN_S)[1] for each in away_s]
    assert errors == sorted(set(errors))
    assert errors[0] < 450 * US


def test_memory_is_bounded_by_the_window() -> None:
    pair = Pair(offset_ns=0, drift_ppm=20.0)
    aligner = Aligner("boot", window_ns=10 * NS_IN_S)
    for number in range(1000):
        aligner.add(pair.exchange(number * NS_IN_S // 10, 100 * US, 0, 100 * US))
    assert aligned(aligner).samples <= 120
    assert aligned(aligner).drift_ppm == pytest.approx(20.0, abs=25)


@pytest.mark.parametrize(
    "sample",
    [
        Sample(t1_ns=10, t2_ns=0, t3_ns=0, t4_ns=5),
        Sample(t1_ns=0, t2_ns=10, t3_ns=5, t4_ns=100),
        Sample(t1_ns=0, t2_ns=0, t3_ns=1000, t4_ns=10),
    ],
)
def test_sample_in_which_time_runs_backwards_is_refused(sample: Sample) -> None:
    with pytest.raises(ValueError, match="time ran backwards"):
        Aligner("boot").add(sample)


def test_alignment_is_read_back_from_its_document() -> None:
    pair = Pair(offset_ns=5 * NS_IN_S, drift_ppm=50.0)
    aligner = Aligner("boot")
    for at_ns in bursts(until_s=3):
        aligner.add(pair.exchange(at_ns, 150 * US, 0, 170 * US))
    assert Alignment.of(aligned(aligner).fact("h0", stepped=False, via="udp", why_not_udp="")) == aligned(aligner)


def test_bound_holds_after_a_hundred_days() -> None:
    pair = Pair(offset_ns=5 * NS_IN_S, drift_ppm=199.0)
    aligner = Aligner("boot")
    for day in range(0, 101, 50):
        at_ns = day * 86_400 * NS_IN_S
        for number in range(200):
            assert not aligner.add(pair.exchange(at_ns + number * NS_IN_S, 150 * US, 0, 150 * US))
        truth_ns = at_ns + 200 * NS_IN_S
        mid_ns, error_ns = aligned(aligner).to_daemon(pair.agent_ns(truth_ns))
        assert abs(mid_ns - truth_ns) <= error_ns < 400 * US


def test_nothing_is_said_before_the_first_sample() -> None:
    assert Aligner("boot").alignment is None
