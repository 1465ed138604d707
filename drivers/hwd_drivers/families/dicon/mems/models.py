"""DiCon MEMS 1xN modules, and the declaration of their driver."""

from typing import Final

from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.elements import selector, selector_size
from hwd_drivers.devices.registry import DriverSpec, Evidence
from hwd_drivers.families.dicon.mems.driver import MemsOptions, MemsSwitch

CHANNELS_MOST: Final = 256


def mems(size: str | None) -> Capabilities:
    """`1x16`; it can be parked.

    Loss as in a buyer's guide of 2026 for MEMS 1xN, at most 2.0 dB; switching time as ACOS quotes it, 8 ms. Neither
    is a figure of DiCon.
    """
    _, channels = selector_size("a DiCon MEMS module", size, channels_most=CHANNELS_MOST)
    ends, element = selector(channels, dark=True)
    return Capabilities(
        ends=ends,
        two_sided=False,
        reciprocal=True,
        latching=False,
        atomic_batches=True,
        moves_in_use=True,
        settle_s=0.008,
        loss_db_typical=1.0,
        loss_db_max=2.0,
        elements=(element,),
        reports_before=True,
    )


driver: Final = DriverSpec(
    name="dicon-mems",
    open=MemsSwitch.open,
    options=MemsOptions,
    models={"mems": mems},
    twin="hwd_drivers.families.dicon.mems.twin:TWIN",
    default_port=0,
    sizes={"mems": "1x16"},
    evidence=Evidence.THIN,
)
