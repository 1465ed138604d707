"""JobWork: the jobs that use the light, and programs on hosts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hwd.daemon.assembly.board import Board
from hwd.daemon.assembly.engine import Engine
from hwd.daemon.assembly.foundation import Foundation
from hwd.daemon.assembly.hosts import Hosts
from hwd.jobs.efficiency.port_rates import PortRates
from hwd.jobs.event_log import EventLog
from hwd.jobs.job_parts import JobParts
from hwd.jobs.job_reports import JobReports
from hwd.jobs.jobs import Jobs
from hwd.jobs.jobs_of_runs import JobsOfRuns
from hwd.jobs.light_changes import LightChanges
from hwd.jobs.programs import Programs
from hwd.jobs.rank_asks import RankAsks
from hwd.rack.health import RackHealth
from hwd.reconfigure.leases.leases import Leases


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWork:
    """Jobs and programs on hosts, and what is read of jobs from their records."""

    programs: Programs
    rates: PortRates
    jobs: Jobs
    asks: RankAsks
    of_runs: JobsOfRuns
    light_changes: LightChanges
    reports: JobReports

    @classmethod
    async def open(
        cls, base: Foundation, event_log: EventLog, *, board: Board, hosts: Hosts, engine: Engine, leases: Leases
    ) -> Self:
        """Make the parts of jobs, and read the jobs that have not ended."""
        rates = PortRates()
        parts = JobParts(
            store=base.records.jobs,
            event_log=event_log,
            transfers=engine.transfers,
            rates=rates,
            health=RackHealth(
                base.in_use,
                carrier=base.ports.carrier,
                is_there=hosts.agents.is_there,
                cause=board.switches.cause,
            ),
            clock=base.clock,
            ids=base.ids,
            offload=base.machine.offload,
            sink=base.sink,
            announce=base.unrecorded,
            plane=base.machine.plane,
        )
        jobs = Jobs(
            base.in_use,
            base.access.processes,
            parts=parts,
            applies=engine.applies,
            reconfigurer=engine.reconfigurer,
            leases=leases,
            planner=engine.planner,
            settings=hosts.settings,
            folder=Path(base.process.data_dir) / "jobs",
        )
        await event_log.load()
        await jobs.load()
        return cls(
            programs=Programs(base.in_use, base.access.processes, clock=base.clock, ids=base.ids, sink=base.sink),
            rates=rates,
            jobs=jobs,
            asks=RankAsks(jobs, engine.transfers, leases.ledger, clock=base.clock),
            of_runs=JobsOfRuns(jobs, parts),
            light_changes=LightChanges(base.in_use, jobs.runs, engine.reconfigurer.sets),
            reports=JobReports(
                base.records, events=event_log.events, recorded=base.recorder.flush, offload=parts.offload
            ),
        )
