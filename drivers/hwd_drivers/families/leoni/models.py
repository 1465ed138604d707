"""Leoni 1xN switches, and the declaration of their driver."""

from typing import Final

from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.elements import selector, selector_size
from hwd_drivers.devices.registry import DriverSpec, Evidence
from hwd_drivers.families.leoni.driver import LeoniOptions, LeoniSwitch
from hwd_drivers.families.leoni.protocol import PORT

CHANNELS_MOST: Final = 256


def eol(size: str | None) -> Capabilities:
    """`1x8`.

    Loss as in a buyer's guide of 2026 for MEMS 1xN, at most 2.0 dB; a published program waits 2 ms. Neither is a figure
    of Leoni.
    """
    _, channels = selector_size("a Leoni switch", size, channels_most=CHANNELS_MOST)
    ends, element = selector(channels)
    return Capabilities(
        ends=ends,
        two_sided=False,
        reciprocal=True,
        latching=False,
        atomic_batches=True,
        moves_in_use=True,
        settle_s=0.002,
        loss_db_typical=1.0,
        loss_db_max=2.0,
        elements=(element,),
        reports_before=True,
    )


driver: Final = DriverSpec(
    name="leoni",
    open=LeoniSwitch.open,
    options=LeoniOptions,
    models={"eol": eol},
    twin="hwd_drivers.families.leoni.twin:TWIN",
    default_port=PORT,
    sizes={"eol": "1x8"},
    evidence=Evidence.PUBLISHED,
)
