"""A simulated host as its agent sees it over the host wire: links, PHYs, modules, RDMA files, datagrams."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

from hwd.model.instant import Origin
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Host, NicPort
from hwd.twin.module import module_memory
from hwd.twin.nic import Nic, NicChange, What
from hwd_agents.sources.link_source import LinkState, OperState
from hwd_agents.sources.setting_source import Setting
from hwd_agents.sources.twin.hostwire_server import HostWireServer
from hwd_agents.sources.verbs.gid import gid_of
from hwd_agents.wire import SourceNote
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError, LinkError, RefusedError

FIRST_IFINDEX = 100

UDP_OVERHEAD_BYTES = 28
"""Headers of IPv4 and UDP."""

ChangeNic = Callable[[NicPortId, Callable[[Nic, int], None]], None]
"""Change a NIC port at the present time; the rack handles the consequences."""

Deliver = Callable[[NicPortId, tuple[str, int], tuple[str, int], bytes], None]
"""A datagram leaves a port: (port, source, target, payload)."""


@dataclass(slots=True)
class _Port:
    port: NicPort
    nic: Nic
    ifindex: int
    tx_dbm: tuple[float, ...]
    ups: int = 0
    downs: int = 0
    mtu: int = 1500
    unplugged: bool = False
    addresses: set[IPv4Interface | IPv6Interface] = field(default_factory=set)

    def takes(self, target: str, payload: bytes) -> bool:
        """Whether a datagram to `target` is for this port, and short enough."""
        return any(str(address.ip) == target for address in self.addresses) and self.fits(payload)

    def fits(self, payload: bytes) -> bool:
        return len(payload) + UDP_OVERHEAD_BYTES <= self.mtu


class HostTwin:
    """Implements `hwd_agents.sources.twin.hostwire_server.TwinHost`.

    On a kernel host, links and datagrams are the kernel's own and are not sent here: `links_here` is false.
    `light_origin`: the origin of the times of its light, that of the switches.
    """

    def __init__(
        self,
        host: Host,
        nics: Mapping[NicPortId, Nic],
        tx_dbm: Mapping[NicPortId, tuple[float, ...]],
        *,
        life: str,
        links_here: bool,
        light_origin: Origin,
        deliver: Deliver,
        change_nic: ChangeNic,
    ) -> None:
        self.name = host.name
        self.life = life
        self._links_here = links_here
        self._deliver = deliver
        self._change_nic = change_nic
        self.clock_step_s = 0.0
        self._ports = {
            port.interface: _Port(
                port=port,
                nic=nics[port.id],
                ifindex=FIRST_IFINDEX + index,
                tx_dbm=tx_dbm[port.id],
                addresses=set() if port.ip is None else {ip_interface(port.ip)},
            )
            for index, port in enumerate(host.ports)
        }
        self._by_id = {port.port.id: port for port in self._ports.values()}
        is_machine = not links_here and host.twin is not None and host.twin.machine is not None
        ports = () if is_machine else self._ports.values()  # the RDMA devices of a machine are its own
        self._files = {path: text for port in ports for path, text in _files(port)}
        self._wires: list[HostWireServer] = []
        self._is_attached = asyncio.Event()
        drawn = Origin.FITTED if any(nic.timing.fitted_to for nic in nics.values()) else Origin.TWIN
        notes = {
            "module": SourceNote(sees=["dark", "light"], origin=light_origin),
            "phy": SourceNote(sees=["firmware"], origin=drawn),
        }
        if self._files:
            notes["file"] = SourceNote(sees=["rdma"], origin=drawn)
        if links_here:
            notes["link"] = SourceNote(sees=["carrier"], origin=drawn)
            notes["datagrams"] = SourceNote(sees=["ready"], origin=Origin.TWIN)
        self.notes: Mapping[str, SourceNote] = notes

    # --- calls of the rack

    def changed(self, change: NicChange, *, stamp_ns: int) -> None:
        """A port of this host changed; `stamp_ns` is unix time."""
        port = self._by_id[change.port]
        match change.what:
            case What.CARRIER:
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

    def arrived(self, id: NicPortId, source: tuple[str, int], target: tuple[str, int], payload: bytes) -> None:
        """Deliver a datagram from the fibre of a port. It is dropped without carrier, and when it is for another
        address, as after wrong patching.
        """
        port = self._by_id[id]
        if self._links_here and port.nic.is_up(What.CARRIER) and port.takes(target[0], payload):
            for wire in self._wires:
                wire.tell_datagram(port.port.interface, source, target, payload)

    def unplug(self, id: NicPortId, on: bool) -> None:
        """Remove the module of a port, or insert it; the rack handles its light."""
        self._by_id[id].unplugged = on

    def step_clock(self, step_s: float) -> None:
        """Step the host's clock by so much, in addition to earlier steps."""
        self.clock_step_s = step_s
        for wire in self._wires:
            wire.tell_clock_step(step_s)

    def hang_up(self) -> None:
        """Close the connections of agents."""
        for wire in list(self._wires):
            wire.close()

    # --- hostwire_server.TwinHost

    def links(self) -> Sequence[LinkState]:
        return [self._link(port) for port in self._ports.values()] if self._links_here else []

    def phys(self) -> Mapping[str, bool]:
        return {interface: port.nic.is_up(What.PHY) for interface, port in self._ports.items()}

    def module(self, interface: str) -> bytes:
        port = self._find(interface)
        if port.unplugged:
            raise LinkError(f"{port.port.id}: there is no module in it")
        return module_memory(port.nic, port.tx_dbm, serial=port.port.id)

    def file(self, path: str) -> str | None:
        return self._files[path]() if path in self._files else None

    def on_datagram(self, interface: str, source: tuple[str, int], target: tuple[str, int], payload: bytes) -> None:
        port = self._find(interface)
        if self._links_here and port.nic.is_up(What.CARRIER) and port.fits(payload):
            self._deliver(port.port.id, source, target, payload)

    def read_setting(self, interface: str, setting: Setting, value: Json) -> Json:
        port = self._find(interface)
        match setting:
            case Setting.AUTONEG:
                return {"autoneg": port.nic.autoneg, "speed": None, "duplex": None, "ours": "0", "bits": 0}
            case Setting.FEC:
                return {"auto": port.nic.fec is None, "modes": list(port.nic.fec or ())}
            case Setting.MTU if self._links_here:
                return port.mtu
            case Setting.ADDRESS if self._links_here:
                return ip_interface(str(value)) in port.addresses
            case _:
                raise RefusedError(f"{port.port.id}: {setting}: a twin host without a kernel has no such thing")

    def change_setting(self, interface: str, setting: Setting, value: Json, state: Json) -> None:
        port = self._find(interface)
        match setting, state:
            case Setting.AUTONEG, {"autoneg": bool(on)}:
                self._change_nic(port.port.id, lambda nic, now_ns: nic.negotiate(now_ns, on))
            case Setting.FEC, {"auto": bool(auto), "modes": [*modes]}:
                fec = None if auto else tuple(map(str, modes))
                if fec != port.nic.fec:
                    port.nic.fec = fec
                    self._change_nic(port.port.id, lambda nic, now_ns: nic.restart(now_ns))
            case Setting.MTU, int(mtu) if self._links_here:
                port.mtu = mtu
                for wire in self._wires:
                    wire.tell_link(self._link(port))
            case Setting.ADDRESS, bool(there) if self._links_here:
                (port.addresses.add if there else port.addresses.discard)(ip_interface(str(value)))
            case _:
                raise RefusedError(f"{port.port.id}: {setting}: a twin host cannot have {state!r}")

    def attached(self, wire: HostWireServer) -> None:
        self._wires.append(wire)
        self._is_attached.set()

    def detached(self, wire: HostWireServer) -> None:
        self._wires.remove(wire)
        if not self._wires:
            self._is_attached.clear()

    async def until_attached(self) -> None:
        """Wait until an agent is connected."""
        await self._is_attached.wait()

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
            carrier_changes=port.ups + port.downs,
            carrier_ups=port.ups,
            carrier_downs=port.downs,
            mtu=port.mtu,
        )


_NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def _files(port: _Port) -> Iterator[tuple[str, Callable[[], str]]]:
    """The sysfs files of the port's RDMA device, `mlx5_0`, or `mlx5_0/2` for a port of it other than 1."""
    if port.port.rdma is None:
        return
    device, _, number = port.port.rdma.partition("/")
    directory = f"class/infiniband/{device}/ports/{number or 1}"
    gid = f"{_NO_GID if port.port.ip_address is None else gid_of(port.port.ip_address)}\n"

    def is_active() -> bool:
        return port.nic.is_up(What.RDMA)

    yield f"{directory}/state", lambda: "4: ACTIVE\n" if is_active() else "1: DOWN\n"
    yield f"{directory}/phys_state", lambda: "5: LinkUp\n" if port.nic.is_up(What.CARRIER) else "3: Disabled\n"
    yield f"{directory}/gids/0", lambda: gid if is_active() else f"{_NO_GID}\n"
    yield f"{directory}/gid_attrs/types/0", lambda: "RoCE v2\n"
