"""PolatisTwin: a simulated unit with one or more of its protocols on the same state."""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Final

from hwd_drivers.families.polatis.netconf.front import NetconfFront
from hwd_drivers.families.polatis.options import TwinOptions
from hwd_drivers.families.polatis.restconf.front import RestconfFront
from hwd_drivers.families.polatis.scpi.front import ScpiFront
from hwd_drivers.families.polatis.tl1.front import Tl1Front
from hwd_drivers.families.polatis.unit import Unit
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.registry import USUAL_DENIAL, TwinSpec
from hwd_drivers.twins.unit_twin import Front, UnitTwin

DENIAL_TEXT: Final = "told to say no"


class PolatisTwin(UnitTwin[Unit, TwinOptions]):
    """The twin of one unit."""

    unit_type = Unit
    options_type = TwinOptions
    front_types: ClassVar[Mapping[str, type[Front[Unit]]]] = {
        "tl1": Tl1Front,
        "scpi": ScpiFront,
        "netconf": NetconfFront,
        "restconf": RestconfFront,
    }


def _spec(protocol: str, denial: Denial) -> TwinSpec:
    return TwinSpec(make=partial(PolatisTwin, protocol), options=TwinOptions, alone={"logins": "usual"}, denial=denial)


TL1_TWIN: Final = _spec("tl1", USUAL_DENIAL)
SCPI_TWIN: Final = _spec("scpi", Denial(code="-200", text=DENIAL_TEXT))
RESTCONF_TWIN: Final = _spec("restconf", Denial(code="operation-failed", text=DENIAL_TEXT))
NETCONF_TWIN: Final = _spec("netconf", Denial(code="resource-denied", text=DENIAL_TEXT))
