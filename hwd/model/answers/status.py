"""Status: everything of one screen."""

from msgspec import field
from typing_extensions import override

from hwd.model.answers.alerts import Alert, DiskSpace
from hwd.model.answers.answer import Answer
from hwd.model.answers.changes import SwitchChange
from hwd.model.answers.desired import SwitchDesired, UnlitLink
from hwd.model.answers.hosts import HostStatus
from hwd.model.answers.jobs import JobStatus
from hwd.model.answers.leases import HeldLease, HeldSettings
from hwd.model.answers.prepared import EndedSet, PreparedSetStatus
from hwd.model.answers.programs import ProgramStatus
from hwd.model.answers.reconfigurations import LeftOpen, ReconfigurationStatus
from hwd.model.answers.switches import CompositeStatus, LinkStatus, SwitchStatus
from hwd.model.answers.transfers import TransferStatus
from hwd.model.html_table import table
from hwd.model.local_time import local_time
from hwd.model.plural import plural
from hwd.model.run import RunProgress, RunStatus


class BusStatus(Answer, frozen=True, kw_only=True):
    """The broker, and whether the daemon is connected to it. `since_wall_ns`: since when it is, or is not; None until
    the first attempt to connect has ended.
    """

    address: str
    connected: bool
    since_wall_ns: int | None = None


class StorageStatus(Answer, frozen=True, kw_only=True):
    """Whether records or journal can be written, and why not."""

    writable: bool
    why: str | None


class Liveness(Answer, frozen=True, kw_only=True):
    """The process runs and its event loop answers."""

    alive: bool


class Readiness(Answer, frozen=True, kw_only=True):
    """Whether the daemon is ready, and what is not."""

    ready: bool
    why: list[str]


class Status(Answer, frozen=True, kw_only=True):
    """What `hwd status` shows: switches, hosts, links, leases, runs and reconfigurations.

    `lit` is `links` in the JSON: the links that crossconnects make now. `reconfigurations`: those under way. `open`:
    interrupted ones; the daemon rolls each back as soon as nothing prevents it. `held`: settings of ended runs.
    `wall_ns`: the daemon's unix time of this answer. `alerts`: those in force, the worst first. `disk`: of the data
    folder; None where the daemon has no disk, or has not read it yet. `desired`: what is
    wanted of each switch by confirmed reconfigurations, and how it differs. `unlit`: links that are wanted so and that
    the crossconnects do not make now. `orphans`: crossconnects, `ocs1:1A-2B`, with an end that no fibre of the
    testbed file leads to, on switches that fibres lead to. `transfers`: those in flight, and hosts that have not said
    yet whether they send.
    `programs`: those that run on hosts. `sets`: prepared sets, which say what is desired of their ports; `ended_sets`:
    those of the last day that ended without a release, as with their lease.
    """

    testbed: str
    version: str
    wall_ns: int | None = None
    alerts: list[Alert] = field(default_factory=list)
    bus: BusStatus
    disk: DiskSpace | None = None
    records: StorageStatus
    journal: StorageStatus
    switches: list[SwitchStatus]
    composites: list[CompositeStatus] = field(default_factory=list)
    hosts: list[HostStatus]
    lit: list[LinkStatus] = field(name="links")
    desired: list[SwitchDesired] = field(default_factory=list)
    unlit: list[UnlitLink] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    leases: list[HeldLease]
    lease_requests: list[HeldLease] = field(default_factory=list)
    transfers: list[TransferStatus] = field(default_factory=list)
    programs: list[ProgramStatus] = field(default_factory=list)
    jobs: list[JobStatus] = field(default_factory=list)
    sets: list[PreparedSetStatus] = field(default_factory=list)
    ended_sets: list[EndedSet] = field(default_factory=list)
    held: list[HeldSettings]
    reconfigurations: list[ReconfigurationStatus]
    open: list[LeftOpen]
    runs: list[RunProgress]
    queue: list[RunStatus]

    @property
    def links(self) -> dict[str, bool | None]:
        """Links that are lit, with whether both ends have carrier."""
        return {one.link: one.carrier for one in self.lit}

    @property
    def settled(self) -> bool:
        """True where switches, agents and broker are connected, clocks are aligned, and no reconfiguration or run is
        under way or unfinished.
        """
        there = all(switch.up is not False for switch in self.switches) and all(
            host.up and host.aligned for host in self.hosts
        )
        unfinished = self.runs or self.reconfigurations or self.open or self.held
        return there and self.bus.connected and not unfinished

    @override
    def __str__(self) -> str:
        switches = f"{sum(bool(one.up) for one in self.switches)} of {len(self.switches)} switches up"
        hosts = f"{sum(one.up for one in self.hosts)} of {len(self.hosts)} hosts up"
        under_way = len(self.runs) + len(self.reconfigurations)
        counts = f"{plural(len(self.links), 'link')}, {plural(len(self.leases), 'lease')}, {under_way} under way"
        left = f", {len(self.open)} left open" if self.open else ""
        alerts = f", {plural(len(self.alerts), 'alert')}" if self.alerts else ""
        return f"testbed {self.testbed}: {switches}, {hosts}, {counts}{left}{alerts}"

    @override
    def _repr_html_(self) -> str:
        carrier = {True: "carrier", False: "no carrier", None: "unknown"}
        since = self._since
        rows = [("alert", one.name, f"{one.severity}, {one.subject}: {one.summary}", since(one)) for one in self.alerts]
        rows += [("switch", one.name, str(one), since(one)) for one in self.switches]
        rows += [("composite", one.name, str(one), "") for one in self.composites]
        rows += [("host", one.name, str(one), since(one)) for one in self.hosts]
        rows += [("link", one.link, carrier[one.carrier], since(one)) for one in self.lit]
        rows += [("wanted link", one.link, str(one), "") for one in self.unlit]
        rows += [("difference", one.switch, str(one), "") for one in self.desired if one.differs]
        rows += [("lease", one.id, str(one), "") for one in self.leases]
        rows += [("reconfiguration", one.id, str(one), "") for one in self.reconfigurations]
        rows += [("reconfiguration", one.id, str(one), "") for one in self.open]
        changed = [one for one in self.switches if one.last_change is not None]
        rows += [("last change", one.name, str(one.last_change), self._at(one.last_change)) for one in changed]
        if self.disk is not None:
            rows.append(("disk", "", str(self.disk), ""))
        return table(("", "", "is", "since"), rows, caption=str(self))

    def _since(self, one: "Alert | SwitchStatus | HostStatus | LinkStatus") -> str:
        return "" if one.since_wall_ns is None else local_time(one.since_wall_ns, now_wall_ns=self.wall_ns)

    def _at(self, change: SwitchChange | None) -> str:
        return "" if change is None else local_time(change.wall_ns, now_wall_ns=self.wall_ns)
