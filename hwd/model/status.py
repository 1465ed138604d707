"""The status of everything on one screen, alerts, readiness, and the answer where something is wrong."""

from typing import Literal

from msgspec import UNSET, UnsetType, field
from typing_extensions import override

from hwd.model.api_value import ApiValue
from hwd.model.desired_state import SwitchDesired, UnlitLink
from hwd.model.host import HostStatus
from hwd.model.html_table import table
from hwd.model.job_status import JobStatus
from hwd.model.lease import HeldLease, HeldSettings
from hwd.model.local_time import local_time
from hwd.model.plural import plural
from hwd.model.prepared_set import EndedSet, PreparedSetStatus
from hwd.model.program import ProgramStatus
from hwd.model.reconfiguration import LeftOpen, ReconfigurationStatus
from hwd.model.run import RunProgress, RunStatus
from hwd.model.switch import CompositeStatus, LinkStatus, SwitchChange, SwitchStatus
from hwd.model.transfer import TransferStatus

LITTLE_FREE_BYTES = 1_000_000_000
"""Less than this is little: 10,000 events a second, which 64 agents reached in the benchmark `fleet`, fill it in some
three minutes, at half a kilobyte each. The alert DiskSpaceLow has the same limit."""


class Alert(ApiValue, frozen=True, kw_only=True):
    """An alert of `dashboards/prometheus/alerts.yml` that is in force by what the daemon knows.

    `subject`: the switch, host, port, link, run, job or limit that it is about. `since_wall_ns`: when its condition
    began, from which its hold time counts, or when the first of its recent events came. `last_wall_ns`: when the last
    of these events came; None for a condition, which lasts.
    """

    name: str
    severity: Literal["critical", "warning", "info"]
    subject: str
    since_wall_ns: int
    last_wall_ns: int | None = None
    summary: str

    @override
    def __str__(self) -> str:
        return f"{self.name} ({self.severity}) {self.subject}: {self.summary}"


class DiskSpace(ApiValue, frozen=True, kw_only=True):
    """The file system of the data folder, which holds records and journal, as it was read last.

    `free_bytes`: what the daemon may still write. Both sizes are None where they could not be read; `why` says why.
    """

    path: str
    free_bytes: int | None
    total_bytes: int | None
    why: str
    read_wall_ns: int

    @property
    def is_little(self) -> bool:
        return self.free_bytes is not None and self.free_bytes < LITTLE_FREE_BYTES

    @override
    def __str__(self) -> str:
        if self.free_bytes is None or self.total_bytes is None:
            return f"free space of {self.path} is unknown: {self.why}"
        if self.is_little:
            return f"{self.free_bytes / 1e6:.0f} of {self.total_bytes / 1e6:.0f} MB free at {self.path}"
        return f"{self.free_bytes / 1e9:.1f} of {self.total_bytes / 1e9:.1f} GB free at {self.path}"


class Problem(ApiValue, frozen=True, kw_only=True):
    """An error. `type`: a tag URI that names its kind. `exit_status`: what the command line ends with.

    `problems`: of a refused file or body, one text each. `device`, `command`, `code` and `text`: of a device that
    refused a command, in its own words. `switches`: those that could not be rolled back.
    """

    type: str
    title: str
    status: int
    detail: str
    exit_status: int
    problems: list[str] | UnsetType = UNSET
    device: str | UnsetType = UNSET
    command: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    switches: list[str] | UnsetType = UNSET


class BusStatus(ApiValue, frozen=True, kw_only=True):
    """The broker, and whether the daemon is connected to it. `since_wall_ns`: since when it is, or is not; None until
    the first attempt to connect has ended.
    """

    address: str
    connected: bool
    since_wall_ns: int | None = None


class StorageStatus(ApiValue, frozen=True, kw_only=True):
    """Whether records or journal can be written, and why not."""

    writable: bool
    why: str | None


class FaultConfirmation(ApiValue, frozen=True, kw_only=True):
    """A fault of a twin was set or cleared; a failure is a problem document."""

    done: bool


class Liveness(ApiValue, frozen=True, kw_only=True):
    """The process runs and its event loop answers."""

    alive: bool


class Readiness(ApiValue, frozen=True, kw_only=True):
    """Whether the daemon is ready, and what is not."""

    ready: bool
    why: list[str]


class Status(ApiValue, frozen=True, kw_only=True):
    """The state of daemon and rack that `hwd status` shows: switches, hosts, links, leases, runs, reconfigurations.

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
        """Whether switches, agents and broker are connected, clocks are aligned, and no reconfiguration or run is under
        way or unfinished.
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
