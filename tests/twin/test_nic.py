"""One NIC port, fed with light by hand; its times against the figures that they were made from."""

import random
import statistics
from typing import get_args

import pytest

from hwd.model.fault import NicTimingName
from hwd.model.nic_port import NicPortId
from hwd.twin.nic import Nic, NicChange, What
from hwd.twin.nic_timing import NIC_TIMINGS, RAPID_S, nic_timing
from hwd_drivers.core.errors import ConfigError

from ..modules import LR4

S = 1_000_000_000
LIT = (0.0,) * 4
DARK = (None,) * 4
NEAR, FAR, OTHER = (NicPortId(host=host, port="eth0") for host in ("h0", "h1", "h2"))


def make(timing: str = "opus-cx6dx") -> Nic:
    return Nic(NEAR, LR4, nic_timing(timing), random.Random(1))


def light(
    nic: Nic,
    now_ns: int,
    lanes_dbm: tuple[float | None, ...] = LIT,
    *,
    sender: NicPortId | None = FAR,
    far_end_reads: bool = True,
) -> list[str]:
    """Give it light; what changed, in words."""
    nic.receive(now_ns, sender=sender if any(power is not None for power in lanes_dbm) else None, lanes_dbm=lanes_dbm)
    nic.settle(now_ns, far_end_reads=far_end_reads)
    return words(nic.advance(now_ns))


def words(changes: tuple[NicChange, ...]) -> list[str]:
    return [f"{'+' if change.up else '-'}{change.what}" for change in changes]


def bring_up(nic: Nic, now_ns: int) -> int:
    """Light it and wait until RDMA is there; the time at which its PHY came."""
    light(nic, now_ns)
    came_ns = nic.next_ns()
    assert came_ns is not None
    while (due_ns := nic.next_ns()) is not None:
        nic.advance(due_ns)
    assert nic.is_up(What.RDMA)
    return came_ns


def firmware_s(nic: Nic, now_ns: int) -> float:
    return (bring_up(nic, now_ns) - now_ns) / S


def test_ideal_port_is_up_at_once_and_any_port_in_the_order_of_its_stages_at_their_times() -> None:
    assert light(make("ideal"), S) == ["+light", "+phy", "+carrier", "+rdma"]
    nic = make()
    assert light(nic, S) == ["+light"]
    changes = nic.advance(100 * S)
    assert words(changes) == ["+phy", "+carrier", "+rdma"]
    light_to_phy, phy_to_carrier, carrier_to_rdma = (
        after - before
        for before, after in zip(
            [S, *(change.at_ns for change in changes)], (change.at_ns for change in changes), strict=False
        )
    )
    assert 2.4 * S < light_to_phy < 3.6 * S
    assert 70_000 <= phy_to_carrier <= 80_000
    assert 100_000_000 <= carrier_to_rdma <= 200_000_000


def test_remote_fault_keeps_the_lit_end_down_until_the_far_end_reads_its_light_and_takes_a_link_down() -> None:
    nic = make()
    assert light(nic, 0, far_end_reads=False) == ["+light"]
    assert nic.next_ns() is None
    assert nic.advance(60 * S) == ()
    nic = make()
    light(nic, 0, far_end_reads=False)
    nic.settle(5 * S, far_end_reads=True)
    came_ns = nic.next_ns()
    assert came_ns is not None
    assert 7.4 * S < came_ns < 8.6 * S
    nic = make("ideal")
    light(nic, 0)
    nic.settle(S, far_end_reads=False)
    assert words(nic.advance(S)) == ["-rdma", "-carrier", "-phy"]
    assert nic.is_up(What.LIGHT)


def test_dark_takes_all_down_at_once_and_what_was_due_before_did_happen() -> None:
    nic = make("ideal")
    light(nic, 0)
    assert light(nic, S, DARK) == ["-rdma", "-carrier", "-phy", "-light"]
    nic = make()
    light(nic, 0)
    assert light(nic, S, DARK) == ["-light"]
    assert nic.next_ns() is None
    nic = make()
    light(nic, 0)
    assert light(nic, 60 * S, DARK)[:3] == ["+phy", "+carrier", "+rdma"]


def test_another_sender_takes_the_link_down_without_any_dark_and_light_of_two_cannot_be_read() -> None:
    nic = make()
    bring_up(nic, 0)
    assert light(nic, 10 * S, sender=OTHER) == ["-rdma", "-carrier", "-phy"]
    assert nic.is_up(What.LIGHT)
    assert nic.next_ns() is not None
    nic = make("ideal")
    light(nic, 0)
    assert light(nic, S, sender=OTHER) == ["-rdma", "-carrier", "-phy", "+phy", "+carrier", "+rdma"]
    nic = make("ideal")
    assert light(nic, 0, sender=None) == ["+light"]
    assert not nic.reads


def test_loss_of_signal_has_its_hysteresis_and_is_latched_until_it_is_read() -> None:
    nic = make()
    between = (LR4.los_assert_dbm + LR4.los_deassert_dbm) / 2
    light(nic, 0, (between,) * 4)
    assert all(nic.los), "not cleared below deassert"
    light(nic, 1, (LR4.los_deassert_dbm,) * 4)
    assert not any(nic.los)
    light(nic, 2, (between,) * 4)
    assert not any(nic.los), "not raised above assert"
    light(nic, 3, (LR4.los_assert_dbm - 0.01,) * 4)
    assert all(nic.los)
    nic = make()
    assert nic.take_latched_los() == (True,) * 4, "dark since it was made"
    assert nic.take_latched_los() == (True,) * 4, "and still is"
    light(nic, 0)
    assert nic.take_latched_los() == (True,) * 4, "was dark since the last read"
    assert nic.take_latched_los() == (False,) * 4
    light(nic, S, (0.0, None, 0.0, 0.0))
    light(nic, S + 1)
    assert nic.take_latched_los() == (False, True, False, False), "a dark that nobody saw"
    assert nic.take_latched_los() == (False,) * 4


def test_one_dark_lane_is_loss_of_signal_and_light_that_is_back_can_be_no_use() -> None:
    nic = make()
    bring_up(nic, 0)
    assert "-light" in light(nic, 10 * S, (0.0, 0.0, None, 0.0))
    assert nic.los == (False, False, True, False)
    assert not nic.is_up(What.CARRIER)
    for power_dbm in (LR4.rx_min_dbm - 0.1, LR4.rx_max_dbm + 0.1):  # too weak, too strong
        nic = make()
        assert light(nic, 0, (power_dbm,) * 4) == ["+light"]
        assert not nic.reads
        assert nic.next_ns() is None


def test_short_dwell_makes_the_next_firmware_slower_also_on_its_way_up_and_a_dark_port_does_not_dwell() -> None:
    nic = make()
    bring_up(nic, 0)
    light(nic, 20 * S, DARK)
    assert 2.4 < firmware_s(nic, 20 * S) < 3.6, "taken down for the first time"
    light(nic, 24 * S, DARK)
    assert 3.7 < firmware_s(nic, 24 * S) < 5.1, "taken down 4 s after that"
    light(nic, 90 * S, DARK)
    assert 2.4 < firmware_s(nic, 90 * S) < 3.6, "rested"
    nic = make()
    bring_up(nic, 0)
    for at_ns in (20 * S, 20 * S + S // 10):
        light(nic, at_ns, DARK)
        light(nic, at_ns)
    light(nic, 20 * S + S // 5, DARK)
    assert 9 < firmware_s(nic, 20 * S + S // 5) < 10.5
    # Being told again and again that it is dark is no repeat.
    nic = make()
    bring_up(nic, 0)
    for second in range(20, 30):
        light(nic, second * S, DARK)
    assert 2.4 < firmware_s(nic, 30 * S) < 3.6


DRAWS = 20_000
LONG_S = 1e6


def firmware(name: str, *, dwell_s: float = LONG_S) -> list[float]:
    timing, rng = nic_timing(name), random.Random(1)
    return [timing.draw_firmware_s(rng, dwell_s=dwell_s) for _ in range(DRAWS)]


def test_timings_have_the_means_and_ranges_of_the_papers_and_up_to_ten_seconds_in_rapid_repeats() -> None:
    drawn = firmware("mfabric-cx6")
    assert statistics.mean(drawn) == pytest.approx(5.67, abs=0.01)
    assert statistics.quantiles(drawn, n=100)[98] == pytest.approx(6.33, abs=0.02)
    assert firmware("mfabric-cx6") == drawn, "the same seed draws the same"
    for name, about_s in {"opus-cx6dx-autoneg": 6.0, "opus-cx6dx": 3.0}.items():
        usual = firmware(name)
        assert statistics.mean(usual) == pytest.approx(about_s, abs=0.01)
        assert statistics.mean(firmware(name, dwell_s=0.0)) == pytest.approx(10.0, abs=0.01)
        halfway = statistics.mean(firmware(name, dwell_s=RAPID_S / 2))
        assert statistics.mean(usual) < halfway < 10.0
        assert firmware(name, dwell_s=RAPID_S) == usual
    for name in ("opus-cx6dx-autoneg", "opus-cx6dx", "mfabric-cx6"):
        timing, rng = nic_timing(name), random.Random(2)
        carrier_s = [timing.draw_carrier_s(rng) for _ in range(1000)]
        assert 70e-6 <= min(carrier_s) < max(carrier_s) <= 80e-6
        rdma_s = [timing.draw_rdma_s(rng) for _ in range(1000)]
        assert 0.1 <= min(rdma_s) < max(rdma_s) <= 0.2


def test_ideal_takes_no_time_others_name_their_figure_and_negotiation_leads_to_the_other_of_the_same_nic() -> None:
    ideal, rng = nic_timing("ideal"), random.Random(3)
    assert ideal.draw_firmware_s(rng, dwell_s=0.0) == ideal.draw_carrier_s(rng) == ideal.draw_rdma_s(rng) == 0.0
    assert [name for name, timing in NIC_TIMINGS.items() if timing.fitted_to is None] == ["ideal"]
    assert get_args(NicTimingName) == tuple(NIC_TIMINGS), "a fault takes those that there are"
    for timing in NIC_TIMINGS.values():
        if timing.other is None or timing.other == timing.name:
            continue
        other = nic_timing(timing.other)
        assert other.autoneg is not timing.autoneg
        assert other.other == timing.name
    assert nic_timing("opus-cx6dx").other == "opus-cx6dx-autoneg"
    with pytest.raises(ConfigError, match=r"'cx7'.*opus-cx6dx, mfabric-cx6, ideal"):
        nic_timing("cx7")
