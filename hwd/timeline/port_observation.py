"""Reports of agents about NIC ports during one reconfiguration: changes up and down, what was watched,
what was lost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import UNSET

from hwd.model.host import HostEvent
from hwd.model.instant import Instant, InstantName, Origin
from hwd.model.nic_port import NicPortId
from hwd.model.plural import plural
from hwd.model.rc_recovery import RcRecovery
from hwd_agents.wire import Observation
from hwd_agents.wire.events import (
    CarrierData,
    FirmwareData,
    InterfaceData,
    LightData,
    LostData,
    RcRecoveryData,
    RdmaData,
    ReadyData,
    WrongPeerData,
)

WRONG_PEER = "the peer is"
"""How the reason of a transfer begins that another port answered."""
_READ: Final = frozenset({"carrier", "interface", "dark", "light", "firmware", "rdma", "ready", "rc-recovery"})
"""Types of events whose data a timeline needs."""


def state_of(event: HostEvent) -> tuple[InstantName, bool] | None:
    """The state of a port that an event reports, and whether it is up; None where it reports none."""
    match event.data:
        case LightData():
            return InstantName.LIGHT, event.type == "light"
        case CarrierData(carrier=up):
            return InstantName.CARRIER, up
        case FirmwareData(up=up):
            return InstantName.FIRMWARE, up
        case RdmaData(active=up):
            return InstantName.RDMA, up
        case InterfaceData(present=False):
            return InstantName.CARRIER, False
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A state of a port rose or fell between two times, as one source saw it. Going dark is a fall of light."""

    name: InstantName
    up: bool
    event: HostEvent
    origin: Origin
    remark: str = ""

    def instant(self, name: InstantName) -> Instant:
        event = self.event
        return Instant.seen(
            name,
            earliest_ns=event.earliest_ns,
            latest_ns=event.latest_ns,
            best_ns=event.best_ns,
            source=event.source,
            origin=self.origin,
            sampling_ns=event.sampling_ns,
            why=self.remark,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PortObserved:
    """The knowledge of one port, changes in the order in which they happened. `watches`: how each state was watched.

    `settled`: its agent reported what it watched; without that, the absence of a change means nothing. `lost`: events
    that its host's spool dropped.
    """

    id: NicPortId
    changes: tuple[Change, ...] = ()
    watches: Mapping[InstantName, Observation] = field(default_factory=dict)
    settled: bool = False
    lost: int = 0
    wrong_peer: str = ""
    rc: RcRecovery | None = None


class PortObserver:
    """Reads the events of hosts during one reconfiguration, and what was sampled.

    `sampled`, by NIC port (`h0.eth0`): what its agent answered to `settle` of light, firmware, carrier, rdma, ready.
    An observation of anything else is skipped and named in `unreadable`.
    """

    def __init__(
        self, reconfiguration: str, events: Iterable[HostEvent], sampled: Mapping[str, Mapping[str, Observation]]
    ) -> None:
        self.unreadable: list[str] = []
        self._reconfiguration = reconfiguration
        self._changes: dict[NicPortId, list[Change]] = {}
        self._lost: dict[str, int] = {}
        self._wrong_peer: dict[NicPortId, str] = {}
        self._recoveries: dict[NicPortId, RcRecovery] = {}
        self._sampled = sampled
        for event in sorted(events, key=lambda event: (event.latest_ns, event.host, event.seq)):
            self._read(event)

    def port(self, id: NicPortId) -> PortObserved:
        sampled = self._sampled.get(id)
        return PortObserved(
            id=id,
            changes=tuple(self._changes.get(id, ())),
            watches={} if sampled is None else self._watches(id, sampled),
            settled=sampled is not None,
            lost=self._lost.get(id.host, 0),
            wrong_peer=self._wrong_peer.get(id, ""),
            rc=self._recoveries.get(id),
        )

    def _read(self, event: HostEvent) -> None:
        match event.data:
            case LostData(count=count):
                self._lost[event.host] = self._lost.get(event.host, 0) + count
            case Mapping() if event.type == "lost":
                self._lost[event.host] = self._lost.get(event.host, 0) + 1
        if event.port is None:
            return
        port = NicPortId(host=event.host, port=event.port)
        if (state := state_of(event)) is not None:
            name, up = state
            gone = isinstance(event.data, InterfaceData)
            self._add(port, event, name, up, remark="the interface went away" if gone else "")
            return
        match event.data:
            case Mapping() as unread if event.type in _READ:
                self._refuse(event, f"its data is {dict(unread)}")
            case ReadyData(reconfiguration=self._reconfiguration, via=via):
                self._add(port, event, InstantName.READY, up=True, remark="" if via is UNSET else f"via {via}")
            case RcRecoveryData(reconfiguration=self._reconfiguration) as data:
                recovery = RcRecovery.of(event, data)
                self._recoveries[port] = recovery.better(self._recoveries.get(port))
            case WrongPeerData(reconfiguration=self._reconfiguration, found=found, expected=expected):
                self._wrong_peer[port] = f"{WRONG_PEER} {found}, and should be {expected}"

    def _add(self, port: NicPortId, event: HostEvent, name: InstantName, up: bool, remark: str = "") -> None:
        try:
            origin = Origin(event.origin)
        except ValueError:
            self._refuse(event, f"origin is {event.origin!r}")
            return
        if event.earliest_ns > event.latest_ns:
            self._refuse(event, f"earliest_ns {event.earliest_ns} is after latest_ns {event.latest_ns}")
            return
        match event.data:
            case CarrierData(unseen=int(unseen)) | RdmaData(missed=int(unseen)) if unseen:
                remark = f"{plural(unseen, 'flap')} before it counted, not seen"
        change = Change(name=name, up=up, event=event, origin=origin, remark=remark)
        self._changes.setdefault(port, []).append(change)

    def _refuse(self, event: HostEvent, why: str) -> None:
        self.unreadable.append(f"{event.host}.{event.port}: event {event.seq} ({event.type}) left out: {why}")

    def _watches(self, id: NicPortId, sampled: Mapping[str, Observation]) -> dict[InstantName, Observation]:
        watches: dict[InstantName, Observation] = {}
        for kind, watch in sampled.items():
            try:
                watches[InstantName(kind)] = watch
            except ValueError:  # its agent is of a later version
                self.unreadable.append(f"{id}: what it sampled of {kind!r} left out: no such instant")
        return watches
