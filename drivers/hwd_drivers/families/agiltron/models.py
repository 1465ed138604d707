"""Agiltron SelfAlign switches, and the declaration of their driver."""

from typing import Final

from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.elements import selector, selector_size
from hwd_drivers.devices.registry import DriverSpec, Evidence
from hwd_drivers.families.agiltron.driver import AgiltronOptions, AgiltronSwitch
from hwd_drivers.families.agiltron.protocol import CHANNELS_MOST


def selfalign(size: str | None) -> Capabilities:
    """`1x16`.

    Loss as in a buyer's guide of 2026 for MEMS 1xN, at most 2.0 dB; switching time as ACOS quotes it, 8 ms. Neither
    is a figure of Agiltron.
    """
    _, channels = selector_size("an Agiltron SelfAlign", size, channels_most=CHANNELS_MOST)
    ends, element = selector(channels)
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
    )


driver: Final = DriverSpec(
    name="agiltron",
    open=AgiltronSwitch.open,
    options=AgiltronOptions,
    models={"selfalign": selfalign},
    twin="hwd_drivers.families.agiltron.twin:TWIN",
    default_port=0,
    sizes={"selfalign": "1x16"},
    evidence=Evidence.THIN,
    blind=True,
)
