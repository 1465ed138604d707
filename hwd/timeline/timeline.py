"""A timeline: all instants of one reconfiguration by subject, aggregated to links, with the breaches of their order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from hwd.model.instant import Instant, InstantName, Knowledge
from hwd.model.link import Link
from hwd.model.testbed import NicPortId
from hwd.timeline.instant_json import instant_data, read_instant, read_stage, stage_data
from hwd.timeline.rc_recovery import RcRecovery
from hwd.timeline.stage import Stage, StageName, limits
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import BugError

_NS_IN_S = 1e9

END_INSTANTS = (
    InstantName.DARK,
    InstantName.LIGHT,
    InstantName.FIRMWARE,
    InstantName.CARRIER,
    InstantName.RDMA,
    InstantName.READY,
)
"""The instants of one end of a link. `ready` belongs to the link; each end reports when its own transfers succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCommand:
    """When one switch was commanded and when it answered; `commands` is how many were sent."""

    switch: str
    commands: int
    commanded: Instant
    acknowledged: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTimeline:
    """One end of a link: the chosen instants in the order of END_INSTANTS, and every observation they were chosen from.

    `rc`: the recovery of its reliable connection, where it had one.
    """

    link: Link
    end: NicPortId
    instants: tuple[Instant, ...]
    observations: tuple[Instant, ...]
    rc: RcRecovery | None = None

    def instant(self, name: InstantName) -> Instant:
        return _named(self.instants, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTimeline:
    """A link with its instants (all of InstantName) and stages (all of StageName).

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

    def limits(self, name: StageName) -> tuple[Instant, Instant]:
        """The instants between which a stage lies, whether they were seen or not."""
        return limits(name, {instant.name: instant for instant in self.instants})

    def within_s(self, name: StageName) -> tuple[float, float] | None:
        """The shortest and the longest possible duration of a stage, by the bounds of its instants; None where it was
        not seen.
        """
        start, end = self.limits(name)
        if Knowledge.SEEN is not start.knowledge or Knowledge.SEEN is not end.knowledge:
            return None
        return (end.earliest_ns - start.latest_ns) / _NS_IN_S, (end.latest_ns - start.earliest_ns) / _NS_IN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One reconfiguration.

    `breaches` are texts: an order that must hold and does not, a kept link that went dark. `explained` are texts too:
    breaches that a run caused by a setting of the NIC port that fell, or of its peer. `sweep`: the sweep variables of
    its run, with their values. `settings`: the NIC settings that runs had in force at its ends, by port.
    """

    reconfiguration: str
    run: str | None
    what: str
    commands: tuple[SwitchCommand, ...]
    ends: tuple[EndTimeline, ...]
    links: tuple[LinkTimeline, ...]
    breaches: tuple[str, ...]
    explained: tuple[str, ...] = ()
    sweep: Mapping[str, Json] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        """The fields of a `timeline` document."""
        return {
            "reconfiguration": self.reconfiguration,
            "run": self.run,
            "what": self.what,
            "sweep": dict(self.sweep),
            "settings": {port: dict(values) for port, values in self.settings.items()},
            "commands": [
                {
                    "switch": command.switch,
                    "commands": command.commands,
                    "instants": [instant_data(command.commanded), instant_data(command.acknowledged)],
                }
                for command in self.commands
            ],
            "ends": [_end_data(end) for end in self.ends],
            "links": [
                {
                    "link": str(link.link),
                    "kept": link.kept,
                    "instants": [instant_data(instant) for instant in link.instants],
                    "stages": [stage_data(stage) for stage in link.stages],
                    "dwell_s": link.dwell_s,
                }
                for link in self.links
            ],
            "breaches": list(self.breaches),
            "explained": list(self.explained),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Raises KeyError or ValueError where `to_data` did not make it; older records have no sweep
        and no settings.
        """
        return cls(
            reconfiguration=data["reconfiguration"],
            run=data["run"],
            what=data["what"],
            commands=tuple(
                SwitchCommand(
                    switch=command["switch"],
                    commands=command["commands"],
                    commanded=read_instant(command["instants"][0]),
                    acknowledged=read_instant(command["instants"][1]),
                )
                for command in data["commands"]
            ),
            ends=tuple(
                EndTimeline(
                    link=Link.parse(end["link"]),
                    end=NicPortId.parse(end["end"]),
                    instants=tuple(map(read_instant, end["instants"])),
                    observations=tuple(map(read_instant, end["observations"])),
                    rc=RcRecovery.from_data(end["rc"]) if "rc" in end else None,
                )
                for end in data["ends"]
            ),
            links=tuple(
                LinkTimeline(
                    link=Link.parse(link["link"]),
                    kept=link["kept"],
                    instants=tuple(map(read_instant, link["instants"])),
                    stages=tuple(map(read_stage, link["stages"])),
                    dwell_s=link["dwell_s"],
                )
                for link in data["links"]
            ),
            breaches=tuple(data["breaches"]),
            explained=tuple(data.get("explained", ())),
            sweep=data.get("sweep", {}),
            settings=data.get("settings", {}),
        )


def _end_data(end: EndTimeline) -> dict[str, Json]:
    data: dict[str, Json] = {
        "link": str(end.link),
        "end": str(end.end),
        "instants": [instant_data(instant) for instant in end.instants],
        "observations": [instant_data(instant) for instant in end.observations],
    }
    return data if end.rc is None else {**data, "rc": end.rc.to_data()}


def _named(instants: Sequence[Instant], name: InstantName) -> Instant:
    for instant in instants:
        if instant.name is name:
            return instant
    raise BugError(f"no instant {name} among {', '.join(instant.name for instant in instants) or 'none'}")
