"""RunAccess: the parts of the daemon through which every run acts."""

from dataclasses import dataclass

from hwd.fabric.in_use import InUse
from hwd.hosts.run_settings import HostSettings
from hwd.jobs.jobs_of_runs import JobsOfRuns
from hwd.playbook.light_of_jobs import LightOfJobs
from hwd.playbook.twin_faults import TwinFaults
from hwd.reconfigure.desired.history import History
from hwd.reconfigure.leases.leases import Leases
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAccess:
    """The parts that a run uses. Faults of twins and settings of NIC ports are undone at its end, however it ends."""

    in_use: InUse
    reconfigurer: Reconfigurer
    leases: Leases
    history: History
    jobs: JobsOfRuns
    light: LightOfJobs
    faults: TwinFaults
    host_settings: HostSettings
    clock: Clock
    sink: Sink
