"""A timeline: all instants of one reconfiguration by subject, aggregated to links, with the breaches of their order."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from hwd.model.instant import Instant, InstantName
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.rc_recovery import RcRecovery
from hwd.model.reconfiguration import ReconfigurationFact
from hwd.model.stage import Stage, StageName, limits, within_s
from hwd_drivers.core.errors import BugError

END_INSTANTS = (
    InstantName.DARK,
    InstantName.LIGHT,
    InstantName.FIRMWARE,
    InstantName.CARRIER,
    InstantName.RDMA,
    InstantName.READY,
)
"""The instants of one end of a link. `ready` belongs to the link; each end reports when its own transfers succeeded."""


class SwitchCommand(msgspec.Struct, frozen=True, kw_only=True):
    """When one switch was commanded and when it answered; `commands` is how many were sent.

    `made`, `removed`: crossconnects of a step, where the plan has steps.
    """

    switch: str
    commands: int
    instants: tuple[Instant, Instant]
    made: int | UnsetType = UNSET
    removed: int | UnsetType = UNSET

    @property
    def commanded(self) -> Instant:
        return self.instants[0]

    @property
    def acknowledged(self) -> Instant:
        return self.instants[1]


class EndTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """One end of a link: the chosen instants in the order of END_INSTANTS, and every observation they were chosen from.

    `rc`: the recovery of its reliable connection, where it had one.
    """

    link: Link
    end: NicPortId
    instants: tuple[Instant, ...]
    observations: tuple[Instant, ...]
    rc: RcRecovery | UnsetType = UNSET

    def instant(self, name: InstantName) -> Instant:
        return _named(self.instants, name)


class LinkTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """A link with its instants (all of InstantName) and stages (all of StageName).

    `switches`: those that had to add a crossconnect for it. `dwell_s`: time since the link's last reconfiguration when
    this one was commanded; None where that is not known.
    """

    link: Link
    kept: bool
    instants: tuple[Instant, ...]
    stages: tuple[Stage, ...]
    dwell_s: float | None
    switches: list[str] | UnsetType = UNSET

    def instant(self, name: InstantName) -> Instant:
        return _named(self.instants, name)

    def stage(self, name: StageName) -> Stage:
        for stage in self.stages:
            if stage.name is name:
                return stage
        raise BugError(f"link {self.link}: no stage {name}")

    def limits(self, name: StageName) -> tuple[Instant, Instant]:
        """The instants between which a stage lies, whether they were seen or not."""
        return limits(name, {instant.name: instant for instant in self.instants})

    def within_s(self, name: StageName) -> tuple[float, float] | None:
        """The shortest and the longest possible duration of a stage, by the bounds of its instants; None where it was
        not seen.
        """
        return within_s(*self.limits(name))


class Timeline(ReconfigurationFact, frozen=True, kw_only=True):
    """The timeline of a reconfiguration.

    `breaches`: an order that must hold and does not, a kept link that went dark. `explained`: falls that a run caused
    by setting a port, or its peer.
    """

    KIND: ClassVar = "timeline"
    source: str | UnsetType = UNSET
    host: str | UnsetType = UNSET
    run: str | None
    what: str
    sweep: dict[str, Any] = msgspec.field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    commands: list[SwitchCommand]
    ends: list[EndTimeline]
    links: list[LinkTimeline]
    breaches: list[str]
    explained: list[str] = msgspec.field(default_factory=list)

    @property
    def moved(self) -> tuple[LinkTimeline, ...]:
        """Links with a crossconnect that moved."""
        return tuple(link for link in self.links if not link.kept)


def _named(instants: Sequence[Instant], name: InstantName) -> Instant:
    for instant in instants:
        if instant.name is name:
            return instant
    raise BugError(f"no instant {name} among {', '.join(instant.name for instant in instants) or 'none'}")
