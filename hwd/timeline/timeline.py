"""A timeline: all instants of one reconfiguration by subject, rolled up to links, with what broke the order."""

from collections.abc import Sequence
from dataclasses import dataclass

from hwd.model.instant import Instant, InstantName
from hwd.model.link import Link
from hwd.model.testbed import NicPortId
from hwd.timeline.stage import Stage, StageName
from hwd_drivers.kit.errors import BugError

END_INSTANTS = (
    InstantName.DARK,
    InstantName.LIGHT,
    InstantName.FIRMWARE,
    InstantName.CARRIER,
    InstantName.RDMA,
    InstantName.READY,
)
"""The instants that an end of a link has. `ready` belongs to the link; each end says when its own transfers succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCommand:
    """When one switch was commanded and when it answered; `commands` is how many were sent."""

    switch: str
    commands: int
    commanded: Instant
    acknowledged: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTimeline:
    """One end of a link: the chosen instants in the order of END_INSTANTS, and every observation they were chosen from."""

    link: Link
    end: NicPortId
    instants: tuple[Instant, ...]
    observations: tuple[Instant, ...]

    def instant(self, name: InstantName) -> Instant:
        return _named(self.instants, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTimeline:
    """A link with its rolled-up instants (all of InstantName) and stages (all of StageName).

    `dwell_s`: time since the link's last reconfiguration when this one was commanded; None where that is not known.
    """

    link: Link
    kept: bool
    instants: tuple[Instant, ...]
    stages: tuple[Stage, ...]
    dwell_s: float | None

    def instant(self, name: InstantName) -> Instant:
        return _named(self.instants, name)

    def stage(self, name: StageName) -> Stage:
        for stage in self.stages:
            if stage.name is name:
                return stage
        raise BugError(f"link {self.link}: no stage {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One reconfiguration. `breaches` are texts: an order that must hold and does not, a kept link that went dark."""

    reconfiguration: str
    run: str | None
    what: str
    commands: tuple[SwitchCommand, ...]
    ends: tuple[EndTimeline, ...]
    links: tuple[LinkTimeline, ...]
    breaches: tuple[str, ...]

    def ends_of(self, link: Link) -> tuple[EndTimeline, ...]:
        return tuple(end for end in self.ends if end.link == link)


def _named(instants: Sequence[Instant], name: InstantName) -> Instant:
    for instant in instants:
        if instant.name is name:
            return instant
    raise BugError(f"no instant {name} among {', '.join(instant.name for instant in instants) or 'none'}")
