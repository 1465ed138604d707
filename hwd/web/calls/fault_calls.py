"""FaultCalls: faults of twins."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Depends

from hwd.config.playbook.step_claims import harmed
from hwd.fabric.in_use import InUse
from hwd.model.bodies import FaultBody
from hwd.model.fault import parse_fault
from hwd.model.status import FaultConfirmation
from hwd.playbook.twin_faults import TwinFaults
from hwd.ports.ledger import Asker
from hwd.ports.rules import PortAction
from hwd.ports.testbed_ports import all_ports
from hwd.web.bodies import decode, object_body
from hwd.web.calls.call import HELD, Call, Calls
from hwd.web.rights import Rights
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json

Data = dict[str, Any]
"""One JSON object with any fields: the body of a fault."""


class FaultCalls:
    """The calls about faults of twins."""

    def __init__(self, *, in_use: InUse, faults: TwinFaults, rights: Rights, clock: Clock) -> None:
        self._in_use = in_use
        self._faults = faults
        self._rights = rights
        self._clock = clock

    async def fault(self, body: Annotated[Data, Depends(object_body)]) -> FaultConfirmation:
        """Set a fault of a twin: `{"switch": "ocs1", "fault": "slow", "seconds": 0.5}`; `{"fault": "clear"}` ends all.

        Refused for a subject that is no twin, and for ports that others lease.
        """
        under = decode({name: body.pop(name, None) for name in ("lease", "epoch")}, FaultBody)
        return await self.set(body, lease=under.lease, epoch=under.epoch)

    async def set(
        self, data: Mapping[str, Json], *, lease: str | None = None, epoch: int | None = None
    ) -> FaultConfirmation:
        """Set or clear a fault of a twin. Raises RefusedError where another lease has its ports."""
        fault = parse_fault(data)
        self._rights.check(FAULTS.access("fault"), lease)
        ports = harmed(fault, all_ports(self._in_use.testbed))
        await self._rights.act_under(FAULTS.access("fault"), lease, epoch)
        asker = Asker(lease=lease, epoch=epoch)
        self._rights.ledger.check(asker, ports, PortAction.FAULT, now_wall_ns=self._clock.wall_ns())
        await self._faults.set(fault)
        return FaultConfirmation(done=True)


FAULTS: Final = Calls(
    part="faults",
    tag="faults",
    rows=(Call(method="POST", path="/faults", handler=FaultCalls.fault, access=HELD, body=FaultBody),),
)
