"""Foundation: what every part of the daemon stands on."""

from dataclasses import dataclass

from hwd.daemon.fanout import Fanout
from hwd.daemon.limits import Limits
from hwd.daemon.seams import Machine, Process, RackAccess
from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.model.testbed import Testbed
from hwd.ports.ledger import Ledger
from hwd.rack.nic_ports import NicPorts
from hwd.rack.ready_links import ReadyLinks
from hwd.records.recorder import RecordingSink
from hwd.records.records import Records
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.ids import Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """The testbed in use, the machine, the records and the sinks of one daemon."""

    in_use: InUse
    machine: Machine
    process: Process
    access: RackAccess
    records: Records
    recorder: RecordingSink
    sink: Fanout
    emit: Emitter
    limits: Limits
    ledger: Ledger
    ports: NicPorts
    ready: ReadyLinks

    @property
    def testbed(self) -> Testbed:
        return self.in_use.testbed

    @property
    def fabric(self) -> Fabric:
        return self.in_use.fabric

    @property
    def clock(self) -> Clock:
        return self.machine.clock

    @property
    def ids(self) -> Ids:
        return self.machine.ids

    @property
    def unrecorded(self) -> Sink:
        """The sinks without the records: for documents that come by the hundred."""
        return self.sink.without(self.recorder)
