"""The desired state of the rack: what the last confirmed reconfiguration of each fibre end wanted, and what differs."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from hwd.fabric.fabric import Fabric
from hwd.fabric.state import crossconnect_ports
from hwd.model.circuit import Observed
from hwd.model.desired_state import (
    DesiredEnd,
    DesiredEnds,
    SwitchDifference,
    crossconnects_of,
    difference,
    ends_after,
    wanted_by,
)
from hwd.model.link import SwitchCrossconnect
from hwd.model.reconfiguration import ReconfigurationEnded, WantedSwitch
from hwd.model.switch import SwitchAdopted
from hwd.model.testbed import Testbed
from hwd.ports.claim import Claim
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.records.records import Records
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.values import Crossconnect, PortSide

IN_PROGRESS = (Reason.RECONFIGURATION, Reason.CUT_OFF, Reason.IN_DOUBT, Reason.PREPARED_SET)
"""Ports of such claims are on their way to a state, or back from it, or a prepared set says what is desired of them: no
difference there counts.
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Crossconnects that stand beside what is desired, `ocs1:1A-2B`.

    `stale`: something else is desired of one of its ends. `unasked`: nobody ever wanted anything of its ends.
    """

    stale: tuple[SwitchCrossconnect, ...] = ()
    unasked: tuple[SwitchCrossconnect, ...] = ()


class DesiredState:
    """A `Sink`. The records have the same, written with the documents that it takes.

    `recorded()`: returns when all documents so far are in the records, and raises HwdError where they cannot be.
    """

    TAKES: ClassVar = (ReconfigurationEnded, SwitchAdopted)

    def __init__(self, testbed: Testbed, ledger: Ledger, recorded: Callable[[], Awaitable[None]]) -> None:
        self._testbed = testbed
        self._ledger = ledger
        self._recorded = recorded
        self._ends: dict[str, DesiredEnds] = {}
        self._crossconnects: dict[str, tuple[Crossconnect, ...]] = {}
        self._left: dict[str, dict[PortSide, DesiredEnd]] = {}
        """The desired state of ends that the testbed has no more: desired again when it has them again."""

    async def load(self, records: Records) -> None:
        """Take the state that earlier processes of the daemon recorded. Ends that the testbed has no more are left."""
        self._take({switch: dict(ends) for switch, ends in (await records.desired.all()).items()})

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric."""
        self._testbed = fabric.testbed
        names = {**self._left, **self._ends}
        merged = {name: {**self._left.get(name, {}), **self._ends.get(name, {})} for name in names}
        self._take(
            {name: {end: one for end, one in ends.items() if _agrees(one, ends)} for name, ends in merged.items()}
        )

    def _take(self, recorded: Mapping[str, dict[PortSide, DesiredEnd]]) -> None:
        self._ends, self._left, self._crossconnects = {}, {}, {}
        for switch, ends in recorded.items():
            known = self._testbed.ends.get(switch, frozenset())
            self._put(switch, {end: one for end, one in ends.items() if end in known and _is_whole(one, known)})
            self._left[switch] = {end: one for end, one in ends.items() if end not in self._ends[switch]}

    def _put(self, switch: str, ends: DesiredEnds) -> None:
        self._ends[switch], self._crossconnects[switch] = ends, crossconnects_of(ends)

    def __call__(self, document: Document) -> None:
        if isinstance(fact := document.fact, ReconfigurationEnded | SwitchAdopted):
            for wanted, by in wanted_by(fact):
                self._put(wanted.switch, ends_after(self._ends.get(wanted.switch, {}), wanted, by=by))

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches of which something is wanted, in the order of the testbed file."""
        return tuple(name for name in self._testbed.switches if self._ends.get(name))

    def of(self, switch: str) -> DesiredEnds:
        return self._ends.get(switch, {})

    def crossconnects(self) -> Mapping[str, tuple[Crossconnect, ...]]:
        """The wanted crossconnects, by switch."""
        return {name: self._crossconnects[name] for name in self.switches}

    def changing(self, *, but: str = "") -> frozenset[str]:
        """Ports that reconfigurations in progress change or rely on, and those of prepared sets, `ocs1.3`. `but`: a
        reconfiguration left out.
        """
        claims = (claim for claim in self._ledger.all(*IN_PROGRESS) if claim.id != but)
        return frozenset(port for claim in claims for port in claim.ports | claim.relies_on)

    def changed_by(self, crossconnects: Iterable[SwitchCrossconnect]) -> str | None:
        """The reconfiguration in progress that changes one of these; None where none does."""
        ports = crossconnect_ports(crossconnects)
        claims = self._ledger.all(Reason.RECONFIGURATION)
        return next((claim.id for claim in claims if not claim.ports.isdisjoint(ports)), None)

    def on_their_way(self, reason: Reason, ports: frozenset[str] | None) -> list[Claim]:
        """The claims of prepared sets, or of reconfigurations, that decide what is desired of some of these ports, of
        any where it is None.
        """
        claims = self._ledger.all(reason)
        return [claim for claim in claims if ports is None or not claim.ports.isdisjoint(ports)]

    def difference(self, switch: str, observed: Observed) -> SwitchDifference | None:
        """How a switch differs from what is wanted; None where it was not read."""
        if (readings := observed.get(switch)) is None:
            return None
        return difference(switch, self.of(switch), readings, but=self.changing())

    def already(self, wanted: Iterable[WantedSwitch]) -> list[WantedSwitch]:
        """The part of `wanted` that is desired already: a restore wants nothing new of ends that nobody named."""
        found = []
        for one in wanted:
            ends = self.of(one.switch)
            there = crossconnects_of(ends)
            crossconnects = [each for each in one.crossconnects if each in there]
            free = [each for each in one.free if each in ends]
            found.append(WantedSwitch(switch=one.switch, crossconnects=crossconnects, free=free))
        return found

    def leftovers(self, id: str, wanted: Iterable[WantedSwitch], observed: Observed) -> Leftovers:
        """What these switches carry beside what is desired of them after reconfiguration `id`, which wants this."""
        others, stale, unasked = self.changing(but=id), list[SwitchCrossconnect](), list[SwitchCrossconnect]()
        for one in wanted:
            name = one.switch
            after = ends_after(self.of(name), one, by=id)
            differs = difference(name, after, observed.get(name, ()), but=others)
            stale += [SwitchCrossconnect(switch=name, crossconnect=left) for left in differs.stale]
            if not self._testbed.switches[name].capabilities.elements:  # an element may have to join something
                unasked += [SwitchCrossconnect(switch=name, crossconnect=left) for left in differs.unasked]
        return Leftovers(stale=tuple(stale), unasked=tuple(unasked))

    async def recorded(self) -> str:
        """Wait until the desired state is in the records; returns why it is not yet, empty where it is."""
        try:
            await self._recorded()
        except HwdError as error:
            return f"that this is desired from here on is not in the records yet: {error}"
        return ""


def _agrees(one: DesiredEnd, ends: DesiredEnds) -> bool:
    """Whether the other end wants the same: it may have been decided about while this one was not in the testbed."""
    if one.crossconnect is None:
        return True
    return all(end in ends and ends[end].crossconnect == one.crossconnect for end in one.crossconnect.ends)


def _is_whole(one: DesiredEnd, known: frozenset[PortSide]) -> bool:
    return one.crossconnect is None or known.issuperset(one.crossconnect.ends)
