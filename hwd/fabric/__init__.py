"""Where light can go: paths and their loss, what crossconnects light up, lease rules.

Pure: no asyncio, no clock, no I/O.
"""

from hwd.fabric.claims import Conflict, all_ports, conflicts, leasable, ports_of, uncovered
from hwd.fabric.fabric import Fabric, LitLinks
from hwd.fabric.light import Arrival, Light, LightMap, Lit, light_paths
from hwd.fabric.state import crossconnect_ports, desired, difference

__all__ = [
    "Arrival",
    "Conflict",
    "Fabric",
    "Light",
    "LightMap",
    "Lit",
    "LitLinks",
    "all_ports",
    "conflicts",
    "crossconnect_ports",
    "desired",
    "difference",
    "leasable",
    "light_paths",
    "ports_of",
    "uncovered",
]
