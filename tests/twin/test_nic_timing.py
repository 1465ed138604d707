"""Times of NIC twins, against the figures that they were made from."""

import random
import statistics
from collections.abc import Callable
from typing import get_args

import pytest

from hwd.model.fault import NicTimingName
from hwd.twin.nic_timing import NIC_TIMINGS, RAPID_S, NicTiming, nic_timing
from hwd_drivers.core.errors import ConfigError

DRAWS = 20_000
LONG_S = 1e6


def firmware(name: str, *, dwell_s: float = LONG_S) -> list[float]:
    timing, rng = nic_timing(name), random.Random(1)
    return [timing.draw_firmware_s(rng, dwell_s=dwell_s) for _ in range(DRAWS)]


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


def test_fault_nic_timing_takes_the_timings_that_there_are() -> None:
    assert get_args(NicTimingName) == tuple(NIC_TIMINGS)


def test_mfabric_activation_has_the_mean_and_the_p99_of_figure_12() -> None:
    drawn = firmware("mfabric-cx6")
    assert statistics.mean(drawn) == pytest.approx(5.67, abs=0.01)
    assert p99(drawn) == pytest.approx(6.33, abs=0.02)


@pytest.mark.parametrize(("name", "about_s"), [("opus-cx6dx-autoneg", 6.0), ("opus-cx6dx", 3.0)])
def test_opus_firmware_takes_as_long_as_the_paper_says(name: str, about_s: float) -> None:
    assert statistics.mean(firmware(name)) == pytest.approx(about_s, abs=0.01)


@pytest.mark.parametrize("name", ["opus-cx6dx-autoneg", "opus-cx6dx"])
def test_rapid_repeats_take_up_to_ten_seconds(name: str) -> None:
    assert statistics.mean(firmware(name, dwell_s=0.0)) == pytest.approx(10.0, abs=0.01)
    halfway = statistics.mean(firmware(name, dwell_s=RAPID_S / 2))
    assert statistics.mean(firmware(name)) < halfway < 10.0
    assert firmware(name, dwell_s=RAPID_S) == firmware(name)


@pytest.mark.parametrize("name", ["opus-cx6dx-autoneg", "opus-cx6dx", "mfabric-cx6"])
@pytest.mark.parametrize(
    ("draw", "low_s", "high_s"),
    [(NicTiming.draw_carrier_s, 70e-6, 80e-6), (NicTiming.draw_rdma_s, 0.1, 0.2)],
    ids=["carrier", "rdma"],
)
def test_carrier_and_rdma_follow_within_the_papers_range(
    name: str, draw: Callable[[NicTiming, random.Random], float], low_s: float, high_s: float
) -> None:
    rng = random.Random(2)
    drawn = [draw(nic_timing(name), rng) for _ in range(1000)]
    assert low_s <= min(drawn) < max(drawn) <= high_s


def test_ideal_takes_no_time() -> None:
    timing, rng = nic_timing("ideal"), random.Random(3)
    assert timing.draw_firmware_s(rng, dwell_s=0.0) == timing.draw_carrier_s(rng) == timing.draw_rdma_s(rng) == 0.0


def test_all_but_ideal_name_the_figure_that_they_were_made_from() -> None:
    assert [name for name, timing in NIC_TIMINGS.items() if timing.fitted_to is None] == ["ideal"]


def test_same_seed_draws_the_same() -> None:
    assert firmware("mfabric-cx6") == firmware("mfabric-cx6")


def test_unknown_timing_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"'cx7'.*opus-cx6dx, mfabric-cx6, ideal"):
        nic_timing("cx7")


def test_negotiation_leads_to_the_other_timing_of_the_same_nic_and_back() -> None:
    for timing in NIC_TIMINGS.values():
        if timing.other is None or timing.other == timing.name:
            continue
        other = nic_timing(timing.other)
        assert other.autoneg is not timing.autoneg
        assert other.other == timing.name
    assert nic_timing("opus-cx6dx").other == "opus-cx6dx-autoneg"
