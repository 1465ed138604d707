"""Hosts, their agents, clocks and NIC ports: documents, and what callers see."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType, field
from typing_extensions import override

from hwd.model.api_value import ApiValue
from hwd_agents.wire import HeldSetting, Inventory, PortNote, WallClock
from hwd_agents.wire.events import DATA
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.structs import from_plain


class HostFact(Fact, frozen=True, kw_only=True):
    """A fact of one host."""

    host: str


class HostPort(PortNote, frozen=True, kw_only=True):
    """A NIC port as its agent described it. `rdma`: whether its RDMA port is active; None where that is unknown."""

    rdma: bool | None


class HostBirth(HostFact, frozen=True, kw_only=True):
    """An agent described its host. All but the ports is empty from an agent of an older version.

    `settings`: those that runs have changed and that were not put back yet.
    """

    KIND: ClassVar = "host.birth"
    boot: str
    version: str
    ports: dict[str, HostPort]
    inventory: Inventory | UnsetType = UNSET
    settings: list[HeldSetting] | UnsetType = UNSET
    wall_clock: WallClock | UnsetType | None = UNSET


class HostUp(HostFact, frozen=True, kw_only=True):
    """The host's agent is connected."""

    KIND: ClassVar = "host.up"
    boot: str


class HostDown(HostFact, frozen=True, kw_only=True):
    """The host's agent is disconnected."""

    KIND: ClassVar = "host.down"
    boot: str
    cause: str


class HostEvent(HostFact, frozen=True, kw_only=True):
    """An event of its agent, with times on the daemon's clock; see the MQTT page for `type` and `data`.

    `past`: it is of an earlier boot of the agent and arrived late; it says nothing of the present. `stamps`: the times
    of a selection: {requested_ns, answered_ns, error_ns, switches: {switch: {commanded_ns, acknowledged_ns}}}.

    In memory `data` is a value of `hwd_agents.wire.events`, such as CarrierData. It is a mapping where this version
    does not define the type, or cannot read the data.
    """

    KIND: ClassVar = "host.event"
    boot: str
    seq: int
    type: str
    port: str | None
    earliest_ns: int
    latest_ns: int
    best_ns: int
    agent_ns: int
    origin: str
    source: str
    sampling_ns: int = 0
    past: bool = False
    data: Any
    stamps: dict[str, Any] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Read the data by the type of the event."""
        if isinstance(self.data, Mapping) and self.type in DATA:
            try:
                msgspec.structs.force_setattr(self, "data", from_plain(self.data, DATA[self.type]))
            except msgspec.ValidationError:
                return  # as it was sent: whoever needs a field finds no value of its type


class HostSelection(HostFact, frozen=True, kw_only=True):
    """A host has set its own switches.

    `switches`: {switch: {epoch, epoch_in_force, before, now, commanded_ns, acknowledged_ns, ...}}.
    """

    KIND: ClassVar = "host.selection"
    boot: str
    selection: str
    outcome: str
    why: str
    seconds: float
    requested_ns: int
    answered_ns: int
    error_ns: int
    switches: dict[str, dict[str, Any]]
    ports: dict[str, Any]


class HostLost(HostFact, frozen=True, kw_only=True):
    """Events that the spool could not hold, or flaps that were not observed."""

    KIND: ClassVar = "host.lost"
    boot: str
    count: int
    why: str


class HostGarbage(HostFact, frozen=True, kw_only=True):
    """Messages of the host are unreadable; `count`: since the previous document; `topic` and `why`: of the latest."""

    KIND: ClassVar = "host.garbage"
    topic: str
    why: str
    count: int


class HostTrouble(HostFact, frozen=True, kw_only=True):
    """A task of the daemon for this host failed by a bug; `why` is empty where it works again."""

    KIND: ClassVar = "host.trouble"
    task: str
    why: str


class ClockAligned(HostFact, frozen=True, kw_only=True):
    """The agent's clock against the daemon's; `via`: udp or broker."""

    KIND: ClassVar = "clock.aligned"
    boot: str
    offset_ns: int
    drift_ppm: float
    error_ns: int
    agent_ns: int
    samples: int
    drift_error_ppm: float | UnsetType = UNSET
    round_trip_ns: int
    stepped: bool | UnsetType = UNSET
    via: str | UnsetType = UNSET
    why_not_udp: str | UnsetType = UNSET


class ClockStepped(HostFact, frozen=True, kw_only=True):
    """A host's clock was set, or stopped, between two times of the daemon's clock: by how much (forwards above 0),
    right within `error_ns`.

    Events of that host in between are converted by its clock before the step, until the step is found.
    """

    KIND: ClassVar = "clock.stepped"
    boot: str
    by_ns: int
    error_ns: int
    earliest_ns: int
    latest_ns: int

    def text(self, *, zero_ns: int) -> str:
        """The step in words, with its host; times count from `zero_ns`."""
        since_ms, until_ms = (self.earliest_ns - zero_ns) / 1e6, (self.latest_ns - zero_ns) / 1e6
        between = f"between {since_ms:.3f} and {until_ms:.3f} ms"
        return f"{self.host}: {self}, {between}: instants of its ports may be off by that"

    @override
    def __str__(self) -> str:
        return f"its clock was stepped by {self.by_ns / 1e9:+.6f} s +- {self.error_ns / 1e3:.0f} us"


class ClockStepReport(ApiValue, frozen=True, kw_only=True):
    """A step of the clock of a host: by how much, with its bound, and between which two times of the daemon's clock."""

    by_ns: int
    error_ns: int
    earliest_ns: int
    latest_ns: int


class HostClock(ApiValue, frozen=True, kw_only=True):
    """The clock of a host against the daemon's, and how it is measured.

    `via`: how the last requests were sent, or null. `steps`: of its clock in this boot; `step`: the last of them.
    """

    boot: str
    offset_ns: int
    drift_ppm: float
    error_ns: int
    agent_ns: int
    samples: int
    drift_error_ppm: float
    round_trip_ns: int
    via: str | None
    why_not_udp: str
    steps: int
    step: ClockStepReport | None


class HostSpool(ApiValue, frozen=True, kw_only=True):
    """The spool of an agent. `trouble`: what is wrong with it and its remedy, or empty."""

    bytes: int | None
    limit_bytes: int | None
    trouble: str


NEVER_CONNECTED = "no agent of it was heard since the daemon started"
BUS_BACK = "nothing was heard of it since the broker is back"


class HostStatus(ApiValue, frozen=True, kw_only=True):
    """A host, as its agent reports it.

    `cause`: why it is not up. `since_wall_ns`: since when its agent is connected or disconnected, None where the daemon
    did not see that begin. `heard_wall_ns`: when its last message came. `boot`, `version`, `wall_clock` and `spool`
    are None until the agent first connects, `clock` until its clock is aligned. `settings`: those that runs have
    changed and that were not put back yet. `lost`: events that are gone, since the daemon started. `rival`: another
    boot that claims to be this host. `trouble`: the work of the daemon that fails for this host. `selection`: why jobs
    there cannot set its switches. `skew`: why the version of its agent does not fit the daemon's. Texts are empty where
    all is well.
    """

    host: str
    up: bool
    cause: str
    since_wall_ns: int | None = None
    heard_wall_ns: int | None = None
    boot: str | None = None
    version: str | None = None
    clock: HostClock | None = None
    wall_clock: WallClock | None = None
    ports: dict[str, HostPort] = field(default_factory=dict)
    settings: list[HeldSetting] = field(default_factory=list)
    lost: int = 0
    rival: str | None = None
    trouble: str = ""
    spool: HostSpool | None = None
    selection: str = ""
    skew: str = ""

    @property
    def name(self) -> str:
        return self.host

    @property
    def is_known(self) -> bool:
        """Whether the host is known to be up or down: nothing was heard of it yet where this is False."""
        return self.up or self.cause not in (NEVER_CONNECTED, BUS_BACK)

    @property
    def aligned(self) -> bool:
        """Whether its clock is aligned with the daemon's."""
        return self.clock is not None

    @override
    def __str__(self) -> str:
        lit = sum(bool(port.carrier) for port in self.ports.values())
        if not self.up:
            return f"{self.name} {'down' if self.is_known else 'unknown'}: {self.cause}"
        return f"{self.name} up, {lit} of {len(self.ports)} ports with carrier"
