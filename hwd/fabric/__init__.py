"""Where light can go: paths and their loss, what crossconnects light up.

Pure: no asyncio, no clock, no I/O.
"""

from hwd.fabric.fabric import Fabric, LitLinks
from hwd.fabric.light import Arrival, Light, LightMap, Lit, light_paths
from hwd.fabric.state import crossconnect_ports, needed

__all__ = [
    "Arrival",
    "Fabric",
    "Light",
    "LightMap",
    "Lit",
    "LitLinks",
    "crossconnect_ports",
    "light_paths",
    "needed",
]
