"""LightChanges: what others do to the light of jobs, as documents tell it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from hwd.fabric.in_use import InUse
from hwd.jobs.job_run import JobRun
from hwd.model.lease import LeaseReleased
from hwd.model.prepared_set import SetSettled
from hwd.model.reconfiguration import ReconfigurationEnded, WantedSwitch
from hwd.reconfigure.prepared.sets import PreparedSets
from hwd_drivers.core.documents import Document
from hwd_drivers.core.values import PortSide
from hwd_drivers.devices.facts import SwitchOverride, SwitchRead, SwitchRestarted, SwitchUp


class LightChanges:
    """A `Sink`. `runs`: the jobs under way, by id."""

    TAKES: ClassVar = (
        *(LeaseReleased, SwitchUp, SwitchRestarted, SwitchRead, SwitchOverride),
        *(ReconfigurationEnded, SetSettled),
    )

    def __init__(self, in_use: InUse, runs: Mapping[str, JobRun], sets: PreparedSets) -> None:
        self._in_use = in_use
        self._runs = runs
        self._sets = sets
        self._read_next: dict[str, str] = {}
        """By switch that was connected anew: who may have moved its light before its first report."""

    def __call__(self, document: Document) -> None:
        if not self._runs:
            return
        match document.fact:
            case LeaseReleased():
                for run in [*self._runs.values()]:
                    run.check_lease()
            case SwitchUp(switch=switch):
                self._read_next[switch] = f"somebody, or a fault of it, while {switch} could not be reached"
            case SwitchRestarted(switch=switch):
                self._read_next[switch] = f"a restart of {switch}"
            case SwitchRead(switch=switch) as read:
                by = self._read_next.pop(switch, "")
                if by:
                    self._changed(switch, self._in_use.testbed.ends.get(switch, ()), by)
                elif not read.ours:
                    changed = [f"-{one}" for one in read.removed] + [f"+{one}" for one in read.added]
                    ends = (end for one in (*read.removed, *read.added) for end in one.ends)
                    by = f"another client of {switch}, or at its front panel: {' '.join(changed)}"
                    self._changed(switch, ends, by)
            case SwitchOverride(switch=switch, ends=ends, to=to, by=by):
                self._changed(switch, ends, f"{by}, who sets {' '.join(ends)} of {switch} {to}")
            case ReconfigurationEnded(reconfiguration=id, wanted=list(wanted)):
                if not any(run.moves.has(id) for run in self._runs.values()):
                    ports = (f"{one.switch}.{end.port}" for one in wanted for end in _ends_of(one))
                    self._ports_changed(ports, f"reconfiguration {id}")
            case SetSettled(prepared_set=id, why=why):
                for run in [*self._runs.values()]:
                    if run.job.record.prepared_set == id:
                        run.watch.ports_changed(self._sets.get(id).ports, f"its prepared set: {why}")

    def _changed(self, switch: str, ends: Iterable[PortSide], by: str) -> None:
        self._ports_changed((f"{switch}.{end.port}" for end in ends), by)

    def _ports_changed(self, ports: Iterable[str], by: str) -> None:
        found = frozenset(ports)
        for run in [*self._runs.values()]:
            run.watch.ports_changed(found, by)


def _ends_of(wanted: WantedSwitch) -> Iterator[PortSide]:
    yield from (end for one in wanted.crossconnects for end in one.ends)
    yield from wanted.free
