"""JobParts: what all jobs of a daemon share."""

from dataclasses import dataclass

from hwd.jobs.efficiency.port_rates import PortRates
from hwd.jobs.event_log import EventLog
from hwd.rack.health import RackHealth
from hwd.reconfigure.transfers import Transfers
from hwd.records.job_table import JobTable
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.offload import Offload


@dataclass(frozen=True, slots=True, kw_only=True)
class JobParts:
    """The stores, the transfers and the health of the rack. `sink` takes what is recorded, `announce` what comes by the
    hundred and is not.
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
