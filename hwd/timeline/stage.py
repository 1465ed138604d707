"""Stages: the time between two instants of a link, with its bound and where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
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

_BETWEEN: Mapping[StageName, tuple[InstantName, ...]] = {
    StageName.TURNAROUND: (InstantName.LIGHT, InstantName.FIRMWARE, InstantName.CARRIER, InstantName.RDMA),
    StageName.ACTIVATION: (InstantName.LIGHT, InstantName.FIRMWARE),
}
"""Stages that make up a long stage: `ready` may be a real event, and yet nearly all of the turnaround may be drawn."""


def stages(instants: Mapping[InstantName, Instant]) -> tuple[Stage, ...]:
    """All stages of a link, from its instants."""
    return tuple(_stage(name, instants) for name in StageName)


def limits(name: StageName, instants: Mapping[InstantName, Instant]) -> tuple[Instant, Instant]:
    """The instants between which a stage lies, whether they were seen or not."""
    start, end = (instants[instant] for instant in _ENDS[name])
    if name is StageName.READY and start.knowledge is not Knowledge.SEEN:
        start = instants[InstantName.CARRIER]
    return start, end


def _stage(name: StageName, instants: Mapping[InstantName, Instant]) -> Stage:
    start, end = limits(name, instants)
    why = ""
    if name is StageName.READY and start.name is InstantName.CARRIER:
        why = f"counted from the carrier: rdma {_why(instants[InstantName.RDMA])}"
    for instant in (start, end):
        if instant.knowledge is not Knowledge.SEEN:
            return Stage(name=name, knowledge=instant.knowledge, why=f"{instant.name} {_why(instant)}")
    between = [instants[instant] for instant in _BETWEEN.get(name, ())]
    return Stage(
        name=name,
        knowledge=Knowledge.SEEN,
        seconds=(end.at_ns - start.at_ns) / _NS_IN_S,
        error_s=(end.error_ns + start.error_ns) / _NS_IN_S,
        origin=_origin(name, start, [*between, end]),
        why=why,
    )


def _origin(name: StageName, start: Instant, rest: list[Instant]) -> Origin:
    """The weakest origin among those that determine the length. A start drawn from a fitted model counts as drawn: the
    stage before it was fitted.

    The first transfer waits for nothing that a twin draws once its port is active, so the start of `ready` does not
    count.
    """
    origins = [instant.origin for instant in rest if instant.knowledge is Knowledge.SEEN]
    if name is not StageName.READY:
        origins.append(Origin.TWIN if start.origin is Origin.FITTED else start.origin)
    origin = origins[0]
    for other in origins[1:]:
        origin = origin.weakest(other)
    return origin


def _why(instant: Instant) -> str:
    return f"{instant.knowledge}: {instant.why}" if instant.why else str(instant.knowledge)
