"""The models of parts on lines, and the declaration of their driver."""

import re
from functools import partial
from typing import Final

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.elements import part_capabilities, selector, selectors, two_by_twos
from hwd_drivers.devices.registry import DriverSpec, Evidence, SwitchSettings
from hwd_drivers.families.ttl.driver import TtlOptions, TtlSwitch

PARTS_MAX: Final = 64
"""Parts of one bank, and of one switch."""


def _parts(size: str | None, *, model: str, latching: bool) -> Capabilities:
    """`size`: how many parts; one where it is left out.

    Loss and switching time as a buyer's guide of 2026 and ACOS quote them of mechanical parts (0.8 to 1.0 dB, 8 ms).
    They are of no certain part.
    """
    if size is not None and not re.fullmatch("[1-9][0-9]?", size):
        raise ConfigError(f"size {size!r}: not a number of parts. Write 1 to {PARTS_MAX}")
    count = int(size or 1)
    if count > PARTS_MAX:
        raise ConfigError(f"size {size}: {count} parts are over the {PARTS_MAX} of one bank")
    if model == "2x2":
        made = two_by_twos(count)
    else:
        made = selectors(count, 2) if count > 1 else selector(2)
    return part_capabilities(
        *made, loss_db_typical=0.8, loss_db_max=1.0, latching=latching, atomic_batches=False, reports_before=False
    )


def _check(settings: SwitchSettings) -> None:
    if isinstance(settings.options, TtlOptions):
        settings.options.parts_of(settings.name, settings.capabilities)


driver: Final = DriverSpec(
    name="ttl",
    open=TtlSwitch.open,
    check=_check,
    options=TtlOptions,
    models={
        "1x2": partial(_parts, model="1x2", latching=False),
        "2x2": partial(_parts, model="2x2", latching=False),
        "latching-1x2": partial(_parts, model="1x2", latching=True),
        "latching-2x2": partial(_parts, model="2x2", latching=True),
    },
    twin="hwd_drivers.families.ttl.twin:TWIN",
    default_port=0,
    sizes={"1x2": "1", "2x2": "2", "latching-1x2": "4", "latching-2x2": "1"},
    evidence=Evidence.THIN,
)
