"""Faults of twins that a run asks for, cleared when it ends: by the run, or at the daemon's next start."""

import logging
from collections.abc import Awaitable, Callable

import msgspec

from hwd.model.fault import Clear, Fault, HostFault, PortFault, SwitchFault, check_fault, decode_fault
from hwd.model.testbed import Testbed
from hwd.records.records import Records
from hwd_drivers.kit.errors import HwdError, LinkError

SetFault = Callable[[Fault], Awaitable[None]]
"""Tells the rack, and returns when it has done it. Raises ConfigError where it refuses, LinkError where it is away."""

log = logging.getLogger(__name__)


class TwinFaults:
    """All faults of the rack's twins that come in through the daemon."""

    def __init__(self, *, testbed: Testbed, records: Records, set_fault: SetFault) -> None:
        self._testbed = testbed
        self._records = records
        self._set_fault = set_fault

    async def set(self, fault: Fault) -> None:
        """Raises RefusedError where the subject is no twin, ConfigError where it is not there, LinkError where the rack is away."""
        check_fault(fault, self._testbed)
        await self._set_fault(fault)

    def of(self, run: str) -> "RunFaults":
        return RunFaults(run, self, self._records)

    async def clear_left(self) -> None:
        """What runs of a daemon that died had set, where the rack is there. A rack that is not there has forgotten it."""
        for run, subjects in (await self._records.twin_faults.all()).items():
            for subject in sorted(subjects):
                try:
                    await self.set(decode_fault(subject.encode()))
                    log.info("run %s: its fault is cleared: %s", run, subject)
                except HwdError as error:
                    log.warning("run %s: its fault could not be cleared: %s", run, error)
            await self._records.twin_faults.remove(run)


class RunFaults:
    """`hwd.playbook.effects.Faults` of one run. What it sets is in the records before it is set."""

    def __init__(self, run: str, faults: TwinFaults, records: Records) -> None:
        self._run = run
        self._faults = faults
        self._records = records
        self._subjects: dict[str, Clear] = {}

    async def set(self, fault: Fault) -> None:
        clear = clearing(fault)
        subject = msgspec.json.encode(clear).decode()
        if subject not in self._subjects:
            await self._records.twin_faults.add(self._run, subject)
            self._subjects[subject] = clear
        await self._faults.set(fault)

    async def clear(self) -> None:
        """Of every subject that this run touched, and of no other; a rack that went away has forgotten them."""
        if not self._subjects:
            return
        for clear in self._subjects.values():
            try:
                await self._faults.set(clear)
            except LinkError as error:
                log.info("run %s: %s is clear, the rack went away: %s", self._run, clear, error)
        self._subjects.clear()
        await self._records.twin_faults.remove(self._run)


def clearing(fault: Fault) -> Clear:
    """The fault that ends it."""
    match fault:
        case SwitchFault(switch=name):
            return Clear(switch=name)
        case PortFault(port=name):
            return Clear(port=name)
        case HostFault(host=name):
            return Clear(host=name)
        case Clear():
            return fault
