"""Rack: all that is folded of the rack, each once."""

from dataclasses import dataclass

from hwd.rack.changes import Changes
from hwd.rack.links import Links
from hwd.rack.nic_ports import NicPorts
from hwd.rack.switches import ReportedSwitches


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """The last reports of switches and NIC ports, the links that they make, and who changed what last."""

    switches: ReportedSwitches
    ports: NicPorts
    links: Links
    changes: Changes
