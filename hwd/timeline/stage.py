"""Makes the stages of a link from its instants."""

from collections.abc import Mapping

from hwd.model.instant import Instant, InstantName, Knowledge, Origin
from hwd.model.stage import Stage, StageName, limits

_NS_IN_S = 1e9

_BETWEEN: Mapping[StageName, tuple[InstantName, ...]] = {
    StageName.TURNAROUND: (InstantName.LIGHT, InstantName.FIRMWARE, InstantName.CARRIER, InstantName.RDMA),
    StageName.ACTIVATION: (InstantName.LIGHT, InstantName.FIRMWARE),
}
"""Stages that make up a long stage: `ready` may be a real event, and yet nearly all of the turnaround may be drawn."""


def stages(instants: Mapping[InstantName, Instant]) -> tuple[Stage, ...]:
    """All stages of a link, from its instants."""
    return tuple(_stage(name, instants) for name in StageName)


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
