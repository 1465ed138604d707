"""OSW12 and OSW22, and the declaration of their driver."""

from typing import Final

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities, Element, PortSide
from hwd_drivers.devices.elements import selector, two_by_twos
from hwd_drivers.devices.registry import DriverSpec, Evidence
from hwd_drivers.families.thorlabs.driver import ThorlabsOptions, ThorlabsSwitch


def osw12(size: str | None) -> Capabilities:
    """A 1x2: `in-1` and `in-2`."""
    ends, element = selector(2)
    return _capabilities("osw12", "1x2", size, ends, (element,), two_sided=False)


def osw22(size: str | None) -> Capabilities:
    """A 2x2: bar and cross."""
    ends, elements = two_by_twos(1)
    return _capabilities("osw22", "2x2", size, ends, elements, two_sided=True)


def _capabilities(
    model: str,
    only: str,
    size: str | None,
    ends: tuple[PortSide, ...],
    elements: tuple[Element, ...],
    *,
    two_sided: bool,
) -> Capabilities:
    """Loss as in a buyer's guide of 2026 for mechanical 1x2 parts, at most 0.8 to 1.0 dB; time as ACOS quotes it.

    Neither is a figure of Thorlabs. Whether a unit keeps its state without power is unknown; we assume it does not.
    """
    if size not in (None, only):
        raise ConfigError(f"size {size}: an {model} is {only}. Leave it out")
    return Capabilities(
        ends=ends,
        two_sided=two_sided,
        reciprocal=True,
        latching=False,
        atomic_batches=True,
        moves_in_use=True,
        settle_s=0.008,
        loss_db_typical=0.8,
        loss_db_max=1.0,
        elements=elements,
        reports_before=True,
    )


driver: Final = DriverSpec(
    name="thorlabs-osw",
    open=ThorlabsSwitch.open,
    options=ThorlabsOptions,
    models={"osw12": osw12, "osw22": osw22},
    twin="hwd_drivers.families.thorlabs.twin:TWIN",
    default_port=0,
    evidence=Evidence.PUBLISHED,
)
