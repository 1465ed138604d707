"""The successive stages of a link, as bars of a waterfall or a trace."""

from dataclasses import dataclass

from hwd.model.instant import InstantName, Knowledge
from hwd.report.quantity import bound, duration, resolved
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
    """A bar, in seconds after the command; its end lies between `least_s` and `most_s`. `ends`: the stage whose end it
    has. `stage` None: what happened in it is unknown. Its end is infinite, and `ends` None, where that is unknown too.
    """

    start_s: float
    end_s: float
    least_s: float
    most_s: float
    ends: StageName | None
    stage: StageName | None
    title: str

    @property
    def error_s(self) -> float:
        return max(self.end_s - self.least_s, self.most_s - self.end_s)


def bars(link: LinkTimeline) -> list[Bar]:
    """The bars of a link: between two instants that were seen is the stage of the later one, unless an unknown one lies
    between. `ready` is counted from the carrier where rdma is unknown. No bars where no command was seen.
    """
    commanded = link.instant(InstantName.COMMANDED)
    if commanded.knowledge is not Knowledge.SEEN:
        return []
    found: list[Bar] = []
    at_s, at_error_ns, at_name = 0.0, commanded.error_ns, commanded.name
    unknown: dict[InstantName, str] = {}
    for name, stage in CHAIN:
        instant = link.instant(name)
        if instant.knowledge is Knowledge.UNKNOWN:
            unknown[name] = f"{name} unknown: {instant.why}"
        if instant.knowledge is not Knowledge.SEEN:
            continue
        end_s = max(at_s, (instant.at_ns - commanded.at_ns) / _NS_IN_S)
        within_s = (
            (instant.earliest_ns - commanded.latest_ns) / _NS_IN_S,
            (instant.latest_ns - commanded.earliest_ns) / _NS_IN_S,
        )
        error_s = (instant.error_ns + commanded.error_ns) / _NS_IN_S
        is_counted = {*unknown} <= ({InstantName.RDMA} if at_name is InstantName.CARRIER else set())
        length = resolved(end_s - at_s, (instant.error_ns + at_error_ns) / _NS_IN_S)
        seen = (
            f"{instant.name} {duration(end_s)} after the command, {bound(error_s)} ({instant.origin}, {instant.source})"
        )
        known = f"{stage} {length}, {instant.name} {bound(error_s)} ({instant.origin}, {instant.source})"
        found.append(
            Bar(
                start_s=at_s,
                end_s=end_s,
                least_s=min(end_s, within_s[0]),
                most_s=max(end_s, within_s[1]),
                ends=stage,
                stage=stage if is_counted else None,
                title="; ".join([*unknown.values(), known if is_counted else seen]),
            )
        )
        at_s, at_error_ns, at_name, unknown = end_s, instant.error_ns, name, {}
    if unknown:
        open_s, words = float("inf"), "; ".join(unknown.values())
        found.append(Bar(start_s=at_s, end_s=open_s, least_s=open_s, most_s=open_s, ends=None, stage=None, title=words))
    return found
