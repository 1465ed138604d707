"""The seams of the daemon: machine, storage, rack and process, which its constructor takes and tests replace."""

from dataclasses import dataclass, field

from hwd.daemon.commit import Commit
from hwd.daemon.disk_space import ReadSpace
from hwd.daemon.switch_opener import OpenSwitch
from hwd.jobs.job_parts import MakePlane
from hwd.model.program import Processes
from hwd.playbook.twin_faults import SetFault
from hwd.records.journal_id import KnownJournal
from hwd.records.records import Records
from hwd_agents.bus.protocol import Bus
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.disk import Disk
from hwd_drivers.core.ids import Draws, Ids
from hwd_drivers.core.offload import Offload


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Time, random numbers, threads, and what runs planes.

    Times of clocks with different `clock_name` do not compare.
    """

    clock: Clock
    clock_name: str = ""
    ids: Ids
    draws: Draws
    offload: Offload
    plane: MakePlane
    virtual_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Records and journal. `job_events`: what planes were told that the records do not have yet. `journal_id`: which
    journal belongs to the records; by default they say it themselves.
    `space`: of the file system that has both; None where none has.
    """

    records: Records
    journal: Disk
    job_events: Disk
    journal_sync: bool = True
    journal_id: KnownJournal | None = None
    space: ReadSpace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RackAccess:
    """The ways to the rack: the bus of its agents, the connections to its switches, the faults of its twins, and
    programs on its hosts (None: it can start none).
    """

    bus: Bus
    open_switch: OpenSwitch
    set_fault: SetFault
    processes: Processes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The daemon's own process, as it reports it. `boot`: with what the ids of its events begin, new at each start."""

    version: str
    data_dir: str
    pid: int
    commit: Commit = field(default_factory=Commit)
    boot: str = "boot"
