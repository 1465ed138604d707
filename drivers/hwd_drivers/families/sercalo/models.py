"""Sercalo 1xN switches, and the declarations of their two drivers."""

from typing import Final

from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.elements import selector, selector_size
from hwd_drivers.devices.registry import DriverSpec, Evidence
from hwd_drivers.families.sercalo.ascii.driver import SercaloAsciiSwitch
from hwd_drivers.families.sercalo.driver import SercaloSwitch
from hwd_drivers.families.sercalo.options import SercaloOptions
from hwd_drivers.families.sercalo.protocol import CHANNELS_MOST


def one_by(size: str | None) -> Capabilities:
    """`1x8`.

    Loss as in a buyer's guide of 2026 for MEMS 1xN, at most 2.0 dB; switching time as ACOS quotes it, 8 ms. Neither
    is a figure of Sercalo.
    """
    _, channels = selector_size("a Sercalo switch", size, channels_most=CHANNELS_MOST)
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
        reports_before=True,
    )


driver: Final = DriverSpec(
    name="sercalo",
    open=SercaloSwitch.open,
    options=SercaloOptions,
    models={"rsc": one_by},
    twin="hwd_drivers.families.sercalo.twin:TWIN",
    default_port=0,
    sizes={"rsc": "1x8"},
    evidence=Evidence.THIN,
)

ascii_driver: Final = DriverSpec(
    name="sercalo-ascii",
    open=SercaloAsciiSwitch.open,
    options=SercaloOptions,
    models={"usb": one_by},
    twin="hwd_drivers.families.sercalo.ascii.twin:TWIN",
    default_port=0,
    sizes={"usb": "1x8"},
    evidence=Evidence.THIN,
)
