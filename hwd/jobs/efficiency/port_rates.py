"""PortRates: what goes over the links of NIC ports at most, as agents read it or the testbed file says it."""

from collections.abc import Collection
from typing import Final

from msgspec import UNSET

from hwd.model.host import HostBirth, HostEvent
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd_agents.wire.events import LinkStateData
from hwd_drivers.core.documents import Document, Fact


class PortRates:
    """A subscriber. The speed of a link that is down is that which it had last."""

    TAKES: Final[tuple[type[Fact], ...]] = (HostBirth, HostEvent)

    def __init__(self) -> None:
        self._read: dict[str, float] = {}
        """Mbit/s, by NIC port."""

    def __call__(self, document: Document) -> None:
        match document.fact:
            case HostEvent(host=host, port=port, data=LinkStateData(speed_mbps=int(speed))):
                self._take(f"{host}.{port}", speed)
            case HostBirth(host=host, inventory=inventory) if inventory is not UNSET:
                for port, nic in (inventory.nics or {}).items():
                    self._take(f"{host}.{port}", nic.speed_mbps)
                for port, link in (inventory.links or {}).items():
                    self._take(f"{host}.{port}", None if link is None else link.speed_mbps)

    def of(self, testbed: Testbed, ports: Collection[NicPortId]) -> dict[str, float]:
        """Mbit/s each way, by NIC port, of those whose rate is known: as its agent reads it, else what is stated of the
        packet switch that it is on, else what is stated of itself.
        """
        wanted = set(ports)
        switches = packet_switches(testbed, ports)
        found: dict[str, float] = {}
        for port in testbed.ports():
            name = port.id
            if name not in wanted:
                continue
            stated = [testbed.packet_switches[switches[name]].rate_mbit_s] if name in switches else []
            for rate in (self._read.get(name), *stated, port.rate_mbit_s):
                if rate is not None:
                    found[name] = rate
                    break
        return found

    def _take(self, port: str, speed_mbit_s: float | None) -> None:
        if speed_mbit_s:
            self._read[port] = float(speed_mbit_s)


def packet_switches(testbed: Testbed, ports: Collection[NicPortId]) -> dict[str, str]:
    """The packet switch that the fibres of each NIC port lead to, for ports whose fibres lead to one."""
    wanted = set(ports)
    return {
        f"{near.owner}.{near.port}": far.owner
        for strand in testbed.strands
        for near, far in (strand.ends, strand.ends[::-1])
        if f"{near.owner}.{near.port}" in wanted and far.owner in testbed.packet_switches
    }
