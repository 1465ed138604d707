"""The agent's configuration: one YAML file."""

import ipaddress
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from hwd_agents.spool.spool import LIMIT_LEAST_BYTES
from hwd_agents.spool.syncer import SpoolSync
from hwd_drivers.core.errors import ConfigError, LinkError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_json, from_plain, to_plain
from hwd_drivers.core.user_file import read_user_file

CONFIG_BYTES_MAX: Final = 4_000_000
PORT_MOST: Final = 65535
ACK_TIMEOUT_MOST: Final = 31
RETRIES_MOST: Final = 7
"""Sizes of the fields of a queue pair: 5 and 3 bits (IBA 1.7, 9.7.6.1.3 and 9.9.2.4.1)."""
LANES_MOST: Final = 32
"""Lanes of a CMIS module with four banks."""


class PortConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One NIC port. `ip`: its address, with or without a prefix. `lanes`: how many optical lanes it has.

    `rdma`: its RDMA device, `mlx5_0`, or `mlx5_0/2` for a port of it other than 1. `dark_dbm`: a lane below this power
    is dark when a module does not report loss itself.
    """

    interface: str
    ip: str | None = None
    rdma: str | None = None
    lanes: int = 4
    dark_dbm: float = -30.0

    @property
    def ip_address(self) -> str | None:
        """`ip` without its prefix."""
        return None if self.ip is None else self.ip.partition("/")[0]


class ModuleTiming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The largest age of what a module reports, in seconds. Without a value, the earliest time of a change is unknown.

    `los_s`: from a loss or a return of light to its sign (SFF-8636, SFF-8472 and CMIS allow 0.1 s). `monitor_s`:
    between two measurements of its received power.
    """

    los_s: float | None = None
    monitor_s: float | None = None


class BrokerFrom(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"path": "from"}):
    """The broker's URL is in a JSON file, read at each connect: under `agents`, by host, else under `mqtt`."""

    path: str


class SpoolConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where events wait for the daemon, how many bytes they may take, and what a power cut may lose.

    `sync`: never, second or batch; see `SpoolSync`. In each mode an agent that is killed loses nothing.
    """

    directory: str = "/var/lib/hwd-agent"
    limit_bytes: int = 16 * 1024 * 1024
    sync: SpoolSync = SpoolSync.NEVER


class KernelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The kernel of this machine: its own network, or `namespace` of the keeper that listens at `keeper`.

    `sysfs`: the folder of its /sys.
    """

    keeper: str | None = None
    namespace: str | None = None
    sysfs: str = "/sys"


class TwinConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wire of a twin host: `unix:/path` or `host:port`."""

    address: str


class SourcesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Kernel only: a real host. Twin only: a process twin. Both: a kernel twin.

    Links and datagrams of a kernel twin are the kernel's: those of a keeper's namespace, or, without one, of the
    virtual machine that the agent runs in, whose RDMA, counters and clock it uses too.
    """

    kernel: KernelConfig | None = None
    twin: TwinConfig | None = None


class ClockConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The clock of a twin host: its offset from the machine's clock, and its drift."""

    offset_s: float = 0.0
    drift_ppm: float = 0.0


class ProbeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Readiness probe: one attempt after `first_s`, later ones up to `most_s` apart.

    `packets_per_s` is the limit for all ports of the host together, in each direction.
    """

    first_s: float = 0.002
    most_s: float = 0.05
    growth: float = 1.1
    packets_per_s: float = 1000.0


class RcConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Recovery of RC queue pairs. A packet without ACK is sent again after 4.096 us * 2^`ack_timeout`.

    `retries`: at most so often (7, as Opus uses; soft-RoCE retries for ever with 7). `measure` false: no queue pair is
    made.
    """

    ack_timeout: int = 14
    retries: int = 7
    measure: bool = True


class SamplingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Periods of polls, fast while a port is observed, else slow; a slow period of 0 means never.

    `counters_s`: between two readings of traffic counters; 0 means never. `monitors_s`: least time between two reports
    of a module's measurements, which are made when a value has changed; 0 means never. Light is read fast until it has
    been back for `light_settled_s`.
    """

    light_fast_s: float = 0.005
    light_slow_s: float = 1.0
    light_settled_s: float = 1.0
    rdma_fast_s: float = 0.002
    rdma_slow_s: float = 1.0
    firmware_fast_s: float = 0.2
    firmware_slow_s: float = 10.0
    links_fast_s: float = 0.25
    links_slow_s: float = 10.0
    counters_s: float = 0.0
    monitors_s: float = 30.0


class SwitchConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An optical switch that only this host drives. Most fields are as in the testbed file.

    These are `driver`, `model`, `size`, `address` and `options`. `ports`: the ports of this host whose light goes
    through it: a selection waits for their carrier. `password_file`: its first line is the password. `password` is for
    twins, which accept any.
    """

    driver: str
    model: str
    address: str
    ports: list[str]
    size: str | None = None
    options: dict[str, Any] = {}
    user: str | None = None
    password_file: str | None = None
    password: str | None = None


class SelectionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How jobs of this host set its switches. `socket`: a Unix socket of mode 0660, of `group` where one is named.

    `fall_s`: a carrier that has not fallen so long after its switches answered counts as never lost.
    """

    socket: str = "unix:/run/hwd-agent/select.sock"
    group: str | None = None
    fall_s: float = 0.25


class TransfersConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where processes of this host say what they are sending. `socket`: a Unix socket of mode 0660, of `group` where
    one is named; null: none.
    """

    socket: str | None = None
    group: str | None = None


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration. `ports` are by their names in the testbed file.

    `origin` is the origin of carrier and packets of this host. `modules`: by part number, as their memory spells it.
    `realtime`: ask for real-time priority, so that a busy host does not delay stamps; without the right to it the agent
    runs without it. `clock_port`: UDP port on which the daemon asks for the time, at the address that leads to the
    broker; 0 is a free one, null none: then the daemon asks over the broker.
    """

    testbed: str
    host: str
    broker: str | BrokerFrom
    ports: dict[str, PortConfig]
    sources: SourcesConfig = SourcesConfig(kernel=KernelConfig())
    spool: SpoolConfig = SpoolConfig()
    clock: ClockConfig | None = None
    probe: ProbeConfig = ProbeConfig()
    rc: RcConfig = RcConfig()
    sampling: SamplingConfig = SamplingConfig()
    modules: dict[str, ModuleTiming] = {}
    switches: dict[str, SwitchConfig] = {}
    selection: SelectionConfig = SelectionConfig()
    transfers: TransfersConfig = TransfersConfig()
    realtime: bool = True
    clock_port: int | None = 0

    @property
    def origin(self) -> str:
        """The origin of carrier and packets: hardware, a twin's kernel, or a twin without one."""
        if self.sources.twin is None:
            return "measured"
        return "twin" if self.sources.kernel is None else "kernel"


def load_config(path: Path) -> AgentConfig:
    """Read and check `path`. Raises ConfigError with file, position and problem."""
    text = read_user_file(path, most_bytes=CONFIG_BYTES_MAX, pipes=True).text()
    try:
        data: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    return make_config(data, where=str(path))


def make_config(data: Any, *, where: str) -> AgentConfig:
    """The configuration in `data`. Raises ConfigError."""
    try:
        config = from_plain(data, AgentConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {reason_of(error)}") from error
    for problem in _problems(config):
        raise ConfigError(f"{where}: {problem}")
    return config


def broker_url(config: AgentConfig) -> str:
    """The broker's URL, read again if it is in a file.

    Raises LinkError when the file does not have it: the daemon may not be up yet.
    """
    if isinstance(config.broker, str):
        return config.broker
    path = Path(config.broker.path)
    try:
        data = from_json(read_user_file(path, most_bytes=CONFIG_BYTES_MAX).data, dict[str, Any])
    except ConfigError as error:
        raise LinkError(f"broker's address: {error}. Is the daemon up?") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LinkError(f"{path}: not a JSON object: {reason_of(error)}") from error
    agents = data.get("agents")
    url = (agents.get(config.host) if isinstance(agents, dict) else None) or data.get("mqtt")
    if not isinstance(url, str):
        raise LinkError(f"{path}: has no text under the key mqtt")
    return url


def _problems(config: AgentConfig) -> Iterator[str]:
    for name, port in config.ports.items():
        if not 1 <= port.lanes <= LANES_MOST:
            yield f"ports.{name}.lanes: {port.lanes} is not 1 to {LANES_MOST}"
    for name, port in config.ports.items():
        if port.ip is not None and not _is_address(port.ip):
            yield f"ports.{name}.ip: {port.ip!r} is no IP address; write 10.1.0.1 or 10.1.0.1/32"
    if not config.ports:
        yield "ports: name at least one"
    for name in (config.testbed, config.host, *config.ports, *config.switches):
        if not name or set(name) & set("/+#.\0"):
            yield f"{name!r}: a name of a testbed, a host, a port or a switch is not empty and has no / + # or dot"
    interfaces: Mapping[str, list[str]] = {port.interface: [] for port in config.ports.values()}
    for name, port in config.ports.items():
        interfaces[port.interface].append(name)
    for one, names in interfaces.items():
        if len(names) > 1:
            yield f"ports: {' and '.join(names)} share the interface {one}"
    if config.spool.limit_bytes < LIMIT_LEAST_BYTES:
        yield f"spool.limit_bytes: {config.spool.limit_bytes} is under the least, {LIMIT_LEAST_BYTES} bytes"
    sources = config.sources
    if sources.kernel is None and sources.twin is None:
        yield "sources: name kernel, twin or both"
    if sources.kernel is not None and (sources.kernel.keeper is None) != (sources.kernel.namespace is None):
        yield "sources.kernel: keeper and namespace go together"
    if config.clock is not None and sources.twin is None:
        yield "clock: only the clock of a twin host can be shifted"
    if config.clock_port is not None and not 0 <= config.clock_port <= PORT_MOST:
        yield f"clock_port: {config.clock_port} is not 0 to {PORT_MOST}"
    rates = {**to_plain(config.probe), **to_plain(config.sampling)}
    for name, value in rates.items():
        if value < 0 or (value == 0 and "slow" not in name and name not in ("counters_s", "monitors_s")):
            yield f"{name}: {value} is not above 0"
    for part, timing in config.modules.items():
        for name, age_s in to_plain(timing).items():
            if age_s is not None and not 0 <= age_s < math.inf:
                yield f"modules.{part}.{name}: {age_s} s is not 0 or more"
    for name, switch in config.switches.items():
        for unknown in (each for each in switch.ports if each not in config.ports):
            yield f"switches.{name}.ports: {unknown} is no port of this file; there are {', '.join(config.ports)}"
    if not 0 <= config.selection.fall_s < math.inf:
        yield f"selection.fall_s: {config.selection.fall_s} s is not 0 or more"
    if not config.selection.socket.startswith(("unix:/", "mem:")):
        yield f"selection.socket: {config.selection.socket!r} is no Unix socket; write unix:/run/hwd-agent/select.sock"
    place = config.transfers.socket
    if place is not None and not place.startswith(("unix:/", "mem:")):
        yield f"transfers.socket: {place!r} is no Unix socket; write unix:/run/hwd-agent/transfers.sock"
    if place is not None and place == config.selection.socket and config.switches:
        yield f"transfers.socket: {place!r} is that of the selections; name another one"
    if not 1 <= config.rc.ack_timeout <= ACK_TIMEOUT_MOST:
        yield f"rc.ack_timeout: {config.rc.ack_timeout} is not 1 to {ACK_TIMEOUT_MOST}; 0 would wait for ever"
    if not 0 <= config.rc.retries <= RETRIES_MOST:
        yield f"rc.retries: {config.rc.retries} is not 0 to {RETRIES_MOST}"
    if config.probe.growth < 1:
        yield f"probe.growth: {config.probe.growth} is below 1: attempts would come ever faster"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return True
