"""The faults of twins that runs have set, and their clearing when the run ends, also after a crash of the daemon."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Final

from hwd.fabric.in_use import InUse
from hwd.model.fault import Clear, Fault, HostFault, PortFault, SwitchFault, decode_fault
from hwd.model.fault_check import check_fault
from hwd.ports.ledger import Ledger
from hwd.records.records import Records
from hwd_drivers.core.errors import ConfigError, FailedError, HwdError, LinkError, RefusedError
from hwd_drivers.core.structs import to_json

AGAIN_S: Final = 5.0
"""The period at which clearing is tried again."""

SetFault = Callable[[Fault], Coroutine[None, None, None]]
"""Sets a fault at the rack.

Raises ConfigError where the rack refuses, NoRackError without a rack, LinkError where the rack does not answer.
"""

log = logging.getLogger(__name__)


class NoRackError(LinkError):
    """No twin rack is up. The next one begins with twins that behave: nothing has to be cleared."""


class TwinFaults:
    """All faults of twins that the daemon has set. `run` clears the faults of runs that are not active.

    What a run touches is in the records before it is set, and stays there until the rack said that it is clear.
    """

    def __init__(
        self,
        *,
        in_use: InUse,
        records: Records,
        set_fault: SetFault,
        ledger: Ledger,
    ) -> None:
        self._in_use = in_use
        self._records = records
        self._set_fault = set_fault
        self._ledger = ledger
        self._touched: dict[str, dict[str, None]] = {}  # subjects by run, as the records have them
        self._complained: dict[str, str] = {}
        self._turn = asyncio.Lock()
        self._work: set[asyncio.Task[None]] = set()

    async def set(self, fault: Fault) -> None:
        """Raises RefusedError for a subject without twin, ConfigError for an unknown one, LinkError without a rack."""
        check_fault(fault, self._in_use.testbed)
        await self._set_fault(fault)

    async def set_for(self, run: str, fault: Fault) -> None:
        """Set a fault as `set` does, until `clear_of`. Raises HwdError also where the subject still has a fault of an
        ended run.
        """
        check_fault(fault, self._in_use.testbed)
        await self._in_turn(self._set_for(run, fault))

    async def clear_of(self, run: str) -> None:
        """Every subject that the run touched behaves again, and no other is touched.

        Raises FailedError that names the others, and why; they are tried again when the run has ended.
        """
        await self._in_turn(self._clear(run))

    async def clear_left(self) -> None:
        """Try once to clear faults that runs of a crashed daemon have set; `run` tries the rest again."""
        try:
            left = await self._records.twin_faults.all()
        except HwdError as error:
            log.error("faults that runs of an earlier daemon set stay: %s", error)
            return
        for run, subjects in left.items():
            self._touched[run] = dict.fromkeys(sorted(subjects))
        await self._clear_orphans()

    async def run(self) -> None:
        """Clear what belongs to no run that is under way, now and then, until cancelled."""
        while True:
            await asyncio.sleep(AGAIN_S)
            await self._clear_orphans()

    async def _clear_orphans(self) -> None:
        for run in [run for run in self._touched if not self._ledger.is_active(run)]:
            try:
                await self.clear_of(run)
            except HwdError as error:
                if self._complained.get(run) != str(error):
                    self._complained[run] = str(error)
                    log.warning("%s", error)
            else:
                self._complained.pop(run, None)
                log.info("run %s: the faults of twins that it left are cleared", run)

    async def _in_turn(self, work: Coroutine[None, None, None]) -> None:
        """Send requests to the rack in order, each to its end, even if the caller is cancelled."""

        async def do() -> None:
            async with self._turn:
                await work

        task = asyncio.create_task(do(), name="hwd:runs/faults")
        self._work.add(task)
        task.add_done_callback(self._is_done)
        await asyncio.shield(task)

    def _is_done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            task.exception()  # the caller gets it; without a caller `run` tries again and logs it

    # --- in turn

    async def _set_for(self, run: str, fault: Fault) -> None:
        subject = to_json(clearing(fault)).decode()
        for other in [other for other, touched in self._touched.items() if subject in touched]:
            if other != run and not self._ledger.is_active(other):
                await self._clear(other, [subject])
        if subject not in self._touched.get(run, ()):
            await self._records.twin_faults.add(run, subject)
            self._touched.setdefault(run, {})[subject] = None
        await self._set_fault(fault)

    async def _clear(self, run: str, subjects: Sequence[str] | None = None) -> None:
        """Clear these subjects of a run, by default all, and forget those that are clear. Raises FailedError for the
        others.
        """
        cleared: list[str] = []
        failures: list[str] = []
        for subject in subjects or list(self._touched.get(run, ())):
            try:
                await self._behave(run, decode_fault(subject.encode()))
            except HwdError as error:
                failures.append(str(error))
            else:
                cleared.append(subject)
        for subject in cleared:
            await self._records.twin_faults.remove(run, subject)
            del self._touched[run][subject]
        if not self._touched.get(run, True):
            del self._touched[run]
        if failures:
            raise FailedError(
                f"run {run}: not all faults of twins are cleared: {'; '.join(failures)}. "
                "It is tried again while the daemon runs"
            )

    async def _behave(self, run: str, clear: Fault) -> None:
        """Clear one subject; an unknown subject or a rack that is down counts as clear."""
        try:
            check_fault(clear, self._in_use.testbed)
        except (ConfigError, RefusedError) as error:  # the testbed file has changed since
            log.info("run %s: nothing to clear: %s", run, error)
            return
        try:
            await self._set_fault(clear)
        except NoRackError as error:
            log.info("run %s: nothing to clear: %s", run, error)


def clearing(fault: Fault) -> Clear:
    """The `Clear` that ends this fault."""
    match fault:
        case SwitchFault(switch=name):
            return Clear(switch=name)
        case PortFault(port=name):
            return Clear(port=name)
        case HostFault(host=name):
            return Clear(host=name)
        case Clear():
            return fault
