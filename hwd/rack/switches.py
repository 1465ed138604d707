"""The last reports of the switches, from documents."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from msgspec.structs import replace

from hwd.fabric.fabric import Fabric
from hwd.model.switch import OverrunReport, RestartReport, SwitchOverrun, SwitchStatus, SwitchUnknown, still_missing
from hwd.model.testbed import Switch
from hwd_drivers.core.documents import Document
from hwd_drivers.core.values import Crossconnect, PortOverride, natural_key
from hwd_drivers.devices.facts import (
    SwitchDown,
    SwitchFact,
    SwitchOverride,
    SwitchPower,
    SwitchRead,
    SwitchRestarted,
    SwitchUp,
)

_log = logging.getLogger(__name__)

NOTHING: Final = frozenset[Crossconnect]()
OVERRUNS_KEPT = 8
"""The overruns of each switch that are kept; older ones are in the records."""


class ReportedSwitches:
    """A `Sink` with the last report of each switch. `cause(switch)`: why it cannot be reached now, None if unknown.

    `ignored`: how often something was told of each switch that the testbed has not, or has no more.
    """

    TAKES: ClassVar = (
        SwitchUp,
        SwitchDown,
        SwitchUnknown,
        SwitchRestarted,
        SwitchRead,
        SwitchPower,
        SwitchOverride,
        SwitchOverrun,
    )

    def __init__(
        self, switches: Mapping[str, Switch], cause: Callable[[str], str | None] = lambda switch: None
    ) -> None:
        self._cause = cause
        self.ignored = Counter[str]()
        self._switches = dict(switches)
        self._reports = {name: _at_first(name, switch.owner) for name, switch in switches.items()}
        self._carried: dict[str, frozenset[Crossconnect]] = {}
        self._made_wall_ns: dict[str, dict[str, int]] = {}
        """By switch and crossconnect: when it was first read, of those that came within a session."""
        self._begins: set[str] = set()
        """Switches whose session has begun and was not read yet: what they add came at an unknown time."""

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric."""
        before, self._switches = self._switches, dict(fabric.testbed.switches)
        for name in [name for name in self._reports if self._switches.get(name) != before[name]]:
            del self._reports[name]
            self._carried.pop(name, None)
            self._made_wall_ns.pop(name, None)
            self._begins.discard(name)
        self._reports = {
            name: self._reports.get(name) or _at_first(name, switch.owner) for name, switch in self._switches.items()
        }

    def reports(self) -> list[SwitchStatus]:
        """The reports of the switches in the order of the testbed file; an unreachable one with the present cause."""
        return [*map(self._with_cause, self._reports.values())]

    def state(self) -> dict[str, frozenset[Crossconnect]]:
        """What each switch carries, as it was reported last: the same object until it is another."""
        return {name: self.carried(name) for name in self._reports}

    def carried(self, switch: str) -> frozenset[Crossconnect]:
        """The crossconnects that one switch carried."""
        return self._carried.get(switch, NOTHING)

    def report(self, switch: str) -> SwitchStatus | None:
        """The report of a switch, as in `reports`; None for one that the testbed has not."""
        one = self._reports.get(switch)
        return None if one is None else self._with_cause(one)

    def _with_cause(self, report: SwitchStatus) -> SwitchStatus:
        if report.up is not False or (cause := self._cause(report.switch)) is None:
            return report
        return replace(report, cause=cause)

    def made_wall_ns(self, switch: str, crossconnect: str) -> int | None:
        """When a present crossconnect was made, None where that was not seen: it was there when the session began."""
        return self._made_wall_ns.get(switch, {}).get(crossconnect)

    def __call__(self, document: Document) -> None:
        fact = document.fact
        if not isinstance(fact, SwitchFact):
            return
        if (before := self._reports.get(fact.switch)) is None:
            if not self.ignored[fact.switch]:
                _log.info("%s: what is told of it is ignored, as the testbed has it not: %s", fact.switch, fact.KIND)
            self.ignored[fact.switch] += 1
            return
        after = _after(before, fact, document.wall_ns)
        if after.up is not before.up:
            after = replace(after, since_wall_ns=document.wall_ns)
        self._reports[fact.switch] = after
        if after.readings is not before.readings:
            self._carried[fact.switch] = frozenset(after.crossconnects)
        match fact:
            case SwitchUp(switch=switch):
                self._begins.add(switch)
            case SwitchRead():
                self._note_made(fact, document.wall_ns)

    def _note_made(self, read: SwitchRead, wall_ns: int) -> None:
        before, there = self._made_wall_ns.get(read.switch, {}), {one.crossconnect for one in read.crossconnects}
        made = {one: since_ns for one, since_ns in before.items() if one in there and one not in read.added}
        if read.switch not in self._begins:
            made |= dict.fromkeys(read.added, wall_ns)
        self._begins.discard(read.switch)
        self._made_wall_ns[read.switch] = made


def _at_first(name: str, owner: str | None) -> SwitchStatus:
    if owner is None:
        return SwitchStatus(switch=name, owner=None, up=False, cause="no session yet")
    return SwitchStatus(switch=name, owner=owner, up=None, cause=f"nothing was heard of it from host {owner}")


def _after(report: SwitchStatus, fact: SwitchFact, wall_ns: int) -> SwitchStatus:
    """The report of a switch, changed by what is told of it at `wall_ns`."""
    match fact:
        case SwitchUp(vendor=vendor, model=model, serial=serial, firmware=firmware):
            identified = replace(report, vendor=vendor, model=model, serial=serial, firmware=firmware)
            return replace(identified, up=True, cause="", blocked=[])
        case SwitchDown(cause=cause):
            return replace(report, up=False, cause=cause)
        case SwitchUnknown(cause=cause):
            return replace(report, up=None, cause=cause, readings=[], power_dbm={}, blocked=[])
        case SwitchRestarted(sign=sign, lost=lost, uptime_s=uptime_s, unheard_s=unheard_s):
            restart = RestartReport(
                wall_ns=wall_ns, sign=sign, lost=lost, uptime_s=uptime_s, unheard_s=unheard_s, missing=lost
            )
            return replace(report, restart=restart)
        case SwitchRead(crossconnects=crossconnects, added=added):
            found = report.restart
            if found is not None:
                found = replace(found, missing=still_missing(found.missing, added))
            return replace(report, readings=crossconnects, restart=found)
        case SwitchOverride(ends=ends, to=to):
            held = {*report.blocked, *ends} if to is PortOverride.FORCE_BLOCKED else {*report.blocked}.difference(ends)
            return replace(report, blocked=sorted(held, key=natural_key))
        case SwitchOverrun(reconfiguration=reconfiguration, lost=lost, window_s=window_s):
            overrun = OverrunReport(wall_ns=wall_ns, reconfiguration=reconfiguration, lost=lost, window_s=window_s)
            return replace(report, overruns=[*report.overruns, overrun][-OVERRUNS_KEPT:])
        case SwitchPower(power_dbm=power_dbm):
            return replace(report, power_dbm={**report.power_dbm, **power_dbm})
    return report
