"""Baselines: the crossconnects that the ports of a lease had before the first change under it. They come back at its
end where the testbed asks for it.
"""

import asyncio
import logging
import re
from typing import ClassVar, Final

from hwd.fabric.in_use import InUse
from hwd.fabric.state import crossconnect_ports
from hwd.model.bodies import PlanBody
from hwd.model.circuit import Observed
from hwd.model.lease import LeaseBaseline, LeaseTaken
from hwd.model.link import SwitchCrossconnect, SwitchEnd
from hwd.model.plan import Plan
from hwd.model.request import Request, WantedState
from hwd.ports.lease_record import LeaseRecord
from hwd.reconfigure.leases.leases import Leases, baseline_of
from hwd.reconfigure.plans.planner import moved_ports
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import HwdError

log = logging.getLogger(__name__)

AGAIN_S = 5.0
"""Between attempts while a switch is away, or a reconfiguration has the ports."""
_SECONDS: Final = re.compile(r"[\d.]+ s\b")


class Baselines:
    """Notes baselines before changes, and brings them back: planned, leased and journaled as all else.

    The lease that a baseline comes back under follows the one that ended without a gap, and ends with it. It is tried
    again until that lease expires; then it is reported as not restored, for the reason of the last attempt in its time.
    Also a `Sink`.
    """

    TAKES: ClassVar = (LeaseTaken,)

    def __init__(self, in_use: InUse, leases: Leases, *, clock: Clock, sink: Sink) -> None:
        self._in_use = in_use
        self._leases = leases
        self._clock = clock
        self._emit = Emitter(clock, sink)
        self._changed = asyncio.Event()

    async def note(self, plan: Plan, observed: Observed) -> None:
        """Make durable what the ports of the plan's lease had before, where that is not noted yet."""
        if not self._in_use.testbed.leases.baseline or plan.lease is None:
            return
        record = self._leases.record(plan.lease)
        if record is None or baseline_of(record.claim) is not None:
            return
        new = (moved_ports(plan.moves) & record.claim.ports) - record.baseline.keys()
        before = {port: list[SwitchCrossconnect]() for port in sorted(new)}
        for switch, readings in observed.items():
            for reading in readings:
                one = SwitchCrossconnect(switch=switch, crossconnect=reading.crossconnect)
                for port in crossconnect_ports([one]) & new:
                    before[port].append(one)
        if before:
            await self._leases.note_baseline(record.id, {port: tuple(found) for port, found in before.items()})

    async def run(self, reconfigurer: Reconfigurer) -> None:
        """Bring baselines back, until cancelled."""
        under_way: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                for claim in self._leases.all():
                    record = self._leases.record(claim.id)
                    if record is not None and baseline_of(claim) is not None and claim.id not in under_way:
                        work = self._restore(record, reconfigurer)
                        under_way[claim.id] = group.create_task(work, name=f"hwd:leases/baseline/{claim.id}")
                await self._changed.wait()

    def __call__(self, document: Document) -> None:
        self._changed.set()

    async def _restore(self, record: LeaseRecord, reconfigurer: Reconfigurer) -> None:
        claim, why = record.claim, "it did not come to it"
        request, reconfiguration = self._request(record), None
        while self._leases.record(claim.id) is not None:
            try:
                begun = await reconfigurer.begin(request)
                await reconfigurer.confirm(begun)
            except HwdError as error:
                if _SECONDS.sub("", str(error)) != _SECONDS.sub("", why):  # the time that another has left is no news
                    log.warning("lease %s: its baseline cannot be restored yet: %s", baseline_of(claim), error)
                if claim.is_in_force(self._clock.wall_ns()):  # else the reason is that the time is over
                    why = str(error)
                await asyncio.sleep(AGAIN_S)
            else:
                reconfiguration, why = begun.id, ""
                break
        self._emit(
            LeaseBaseline(
                lease=baseline_of(claim) or "",
                holder=claim.owner,
                ports=sorted(record.baseline),
                outcome="not-restored" if reconfiguration is None else "restored",
                reconfiguration=reconfiguration,
                why=why,
            )
        )
        await self._leases.release(claim.id)

    def _request(self, record: LeaseRecord) -> Request:
        """What `record.baseline` has, and nothing else on these ports."""
        wanted = sorted({one for found in record.baseline.values() for one in found})
        used = {SwitchEnd(switch=one.switch, end=end) for one in wanted for end in one.crossconnect.ends}
        freed = [
            end
            for port in sorted(record.baseline)
            for switch in [port.rpartition(".")[0]]
            for side in self._in_use.testbed.ends_of(switch)
            if f"{switch}.{side.port}" == port and (end := SwitchEnd(switch=switch, end=side)) not in used
        ]
        state = WantedState(
            name=f"baseline of lease {baseline_of(record.claim)}", crossconnects=tuple(wanted), freed=tuple(freed)
        )
        return Request(wanted=state, body=PlanBody(lease=record.id, epoch=record.claim.epoch), is_way_back=True)
