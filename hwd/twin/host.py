"""A simulated host as its agent sees it over the host wire: links, PHYs, modules, RDMA files, datagrams."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hwd_agents.sources.hostwire import HostWireServer, LinkState
from hwd_agents.sources.link import OperState
from hwd_agents.sources.sff8636 import build_memory
from hwd_agents.wire import SourceNote
from hwd_drivers.kit.errors import ConfigError

from hwd.model.instant import Origin
from hwd.model.testbed import Host, NicPort, NicPortId
from hwd.twin.nic import Nic, NicChange, What

FIRST_IFINDEX = 100

Deliver = Callable[[NicPortId, tuple[str, int], tuple[str, int], bytes], None]
"""A datagram leaves a port: (port, source, target, payload)."""


@dataclass(slots=True)
class _Port:
    port: NicPort
    nic: Nic
    ifindex: int
    changes: int = 0
    ups: int = 0
    downs: int = 0
    tx_dbm: tuple[float, ...] = field(default=())


class HostTwin:
    """Implements `hwd_agents.sources.hostwire.TwinHost`.

    On a kernel host, links and datagrams are the kernel's own and are not told here: `links_here` is false.
    """

    def __init__(
        self,
        host: Host,
        nics: Mapping[NicPortId, Nic],
        tx_dbm: Mapping[NicPortId, tuple[float, ...]],
        *,
        life: str,
        links_here: bool,
        deliver: Deliver,
    ) -> None:
        self.name = host.name
        self.life = life
        self._links_here = links_here
        self._deliver = deliver
        self._ports = {
            port.interface: _Port(port=port, nic=nics[port.id], ifindex=FIRST_IFINDEX + index, tx_dbm=tx_dbm[port.id])
            for index, port in enumerate(host.ports)
        }
        self._wires: list[HostWireServer] = []
        fitted = any(nic.timing.fitted_to for nic in nics.values())
        drawn = Origin.FITTED if fitted else Origin.TWIN
        self.notes: Mapping[str, SourceNote] = {
            "module": SourceNote(sees=["dark", "light"], origin=Origin.TWIN),
            "phy": SourceNote(sees=["firmware"], origin=drawn),
            "file": SourceNote(sees=["rdma"], origin=drawn),
        }
        if links_here:
            self.notes = {
                **self.notes,
                "link": SourceNote(sees=["carrier"], origin=drawn),
                "datagrams": SourceNote(sees=["ready"], origin=Origin.TWIN),
            }

    # --- what the rack tells

    def changed(self, change: NicChange, *, stamp_ns: int) -> None:
        """A port of this host changed; `stamp_ns` is unix time."""
        port = next(port for port in self._ports.values() if port.port.id == change.port)
        match change.what:
            case What.CARRIER:
                port.changes += 1
                port.ups += change.up
                port.downs += not change.up
                if self._links_here:
                    for wire in self._wires:
                        wire.tell_link(self._link(port), stamp_ns=stamp_ns)
            case What.PHY:
                for wire in self._wires:
                    wire.tell_phy(port.port.interface, change.up, stamp_ns=stamp_ns)
            case What.LIGHT | What.RDMA:
                return  # the agent reads these: module memory and files

    def arrived(self, port: NicPortId, source: tuple[str, int], target: tuple[str, int], payload: bytes) -> None:
        """A datagram came out of the fibre of `port`. It is dropped without carrier, or when the address is not this host's."""
        for interface, one in self._ports.items():
            if one.port.id == port and one.nic.is_up(What.CARRIER) and target[0] in {each.port.ip_address for each in self._ports.values()}:
                for wire in self._wires:
                    wire.tell_datagram(interface, source, target, payload)

    # --- hostwire.TwinHost

    def links(self) -> Sequence[LinkState]:
        return [self._link(port) for port in self._ports.values()] if self._links_here else []

    def phys(self) -> Mapping[str, bool]:
        return {interface: port.nic.is_up(What.PHY) for interface, port in self._ports.items()}

    def module(self, interface: str) -> bytes:
        port = self._find(interface)
        return build_memory(
            vendor="hwd twin",
            part=port.nic.module.type[:16],
            serial=str(port.port.id)[:16],
            rx_power_dbm=port.nic.lanes_dbm,
            tx_power_dbm=port.tx_dbm,
            rx_los=port.nic.take_latched_los(),
        )

    def file(self, path: str) -> str | None:
        for port in self._ports.values():
            if port.port.rdma is None:
                continue
            active = port.nic.is_up(What.RDMA)
            directory = f"class/infiniband/{port.port.rdma}/ports/1"
            if path == f"{directory}/state":
                return "4: ACTIVE\n" if active else "1: DOWN\n"
            if path == f"{directory}/phys_state":
                return "5: LinkUp\n" if port.nic.is_up(What.CARRIER) else "3: Disabled\n"
            if path == f"{directory}/gids/0":
                return f"{_gid(port.port.ip_address) if active else _NO_GID}\n"
        return None

    def on_datagram(self, interface: str, source: tuple[str, int], target: tuple[str, int], payload: bytes) -> None:
        port = self._find(interface)
        if port.nic.is_up(What.CARRIER):
            self._deliver(port.port.id, source, target, payload)

    def attached(self, wire: HostWireServer) -> None:
        self._wires.append(wire)

    def detached(self, wire: HostWireServer) -> None:
        self._wires.remove(wire)

    def _find(self, interface: str) -> _Port:
        if (port := self._ports.get(interface)) is None:
            raise ConfigError(f"{self.name}: no interface {interface}; it has {', '.join(self._ports)}")
        return port

    def _link(self, port: _Port) -> LinkState:
        carrier = port.nic.is_up(What.CARRIER)
        return LinkState(
            interface=port.port.interface,
            ifindex=port.ifindex,
            admin_up=True,
            carrier=carrier,
            operstate=OperState.UP if carrier else OperState.DOWN,
            carrier_changes=port.changes,
            carrier_ups=port.ups,
            carrier_downs=port.downs,
        )


_NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def _gid(ip: str | None) -> str:
    """The RoCE v2 GID of an IPv4 address: the address mapped into IPv6."""
    if ip is None:
        return _NO_GID
    parts = [int(part) for part in ip.split(".")]
    return f"0000:0000:0000:0000:0000:ffff:{parts[0]:02x}{parts[1]:02x}:{parts[2]:02x}{parts[3]:02x}"
