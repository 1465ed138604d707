"""The successive stages of a link, as bars of a waterfall or a trace."""

from dataclasses import dataclass

from hwd.model.instant import InstantName, Knowledge
from hwd.report.quantity import bound, resolved
from hwd.timeline import LinkTimeline, StageName

_NS_IN_S = 1e9

CHAIN: tuple[tuple[InstantName, StageName], ...] = (
    (InstantName.LIGHT, StageName.OPTICAL),
    (InstantName.FIRMWARE, StageName.FIRMWARE),
    (InstantName.CARRIER, StageName.CARRIER),
    (InstantName.RDMA, StageName.RDMA),
    (InstantName.READY, StageName.READY),
)
"""Successive stages, by the instants that end them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar, in seconds after the command. `stage` None: what happened in it is unknown; its end is infinite where that
    is unknown too.
    """

    start_s: float
    end_s: float
    error_s: float
    stage: StageName | None
    title: str


def bars(link: LinkTimeline) -> list[Bar]:
    """Between two instants that are seen lies the stage of the later one, unless an unknown one lies between. None
    where no command was seen.
    """
    commanded = link.instant(InstantName.COMMANDED)
    if commanded.knowledge is not Knowledge.SEEN:
        return []
    found: list[Bar] = []
    at_s, at_error_ns = 0.0, commanded.error_ns
    unknown: list[str] = []
    for name, stage in CHAIN:
        instant = link.instant(name)
        if instant.knowledge is Knowledge.UNKNOWN:
            unknown.append(f"{name} unknown: {instant.why}")
        if instant.knowledge is not Knowledge.SEEN:
            continue
        end_s = max(at_s, (instant.at_ns - commanded.at_ns) / _NS_IN_S)
        error_s = (instant.error_ns + commanded.error_ns) / _NS_IN_S
        length = resolved(end_s - at_s, (instant.error_ns + at_error_ns) / _NS_IN_S)
        known = f"{stage} {length}, {instant.name} {bound(error_s)} ({instant.origin}, {instant.source})"
        found.append(
            Bar(
                start_s=at_s,
                end_s=end_s,
                error_s=error_s,
                stage=None if unknown else stage,
                title="; ".join([*unknown, known]),
            )
        )
        at_s, at_error_ns, unknown = end_s, instant.error_ns, []
    if unknown:
        found.append(Bar(start_s=at_s, end_s=float("inf"), error_s=0, stage=None, title="; ".join(unknown)))
    return found
