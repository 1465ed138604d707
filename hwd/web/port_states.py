"""The states of NIC ports: light, firmware, powers, and what the NIC says of its link, as last reported."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from hwd.fabric.diagnosis import EndState
from hwd.fabric.lost_light import LightAt
from hwd.model.documents.hosts import HostBirth, HostDown, HostEvent, HostFact, HostPort
from hwd.model.stage import StageName
from hwd_agents.wire import Inventory
from hwd_agents.wire.events import FirmwareData, InterfaceData, LightData, LinkStateData, MonitorData

_SOURCES = {StageName.OPTICAL: "module", StageName.FIRMWARE: "phy", StageName.RDMA: "sysfs"}
"""The source that the state at the end of each stage comes from."""


class _State(msgspec.Struct, frozen=True, kw_only=True):
    light: bool | None = None
    firmware: bool | None = None
    rdma: bool | None = None
    received_dbm: Sequence[float | None] | None = None
    sent_dbm: Sequence[float | None] | None = None
    why_down: str = ""


class PortStates:
    """Takes the documents of hosts. Nothing is known of a port until its agent reports it, and while that is away."""

    def __init__(self) -> None:
        self._states: dict[str, dict[str, _State]] = {}

    def take(self, fact: HostFact) -> None:
        """A birth describes all ports; events change one."""
        match fact:
            case HostBirth(host=host, ports=ports, inventory=inventory):
                known = Inventory() if inventory is UNSET else inventory
                self._states[host] = {name: _at_birth(name, known) for name in ports}
            case HostDown(host=host):
                self._states.pop(host, None)
            case HostEvent(past=False, host=host, port=str(name)) if host in self._states:
                state = self._states[host].get(name, _State())
                self._states[host][name] = _after(state, fact)

    def end(self, host: str, name: str, port: HostPort | None) -> EndState:
        """What is known of a port; `port`: the rest of it, None where its agent was never heard."""
        if port is None:
            return EndState()
        state = self._states.get(host, {}).get(name, _State())
        link = port.sources.get("link")
        missing = (link.why_not if link else "") or f"there is no interface {port.interface}"
        return EndState(
            light=LightAt(lit=state.light, sent_dbm=state.sent_dbm, received_dbm=state.received_dbm),
            firmware=state.firmware,
            carrier=port.carrier,
            rdma=state.rdma if port.rdma is None else port.rdma,
            missing="" if port.present else missing,
            why_down=state.why_down,
            why_unknown={
                stage: note.why_not
                for stage, source in _SOURCES.items()
                if (note := port.sources.get(source)) is not None and note.why_not
            },
        )


def _at_birth(name: str, inventory: Inventory) -> _State:
    states: Mapping[str, bool | None] = (inventory.states or {}).get(name, {})
    state = _State(light=states.get("light"), firmware=states.get("firmware"), rdma=states.get("rdma"))
    if (monitors := (inventory.monitors or {}).get(name)) is not None:
        state = _monitored(state, monitors)
    if (link := (inventory.links or {}).get(name)) is not None:
        state = replace(state, why_down=_why_down(link))
    return state


def _after(state: _State, event: HostEvent) -> _State:
    match event.data:
        case LightData(lanes=lanes):
            return replace(state, light=event.type == "light", received_dbm=lanes)
        case MonitorData() as monitors:
            return _monitored(state, monitors)
        case FirmwareData(up=up):
            return replace(state, firmware=up)
        case LinkStateData() as link:
            return replace(state, why_down=_why_down(link))
        case InterfaceData(present=False):
            return _State()
        case _:
            return state


def _monitored(state: _State, monitors: MonitorData) -> _State:
    return replace(state, received_dbm=monitors.rx_power_dbm, sent_dbm=monitors.tx_power_dbm)


def _why_down(link: LinkStateData) -> str:
    """`bad signal integrity, serdes ALOS`; empty while the link is up, and where the NIC says nothing."""
    return ", ".join(words for words in (link.why_down, link.detail) if words)
