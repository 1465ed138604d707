"""Control planes: which light a job asks for, as values. Pure: no asyncio, no clock, no I/O.

Planes do not import each other.
"""

from hwd.planes.actor import PlaneActor
from hwd.planes.demand import AnnouncedDemand
from hwd.planes.gathering import Gathering
from hwd.planes.joined_hosts import are_joined
from hwd.planes.regional_light import RegionalLight
from hwd.planes.target_rules import Breach, PlaneError

__all__ = ["AnnouncedDemand", "Breach", "Gathering", "PlaneActor", "PlaneError", "RegionalLight", "are_joined"]
