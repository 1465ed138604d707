"""The desired state of the rack: what the last confirmed reconfiguration of each fibre end wanted, and what differs."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar

from hwd.model.desired import (
    DesiredEnd,
    DesiredEnds,
    SwitchDifference,
    crossconnects_of,
    difference,
    wanted_by,
    wanting,
)
from hwd.model.documents.reconfigurations import ReconfigurationEnded
from hwd.model.documents.switches import SwitchAdopted
from hwd.model.link import SwitchCrossconnect
from hwd.model.state import Observed
from hwd.model.testbed import Testbed
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.records.records import Records
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.values import Crossconnect, PortSide

IN_PROGRESS = (Reason.RECONFIGURATION, Reason.CUT_OFF, Reason.IN_DOUBT)
"""Ports of such claims are on their way to a state, or back from it: no difference there counts."""

log = logging.getLogger(__name__)


class Desired:
    """A `Sink`. The records have the same, written with the documents that it takes.

    `recorded()`: returns when all documents so far are in the records, and raises HwdError where they cannot be.
    """

    TAKES: ClassVar = (ReconfigurationEnded, SwitchAdopted)

    def __init__(self, testbed: Testbed, ledger: Ledger, recorded: Callable[[], Awaitable[None]]) -> None:
        self._testbed = testbed
        self._ledger = ledger
        self._recorded = recorded
        self._ends: dict[str, dict[PortSide, DesiredEnd]] = {}

    async def load(self, records: Records) -> None:
        """Take the state that earlier processes of the daemon recorded. Ends that the testbed has no more are left."""
        for switch, ends in (await records.desired.all()).items():
            known = self._testbed.ends.get(switch, frozenset())
            self._ends[switch] = {end: one for end, one in ends.items() if end in known and _is_whole(one, known)}

    def __call__(self, document: Document) -> None:
        if isinstance(fact := document.fact, ReconfigurationEnded | SwitchAdopted):
            for wanted, by in wanted_by(fact):
                self._ends[wanted.switch] = wanting(self._ends.get(wanted.switch, {}), wanted, by=by)

    @property
    def switches(self) -> tuple[str, ...]:
        """Those of which something is wanted, in the order of the testbed file."""
        return tuple(name for name in self._testbed.switches if self._ends.get(name))

    def of(self, switch: str) -> DesiredEnds:
        return self._ends.get(switch, {})

    def crossconnects(self) -> Mapping[str, tuple[Crossconnect, ...]]:
        """The wanted crossconnects, by switch."""
        return {name: crossconnects_of(self._ends[name]) for name in self.switches}

    def changing(self) -> frozenset[str]:
        """Ports that reconfigurations in progress change or rely on, `ocs1.3`."""
        return frozenset(port for claim in self._ledger.all(*IN_PROGRESS) for port in claim.ports | claim.relies_on)

    def difference(self, switch: str, observed: Observed) -> SwitchDifference | None:
        """How a switch differs from what is wanted; None where it was not read."""
        if (readings := observed.get(switch)) is None:
            return None
        return difference(switch, self.of(switch), readings, but=self.changing())

    def by(self, one: SwitchCrossconnect) -> str:
        """Who wanted this crossconnect."""
        return self._ends[one.switch][one.crossconnect.a].by

    async def recorded(self) -> str:
        """Wait until the desired state is in the records; returns why it is not yet, empty where it is.

        Of a reconfiguration that moved something the journal has it meanwhile.
        """
        try:
            await self._recorded()
        except HwdError as error:
            return f"that this is desired from here on is not in the records yet: {error}"
        return ""


def _is_whole(one: DesiredEnd, known: frozenset[PortSide]) -> bool:
    return one.crossconnect is None or known.issuperset(one.crossconnect.ends)
