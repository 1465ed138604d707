"""JobParts: what all jobs of a daemon share."""

from collections.abc import Callable
from dataclasses import dataclass

from hwd.jobs.efficiency.port_rates import PortRates
from hwd.jobs.event_log import EventLog
from hwd.model.job import JobRecord
from hwd.planes.runner import PlaneRunner
from hwd.rack.health import RackHealth
from hwd.reconfigure.transfers import Transfers
from hwd.records.job_table import JobTable
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.offload import Offload

MakePlane = Callable[[JobRecord], PlaneRunner]
"""What runs the plane of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobParts:
    """The stores, the transfers and the health of the rack. `sink` takes what is recorded, `announce` what comes by the
    hundred and is not. `plane` makes what runs the plane of a job.
    """

    store: JobTable
    event_log: EventLog
    transfers: Transfers
    rates: PortRates
    health: RackHealth
    clock: Clock
    ids: Ids
    offload: Offload
    sink: Sink
    announce: Sink
    plane: MakePlane
