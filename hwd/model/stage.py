"""Stages: the time between two instants of a link, with its bound and where it comes from."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from hwd.model.instant import Instant, InstantName, Knowledge, Origin

_NS_IN_S = 1e9


class StageName(StrEnum):
    """The stages, in the order of a report."""

    CONTROL = "control"
    """From the first byte sent to the switch's answer. mFabric's Figure 10 is this one."""
    OPTICAL = "optical"
    """From the first byte sent to light on all lanes at both ends."""
    FIRMWARE = "firmware"
    """From light to the NIC's own PHY being up."""
    CARRIER = "carrier"
    """From the PHY being up to the kernel's carrier."""
    RDMA = "rdma"
    """From the carrier to an active RDMA port with its GID."""
    READY = "ready"
    """From the RDMA port (from the carrier where that is unknown) to the first transfer, both ways."""
    TURNAROUND = "turnaround"
    """From the first byte sent to the first transfer, both ways."""
    ACTIVATION = "activation"
    """From the switch's answer to the kernel's carrier: mFabric's NIC activation."""


class Stage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One stage of one link. `seconds` is None unless `knowledge` is seen; `why` then says what is missing.

    `error_s` is the sum of the bounds of both ends. `why` of a seen stage is a remark, such as an unusual start.
    """

    name: StageName
    knowledge: Knowledge
    seconds: float | None = None
    error_s: float | None = None
    origin: Origin | None = None
    why: str = ""

    def __str__(self) -> str:
        if self.seconds is None or self.error_s is None:
            return f"{self.name} {self.knowledge}: {self.why}"
        return f"{self.name} {self.seconds:.6f} s +- {self.error_s:.6f} s ({self.origin})"


_ENDS: Mapping[StageName, tuple[InstantName, InstantName]] = {
    StageName.CONTROL: (InstantName.COMMANDED, InstantName.ACKNOWLEDGED),
    StageName.OPTICAL: (InstantName.COMMANDED, InstantName.LIGHT),
    StageName.FIRMWARE: (InstantName.LIGHT, InstantName.FIRMWARE),
    StageName.CARRIER: (InstantName.FIRMWARE, InstantName.CARRIER),
    StageName.RDMA: (InstantName.CARRIER, InstantName.RDMA),
    StageName.READY: (InstantName.RDMA, InstantName.READY),
    StageName.TURNAROUND: (InstantName.COMMANDED, InstantName.READY),
    StageName.ACTIVATION: (InstantName.ACKNOWLEDGED, InstantName.CARRIER),
}


def limits(name: StageName, instants: Mapping[InstantName, Instant]) -> tuple[Instant, Instant]:
    """The instants between which a stage lies, whether they were seen or not."""
    start, end = (instants[instant] for instant in _ENDS[name])
    if name is StageName.READY and start.knowledge is not Knowledge.SEEN:
        start = instants[InstantName.CARRIER]
    return start, end


def within_s(start: Instant, end: Instant) -> tuple[float, float] | None:
    """The shortest and the longest possible duration, by the bounds of its instants; None where it was not seen."""
    if Knowledge.SEEN is not start.knowledge or Knowledge.SEEN is not end.knowledge:
        return None
    return (end.earliest_ns - start.latest_ns) / _NS_IN_S, (end.latest_ns - start.earliest_ns) / _NS_IN_S
