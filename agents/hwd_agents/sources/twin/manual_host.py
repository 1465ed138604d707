"""ManualHost: a twin host whose state changes only by calls, for the tests of agents and to try one without a rack."""

from collections.abc import Mapping

from typing_extensions import override

from hwd_agents.sources.link_source import LinkState, OperState
from hwd_agents.sources.modules.sff8636 import build_memory
from hwd_agents.sources.setting_source import Setting, subject
from hwd_agents.sources.twin.hostwire_server import HostWireServer, TwinHost
from hwd_agents.sources.verbs.gid import gid_of
from hwd_agents.wire import SourceNote
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import LinkError, RefusedError

LIT_DBM = -2.0
LANES = 4
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
LINK_LOCAL_GID = "fe80:0000:0000:0000:0a00:00ff:fe00:0001"


class ManualHost(TwinHost):
    """Ports are created by `plug` and change only by the calls below: no change causes another.

    host = ManualHost("h0"); host.plug("eth0", ip="10.0.0.1", rdma="mlx5_0")
    await dialer.listen(lambda: HostWireServer(host, clock), "mem:h0")
    host.light("eth0", lit=True); host.phy("eth0", up=True); host.carrier("eth0", up=True)
    """

    def __init__(self, name: str, *, life: str = "1") -> None:
        self.name = name
        self.life = life
        self.notes: Mapping[str, SourceNote] = {
            source: SourceNote(sees=sees, origin="twin")
            for source, sees in {
                "link": ["carrier", "interface"],
                "datagrams": ["ready"],
                "module": ["dark", "light"],
                "file": ["rdma"],
                "phy": ["firmware"],
            }.items()
        }
        self.files: dict[str, str] = {}
        self.states: dict[tuple[str, str, str], Json] = {}
        """By interface, setting and subject; set them to the initial states. An absent setting is unsupported."""
        self.clock_step_s = 0.0
        self.lit_dbm = LIT_DBM
        self.modules_read = 0
        self.datagrams_sent = 0
        self._links: dict[str, LinkState] = {}
        self._ips: dict[str, str] = {}
        self._gids: dict[str, str] = {}
        self._phys: dict[str, bool] = {}
        self._lit: dict[str, bool] = {}
        self._lost: dict[str, bool] = {}
        self._joined: dict[str, tuple[ManualHost, str]] = {}
        self._wires: list[HostWireServer] = []

    def plug(self, interface: str, *, ip: str = "", rdma: str = "", ifindex: int = 1) -> None:
        """Create an interface, dark and without carrier."""
        self._links[interface] = _dark(interface, ifindex)
        self._ips[interface] = ip
        self._phys[interface] = self._lit[interface] = False
        self._lost[interface] = True
        if rdma:
            self._gids[rdma] = gid_of(ip) if ip else LINK_LOCAL_GID
            self.rdma(rdma, active=False)
        for wire in self._wires:
            wire.tell_link(self._links[interface])

    def unplug(self, interface: str) -> None:
        link = self._links.pop(interface)
        for wire in self._wires:
            wire.tell_link(link, present=False)

    def light(self, interface: str, *, lit: bool) -> None:
        """Set whether light arrives at an interface."""
        self._lit[interface] = lit
        self._lost[interface] |= not lit

    def phy(self, interface: str, *, up: bool, stamp_ns: int | None = None) -> None:
        """Let the firmware bring its PHY up or down, at `stamp_ns` (CLOCK_REALTIME) or now."""
        self._phys[interface] = up
        for wire in self._wires:
            wire.tell_phy(interface, up, stamp_ns=stamp_ns)

    def carrier(self, interface: str, *, up: bool, flaps: int = 0, notice: bool = True) -> None:
        """Set the carrier after `flaps` changes that are only counted; `notice` false: the kernel sends no notice."""
        old = self._links[interface]
        changes = flaps + (old.carrier != up)
        self._links[interface] = LinkState(
            interface=interface,
            ifindex=old.ifindex,
            admin_up=True,
            carrier=up,
            operstate=OperState.UP if up else OperState.DOWN,
            carrier_changes=old.carrier_changes + changes,
            carrier_ups=old.carrier_ups + (changes + up) // 2,
            carrier_downs=old.carrier_downs + (changes + (not up)) // 2,
        )
        for wire in self._wires if notice else []:
            wire.tell_link(self._links[interface])

    def rdma(self, device: str, *, active: bool) -> None:
        """Set the files of an RDMA device's first port."""
        folder = f"class/infiniband/{device}/ports/1"
        self.files[f"{folder}/state"] = "4: ACTIVE\n" if active else "1: DOWN\n"
        gid = self._gids.get(device, LINK_LOCAL_GID) if active else NO_GID
        self.files[f"{folder}/gids/0"] = gid + "\n"
        self.files[f"{folder}/gid_attrs/types/0"] = "RoCE v2\n"

    def join(self, interface: str, other: "ManualHost", others: str) -> None:
        """Pass datagrams between two interfaces while both have carrier."""
        self._joined[interface] = (other, others)
        other._joined[others] = (self, interface)

    def step_clock(self, step_s: float) -> None:
        """Step the clock of the host by so much, forward or back."""
        self.clock_step_s += step_s
        for wire in self._wires:
            wire.tell_clock_step(self.clock_step_s)

    def hang_up(self) -> None:
        for wire in list(self._wires):
            wire.close()

    @override
    def links(self) -> list[LinkState]:
        return list(self._links.values())

    @override
    def phys(self) -> dict[str, bool]:
        return dict(self._phys)

    @override
    def module(self, interface: str) -> bytes:
        if interface not in self._lit:
            raise LinkError(f"{self.name}: there is no module in {interface}")
        self.modules_read += 1
        lit, lost = self._lit[interface], self._lost[interface]
        self._lost[interface] = not lit
        return build_memory(
            vendor="played",
            part="QSFP28-LR4",
            serial=f"{self.name}-{interface}",
            rx_power_dbm=(self.lit_dbm if lit else None,) * LANES,
            tx_power_dbm=(0.0,) * LANES,
            rx_los=(lost,) * LANES,
        )

    @override
    def file(self, path: str) -> str | None:
        return self.files.get(path)

    @override
    def read_setting(self, interface: str, setting: Setting, value: Json) -> Json:
        if interface not in self._links:
            raise LinkError(f"{self.name}: there is no interface {interface}")
        key = (interface, setting.value, subject(setting, value))
        if key not in self.states:
            raise RefusedError(f"{interface}: {setting}: not supported")
        return self.states[key]

    @override
    def change_setting(self, interface: str, setting: Setting, value: Json, state: Json) -> None:
        self.read_setting(interface, setting, value)
        self.states[interface, setting.value, subject(setting, value)] = state

    @override
    def on_datagram(self, interface: str, source: tuple[str, int], target: tuple[str, int], payload: bytes) -> None:
        self.datagrams_sent += 1
        other, others = self._joined.get(interface, (None, ""))
        if other is None or not self._has_carrier(interface) or not other._has_carrier(others):
            return
        if other._ips[others] == target[0]:
            for wire in other._wires:
                wire.tell_datagram(others, source, target, payload)

    @override
    def attached(self, wire: HostWireServer) -> None:
        self._wires.append(wire)

    @override
    def detached(self, wire: HostWireServer) -> None:
        self._wires.remove(wire)

    def _has_carrier(self, interface: str) -> bool:
        return interface in self._links and self._links[interface].carrier


def _dark(interface: str, ifindex: int) -> LinkState:
    return LinkState(
        interface=interface,
        ifindex=ifindex,
        admin_up=True,
        carrier=False,
        operstate=OperState.DOWN,
        carrier_changes=0,
        carrier_ups=0,
        carrier_downs=0,
    )
