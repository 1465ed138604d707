"""The testbed: hosts, NIC ports, switches, passives, and the strands of fibre between them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hwd.model.interlock import InterlockRules
from hwd.model.nic_port import NicPortId
from hwd.model.plural import plural
from hwd.model.ranks import CommunicationGroup, Rank
from hwd.model.rules import DriftPolicy, LeaseRules, RetentionRules, TransferRules
from hwd.model.ssh import SshPlace
from hwd_agents.wire.setting import Setting as Setting
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities, FibreEnd, PortSide, Side


class ModuleStandard(StrEnum):
    """The layout of a pluggable module's memory."""

    SFF_8472 = "sff-8472"
    """SFP, SFP+, SFP28: one lane; its loss of signal is a state."""
    SFF_8636 = "sff-8636"
    """QSFP+, QSFP28: up to four lanes; its loss of signal is latched."""
    CMIS = "cmis"
    """QSFP-DD, OSFP: eight lanes a bank; its loss of signal is latched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A pluggable. Powers are per lane, average, in dBm; a loss budget is `tx_min_dbm - rx_min_dbm`.

    `lanes`: optical channels each way. `parallel`: each lane has a fibre of its own (lanes 1..n); else all share one
    fibre (lane 0). `los_assert_dbm` and `los_deassert_dbm`: where loss of signal is raised and cleared on one lane.
    `part`: its part number, as in its memory. `los_s` and `monitor_s`: the greatest age of its loss of signal and of
    its received power when they are read (`hwd_agents.process.config.ModuleTiming`); None: not known.
    """

    type: str
    lanes: int
    parallel: bool
    tx_min_dbm: float
    tx_max_dbm: float
    rx_min_dbm: float
    rx_max_dbm: float
    los_assert_dbm: float
    los_deassert_dbm: float
    standard: ModuleStandard = ModuleStandard.SFF_8636
    part: str | None = None
    los_s: float | None = None
    monitor_s: float | None = None

    @property
    def fibre_lanes(self) -> tuple[int, ...]:
        """The `FibreEnd.lane` numbers that this module has, one way."""
        return tuple(range(1, self.lanes + 1)) if self.parallel else (0,)

    @property
    def budget_db(self) -> float:
        return self.tx_min_dbm - self.rx_min_dbm


@dataclass(frozen=True, slots=True, kw_only=True)
class NicPort:
    """A NIC port of a host as the testbed file states it; `match` finds the kernel's interface on a real host.
    `rate_mbit_s`: what it passes each way at most; None: not stated, and a twin is as fast as its machine.
    """

    id: NicPortId
    module: Module
    interface: str
    ip: str | None = None
    rdma: str | None = None
    rail: int | None = None
    numa: int | None = None
    gpus: tuple[int, ...] = ()
    rate_mbit_s: float | None = None
    match: Mapping[str, Json] = field(default_factory=dict)

    @property
    def ip_address(self) -> str | None:
        """The address without its prefix length."""
        return self.ip.partition("/")[0] if self.ip is not None else None

    def ends(self, side: Side) -> tuple[FibreEnd, ...]:
        """Fibre ends of the transmitter or the receiver, by lane."""
        return tuple(
            FibreEnd(owner=self.id.host, port=self.id.port, lane=lane, side=side) for lane in self.module.fibre_lanes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTwin:
    """A simulated host. `kernel`: its interfaces are real ones in a network namespace; else it is simulated in the
    rack's process.

    `machine`: the address at which it, a virtual machine with a kernel and a clock of its own, reaches this machine;
    only its optics are simulated.
    """

    kernel: bool
    timing: str
    seed: int
    clock_offset_s: float = 0.0
    clock_drift_ppm: float = 0.0
    machine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host; `jobs`: its group of users that may set the switches it owns; None is root alone."""

    name: str
    ports: tuple[NicPort, ...]
    ssh: SshPlace | None = None
    jobs: str | None = None
    twin: HostTwin | None = None
    groups: tuple[str, ...] = ()
    region: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchTwin:
    """A simulated switch: it has the model and size of its switch, and a timing and seed of its own. `options`: those
    of its driver's twins.
    """

    timing: str
    seed: int
    options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """The place of a secret; never the secret. `kind` is `env` or `file`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """An optical switch as the testbed file states it; `capabilities` are those of its model and size.

    `size` as in the file. `address` is None for a twin: the rack reports it at its start. `owner`: the host that alone
    may drive it.
    """

    name: str
    driver: str
    model: str
    capabilities: Capabilities
    address: str | None = None
    login_user: str | None = None
    login_password: SecretRef | None = None
    options: Mapping[str, Json] = field(default_factory=dict)
    twin: SwitchTwin | None = None
    owner: str | None = None
    size: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """Switches of few states each that act as one: `ports` are its ends, and which end of an element each of them is.

    The fibres inside are ordinary strands of the testbed; everything that belongs to it is derived from them.
    """

    name: str
    ports: Mapping[PortSide, FibreEnd]


class PassiveKind(StrEnum):
    PANEL = "panel"
    """Port n front to port n back."""
    SPLITTER = "splitter"
    """`in` to every `out`, each with the stated loss."""
    TAP = "tap"
    """`in` to `out`; the tapped part is not followed."""
    CIRCULATOR = "circulator"
    """1 to 2 and 2 to 3, one way."""
    ATTENUATOR = "attenuator"
    """`in` to `out` with its loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passive:
    """A part with loss and no state; `loss_db` is for one pass."""

    name: str
    kind: PassiveKind
    ports: int
    loss_db: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketSwitch:
    """An electrical switch: ends of fibres, never driven by us. `rate_mbit_s`: what each port of its twin passes at
    most, each way; None: no limit.
    """

    name: str
    ports: int
    rate_mbit_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strand:
    """One glass fibre between two ends. Light may use it either way; its ends decide.

    `via` are panel ports that it passes through, their loss not included in `loss_db`. `source` is `file:line` of its
    entry.
    """

    ends: tuple[FibreEnd, FibreEnd]
    via: tuple[FibreEnd, ...] = ()
    length_m: float | None = None
    loss_db: float = 0.0
    label: str | None = None
    source: str = ""

    def __str__(self) -> str:
        return f"{self.ends[0]} - {self.ends[1]}"

    def other(self, end: FibreEnd) -> FibreEnd:
        return self.ends[1] if end == self.ends[0] else self.ends[0]


class PortState(StrEnum):
    """The use of a port, as an operator sets it. Light passes normal ones only: an interlock refuses the others."""

    NORMAL = "normal"
    """In use."""
    SPARE = "spare"
    """Free for repairs and for tests of the switch itself."""
    RESERVED = "reserved"
    """Set aside for a stated use."""
    MAINTENANCE = "maintenance"
    """Out of order until somebody has worked on it."""
    FAILED = "failed"
    """The port is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortNote:
    """An override for one switch port, with the reason."""

    switch: str
    port: str
    state: PortState
    why: str = ""
    until: str | None = None

    def __str__(self) -> str:
        """`maintenance: dirty, until 2027-01-10`."""
        return f"{self.state}{f': {self.why}' if self.why else ''}{f', until {self.until}' if self.until else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An entry of the key `programs` of a testbed file: `command` may run on `hosts` (None: all) as `user`.

    `arguments`: whether more may follow those of `command`. `within_s`: the longest time of one process.
    """

    name: str
    command: tuple[str, ...]
    user: str
    arguments: bool = False
    hosts: tuple[str, ...] | None = None
    within_s: float = 3600.0

    def __str__(self) -> str:
        """`ping: /usr/bin/ping -c 1 ... as nobody`."""
        return f"{self.name}: {' '.join(self.command)}{' ...' if self.arguments else ''} as {self.user}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEntry:
    """An entry of the key `jobs` of a testbed file: `command` runs once for each rank, on its host, as `user`.

    `plane`: the control plane, with its `plane_arguments`. `shim`: what runs before and after each operation of a rank,
    as text. `within_s`: the longest time of the job; `arrive_within_s`: for all ranks to come; `answer_within_s`: for
    the plane to answer a rank; `plane_within_s`: for it to answer an event at all, in `plane_memory_mib` of memory.
    `fallback`: whether the plane may give up its light for one ring over all ports.
    """

    name: str
    command: tuple[str, ...]
    user: str
    ranks: tuple[Rank, ...]
    groups: Mapping[str, CommunicationGroup]
    plane: str
    plane_arguments: Mapping[str, str] = field(default_factory=dict)
    shim: str = "ask"
    arguments: bool = False
    fallback: bool = False
    within_s: float = 3600.0
    arrive_within_s: float = 60.0
    answer_within_s: float = 60.0
    ready_within_s: float = 30.0
    plane_within_s: float = 1.0
    plane_memory_mib: int = 1024

    def __str__(self) -> str:
        """`train: 4 ranks of /usr/bin/python3 train.py as lab, plane rotor period_s=0.5`."""
        words = " ".join((self.plane, *(f"{key}={value}" for key, value in self.plane_arguments.items())))
        return (
            f"{self.name}: {plural(len(self.ranks), 'rank')} of {' '.join(self.command)} as {self.user}, plane {words}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Testbed:
    """One testbed file, checked. Names map to parts in the order of the file."""

    __test__ = False

    name: str
    switches: Mapping[str, Switch]
    hosts: Mapping[str, Host]
    strands: tuple[Strand, ...]
    passives: Mapping[str, Passive] = field(default_factory=dict)
    packet_switches: Mapping[str, PacketSwitch] = field(default_factory=dict)
    port_notes: tuple[PortNote, ...] = ()
    host_actions: tuple[Setting, ...] = ()
    """The settings of hosts that a playbook may change."""
    composites: Mapping[str, Composite] = field(default_factory=dict)
    interlocks: InterlockRules = field(default_factory=InterlockRules)
    drift: DriftPolicy = DriftPolicy.REPORT
    leases: LeaseRules = field(default_factory=LeaseRules)
    transfers: TransferRules = field(default_factory=TransferRules)
    retention: RetentionRules = field(default_factory=RetentionRules)
    programs: Mapping[str, Program] = field(default_factory=dict)
    """What may run on hosts."""
    jobs: Mapping[str, JobEntry] = field(default_factory=dict)
    """What may run as a job."""
    access_group: str | None = None
    """The group of the daemon's machine whose users may read the daemon's token."""
    ends: Mapping[str, frozenset[PortSide]] = field(init=False, repr=False, compare=False)
    """The ends of each switch and composite; `ends_of` has them in order."""
    owned: Mapping[str, Switch] = field(init=False, repr=False, compare=False)
    """Switches that belong to hosts."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", {name: frozenset(self.ends_of(name)) for name in self.askable})
        owned = {name: switch for name, switch in self.switches.items() if switch.owner is not None}
        object.__setattr__(self, "owned", owned)

    @property
    def askable(self) -> tuple[str, ...]:
        """Names that crossconnects can be asked of: switches and composites."""
        return *self.switches, *self.composites

    def ends_of(self, name: str) -> tuple[PortSide, ...]:
        """The ends of a switch or of a composite; there must be one of this name."""
        if (composite := self.composites.get(name)) is not None:
            return tuple(composite.ports)
        return self.switches[name].capabilities.ends

    def port_of(self, name: str, end: PortSide) -> str:
        """The switch port, `ocs1.3`, of this end of a switch or of a composite: the port that is leased."""
        if (composite := self.composites.get(name)) is not None:
            place = composite.ports[end]
            return f"{place.owner}.{place.port}"
        return f"{name}.{end.port}"

    def ports(self) -> Iterator[NicPort]:
        for host in self.hosts.values():
            yield from host.ports

    def port(self, id: NicPortId) -> NicPort:
        """Raises ConfigError where there is no such port, naming the ports that exist."""
        for port in self.ports():
            if port.id == id:
                return port
        raise ConfigError(
            f"{id}: no such NIC port in testbed {self.name}; it has {', '.join(port.id for port in self.ports())}"
        )
