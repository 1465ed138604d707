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
    """`told`: as its agent told of it, with the events after that; its carrier is None while that agent is away.

    What is None is not known. `lost_wall_ns`: when a known carrier became unknown, as its agent was lost;
    `dark_wall_ns`: when its module lost the light.
    """

    told: HostPort
    light: bool | None = None
    firmware: bool | None = None
    rdma: bool | None = None
    received_dbm: Sequence[float | None] | None = None
    sent_dbm: Sequence[float | None] | None = None
    why_down: str = ""
    carrier: Carrier | None = None
    lost_wall_ns: int | None = None
    dark_wall_ns: int | None = None

    @property
    def end(self) -> EndState:
        """For a diagnosis."""
        told = self.told
        link = told.sources.get("link")
        missing = (link.why_not if link else "") or f"there is no interface {told.interface}"
        return EndState(
            light=LightAt(lit=self.light, sent_dbm=self.sent_dbm, received_dbm=self.received_dbm),
            firmware=self.firmware,
            carrier=told.carrier,
            rdma=self.rdma if told.rdma is None else told.rdma,
            missing="" if told.present else missing,
            why_down=self.why_down,
            why_unknown={
                stage: note.why_not
                for stage, source in _SOURCES.items()
                if (note := told.sources.get(source)) is not None and note.why_not
            },
        )

    def forget(self) -> None:
        """Nothing but `told` is known of now, and what was: its agent is away, or its interface is gone."""
        self.light = self.firmware = self.rdma = self.received_dbm = self.sent_dbm = None
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
                    if port.told.carrier is not None:
                        port.lost_wall_ns = document.wall_ns
                    port.told = replace(port.told, carrier=None, carrier_changes=None, rdma=None)
                    port.forget()

    def since_wall_ns(self, host: str) -> int | None:
        """When its agent connected, or disconnected; None where that was not seen."""
        return self._hosts_since_wall_ns.get(host)

    def of_host(self, host: str) -> Mapping[str, NicPortNow]:
        """By name."""
        return self._ports.get(host, NOTHING)

    def get(self, id: NicPortId) -> NicPortNow | None:
        """None where its agent has not told of it."""
        return self._ports.get(id.host, NOTHING).get(id.port)

    def carrier(self, id: NicPortId) -> bool | None:
        """None where it is not known: its agent is away, or has not found the port yet."""
        port = self.get(id)
        return None if port is None else port.told.carrier


def _born(before: NicPortNow | None, birth: HostBirth, name: str) -> NicPortNow:
    told = birth.ports[name]
    known = Inventory() if birth.inventory is UNSET else birth.inventory
    states: Mapping[str, bool | None] = (known.states or {}).get(name, {})
    port = NicPortNow(told=told, light=states.get("light"), firmware=states.get("firmware"), rdma=states.get("rdma"))
    if (monitors := (known.monitors or {}).get(name)) is not None:
        port.received_dbm, port.sent_dbm = monitors.rx_power_dbm, monitors.tx_power_dbm
    if (link := (known.links or {}).get(name)) is not None:
        port.why_down = _why_down(link)
    if before is not None:
        port.lost_wall_ns, port.dark_wall_ns = before.lost_wall_ns, before.dark_wall_ns
    found = None if before is None else before.carrier
    if told.carrier is None:
        port.carrier = found  # as it was when it was last known: it may be found unchanged
        return port
    same = found is not None and (found.boot, found.there) == (birth.boot, told.carrier)
    counted = found is not None and found.changes is not None and found.changes == told.carrier_changes
    port.carrier = Carrier(
        boot=birth.boot,
        there=told.carrier,
        changes=told.carrier_changes,
        since_wall_ns=found.since_wall_ns if found is not None and same and counted else None,
    )
    return port


def _take(port: NicPortNow, event: HostEvent, at_wall_ns: int) -> None:
    told = port.told
    match event.data:
        case MonitorData(rx_power_dbm=received_dbm, tx_power_dbm=sent_dbm):
            port.received_dbm, port.sent_dbm = received_dbm, sent_dbm
        case LightData(lanes=lanes):
            port.light, port.received_dbm = event.type == "light", lanes
            if event.type == "dark":
                port.dark_wall_ns = at_wall_ns
        case CarrierData(carrier=carrier, carrier_changes=changes):
            port.told = replace(told, carrier=carrier and told.present)
            _change(port, event.boot, changes, at_wall_ns)
        case RdmaData(active=active):
            port.told = replace(told, rdma=active)
        case FirmwareData(up=up):
            port.firmware = up
        case LinkStateData() as link:
            port.why_down = _why_down(link)
        case InterfaceData(present=present):
            port.told = replace(told, present=present, carrier=told.carrier if present else False)
            if not present:
                port.forget()
            there = port.told.carrier  # of an interface that came without one nothing is said
            if there is not None and (port.carrier is None or port.carrier.there is not there):
                _change(port, event.boot, UNSET, at_wall_ns)


def _change(port: NicPortNow, boot: str, changes: int | UnsetType | None, at_wall_ns: int) -> None:
    found, there = port.carrier, port.told.carrier
    counted = None if changes is UNSET else changes
    if found is None or found.there is not there or found.changes != counted or counted is None:  # else said again
        port.carrier = Carrier(boot=boot, there=there, changes=counted, since_wall_ns=at_wall_ns)


def _why_down(link: LinkStateData) -> str:
    """`bad signal integrity, serdes ALOS`; empty while the link is up, and where the NIC says nothing."""
    return ", ".join(words for words in (link.why_down, link.detail) if words)
