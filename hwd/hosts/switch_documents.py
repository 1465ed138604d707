"""HostSwitches: the documents of switches that hosts drive, made from the events and answers of their agents.

While the agent of a host is down, the state of its switches is unknown.
"""

import logging
from collections.abc import Mapping
from typing import ClassVar, Final

import msgspec

from hwd.model.host import HostDown, HostEvent
from hwd.model.switch import SwitchUnknown
from hwd.model.testbed import Testbed
from hwd_agents.wire import SwitchState
from hwd_agents.wire.events import (
    SwitchCommandData,
    SwitchDownData,
    SwitchOverrideData,
    SwitchPowerData,
    SwitchReadData,
    SwitchRestartedData,
    SwitchUpData,
)
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain, to_plain
from hwd_drivers.core.values import CrossconnectReading
from hwd_drivers.devices.facts import (
    SwitchCommand,
    SwitchDown,
    SwitchFact,
    SwitchOverride,
    SwitchPower,
    SwitchRead,
    SwitchRestarted,
    SwitchUp,
)

_FACTS: Final[Mapping[type, type[SwitchFact]]] = {
    SwitchUpData: SwitchUp,
    SwitchDownData: SwitchDown,
    SwitchReadData: SwitchRead,
    SwitchCommandData: SwitchCommand,
    SwitchPowerData: SwitchPower,
    SwitchOverrideData: SwitchOverride,
    SwitchRestartedData: SwitchRestarted,
}
"""The document that each report of an agent about its switch becomes."""
STATE_REPORTS: Final = (SwitchUpData, SwitchDownData, SwitchReadData)
"""The reports that hold the state of a switch."""

log = logging.getLogger(__name__)


class HostSwitches:
    """A `Sink`.

    Emits `switch.up`, `.down`, `.read` ... as the supervisor of a switch of the daemon does, with the host's name
    added, and `switch.unknown`.

    A state in an event of an earlier boot, from before the agent's last answer (its spool may hold many), or from a
    host that does not own the switch, is ignored.
    """

    TAKES: ClassVar = (HostEvent, HostDown)

    def __init__(self, testbed: Testbed, *, clock: Clock, sink: Sink) -> None:
        self._owners = {name: one.owner for name, one in testbed.switches.items() if one.owner is not None}
        self._send = Emitter(clock, sink)
        self._answered: dict[str, tuple[str, int]] = {}
        """By host: the boot of its last answer, and the time of the answer on the clock of that boot."""
        self._carried: dict[str, tuple[CrossconnectReading, ...]] = {}

    def crossconnects(self) -> Mapping[str, tuple[CrossconnectReading, ...]]:
        """The present crossconnects of each switch; a switch in an unknown state is left out."""
        return dict(self._carried)

    def __call__(self, document: Document) -> None:
        match document.fact:
            case HostDown(host=host, cause=cause):
                self._lose(host, cause)
            case HostEvent(host=host, type="switch", past=False) as event:
                boot, answered_ns = self._answered.get(host, ("", 0))
                self._take(host, event.data, old=event.boot == boot and event.agent_ns < answered_ns)

    def take_answer(self, host: str, boot: str, switches: Mapping[str, SwitchState], at_ns: int) -> None:
        """Take the state of a host's switches from an answer of its agent at `at_ns` of the clock of that boot."""
        self._answered[host] = boot, at_ns
        for name, note in switches.items():
            if self._owners.get(name) != host:
                continue
            if not note.up:
                self._emit(SwitchDown(switch=name, cause=note.cause, host=host))
                continue
            self._emit(
                SwitchUp(
                    switch=name,
                    vendor=note.vendor,
                    model=note.model,
                    serial=note.serial,
                    firmware=note.firmware,
                    down_s=0.0,
                    host=host,
                )
            )
            try:
                read = from_plain(note.crossconnects or [], list[CrossconnectReading], from_attributes=True)
            except msgspec.ValidationError as error:  # its agent may be of another version
                log.warning("%s: what its host tells of it makes no sense: %s", name, reason_of(error))
                continue
            self._emit(SwitchRead(switch=name, crossconnects=read, added=[], removed=[], ours=True, host=host))

    def _take(self, host: str, report: object, *, old: bool) -> None:
        if (fact := _FACTS.get(type(report))) is None:
            log.debug("%s: a report of a switch that cannot be read: %s", host, report)
            return
        data = to_plain(report)
        if self._owners.get(data["switch"]) != host:
            log.debug("%s: tells %s of %s, which is not its own to tell", host, fact.KIND, data["switch"])
            return
        if not (old and isinstance(report, STATE_REPORTS)):
            try:
                self._emit(from_plain({**data, "host": host}, fact))
            except msgspec.ValidationError as error:
                log.warning("%s: what its host tells of it makes no sense: %s", data["switch"], reason_of(error))

    def _emit(self, fact: SwitchFact) -> None:
        match fact:
            case SwitchRead(switch=name, crossconnects=crossconnects):
                self._carried[name] = tuple(crossconnects)
            case SwitchDown(switch=name) | SwitchUnknown(switch=name):
                self._carried.pop(name, None)
        self._send(fact)

    def _lose(self, host: str, cause: str) -> None:
        for name, owner in self._owners.items():
            if owner == host:
                self._emit(SwitchUnknown(switch=name, cause=f"host {host} is away: {cause}", host=host))
