"""RunWork: the runs of playbooks that use the light."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from hwd.bus.runtopics import RunTopics
from hwd.daemon.assembly.engine import Engine
from hwd.daemon.assembly.foundation import Foundation
from hwd.daemon.assembly.hosts import Hosts
from hwd.jobs.jobs_of_runs import JobsOfRuns
from hwd.playbook.light_of_jobs import LightOfJobs
from hwd.playbook.run_access import RunAccess
from hwd.playbook.run_record import RunTemplate
from hwd.playbook.runs import Runs
from hwd.playbook.twin_faults import TwinFaults
from hwd.reconfigure.desired.history import History
from hwd.reconfigure.leases.leases import Leases
from hwd.web.rack_status import RackStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWork:
    """Runs of playbooks, their faults of twins, and their states on the bus."""

    faults: TwinFaults
    light: LightOfJobs
    runs: Runs
    topics: RunTopics

    @classmethod
    def of(
        cls,
        base: Foundation,
        testbed_text: Callable[[], str],
        *,
        rack: RackStatus,
        hosts: Hosts,
        engine: Engine,
        jobs: JobsOfRuns,
        history: History,
        leases: Leases,
    ) -> Self:
        """Make the parts of runs. `Runs.open` reads what is in the queue."""
        in_use, clock, light = base.in_use, base.clock, LightOfJobs()
        faults = TwinFaults(in_use=in_use, records=base.records, set_fault=base.access.set_fault, ledger=base.ledger)
        runs = Runs(
            template=RunTemplate(
                in_use=in_use,
                testbed_text=testbed_text,
                version=base.process.version,
                commit=base.process.commit.id,
                virtual_time=base.machine.virtual_time,
                inventory=rack.inventory,
                clock=clock,
            ),
            access=RunAccess(
                reconfigurer=engine.reconfigurer,
                leases=leases,
                in_use=in_use,
                history=history,
                jobs=jobs,
                light=light,
                faults=faults,
                host_settings=hosts.settings,
                clock=clock,
                sink=base.sink,
            ),
            is_settled=rack.is_settled,
            records=base.records,
            recorder=base.recorder,
            ids=base.ids,
            announce=base.unrecorded,
            offload=base.machine.offload,
        )
        board = runs.board
        topics = RunTopics(base.access.bus, base.testbed.name, lambda: {status.run: status for status in board.all})
        return cls(faults=faults, light=light, runs=runs, topics=topics)
