"""CalientTwin: a simulated unit with one or both of its protocols on the same state."""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Final

from hwd_drivers.families.calient.options import TwinOptions
from hwd_drivers.families.calient.rest.front import RestFront
from hwd_drivers.families.calient.tl1.front import Tl1Front
from hwd_drivers.families.calient.unit import Unit
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.unit_twin import Front, UnitTwin


class CalientTwin(UnitTwin[Unit, TwinOptions]):
    """The twin of one unit."""

    unit_type = Unit
    options_type = TwinOptions
    front_types: ClassVar[Mapping[str, type[Front[Unit]]]] = {"tl1": Tl1Front, "rest": RestFront}


TL1_TWIN: Final = TwinSpec(make=partial(CalientTwin, "tl1"), options=TwinOptions)
REST_TWIN: Final = TwinSpec(make=partial(CalientTwin, "rest"), options=TwinOptions)
