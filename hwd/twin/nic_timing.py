"""The times of a simulated NIC from light to RDMA, each figure with its source. The drivers have those of
simulated switches.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from hwd_drivers.core.errors import ConfigError

RAPID_S = 5.0
"""A link that is taken down twice within this time is a rapid repeat: the shorter the time in between, the longer its
firmware takes. The papers have no figure for it; this is our choice.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NicTiming:
    """Draws the times of one NIC port, in seconds.

    Firmware (light both ways to the NIC's PHY being up) is normal around `firmware_s` with `firmware_sd_s`, cut at half
    and double of it, and stretched after a short dwell up to `rapid_s` at dwell 0. Carrier and RDMA are uniform between
    their two figures. `fitted_to` is the figure that the times were fitted to, which is therefore never called
    reproduced. `autoneg`: whether the NIC negotiates, with these times; `other` is the timing of the same NIC with the
    opposite setting, None where there is no figure for it.
    """

    name: str
    source: str
    fitted_to: str | None
    firmware_s: float
    firmware_sd_s: float
    rapid_s: float
    carrier_s: tuple[float, float]
    rdma_s: tuple[float, float]
    autoneg: bool
    other: str | None

    def draw_firmware_s(self, rng: random.Random, *, dwell_s: float) -> float:
        drawn = rng.gauss(self.firmware_s, self.firmware_sd_s)
        drawn = min(max(drawn, self.firmware_s / 2), self.firmware_s * 2)
        shortness = max(0.0, 1.0 - dwell_s / RAPID_S)
        return drawn + (self.rapid_s - self.firmware_s) * shortness

    def draw_carrier_s(self, rng: random.Random) -> float:
        return rng.uniform(*self.carrier_s)

    def draw_rdma_s(self, rng: random.Random) -> float:
        return rng.uniform(*self.rdma_s)


_OPUS = "Opus, testbed section 5.1 and figure 9"

NIC_TIMINGS: Mapping[str, NicTiming] = {
    timing.name: timing
    for timing in (
        NicTiming(
            name="opus-cx6dx-autoneg",
            source=f"{_OPUS}: about 6 s of firmware with auto-negotiation; carrier 70-80 us; RDMA 100-200 ms",
            fitted_to=_OPUS,
            firmware_s=6.0,
            firmware_sd_s=0.25,
            rapid_s=10.0,
            carrier_s=(70e-6, 80e-6),
            rdma_s=(0.1, 0.2),
            autoneg=True,
            other="opus-cx6dx",
        ),
        NicTiming(
            name="opus-cx6dx",
            source=f"{_OPUS}: about 3 s of firmware without auto-negotiation, up to 10 s under rapid repeats; "
            "carrier 70-80 us; RDMA 100-200 ms",
            fitted_to=_OPUS,
            firmware_s=3.0,
            firmware_sd_s=0.15,
            rapid_s=10.0,
            carrier_s=(70e-6, 80e-6),
            rdma_s=(0.1, 0.2),
            autoneg=False,
            other="opus-cx6dx-autoneg",
        ),
        NicTiming(
            name="mfabric-cx6",
            source="mFabric, section 6 and figure 12: NIC activation mean 5.67 s, p99 6.33 s, light to active NIC; "
            "carrier and RDMA as in Opus figure 9",
            fitted_to="mFabric, figure 12",
            firmware_s=5.67,
            firmware_sd_s=(6.33 - 5.67) / 2.326,  # p99 of a normal distribution lies 2.326 deviations above its mean
            rapid_s=5.67,
            carrier_s=(70e-6, 80e-6),
            rdma_s=(0.1, 0.2),
            autoneg=True,  # the default of NICs; the paper does not say
            other=None,
        ),
        NicTiming(
            name="ideal",
            source="no time at all: what is left is the rest of the rack",
            fitted_to=None,
            firmware_s=0.0,
            firmware_sd_s=0.0,
            rapid_s=0.0,
            carrier_s=(0.0, 0.0),
            rdma_s=(0.0, 0.0),
            autoneg=True,
            other="ideal",  # it takes no time either way
        ),
    )
}


def nic_timing(name: str) -> NicTiming:
    """Raises ConfigError that names the existing ones."""
    if (timing := NIC_TIMINGS.get(name)) is None:
        raise ConfigError(f"NIC timing {name!r}: unknown; there are {', '.join(NIC_TIMINGS)}")
    return timing
