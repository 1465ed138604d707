"""Controllers of 1xN selectors, and the declaration of their driver."""

from typing import Final

from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.elements import selector, selector_size, selectors
from hwd_drivers.devices.registry import DriverSpec, Evidence
from hwd_drivers.families.osw.driver import OswController, OswOptions
from hwd_drivers.families.osw.protocol import CHANNELS_MOST, COUNT_MOST


def osw(size: str | None) -> Capabilities:
    """`2x6` is two selectors of six channels, `1x8` one of eight; channel 0 is dark.

    Loss as in a buyer's guide of 2026 for MEMS 1xN, at most 2.0 dB; switching time as ACOS quotes it, 8 ms. Neither
    is a figure of the vendor.
    """
    count, channels = selector_size("an osw controller", size, count_most=COUNT_MOST, channels_most=CHANNELS_MOST)
    ends, elements = selectors(count, channels, dark=True)
    if count == 1:
        ends, element = selector(channels, dark=True)
        elements = (element,)
    return Capabilities(
        ends=ends,
        two_sided=count > 1,
        reciprocal=True,
        latching=False,
        atomic_batches=True,
        moves_in_use=True,
        settle_s=0.008,
        loss_db_typical=1.0,
        loss_db_max=2.0,
        elements=elements,
        reports_before=True,
    )


driver: Final = DriverSpec(
    name="osw",
    open=OswController.open,
    options=OswOptions,
    models={"osw": osw},
    twin="hwd_drivers.families.osw.twin:TWIN",
    default_port=0,
    sizes={"osw": "4x6"},
    evidence=Evidence.THIN,
)
