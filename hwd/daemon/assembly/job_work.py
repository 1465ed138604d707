"""JobWork: the jobs that use the light, and programs on hosts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hwd.daemon.assembly.board import Board
from hwd.daemon.assembly.engine import Engine
from hwd.daemon.assembly.foundation import Foundation
from hwd.daemon.assembly.hosts import Hosts
from hwd.jobs.efficiency.efficiency_reader import EfficiencyReader
from hwd.jobs.efficiency.port_rates import PortRates
from hwd.jobs.event_log import EventLog
from hwd.jobs.job_parts import JobParts
from hwd.jobs.jobs import Jobs
from hwd.jobs.programs import Programs
from hwd.jobs.training.training_reader import TrainingReader
from hwd.jobs.verification.job_verifier import JobVerifier
from hwd.rack.health import RackHealth
from hwd.reconfigure.leases.leases import Leases


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWork:
    """Jobs and programs on hosts, and what is read of jobs from their records."""

    programs: Programs
    rates: PortRates
    jobs: Jobs
    verifier: JobVerifier
    efficiency: EfficiencyReader
    training: TrainingReader

    @classmethod
    async def open(
        cls, base: Foundation, event_log: EventLog, *, board: Board, hosts: Hosts, engine: Engine, leases: Leases
    ) -> Self:
        """Make the parts of jobs, and read the jobs that have not ended."""
        store, offload, rates = base.records.jobs, base.machine.offload, PortRates()
        jobs = Jobs(
            base.in_use,
            base.access.processes,
            parts=JobParts(
                store=store,
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
                offload=offload,
                sink=base.sink,
                announce=base.unrecorded,
            ),
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
            verifier=JobVerifier(
                store,
                base.records,
                events=event_log.events,
                gaps=base.records.gaps.all,
                recorded=base.recorder.flush,
                offload=offload,
            ),
            efficiency=EfficiencyReader(store, events=event_log.events, offload=offload),
            training=TrainingReader(store, events=event_log.events, offload=offload),
        )
