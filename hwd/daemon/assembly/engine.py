"""Engine: what plans, drives, restores and recovers the light."""

from dataclasses import dataclass
from typing import Self

from hwd.daemon.assembly.board import Board
from hwd.daemon.assembly.foundation import Foundation
from hwd.daemon.assembly.hosts import Hosts
from hwd.daemon.assembly.past import Past
from hwd.reconfigure.applies import Applies
from hwd.reconfigure.demands import Demands
from hwd.reconfigure.desired.drift import Drift
from hwd.reconfigure.desired.earlier_states import EarlierStates
from hwd.reconfigure.desired.restores import Restores
from hwd.reconfigure.journal.identity import JournalIdentity
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.journal.recovery_loop import JournalRecovery
from hwd.reconfigure.leases.baselines import Baselines
from hwd.reconfigure.leases.leases import Leases
from hwd.reconfigure.plans.planner import Planner
from hwd.reconfigure.plans.planning import Planning
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.reconfigure.transfers import Transfers
from hwd.records.reconfiguration_log import ReconfigurationLog
from hwd_drivers.core.emitter import Emitter


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The one way to change light, and what goes it: applies, restores, drift, recovery."""

    transfers: Transfers
    baselines: Baselines
    planner: Planner
    reconfigurer: Reconfigurer
    recovery: JournalRecovery
    drift: Drift
    log: ReconfigurationLog
    demands: Demands
    applies: Applies

    @classmethod
    async def open(
        cls,
        base: Foundation,
        journal: Journal,
        identity: JournalIdentity,
        *,
        past: Past,
        board: Board,
        hosts: Hosts,
        leases: Leases,
    ) -> Self:
        """Make the engine, and read transfers and ended prepared sets from the records. Touches no switch."""
        in_use, clock, sink, desired = base.in_use, base.clock, base.sink, past.desired
        transfers = Transfers(
            base.ledger,
            base.testbed,
            store=base.records.transfers,
            agents=hosts.agents,
            clock=clock,
            sink=sink,
            announce=base.unrecorded,
        )
        await transfers.load()
        baselines = Baselines(in_use, leases, clock=clock, sink=sink)
        planner = Planner(
            base.fabric,
            past.history.expect,
            hosts.switches.crossconnects,
            past.device_times,
            offload=base.machine.offload,
        )
        planning = Planning(
            planner,
            switches=board.switches,
            move_counts=past.move_counts,
            ledger=base.ledger,
            transfers=transfers,
            note_baseline=baselines.note,
            clock=clock,
            emit=Emitter(clock, sink),
        )
        reconfigurer = Reconfigurer(
            planning=planning,
            switches=board.switches,
            agents=hosts.agents,
            links=board.links,
            journal=journal,
            ledger=base.ledger,
            outcomes=past.outcomes,
            desired=desired,
            transfers=transfers,
            clock=clock,
            ids=base.ids,
            sink=sink,
        )
        await reconfigurer.sets.ends.load(base.records)
        restores = Restores(in_use, desired, board.switches, planner)
        log = ReconfigurationLog(base.records, base.recorder.flush)
        demands = Demands(in_use, base.records.demands, clock=clock, offload=base.machine.offload)
        return cls(
            transfers=transfers,
            baselines=baselines,
            planner=planner,
            reconfigurer=reconfigurer,
            recovery=JournalRecovery(reconfigurer, journal=journal, identity=identity, switches=board.switches),
            drift=Drift(
                base.testbed.drift,
                desired=desired,
                restores=restores,
                reconfigurer=reconfigurer,
                switches=board.switches,
                planner=planner,
                ledger=base.ledger,
                clock=clock,
                sink=sink,
            ),
            log=log,
            demands=demands,
            applies=Applies(
                in_use=in_use,
                reconfigurer=reconfigurer,
                restores=restores,
                earlier=EarlierStates(in_use, log),
                demands=demands,
                ids=base.ids,
                offload=base.machine.offload,
            ),
        )
