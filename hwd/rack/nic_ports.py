"""The NIC ports of all hosts as they are now, from the documents of hosts: whoever asks for a carrier asks here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from hwd.fabric.diagnosis import EndState
from hwd.fabric.lost_light import LightAt
from hwd.model.host import HostBirth, HostDown, HostEvent, HostPort, HostUp
from hwd.model.nic_port import NicPortId
from hwd.model.stage import StageName
from hwd_agents.wire import Inventory
from hwd_agents.wire.events import (
    CarrierData,
    FirmwareData,
    InterfaceData,
    LightData,
    LinkStateData,
    MonitorData,
    RdmaData,
)
from hwd_drivers.core.documents import Document

_SOURCES = {StageName.OPTICAL: "module", StageName.FIRMWARE: "phy", StageName.RDMA: "sysfs"}
"""The source that the state at the end of each stage comes from."""
NOTHING: Final[Mapping[str, "NicPortNow"]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """A carrier that is known, or was when its agent was lost. `changes`: the kernel's count of its changes then.

    `since_wall_ns`: when it began. One that was there when the agent connected has no beginning, unless the same boot
    of the agent reported it before and the kernel has counted no change of it since.
    """

    boot: str
    there: bool | None
    changes: int | None
    since_wall_ns: int | None


@dataclass(slots=True, kw_only=True)
class NicPortNow:
    """The present state of a NIC port; None is not known: of a carrier and of RDMA while its agent is away, too.

    `born`: as its agent told of it when it connected. `states_rdma`: as that told of its RDMA port beside that.
    `was`: its carrier, and since when. `lost_wall_ns`: when a known carrier became unknown, as its agent was lost;
    `dark_wall_ns`: when its module lost the light.
    """

    born: HostPort
    present: bool
    carrier: bool | None
    rdma: bool | None
    is_away: bool = False
    light: bool | None = None
    firmware: bool | None = None
    states_rdma: bool | None = None
    received_dbm: Sequence[float | None] | None = None
    sent_dbm: Sequence[float | None] | None = None
    why_down: str = ""
    was: Carrier | None = None
    lost_wall_ns: int | None = None
    dark_wall_ns: int | None = None

    @property
    def as_host_port(self) -> HostPort:
        """The port as its agent would tell of it now; the count of its carrier is of its birth."""
        return replace(
            self.born,
            present=self.present,
            carrier=self.carrier,
            rdma=self.rdma,
            carrier_changes=None if self.is_away else self.born.carrier_changes,
        )

    @property
    def end(self) -> EndState:
        """The state of the port for a diagnosis."""
        sources = self.born.sources
        link = sources.get("link")
        missing = (link.why_not if link else "") or f"there is no interface {self.born.interface}"
        return EndState(
            light=LightAt(lit=self.light, sent_dbm=self.sent_dbm, received_dbm=self.received_dbm),
            firmware=self.firmware,
            carrier=self.carrier,
            rdma=self.states_rdma if self.rdma is None else self.rdma,
            missing="" if self.present else missing,
            why_down=self.why_down,
            why_unknown={
                stage: note.why_not
                for stage, source in _SOURCES.items()
                if (note := sources.get(source)) is not None and note.why_not
            },
        )

    def forget(self) -> None:
        """Nothing is known of its light and its RDMA port any more: its agent is away, or its interface is gone."""
        self.rdma = self.light = self.firmware = self.states_rdma = self.received_dbm = self.sent_dbm = None
        self.why_down = ""


class NicPorts:
    """A `Sink`. Nothing is known of a port until its agent tells of it; what it tells of other ports is left out.

    An event that arrived late, of an earlier boot, says nothing of now.
    """

    TAKES: ClassVar = (HostBirth, HostUp, HostDown, HostEvent)

    def __init__(self) -> None:
        self._ports: dict[str, dict[str, NicPortNow]] = {}
        self._hosts_since_wall_ns: dict[str, int] = {}

    def __call__(self, document: Document) -> None:
        match document.fact:
            case HostEvent(past=False, host=host, port=str(name)) as event:
                if (port := self._ports.get(host, NOTHING).get(name)) is not None:
                    _take(port, event, document.wall_ns - (document.at_ns - event.best_ns))
            case HostUp(host=host):
                self._hosts_since_wall_ns[host] = document.wall_ns
            case HostBirth(host=host) as birth:
                before = self._ports.get(host, NOTHING)
                self._ports[host] = {name: _born(before.get(name), birth, name) for name in birth.ports}
            case HostDown(host=host):
                self._hosts_since_wall_ns[host] = document.wall_ns
                for port in self._ports.get(host, NOTHING).values():
                    if port.carrier is not None:
                        port.lost_wall_ns = document.wall_ns
                    port.carrier, port.is_away = None, True
                    port.forget()

    def since_wall_ns(self, host: str) -> int | None:
        """When its agent connected, or disconnected; None where that was not seen."""
        return self._hosts_since_wall_ns.get(host)

    def of_host(self, host: str) -> Mapping[str, NicPortNow]:
        """The ports of a host by name."""
        return self._ports.get(host, NOTHING)

    def get(self, id: NicPortId) -> NicPortNow | None:
        """The port as it is now; None where its agent has not told of it."""
        return self._ports.get(id.host, NOTHING).get(id.port)

    def carrier(self, id: NicPortId) -> bool | None:
        """Whether a port has a carrier; None where its agent is away, or has not found the port yet."""
        port = self.get(id)
        return None if port is None else port.carrier


def _born(before: NicPortNow | None, birth: HostBirth, name: str) -> NicPortNow:
    host_port = birth.ports[name]
    known = Inventory() if birth.inventory is UNSET else birth.inventory
    states: Mapping[str, bool | None] = (known.states or {}).get(name, {})
    port = NicPortNow(
        born=host_port,
        present=host_port.present,
        carrier=host_port.carrier,
        rdma=host_port.rdma,
        light=states.get("light"),
        firmware=states.get("firmware"),
        states_rdma=states.get("rdma"),
    )
    if (monitors := (known.monitors or {}).get(name)) is not None:
        port.received_dbm, port.sent_dbm = monitors.rx_power_dbm, monitors.tx_power_dbm
    if (link := (known.links or {}).get(name)) is not None:
        port.why_down = _why_down(link)
    if before is not None:
        port.lost_wall_ns, port.dark_wall_ns, port.was = before.lost_wall_ns, before.dark_wall_ns, before.was
    if host_port.carrier is None:  # what it was when it was last known is kept: it may be found unchanged
        return port
    was = port.was
    same = was is not None and (was.boot, was.there) == (birth.boot, host_port.carrier)
    counted = was is not None and was.changes is not None and was.changes == host_port.carrier_changes
    port.was = Carrier(
        boot=birth.boot,
        there=host_port.carrier,
        changes=host_port.carrier_changes,
        since_wall_ns=was.since_wall_ns if was is not None and same and counted else None,
    )
    return port


def _take(port: NicPortNow, event: HostEvent, at_wall_ns: int) -> None:
    match event.data:
        case MonitorData(rx_power_dbm=received_dbm, tx_power_dbm=sent_dbm):
            port.received_dbm, port.sent_dbm = received_dbm, sent_dbm
        case LightData(lanes=lanes):
            port.light, port.received_dbm = event.type == "light", lanes
            if event.type == "dark":
                port.dark_wall_ns = at_wall_ns
        case CarrierData(carrier=carrier, carrier_changes=changes):
            port.carrier = carrier and port.present
            _change(port, event.boot, changes, at_wall_ns)
        case RdmaData(active=active):
            port.rdma = active
        case FirmwareData(up=up):
            port.firmware = up
        case LinkStateData() as link:
            port.why_down = _why_down(link)
        case InterfaceData(present=present):
            port.present = present
            if not present:
                port.carrier = False
                port.forget()
            if port.carrier is not None and (port.was is None or port.was.there is not port.carrier):
                _change(port, event.boot, UNSET, at_wall_ns)  # else it came, and nothing is said of its carrier


def _change(port: NicPortNow, boot: str, changes: int | UnsetType | None, at_wall_ns: int) -> None:
    was, there = port.was, port.carrier
    counted = None if changes is UNSET else changes
    if was is None or was.there is not there or was.changes != counted or counted is None:  # else said again
        port.was = Carrier(boot=boot, there=there, changes=counted, since_wall_ns=at_wall_ns)


def _why_down(link: LinkStateData) -> str:
    """`bad signal integrity, serdes ALOS`; empty while the link is up, and where the NIC says nothing."""
    return ", ".join(words for words in (link.why_down, link.detail) if words)
